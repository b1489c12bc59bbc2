//! Services of the tower crates, made of closures.

use std::error::Error;
use std::pin::Pin;
use std::task::{Context, Poll};

use anywire_http::Body;
use tower_service::Service;

pub(crate) type BoxError = Box<dyn Error + Send + Sync>;

type Ready = fn(&mut Context<'_>) -> Poll<Result<(), BoxError>>;

/// A service of two closures.
#[derive(Clone)]
pub(crate) struct Made<R, C> {
    ready: R,
    call: C,
}

/// A service that is always ready.
pub(crate) fn of<C>(call: C) -> Made<Ready, C> {
    Made { ready: |_| Poll::Ready(Ok(())), call }
}

/// A service that says itself whether it is ready.
pub(crate) fn with_ready<R, C>(ready: R, call: C) -> Made<R, C>
where
    R: FnMut(&mut Context<'_>) -> Poll<Result<(), BoxError>>,
{
    Made { ready, call }
}

impl<R, C, F, B> Service<http::Request<Body>> for Made<R, C>
where
    R: FnMut(&mut Context<'_>) -> Poll<Result<(), BoxError>>,
    C: FnMut(http::Request<Body>) -> F,
    F: Future<Output = Result<http::Response<B>, BoxError>>,
{
    type Response = http::Response<B>;
    type Error = BoxError;
    type Future = F;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        (self.ready)(cx)
    }

    fn call(&mut self, request: http::Request<Body>) -> F {
        (self.call)(request)
    }
}

/// Adds a field to the request, and replaces that of the response: as a layer of the tower crates is written.
#[derive(Clone)]
pub(crate) struct Tagged<S> {
    pub(crate) inside: S,
    pub(crate) tag: &'static str,
}

impl<S, B> Service<http::Request<Body>> for Tagged<S>
where
    S: Service<http::Request<Body>, Response = http::Response<B>, Future: 'static>,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, S::Error>>>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inside.poll_ready(cx)
    }

    fn call(&mut self, mut request: http::Request<Body>) -> Self::Future {
        let tag = http::HeaderValue::from_static(self.tag);
        request.headers_mut().append("x-tag", tag.clone());
        let running = self.inside.call(request);
        Box::pin(async move {
            let mut response = running.await?;
            response.headers_mut().insert("x-tag", tag);
            Ok(response)
        })
    }
}
