//! A body whose first item is an error, or a panic, becomes a response with an error status in each version of HTTP: nothing of it has
//! left by then. Over HTTP/2 as well, whose heads cannot be taken back.

use std::pin::Pin;
use std::task::{Context, Poll};

use anywire_http::{Body, BodyError, Response, StatusCode};
use anywire_server::{Router, Server};
use bytes::Bytes;

use crate::support::Scene;
use crate::support::h2::H2;

fn failing(error: BodyError) -> Response {
    let (sender, body) = Body::channel(10);
    sender.abort(error);
    Response::new(StatusCode::OK).header("x-of", "the handler").body(body.with_length(1000))
}

struct Panics;

impl futures_core::Stream for Panics {
    type Item = Result<Bytes, BodyError>;

    fn poll_next(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        panic!("on purpose");
    }
}

fn router() -> Router {
    Router::new()
        .get("/failed", async || failing(BodyError::failed("on purpose")))
        .get("/late", async || failing(BodyError::Timeout))
        .get("/cut", async || failing(BodyError::Incomplete))
        .get("/panics", async || Body::stream(Panics))
        .get("/waits-first", async || {
            tokio::task::yield_now().await;
            failing(BodyError::failed("on purpose"))
        })
        .get("/fails-later", async || {
            let (mut sender, body) = Body::channel(10);
            sender.try_send("a part").expect("there is room");
            sender.abort(BodyError::failed("on purpose"));
            body
        })
        .get("/", async || "ok")
}

#[test]
fn in_each_version() {
    let served = Scene::tcp().serve(router());
    let cases = [("/failed", 500), ("/waits-first", 500), ("/late", 504), ("/cut", 502), ("/panics", 500)];
    for (path, status) in cases {
        let reply = served.get(path);
        assert_eq!((reply.status, reply.field("x-of")), (status, None), "{path}");
        assert_eq!(reply.text, "the server failed to answer this request", "{path}");
    }
    let counters = served.running.counters();
    assert_eq!((counters.failures, counters.panics), (4, 2), "each once in each version");
}

#[test]
fn its_stream_and_connection_go_on() {
    let served = Scene::tcp().serve(router());
    let mut peer = H2::connect(&served);
    for _ in 0..3 {
        let answer = peer.ask("/failed");
        assert_eq!((answer.status(), answer.reset), (500, None));
        assert_eq!(peer.ask("/").text(), "ok");
    }
    // Behind a piece it is too late: the head has left with it.
    let id = peer.get("/fails-later");
    let answer = peer.answer(id);
    assert_eq!(answer.status(), 200);
    assert!(answer.reset.is_some(), "it is not whole");
    assert_eq!(peer.ask("/").text(), "ok");
}

#[test]
fn the_program_words_it() {
    let server = Server::new(router()).on_refusal(|refusal: &anywire_server::Refusal<'_>| {
        (refusal.status, format!("{}: {:?}", refusal.kind.name(), refusal.route))
    });
    let served = Scene::tcp().serve_by(server);
    assert_eq!(served.get("/failed").text, "response_body: Some(\"/failed\")");
}
