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
        // `pipeline_flush` gathers the answers of pipelined requests into one write and turns off vectored writes, which
        // is what hyper's own entries in public comparisons use. Without a timer, none is armed for each request.
        let mut http = http1::Builder::new();
        http.pipeline_flush(true);
        let mut http2 = http2::Builder::new(TokioExecutor::new());
        http2.max_concurrent_streams(256).max_send_buf_size(LARGE_BYTES);
        let large = Bytes::from(vec![b'x'; LARGE_BYTES]);
        loop {
            let (stream, _) = listener.accept().await.context("accepting a connection failed")?;
            stream.set_nodelay(true)?;
            if version == Http::Http2 {
                let large = large.clone();
                let answer = move |request| answer(request, large.clone());
                let connection = http2.serve_connection(TokioIo::new(stream), service_fn(answer));
                tokio::spawn(async move {
                    // As below.
                    let _ = connection.await;
                });
                continue;
            }
            let connection = http.serve_connection(TokioIo::new(stream), service_fn(hello));
            tokio::spawn(async move {
                // A peer that goes away is the end of that connection and nothing else.
                let _ = connection.await;
            });
        }
    })
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
