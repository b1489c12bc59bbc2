//! The demo service: small, and with one route for each thing that a server must do well.

use std::time::Duration;

use anywire::http::{Body, BodyError, Response, StatusCode};
use anywire::server::{Error, Json, Path, Request, Router};
use bytes::Bytes;
use futures_core::Stream;
use serde::Serialize;

/// The routes; `/` answers `greeting`, whose length a comparison chooses.
pub(crate) fn router(greeting: &'static str) -> Router {
    Router::new()
        .get("/", move || async move { greeting })
        .get("/json", async || Json(Message { message: GREETING }))
        .post("/echo", echo)
        .get("/bytes/{n}", bytes)
        .get("/delay/{ms}", delay)
}

/// What `/` answers: 13 bytes, as every benchmark of servers has it.
pub(crate) const GREETING: &str = "Hello, World!";

#[derive(Serialize)]
struct Message {
    message: &'static str,
}

/// The body back while it comes, with its type and its length, if it has one.
async fn echo(request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let content_type = parts.headers().get("content-type").unwrap_or("application/octet-stream");
    Response::new(StatusCode::OK).header("content-type", content_type).body(body)
}

/// So many bytes, from one block that all answers share.
async fn bytes(Path(n): Path<u64>) -> Result<Response, Error> {
    if n > BYTES_MAX {
        let message = format!("cannot send {n} bytes: /bytes/N sends at most {BYTES_MAX}; ask for fewer");
        return Err(Error::new(StatusCode::BAD_REQUEST, message));
    }
    let body = match usize::try_from(n) {
        Ok(n) if n <= BLOCK.len() => Body::from(Bytes::from_static(&BLOCK[..n])),
        _ => Body::stream(Blocks { left: n }).with_length(n),
    };
    Ok(Response::new(StatusCode::OK).header("content-type", "application/octet-stream").body(body))
}

async fn delay(Path(ms): Path<u64>) -> Result<String, Error> {
    if ms > DELAY_MS_MAX {
        let message = format!("cannot wait {ms} ms: /delay/MS waits at most {DELAY_MS_MAX}; ask for less");
        return Err(Error::new(StatusCode::BAD_REQUEST, message));
    }
    tokio::time::sleep(Duration::from_millis(ms)).await;
    Ok(format!("waited {ms} ms"))
}

/// So many bytes in blocks: made only when the connection has room for one.
struct Blocks {
    left: u64,
}

impl Stream for Blocks {
    type Item = Result<Bytes, BodyError>;

    fn poll_next(
        mut self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Self::Item>> {
        let length = self.left.min(BLOCK.len() as u64);
        self.left -= length;
        let block = Bytes::from_static(&BLOCK[..length as usize]);
        std::task::Poll::Ready((!block.is_empty()).then_some(Ok(block)))
    }
}

static BLOCK: [u8; 64 << 10] = [b'x'; 64 << 10];
/// 10 GiB: enough to watch a transfer for a while, and a typing error ends.
const BYTES_MAX: u64 = 10 << 30;
/// A minute: below what clients and proxies in between wait for.
const DELAY_MS_MAX: u64 = 60_000;
