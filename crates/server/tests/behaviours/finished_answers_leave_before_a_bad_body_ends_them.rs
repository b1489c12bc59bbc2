//! Finished answers arrive, even if the body of a later request on the same connection is bad. The bad request gets an
//! error status, unless its answer has begun.

use std::io::Read;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::task::{Context, Poll};

use anywire_http::{Body, BodyError};
use anywire_loops::LoopHandle;
use anywire_server::Router;
use bytes::Bytes;

const FINISHED: usize = 1_110;

fn router() -> Router {
    Router::new()
        .get("/", async || "finished")
        .post("/collects", async |body: Bytes| body.len().to_string())
        .post("/echo", async |body: Body| body)
        .get("/fails", async || Body::stream(Failing(vec![Err(BodyError::failed("on purpose"))])))
        .get("/too-short", async || Body::stream(Failing(vec![Ok("abc".into())])).with_length(4))
        .get("/too-long", async || Body::stream(Failing(vec![Ok("abc".into())])).with_length(2))
        .get("/fails-late", async || {
            Body::stream(Failing(vec![Err(BodyError::failed("on purpose")), Ok("begun".into())]))
        })
}

/// Gives its items from the last to the first, one a turn.
struct Failing(Vec<Result<Bytes, BodyError>>);

impl futures_core::Stream for Failing {
    type Item = Result<Bytes, BodyError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        cx.waker().wake_by_ref();
        Poll::Ready(self.0.pop())
    }
}

fn assert_finished(peer: &mut crate::support::Peer<crate::support::Remote>) {
    for number in 0..FINISHED {
        assert_eq!(peer.answer(false).text(), "finished", "answer {number}");
    }
}

fn finished_and(last: &str) -> String {
    "GET / HTTP/1.1\r\nhost: x\r\n\r\n".repeat(FINISHED) + last
}

#[test]
fn a_malformed_body_is_400_behind_what_is_finished() {
    crate::support::on_each_wire(|scene| {
        let served = scene.serve(router());
        for path in ["/collects", "/echo", "/nowhere"] {
            let bad = format!("POST {path} HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n");
            let mut peer = served.connect();
            peer.send(finished_and(&bad));
            assert_finished(&mut peer);
            let refusal = peer.answer(false);
            let status = if path == "/nowhere" { 404 } else { 400 };
            assert_eq!((refusal.status, refusal.closes()), (status, true), "{path}");
            peer.assert_closed();
        }
    });
}

#[test]
fn a_body_that_is_cut_short_is_400_behind_what_is_finished() {
    crate::support::on_each_wire(|scene| {
        let served = scene.serve(router());
        for path in ["/collects", "/echo"] {
            let mut peer = served.connect();
            peer.send(finished_and(&format!("POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\n")));
            peer.half_close();
            assert_finished(&mut peer);
            // The echo may have begun its answer before the end came; then nothing but the close says that it is not
            // whole.
            let rest = String::from_utf8(peer.rest()).expect("text");
            let status = rest.split(' ').nth(1);
            assert!(
                status == Some("400") || path == "/echo" && rest.ends_with("\r\n\r\n"),
                "{path}: {rest:?}"
            );
        }
    });
}

#[test]
fn an_answer_that_was_begun_ends_where_it_broke_off() {
    crate::support::on_each_wire(|scene| {
        let served = scene.serve(router());
        let mut peer = served.connect();
        peer.send(finished_and(
            "POST /echo HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n",
        ));
        assert_finished(&mut peer);
        assert_eq!(peer.head().status, 200);
        assert_eq!(peer.chunk(), Some(b"abc".to_vec()));
        peer.send("zz\r\n");
        // No last chunk, so the answer is not whole.
        peer.assert_closed();
    });
}

