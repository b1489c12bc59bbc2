//! Calls on wires that are never out of room or of bytes: their deadlines hold, and the loop's other tasks run.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::mpsc;
use std::task::{Context, Poll};
use std::time::Duration;

use anywire_http::{Body, BodyError, Method};
use anywire_loops::Loops;
use anywire_wire::Transport;
use bytes::Bytes;
use futures_core::Stream;
use tokio::sync::oneshot;

use super::*;
use crate::local::Local;
use crate::{Client, Limits};

/// Takes whatever is written. Once it has anything to read, it always has more.
struct Endless {
    /// Given first.
    head: &'static [u8],
    /// Given again and again; never anything if it is empty.
    piece: &'static [u8],
}

impl Transport for Endless {
    fn poll_readable(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.piece.is_empty() { Poll::Pending } else { Poll::Ready(Ok(())) }
    }

    fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        if self.poll_readable(cx).is_pending() {
            return Poll::Pending;
        }
        let head = std::mem::take(&mut self.head);
        let mut read = 0;
        for part in std::iter::once(head).chain(std::iter::repeat(self.piece)) {
            if part.len() > buffer.len() - read {
                break;
            }
            buffer[read..read + part.len()].copy_from_slice(part);
            read += part.len();
        }
        Poll::Ready(Ok(read))
    }

    fn poll_write(&mut self, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_write_vectored(
        &mut self,
        _: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Poll::Ready(Ok(slices.iter().map(|slice| slice.len()).sum()))
    }

    fn poll_half_close(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn abort(&mut self) {}

    fn local(&self) -> Address {
        "memory:endless".parse().expect("an address")
    }

    fn peer(&self) -> Address {
        self.local()
    }
}

/// A body without end that is always there.
struct Always;

impl Stream for Always {
    type Item = Result<Bytes, BodyError>;

    fn poll_next(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        Poll::Ready(Some(Ok(Bytes::from_static(b"x"))))
    }
}

/// The error of a call over `wire` that sends `body`, and collects the answer within 200 ms.
fn error_over(wire: Endless, body: fn() -> Body) -> Error {
    let loops = Loops::start(1).expect("loops start");
    // With room for all that comes, so that no reader holds the connection back.
    let limits = Limits { body_ahead_bytes: usize::MAX, ..Limits::default() };
    let client = Client::builder().loops(&loops).limits(limits).build();
    let (report, reported) = mpsc::channel();
    drop(loops.get(0).spawn(move || async move {
        let local = Local::here(&client.handle).expect("a loop of the client");
        let url = Url::parse("http://endless/").expect("a good URL");
        let pool = Rc::new(Pool::new(&url, None, local.context()).expect("a good origin"));
        let mut draft = Box::new(Draft::new(Method::POST, url, &client.handle.config().timeouts));
        draft.total_timeout = Duration::from_millis(200);
        draft.body = body().into();
        let (reply, answer) = oneshot::channel();
        let total_until = clock::now() + draft.total_timeout;
        let reply = Some(reply);
        let acquire_until = total_until;
        pool.waiting.push(Job { draft, reply, total_until, acquire_until, resent: false, sent: false });
        pool.adopt(Connection::new(wire));
        let error = match answer.await.expect("a reply") {
            Ok(response) => response.bytes().await.expect_err("a body without end"),
            Err(error) => error,
        };
        // A test that does not wait has failed already.
        let _ = report.send(error);
    }));
    let outcome = reported.recv_timeout(Duration::from_secs(60));
    outcome.expect("the loop goes on, and the deadline ends the call")
}

#[test]
fn an_answer_that_is_always_there_ends_by_the_total_deadline() {
    let head = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
    let error = error_over(Endless { head, piece: b"1\r\nx\r\n" }, Body::empty);
    assert!(matches!(error, Error::Timeout { phase: Phase::Total, .. }), "{error:?}");
}

#[test]
fn a_request_that_is_always_taken_ends_by_the_total_deadline() {
    let error = error_over(Endless { head: b"", piece: b"" }, || Body::stream(Always));
    assert!(matches!(error, Error::Timeout { phase: Phase::Total, sent: true, .. }), "{error:?}");
}
