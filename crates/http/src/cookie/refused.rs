//! Why a cookie is not kept.

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
