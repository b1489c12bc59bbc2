//! hyper 1: its HTTP/1 and HTTP/2 servers on tokio's current-thread runtime, one task a connection.

use std::convert::Infallible;

use anyhow::{Context, Result};
use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;

use super::{Announce, BODY, Http, LARGE_BYTES, Server};
use crate::versions;

pub(super) const SERVER: Server = Server {
    name: "hyper",
    version: || versions::locked("hyper"),
    settings: "http1::Builder, pipeline_flush(true), no header-read timer; http2::Builder, 256 streams, send buffer 1 MiB; TCP_NODELAY, tokio current-thread runtime",
    protocols: &[Http::Http1, Http::Http2],
    serve,
};

fn serve(announce: &Announce, version: Http) -> Result<()> {
    let listener = super::listener()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async move {
        let listener = TcpListener::from_std(listener)?;
        announce.listening(listener.local_addr()?);
        let serving = Serving::new(version);
        loop {
            let (stream, _) = listener.accept().await.context("accepting a connection failed")?;
            stream.set_nodelay(true)?;
            tokio::spawn(serving.clone().serve(stream));
        }
    })
}

/// How connections are served.
#[derive(Clone)]
pub(crate) struct Serving {
    version: Http,
    http1: http1::Builder,
    http2: http2::Builder<TokioExecutor>,
    large: Bytes,
}

impl Serving {
    pub(crate) fn new(version: Http) -> Self {
        // `pipeline_flush` gathers the answers of pipelined requests into one write and turns off vectored writes, which
        // is what hyper's own entries in public comparisons use. Without a timer, none is armed for each request.
        let mut http1 = http1::Builder::new();
        http1.pipeline_flush(true);
        let mut http2 = http2::Builder::new(TokioExecutor::new());
        http2.max_concurrent_streams(256).max_send_buf_size(LARGE_BYTES);
        Self { version, http1, http2, large: Bytes::from(vec![b'x'; LARGE_BYTES]) }
    }

    /// Serves a connection to its end. A peer that goes away is that and nothing else.
    pub(crate) async fn serve<S>(self, stream: S)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let stream = TokioIo::new(stream);
        if self.version == Http::Http2 {
            let answer = move |request| answer(request, self.large.clone());
            let _ = self.http2.serve_connection(stream, service_fn(answer)).await;
        } else {
            let _ = self.http1.serve_connection(stream, service_fn(hello)).await;
        }
    }
}

async fn answer(request: Request<Incoming>, large: Bytes) -> Result<Response<Full<Bytes>>, Infallible> {
    if request.uri().path() == "/" {
        return hello(request).await;
    }
    let mut response = Response::new(Full::new(large));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(super::CONTENT_TYPE));
    Ok(response)
}

async fn hello(_: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let mut response = Response::new(Full::new(Bytes::from_static(BODY.as_bytes())));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(super::CONTENT_TYPE));
    Ok(response)
}
