//! axum 0.8: a router with one route, served by hyper's HTTP/1 server on tokio's current-thread runtime.
//!
//! As in axum's own example `serve-with-hyper`, since `axum::serve` has no way to set `pipeline_flush`, without which
//! each pipelined answer is a write of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, Result};
use axum::extract::{Path, Query, Request, State};
use axum::http::{HeaderValue, StatusCode};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::Response;
use axum::routing::{get, post};
use axum::{Json, Router};
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;

use super::{Announce, BODY, Http, Server, api};
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
        let router = Router::new().route("/", get(async || BODY)).merge(api());
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

/// See [`api`].
fn api() -> Router {
    Router::new()
        .route("/orders/{id}", post(filed))
        .layer(from_fn(authorised))
        .layer(from_fn_with_state(Arc::new(AtomicU64::new(0)), counted))
        .layer(from_fn(marked))
}

async fn filed(
    Path(id): Path<u64>,
    Query(wish): Query<api::Wish>,
    Json(order): Json<api::Order>,
) -> Json<api::Filed> {
    Json(api::file(id, &wish, order))
}

async fn authorised(request: Request, next: Next) -> std::result::Result<Response, StatusCode> {
    match api::is_authorised(request.headers().get("authorization").map(HeaderValue::as_bytes)) {
        true => Ok(next.run(request).await),
        false => Err(StatusCode::UNAUTHORIZED),
    }
}

async fn counted(State(count): State<Arc<AtomicU64>>, request: Request, next: Next) -> Response {
    count.fetch_add(1, Ordering::Relaxed);
    next.run(request).await
}

async fn marked(request: Request, next: Next) -> Response {
    let (name, value) = api::SERVED_BY;
    let mut response = next.run(request).await;
    response.headers_mut().insert(name, HeaderValue::from_static(value));
    response
}
