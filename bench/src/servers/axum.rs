//! axum 0.8: a router with one route, served by hyper's HTTP/1 server on tokio's current-thread runtime.
//!
//! As in axum's own example `serve-with-hyper`, since `axum::serve` has no way to set `pipeline_flush`, without which
//! each pipelined answer is a write of its own.

use anyhow::{Context, Result};
use axum::Router;
use axum::routing::get;
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;

use super::{Announce, BODY, Http, Server};
use crate::versions;

pub(super) const SERVER: Server = Server {
    name: "axum",
    version: || versions::locked("axum"),
    settings: "Router served by hyper's http1::Builder, pipeline_flush(true), no header-read timer, TCP_NODELAY, tokio \
               current-thread runtime",
    protocols: &[Http::Http1],
    serve,
};

fn serve(announce: &Announce, _: Http) -> Result<()> {
    let listener = super::listener()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async move {
        let listener = TcpListener::from_std(listener)?;
        announce.listening(listener.local_addr()?);
        // A `&'static str` answers as `text/plain; charset=utf-8`, as all the others do.
        let router = Router::new().route("/", get(async || BODY));
        let mut http = http1::Builder::new();
        http.pipeline_flush(true);
        loop {
            let (stream, _) = listener.accept().await.context("accepting a connection failed")?;
            stream.set_nodelay(true)?;
            let service = TowerToHyperService::new(router.clone());
            let connection = http.serve_connection(TokioIo::new(stream), service);
            tokio::spawn(async move {
                // A peer that goes away is the end of that connection and nothing else.
                let _ = connection.await;
            });
        }
    })
}
