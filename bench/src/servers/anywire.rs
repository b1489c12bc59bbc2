//! anywire's own server: one loop, one route, everything else as it comes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use anywire_http::StatusCode;
use anywire_server::{Json, Limits, Next, Path, Query, Request, Router, Server as AnywireServer};
use anywire_wire::ListenOptions;
use bytes::Bytes;

use super::{Announce, BACKLOG, BODY, Http, LARGE_BYTES, Server, api};
use crate::clients::Bursts;
use crate::versions;

pub(super) const SERVER: Server = Server {
    name: "anywire",
    version: || versions::locked("anywire-server"),
    settings: "1 loop, all deadlines on; connections may be idle for 1 h, as those of the others",
    protocols: &[Http::Http1, Http::Http2],
    serve,
};

fn serve(announce: &Announce, _: Http) -> Result<()> {
    run(announce, |server| server.listen("tcp:127.0.0.1:0"))
}

/// Runs it on the address that it is given, and perhaps with TLS.
pub(crate) fn run(announce: &Announce, given: impl FnOnce(AnywireServer) -> AnywireServer) -> Result<()> {
    // It tells the versions apart by the first bytes of a connection.
    let large = Bytes::from(vec![b'x'; LARGE_BYTES]);
    let router = Router::new().get("/", async || BODY).get("/large", move || {
        let large = large.clone();
        async move { large }
    });
    let router = router.post("/", async |_: Bytes| Bursts::ANSWER).merge(api());
    let running = given(AnywireServer::new(router))
        .listen_options(ListenOptions { backlog: BACKLOG as u32, ..ListenOptions::default() })
        .limits(Limits { idle_timeout: IDLE, ..Limits::default() })
        .loops(1)
        .start()?;
    let address = running.addresses().next().context("it listens nowhere")?;
    let address = address.location().parse().with_context(|| format!("{address} is no socket address"))?;
    announce.listening_until_end(address);
    drop(running);
    Ok(())
}

/// Thousands of connections are opened one after the other before those that are idle are counted.
const IDLE: Duration = Duration::from_secs(3600);

/// See [`api`].
fn api() -> Router {
    let filed = async |Path(id): Path<u64>, Query(wish): Query<api::Wish>, Json(order): Json<api::Order>| {
        Json(api::file(id, &wish, order))
    };
    let authorised = async |request: Request, next: Next| match api::is_authorised(
        request.headers().get("authorization").map(str::as_bytes),
    ) {
        true => Ok(next.run(request).await),
        false => Err(StatusCode::UNAUTHORIZED),
    };
    let count = Arc::new(AtomicU64::new(0));
    let counted = async move |request: Request, next: Next| {
        count.fetch_add(1, Ordering::Relaxed);
        next.run(request).await
    };
    let (name, value) = api::SERVED_BY;
    let marked = async move |request: Request, next: Next| next.run(request).await.header(name, value);
    Router::new().post("/orders/{id}", filed).layer(authorised).layer(counted).layer(marked)
}
