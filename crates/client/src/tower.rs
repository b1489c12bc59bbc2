//! A client as a service of the tower crates (feature `tower`), for what is written against their trait: layers of tower, and
//! clients that tonic generates.

use std::pin::Pin;
use std::task::{Context, Poll};

use anywire_http::Body;
use anywire_http::body::BoxError;
use bytes::Buf;

use crate::{Client, Error};

/// Sends requests whose URI is absolute, as [`Client::send`] does. It is always ready: its queue bounds the calls, and one too
/// many is [`Error::QueueFull`].
///
/// ```no_run
/// use anywire_client::Client;
/// use anywire_http::Body;
/// use tower_service::Service;
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let mut client = Client::new();
/// let request = http::Request::get("http://127.0.0.1:8080/hello").body(Body::empty())?;
/// let response: http::Response<Body> = client.call(request).await?;
/// println!("{}", response.status());
/// # Ok(()) }
/// ```
impl<B> tower_service::Service<http::Request<B>> for Client
where
    B: http_body::Body<Data: Buf, Error: Into<BoxError>> + Send + 'static,
{
    type Response = http::Response<Body>;
    type Error = Error;
    type Future = Pin<Box<dyn Future<Output = Result<http::Response<Body>, Error>> + Send>>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<B>) -> Self::Future {
        let call = self.send(request);
        Box::pin(async move { Ok(call.await?.try_into()?) })
    }
}
