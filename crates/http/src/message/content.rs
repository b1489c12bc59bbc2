//! What the head of a response says of its content, in any version of HTTP.

use http::StatusCode;

use crate::Body;

/// What a response head states about content, and whether content may follow it.
///
/// ```
/// use anywire_http::StatusCode;
/// use anywire_http::message::{BodyLength, Content};
///
/// let found = Content::of(StatusCode::OK, false, BodyLength::Known(5));
/// assert_eq!(found, Content { length: Some(5), is_allowed: true });
/// let reset = Content::of(StatusCode::RESET_CONTENT, false, BodyLength::Known(5));
/// assert_eq!(reset, Content { length: Some(0), is_allowed: false });
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Content {
    /// The `Content-Length`; `None` if the head states none.
    pub length: Option<u64>,
    /// Whether the status allows content. The method may still keep it back: to HEAD a head says what GET would get
    /// (RFC 9110 section 9.3.2).
    pub is_allowed: bool,
}

/// How long a body is, as far as its head may say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyLength {
    /// So many bytes follow; may be 0.
    Known(u64),
    /// Its end will show.
    Unknown,
    /// No byte follows, whatever GET would get: as many bytes as this, if that is known ([`Body::withheld`]).
    Withheld(Option<u64>),
}

impl Content {
    /// That of a response of this status. `answers_head`: the request was HEAD.
    #[inline]
    pub fn of(status: StatusCode, answers_head: bool, body: BodyLength) -> Self {
        if status == StatusCode::RESET_CONTENT {
            // It has no content either, but has to say so (RFC 9110 section 15.3.6).
            return Self { length: Some(0), is_allowed: false };
        }
        let is_allowed = !forbids_body(status);
        let length = match body {
            // A 304 says what a 200 would (RFC 9110 section 8.6). An unknown length is not stated: 0 would be wrong.
            BodyLength::Withheld(length)
                if answers_head && is_allowed || status == StatusCode::NOT_MODIFIED =>
            {
                length
            }
            _ if !is_allowed => None,
            BodyLength::Known(length) => Some(length),
            BodyLength::Unknown => None,
            BodyLength::Withheld(_) => Some(0),
        };
        Self { length, is_allowed }
    }
}

impl BodyLength {
    /// The length of a body.
    #[inline]
    pub fn of(body: &Body) -> Self {
        match body.length() {
            Some(_) if body.is_withheld() => Self::Withheld(body.stated_length()),
            Some(length) => Self::Known(length),
            None => Self::Unknown,
        }
    }
}

/// Whether a response of this status never has a body: 1xx, 204, 304 (RFC 9112 section 6.3).
#[inline]
pub fn forbids_body(status: StatusCode) -> bool {
    let code = status.as_u16();
    code < 200 || code == 204 || code == 304
}

#[cfg(test)]
mod tests {
    use super::BodyLength::{Known, Unknown, Withheld};
    use super::*;

    #[test]
    fn each_status_and_method_states_its_length() {
        // Status, whether it answers HEAD, the body; the length that is stated, and whether content may follow.
        let cases = [
            (200, false, Known(5), Some(5), true),
            (200, false, Unknown, None, true),
            (200, false, Withheld(Some(7)), Some(0), true),
            (200, true, Known(5), Some(5), true),
            (200, true, Unknown, None, true),
            (200, true, Withheld(Some(7)), Some(7), true),
            (200, true, Withheld(None), None, true),
            (204, false, Known(5), None, false),
            (204, true, Withheld(Some(7)), None, false),
            (205, false, Known(5), Some(0), false),
            (205, true, Withheld(Some(7)), Some(0), false),
            (304, false, Known(5), None, false),
            (304, false, Withheld(Some(7)), Some(7), false),
            (304, true, Withheld(Some(7)), Some(7), false),
            (304, true, Withheld(None), None, false),
            (103, false, Known(5), None, false),
        ];
        for (status, answers_head, body, length, is_allowed) in cases {
            let content = Content::of(StatusCode::from_u16(status).expect("a status"), answers_head, body);
            assert_eq!(content, Content { length, is_allowed }, "{status} {answers_head} {body:?}");
        }
    }
}
