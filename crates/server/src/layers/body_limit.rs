//! 413 for bodies that are too large.

use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use anywire_http::{Body, BodyError, Bytes, IntoResponse, Response, StatusCode};
use http_body::{Frame, SizeHint};

use crate::request::Request;
use crate::run::sync_layer::{SyncLayer, sync_layer};

/// Limits the bodies of requests, whether the handler collects them or streams them.
///
/// One whose length is stated and too large is answered 413 at once. Another one breaks off for the handler at the limit, by
/// [`BodyError::TooLarge`], of which extractors make a 413.
/// [`Limits::body_bytes`](crate::Limits::body_bytes) is the limit of extractors on the whole server, which this one does not raise.
///
/// ```
/// use anywire_http::{Body, StatusCode};
/// use anywire_server::Router;
/// use anywire_server::layers::BodyLimit;
///
/// let router = Router::new().post("/", async |body: Body| body).layer(BodyLimit::new(5));
/// # anywire_loops::block_on(async {
/// let response = router.call(anywire_http::Request::post("/").body("hello")).await;
/// assert_eq!(response.status, StatusCode::OK);
/// let response = router.call(anywire_http::Request::post("/").body("hello, you")).await;
/// assert_eq!(response.status, StatusCode::PAYLOAD_TOO_LARGE);
/// # });
/// ```
#[derive(Debug, Clone, Copy)]
#[must_use]
pub struct BodyLimit {
    bytes: usize,
}

impl BodyLimit {
    /// So many bytes.
    pub fn new(bytes: usize) -> Self {
        Self { bytes }
    }
}

impl SyncLayer for BodyLimit {
    type Local = usize;
    type Kept = ();

    fn local(&self) -> Self::Local {
        self.bytes
    }

    fn before(limit: &Rc<usize>, request: &mut Request) -> Result<(), Response> {
        if !request.has_body() {
            return Ok(());
        }
        let body = request.body_mut();
        match body.length() {
            Some(length) if length > **limit as u64 => {
                let message = format!("the body is larger than {limit} bytes");
                Err((StatusCode::PAYLOAD_TOO_LARGE, message).into_response())
            }
            // It never has more.
            Some(_) => Ok(()),
            None => {
                let (left, limit) = (**limit, **limit);
                *body = Body::wrap(Limited { body: std::mem::take(body), left, limit });
                Ok(())
            }
        }
    }

    fn after(_: &Rc<usize>, (): (), _: &mut Response) {}

    #[cfg(feature = "openapi")]
    fn describe(&self, _: Option<&anywire_http::Method>) -> crate::openapi::LayerDoc {
        crate::openapi::LayerDoc::new().refuses(StatusCode::PAYLOAD_TOO_LARGE, "The body is too large.")
    }
}

sync_layer!(BodyLimit, usize);

/// A body that breaks off at a limit.
struct Limited {
    body: Body,
    left: usize,
    limit: usize,
}

impl http_body::Body for Limited {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        if let Some(Ok(frame)) = &frame
            && let Some(data) = frame.data_ref()
        {
            match self.left.checked_sub(data.len()) {
                Some(left) => self.left = left,
                None => return Poll::Ready(Some(Err(BodyError::TooLarge { limit_bytes: self.limit }))),
            }
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        http_body::Body::is_end_stream(&self.body)
    }

    fn size_hint(&self) -> SizeHint {
        http_body::Body::size_hint(&self.body)
    }
}
