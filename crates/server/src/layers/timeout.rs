//! 503 for what takes too long.

use std::rc::Rc;
use std::time::Duration;

use anywire_http::{IntoResponse, Response, StatusCode};

use crate::layer::{Layer, Next};
use crate::request::Request;

/// Answers 503 if what is inside has not answered in time, and drops it. The time until the head of the response counts, the time
/// that the peer takes to send the body as well; a body that streams afterwards has no limit here.
///
/// [`Limits::handler_timeout`](crate::Limits::handler_timeout) is the limit of the whole server, which this one does not prolong.
///
/// ```
/// use std::time::Duration;
///
/// use anywire_server::layers::Timeout;
/// use anywire_server::{Handler, Router};
///
/// let search = async || "all of it";
/// let router = Router::new().get("/search", search.layer(Timeout::new(Duration::from_secs(2))));
/// # drop(router);
/// ```
#[derive(Debug, Clone, Copy)]
#[must_use]
pub struct Timeout {
    after: Duration,
}

impl Timeout {
    /// After this time. `Duration::MAX` is never.
    pub fn new(after: Duration) -> Self {
        Self { after }
    }
}

impl Layer for Timeout {
    type Local = Duration;

    fn local(&self) -> Duration {
        self.after
    }

    async fn call(after: Rc<Duration>, request: Request, next: Next) -> Response {
        match tokio::time::timeout(*after, next.run(request)).await {
            Ok(response) => response,
            Err(_) => (StatusCode::SERVICE_UNAVAILABLE, "the answer took too long").into_response(),
        }
    }

    #[cfg(feature = "openapi")]
    fn describe(&self, _: Option<&anywire_http::Method>) -> crate::openapi::LayerDoc {
        crate::openapi::LayerDoc::new().refuses(StatusCode::SERVICE_UNAVAILABLE, "It took too long.")
    }
}
