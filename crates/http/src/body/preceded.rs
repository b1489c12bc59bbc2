//! A body that begins with bytes that were read before.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Frame, SizeHint};

use super::{Body, BodyError};

/// Bytes, and then a body with its trailers.
pub(super) struct Preceded {
    /// Taken once.
    first: Bytes,
    rest: Body,
}

impl Preceded {
    pub(super) fn new(first: Bytes, rest: Body) -> Self {
        Self { first, rest }
    }
}

impl http_body::Body for Preceded {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        if self.first.is_empty() {
            return Pin::new(&mut self.rest).poll_frame(cx);
        }
        Poll::Ready(Some(Ok(Frame::data(std::mem::take(&mut self.first)))))
    }

    fn is_end_stream(&self) -> bool {
        self.first.is_empty() && self.rest.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        match self.rest.length() {
            Some(rest) => SizeHint::with_exact(rest.saturating_add(self.first.len() as u64)),
            None => SizeHint::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::Waker;

    use super::*;
    use crate::Headers;

    fn ready<T>(future: impl Future<Output = T>) -> T {
        match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(value) => value,
            Poll::Pending => panic!("all is there"),
        }
    }

    #[test]
    fn bytes_come_first_and_trailers_last() {
        let (mut sender, rest) = Body::channel(100);
        sender.try_send("lo").expect("room");
        let mut trailers = Headers::new();
        trailers.append("x-sum", "5").expect("a field");
        sender.trailers(trailers);
        sender.finish();
        let mut body = rest.preceded_by(Bytes::from_static(b"hel"));
        assert_eq!(body.length(), None);
        assert_eq!(ready(body.text(100)).expect("a text"), "hello");
        assert_eq!(body.trailers().and_then(|fields| fields.get("x-sum")), Some("5"));
    }

    #[test]
    fn an_error_of_the_rest_stays_what_it_is() {
        let (sender, rest) = Body::channel(100);
        sender.abort(BodyError::Timeout);
        let mut body = rest.with_length(2).preceded_by(Bytes::from_static(b"hel"));
        assert_eq!(body.length(), Some(5));
        assert_eq!(ready(body.chunk()).expect("the first").as_deref(), Some(&b"hel"[..]));
        assert!(matches!(ready(body.chunk()), Err(BodyError::Timeout)));
    }
}
