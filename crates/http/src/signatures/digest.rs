//! Digests of whole bodies (RFC 9530).

use ring::digest::{self, SHA256, SHA512};

use super::structured::{Bare, Member, dictionary};
use crate::Headers;

/// The value of a field `content-digest` for a body, by SHA-256.
///
/// ```
/// let field = anywire_http::signatures::content_digest(b"{\"hello\": \"world\"}");
/// assert_eq!(field, "sha-256=:X48E9qOokqqrvdts8nOJRJN3OWDUoyWxBf7kbu9DBPE=:");
/// ```
pub fn content_digest(body: &[u8]) -> String {
    format!("sha-256={}", Bare::Bytes(digest::digest(&SHA256, body).as_ref().to_vec()))
}

/// Checks the fields `content-digest` of a message by its body, as it was sent: with its content codings. All digests by SHA-256 and
/// SHA-512 have to be right, and there has to be one.
///
/// # Errors
/// See [`DigestError`].
pub fn check_content_digest(headers: &Headers, body: &[u8]) -> Result<(), DigestError> {
    let lines: Option<Vec<_>> =
        headers.get_all("content-digest").map(|line| str::from_utf8(line).ok()).collect();
    let members = lines.and_then(|lines| dictionary(&lines.join(", "))).ok_or(DigestError::Malformed)?;
    let mut is_checked = false;
    for (name, member) in members {
        let algorithm = match &*name {
            "sha-256" => &SHA256,
            "sha-512" => &SHA512,
            _ => continue,
        };
        let Member::Item((Bare::Bytes(said), _)) = member else { return Err(DigestError::Malformed) };
        if digest::digest(algorithm, body).as_ref() != said {
            return Err(DigestError::Wrong);
        }
        is_checked = true;
    }
    if is_checked { Ok(()) } else { Err(DigestError::Absent) }
}

/// Why the digest of a body does not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DigestError {
    /// There is none by SHA-256 or SHA-512.
    #[error("the message has no digest of its body by SHA-256 or SHA-512")]
    Absent,
    /// The field is malformed.
    #[error("the field content-digest is malformed")]
    Malformed,
    /// The body is another one.
    #[error("the body is not the one of its digest")]
    Wrong,
}
