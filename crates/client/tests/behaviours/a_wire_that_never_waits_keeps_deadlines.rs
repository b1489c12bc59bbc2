//! Calls on wires that are never out of room or of bytes: their deadlines hold, and the loop's other tasks have turns.

use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use crate::support::{block_on, client};
use anywire_client::{Error, Limits, Phase};
use anywire_http::{Body, BodyError};
use anywire_wire::{
    Address, Bound, Connection, DialOptions, Dialing, ListenError, ListenOptions, Transport, Wire,
};
use bytes::Bytes;
use futures_core::Stream;

/// A wire whose connections take whatever is written. Once one has anything to read, it always has more.
#[derive(Clone, Copy)]
struct Endless {
    /// Given first.
    head: &'static [u8],
    /// Given again and again; never anything if it is empty.
    piece: &'static [u8],
    turns: &'static Turns,
}

/// How often a wire or a body was asked between two turns of another task on its loop, at most.
#[derive(Debug)]
struct Turns {
    asked: AtomicUsize,
    most: AtomicUsize,
}

impl Turns {
    const fn new() -> Self {
        Self { asked: AtomicUsize::new(0), most: AtomicUsize::new(0) }
    }

    fn ask(&self) {
        self.most.fetch_max(self.asked.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// The other task, which has its turn as soon as the one that asks gives way.
    async fn take(&self) {
        poll_fn(|cx| {
            self.asked.store(0, Ordering::Relaxed);
            cx.waker().wake_by_ref();
            Poll::Pending
        })
        .await
    }
}

impl Transport for Endless {
    fn poll_readable(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.piece.is_empty() { Poll::Pending } else { Poll::Ready(Ok(())) }
    }

    fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        if self.poll_readable(cx).is_pending() {
            return Poll::Pending;
        }
        self.turns.ask();
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
        static NONE: Turns = Turns::new();
        static SOME: Endless = Endless { head: b"", piece: b"", turns: &NONE };
        Address::from_wire(&SOME, "")
    }

    fn peer(&self) -> Address {
        self.local()
    }
}

/// A body without end that is always there.
struct Always(&'static Turns);

impl Stream for Always {
    type Item = Result<Bytes, BodyError>;

    fn poll_next(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.ask();
        Poll::Ready(Some(Ok(Bytes::from_static(b"x"))))
    }
}

impl Wire for Endless {
    fn scheme(&self) -> &'static str {
        "endless"
    }

    fn summary(&self) -> &'static str {
        "never out of room or of bytes"
    }

    fn form(&self) -> &'static str {
        "nothing"
    }

    fn normalise(&self, location: &str) -> Result<String, String> {
        Ok(location.to_owned())
    }

    fn bind(&'static self, address: &Address, _: &ListenOptions, _: usize) -> Result<Bound, ListenError> {
        Err(ListenError::from_io(address, io::ErrorKind::Unsupported.into()))
    }

    fn dial<'a>(&'static self, _: &'a Address, _: &'a DialOptions) -> Dialing<'a> {
        Box::pin(async { Ok(Connection::new(*self)) })
    }

    fn scratch(&'static self) -> Option<Address> {
        None
    }
}

/// The error of a call over `wire` that sends `body`, and collects the answer within 200 ms.
fn error_over(wire: &'static Endless, body: Body) -> Error {
    // With room for all that comes, so that no reader holds the connection back.
    let limits = Limits { body_ahead_bytes: usize::MAX, ..Limits::default() };
    let (loops, client) = client(1, |builder| builder.limits(limits));
    drop(loops.get(0).spawn(|| wire.turns.take()));
    let via = Address::on(wire, "").expect("an address");
    let call = client.post("http://endless/").via(via).body(body).total_timeout(Duration::from_millis(200));
    match block_on(call.send()) {
        Ok(response) => block_on(response.bytes()).expect_err("a body without end"),
        Err(error) => error,
    }
}

#[test]
fn an_answer_that_is_always_there_ends_by_the_total_deadline() {
    static TURNS: Turns = Turns::new();
    static WIRE: Endless = Endless {
        head: b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n",
        piece: b"1\r\nx\r\n",
        turns: &TURNS,
    };
    let error = error_over(&WIRE, Body::empty());
    assert!(matches!(error, Error::Timeout { phase: Phase::Total, .. }), "{error:?}");
    assert!(TURNS.most.load(Ordering::Relaxed) <= 32, "{TURNS:?} reads");
}

#[test]
fn a_request_that_is_always_taken_ends_by_the_total_deadline() {
    static TURNS: Turns = Turns::new();
    static WIRE: Endless = Endless { head: b"", piece: b"", turns: &TURNS };
    let error = error_over(&WIRE, Body::stream(Always(&TURNS)));
    assert!(matches!(error, Error::Timeout { phase: Phase::Total, sent: true, .. }), "{error:?}");
    assert!(TURNS.most.load(Ordering::Relaxed) <= 8192, "{TURNS:?} pieces");
}