#[test]
fn a_body_that_fails_before_anything_left_is_500() {
    crate::support::on_each_wire(|scene| {
        let served = scene.serve(router());
        for path in ["/fails", "/fails-late", "/too-short", "/too-long"] {
            let mut peer = served.connect();
            peer.send(finished_and(&format!(
                "GET {path} HTTP/1.1\r\nhost: x\r\n\r\nGET / HTTP/1.1\r\nhost: x\r\n\r\n"
            )));
            assert_finished(&mut peer);
            let failure = peer.answer(false);
            assert_eq!((failure.status, failure.closes()), (500, false), "{path}");
            assert_eq!(peer.answer(false).text(), "finished", "{path}");
        }
    });
}

/// Tells of each poll, and on which loop, and fails once it is told to.
struct FailsWhenTold {
    polls: Sender<LoopHandle>,
    told: Arc<AtomicBool>,
}

impl futures_core::Stream for FailsWhenTold {
    type Item = Result<Bytes, BodyError>;

    fn poll_next(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let _ = self.polls.send(anywire_loops::current().expect("a loop"));
        if self.told.load(Ordering::SeqCst) {
            return Poll::Ready(Some(Err(BodyError::failed("on purpose"))));
        }
        Poll::Pending
    }
}

#[test]
fn a_body_that_fails_behind_an_answer_that_is_leaving_is_500() {
    // More than the memory wire holds, by less than the server produces ahead.
    const LEN: usize = 64 * 1024 + 30_000;
    crate::support::on_each_wire(|scene| {
        if !scene.is("memory") {
            return;
        }
        let (polls, polled) = crate::support::channel();
        let told = Arc::new(AtomicBool::new(false));
        let fails = Arc::clone(&told);
        let router = router().get("/large", async || Bytes::from_static(&[b'x'; LEN])).get(
            "/fails-when-told",
            move || {
                let failing = FailsWhenTold { polls: polls.clone(), told: Arc::clone(&fails) };
                async { Body::stream(failing) }
            },
        );
        let served = scene.serve(router);
        let mut peer = served.connect();
        peer.send("GET /large HTTP/1.1\r\nhost: x\r\n\r\nGET /fails-when-told HTTP/1.1\r\nhost: x\r\n\r\n");
        let mut first = Vec::new();
        for _ in 0..4 {
            // Each time there is room the body is polled, and then a part of the first answer leaves.
            let mut part = [0; 2_000];
            let read = peer.link.read(&mut part).expect("the first answer");
            first.extend_from_slice(&part[..read]);
            // Once the loop does other work, that part has left, so that the wire is full again.
            polled.next().spawn(|| async {}).wait().expect("the loop runs on");
        }
        told.store(true, Ordering::SeqCst);
        let body = first.windows(4).position(|end| end == b"\r\n\r\n").expect("a head") + 4;
        let left = LEN - (first.len() - body);
        first.extend(peer.read_exactly(left));
        assert!(first[body..].iter().all(|&byte| byte == b'x'), "the first answer is whole");
        let failure = peer.answer(false);
        assert!(failure.head.starts_with("HTTP/1.1 500 "), "{failure:?}");
    });
}

#[test]
fn a_part_is_never_taken_for_the_whole() {
    // A 1.0 client knows the end of a stream by the end of the connection alone, so that has to be a reset.
    let router = Router::new().post("/echo", async |body: Body| {
        let (mut sender, answer) = Body::channel(1024);
        drop(anywire_loops::spawn(async move {
            let mut body = body;
            while let Ok(Some(chunk)) = body.chunk().await {
                if sender.ready().await.is_err() || sender.try_send(chunk).is_err() {
                    return;
                }
            }
            sender.abort(BodyError::failed("on purpose"));
        }));
        answer
    });
    let served = crate::support::serve(router);
    let mut peer = served.connect();
    peer.send("POST /echo HTTP/1.0\r\ncontent-length: 9\r\n\r\nabc");
    assert_eq!(peer.head().header("content-length"), None);
    assert_eq!(peer.read_exactly(3), b"abc");
    peer.half_close();
    let (rest, ended_in_order) = peer.rest_and_end();
    assert!(rest.is_empty() && !ended_in_order, "{rest:?}");
}
