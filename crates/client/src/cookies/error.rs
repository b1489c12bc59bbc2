//! Why a cookie is not kept, and why a file of cookies cannot be read.

use anywire_advice::Advice;

/// Why a cookie is not kept (RFC 6265bis sections 5.6 and 5.7).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CookieRefused {
    /// It has neither name nor value, is larger than 4,096 bytes, is not UTF-8, or holds a control character.
    #[error("the cookie is malformed, or larger than 4,096 bytes")]
    Malformed,
    /// It is for a domain that its host is not a part of.
    #[error("the cookie is for a domain that its host is not a part of")]
    OtherDomain,
    /// It is for a public suffix, such as `co.uk`, or for all hosts below an IP address.
    #[error("the cookie is for a public suffix")]
    PublicSuffix,
    /// It is marked `Secure`, and came in clear text.
    #[error("the cookie is for https, and came over http{help}", help = Advice("use an https URL"))]
    ClearText,
    /// It came in clear text, and would hide one that is marked `Secure`.
    #[error("the cookie came over http, and would hide one of https")]
    HidesSecure,
    /// It is not what its name promises by `__Secure-` or `__Host-`, or it has `SameSite=None` without `Secure`.
    #[error("the cookie is not what its prefix or `SameSite=None` promises")]
    Prefix,
    /// It has ended already. If there was one of the same name, domain and path, that is removed.
    #[error("the cookie has ended")]
    Ended,
    /// It is larger than the whole jar may be, or its domain is full of cookies that count more.
    #[error("the jar has no room for the cookie{help}", help = Advice("raise `CookieLimits`"))]
    NoRoom,
}

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
