//! Why a file of cookies cannot be read.

use anywire_advice::Advice;

/// Why a file of cookies cannot be read. Nothing of it is taken then.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CookieFileError {
    /// It is not the JSON of a jar.
    #[error("cannot read the cookies as JSON")]
    Json(#[source] serde_json::Error),
    /// A line does not have the seven fields of a cookie file.
    #[error(
        "cannot read line {line} of the cookies{help}",
        help = Advice("domain, TRUE or FALSE, path, TRUE or FALSE, seconds since 1970, name and value are wanted, with tabs between")
    )]
    Line {
        /// Its number, from 1.
        line: usize,
    },
}
