//! What of a response is sent, and what takes its place if its body fails: one policy, which the drivers of all versions ask.
//!
//! What differs between versions stays with their drivers: how an end is framed, and how a response that has begun is broken off.

use anywire_http::gateway::status_of_call;
use anywire_http::message::{BodyLength, Content};
use anywire_http::{BodyError, Fault, Response, StatusCode};

use crate::driver::upload::Upload;
use crate::refusal::{Refusal, RefusalKind};
use crate::request::RequestKind;
use crate::respond::FAILED;

/// How a response leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Delivery {
    /// The length that its head states.
    pub(crate) length: Option<u64>,
    /// What follows its head.
    pub(crate) follows: Follows,
}

/// What follows the head of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Follows {
    /// Nothing: there is no content, or the status or the method keeps it back. It is not read either.
    Nothing,
    /// Content that is there as a whole. Without a byte of it nothing follows.
    Whole,
    /// Content that comes in pieces, perhaps from what the handler still reads.
    Stream,
}

impl Delivery {
    /// The head that opens a tunnel: what follows is no content, and has no length (RFC 9110 section 9.3.6).
    pub(crate) const TUNNEL: Self = Self { length: None, follows: Follows::Stream };

    /// How a response to a request of this kind leaves.
    #[inline]
    pub(crate) fn of(response: &Response, kind: RequestKind) -> Self {
        let body = &response.body;
        let answers_head = kind == RequestKind::Head;
        let content = Content::of(response.status, answers_head, BodyLength::of(body));
        let follows = match body.as_full() {
            _ if answers_head || !content.is_allowed || body.is_withheld() => Follows::Nothing,
            Some(whole) if whole.is_empty() => Follows::Nothing,
            Some(_) => Follows::Whole,
            // Of no bytes trailers may follow.
            None => Follows::Stream,
        };
        Self { length: content.length, follows }
    }

    /// Whether bytes of content follow the head. A stream that says that it has none may still end with trailers, where a version has
    /// a place for them.
    #[inline]
    pub(crate) fn has_content(&self) -> bool {
        self.follows != Follows::Nothing && self.length != Some(0)
    }

    /// Whether its content may be made of what is still to come of the request, so that the request is read on. Content that is not sent
    /// is not read.
    #[inline]
    pub(crate) fn may_read_request(&self) -> bool {
        self.follows == Follows::Stream && self.has_content()
    }
}

/// What takes the place of a response whose body failed before the connection had taken any of it: by the fault of the peer if the
/// request's own body broke off. `error` is `None` for a panic.
pub(crate) fn refusal_of_body(upload: Option<&Upload>, error: Option<&BodyError>) -> Refusal<'static> {
    match upload.and_then(Upload::fault) {
        Some(status) => Refusal::new(RefusalKind::RequestBody, status, ""),
        None => {
            let status = error.map_or(StatusCode::INTERNAL_SERVER_ERROR, status_of_body);
            Refusal::new(RefusalKind::ResponseBody, status, FAILED)
        }
    }
}

/// The status for the error of a response's body: 500 if its maker failed, else it came from another server.
fn status_of_body(error: &BodyError) -> StatusCode {
    match error {
        _ if error.fault() == Fault::Caller => {
            status_of_call(error).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
        }
        BodyError::Timeout => StatusCode::GATEWAY_TIMEOUT,
        _ => StatusCode::BAD_GATEWAY,
    }
}

#[cfg(test)]
mod tests {
    use anywire_http::Body;

    use super::*;

    #[test]
    fn what_follows_a_head() {
        let stream = || Body::channel(10).1.with_length(7);
        let cases = [
            (200, RequestKind::Message, Body::from("five!"), Some(5), Follows::Whole),
            (200, RequestKind::Message, Body::empty(), Some(0), Follows::Nothing),
            (200, RequestKind::Message, stream(), Some(7), Follows::Stream),
            (200, RequestKind::Message, Body::channel(10).1, None, Follows::Stream),
            (200, RequestKind::Head, Body::from("five!"), Some(5), Follows::Nothing),
            (200, RequestKind::Head, stream(), Some(7), Follows::Nothing),
            (200, RequestKind::Head, Body::withheld(None), None, Follows::Nothing),
            (204, RequestKind::Message, stream(), None, Follows::Nothing),
            (205, RequestKind::Message, stream(), Some(0), Follows::Nothing),
            (304, RequestKind::Message, Body::withheld(Some(9)), Some(9), Follows::Nothing),
            (403, RequestKind::Connect, Body::from("no"), Some(2), Follows::Whole),
        ];
        for (status, kind, body, length, follows) in cases {
            let response = Response::new(StatusCode::from_u16(status).expect("a status")).body(body);
            assert_eq!(Delivery::of(&response, kind), Delivery { length, follows }, "{status} {kind:?}");
        }
        let empty = Delivery { length: Some(0), follows: Follows::Stream };
        assert!(!empty.has_content() && !empty.may_read_request(), "trailers alone");
        let whole = Delivery { length: Some(5), follows: Follows::Whole };
        assert!(whole.has_content() && !whole.may_read_request());
    }
}
