//! A streamed body that fails leaves the finished response before it whole, and no second response stands within its own
//! body: an error status replaces it if none of it has left, else the connection ends where it broke off. That holds on
//! wires that seal bytes and hold them back, however much of the responses is sealed.

use std::io::Read;
use std::pin::Pin;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use anywire_http::{Body, BodyError};
use anywire_server::Router;
use bytes::Bytes;

use crate::support::{HANG, Peer, Remote, Scene, Served};

/// Gives five bytes, and then waits. Fails when it is polled for the time that `fails` says, or once it is told to.
struct Failing {
    polls: usize,
    trigger: Arc<Trigger>,
}

struct Trigger {
    fails_at: usize,
    state: Mutex<State>,
    /// Gets each wait, and the end of its sender as the failure.
    waits: Mutex<Option<Sender<()>>>,
}

#[derive(Default)]
struct State {
    is_told: bool,
    waker: Option<Waker>,
}

impl futures_core::Stream for Failing {
    type Item = Result<Bytes, BodyError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.polls += 1;
        if self.polls == 1 {
            return Poll::Ready(Some(Ok("hello".into())));
        }
        let mut state = self.trigger.state.lock().unwrap_or_else(PoisonError::into_inner);
        let mut waits = self.trigger.waits.lock().unwrap_or_else(PoisonError::into_inner);
        if state.is_told || self.polls >= self.trigger.fails_at {
            *waits = None;
            return Poll::Ready(Some(Err(BodyError::failed("on purpose"))));
        }
        state.waker = Some(cx.waker().clone());
        if let Some(waits) = &*waits {
            let _ = waits.send(());
        }
        Poll::Pending
    }
}

impl Trigger {
    /// The body fails at its next poll, which is soon.
    fn pull(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.is_told = true;
        if let Some(waker) = state.waker.take() {
            waker.wake();
        }
    }
}

/// A response of `len` bytes, and behind it one that fails.
struct Play {
    _served: Served,
    peer: Peer<Remote>,
    trigger: Arc<Trigger>,
    waits: Receiver<()>,
    len: usize,
    how: String,
}

impl Play {
    fn begin(scene: &Scene, len: usize, fails_at: usize) -> Self {
        let (sender, waits) = channel();
        let trigger =
            Arc::new(Trigger { fails_at, state: Mutex::default(), waits: Mutex::new(Some(sender)) });
        let triggers = Arc::clone(&trigger);
        let router = Router::new()
            .get("/large", move || async move { Bytes::from(vec![b'x'; len]) })
            .get("/next", async || "next")
            .get("/fails", move || {
                let failing = Failing { polls: 0, trigger: Arc::clone(&triggers) };
                async { Body::stream(failing).with_length(10_000) }
            });
        let served = scene.serve(router);
        let mut peer = served.connect();
        peer.send("GET /large HTTP/1.1\r\nhost: x\r\n\r\nGET /fails HTTP/1.1\r\nhost: x\r\n\r\n");
        let how = format!("{scene:?}, {len} bytes, fails at poll {fails_at}");
        Self { _served: served, peer, trigger, waits, len, how }
    }

    /// Reads the first response, or less of it: in small parts, so that the wire has room for a little at a time.
    fn read_until(&mut self, is_enough: impl Fn(&Self) -> bool) -> Vec<u8> {
        let mut first = Vec::new();
        while first.len() < self.len && !is_enough(self) {
            let mut part = [0; 2_000];
            let read = self.peer.link.read(&mut part).expect("the first response");
            assert_ne!(read, 0, "{}: the server closed after {} bytes", self.how, first.len());
            first.extend_from_slice(&part[..read]);
        }
        first
    }

    /// Waits until the body has failed.
    fn failed(&self) {
        while self.waits.recv_timeout(HANG) != Err(RecvTimeoutError::Disconnected) {}
    }

    /// Reads all there is behind the part of the first response that was read.
    fn check(&mut self, first: Vec<u8>) {
        let Self { peer, len, how, .. } = self;
        let len = *len;
        // The next request shows whether the connection lives.
        peer.send("GET /next HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
        let all = [first, peer.rest()].concat();
        let head = all.windows(4).position(|end| end == b"\r\n\r\n").expect("a head") + 4;
        let body = &all[head..all.len().min(head + len)];
        // Compared as a whole first: a debug build takes a second to look at so many bytes one by one.
        if body != vec![b'x'; body.len()]
            && let Some(bad) = body.iter().position(|&byte| byte != b'x')
        {
            let shown = String::from_utf8_lossy(&body[bad..(bad + 60).min(body.len())]);
            panic!("{how}: the finished response ends {} bytes early: {shown:?}", len - bad);
        }
        assert_eq!(body.len(), len, "{how}: the finished response is whole");
        let rest = String::from_utf8_lossy(&all[head + len..]).into_owned();
        if rest.starts_with("HTTP/1.1 500 ") {
            assert!(rest.ends_with("next"), "{how}: the connection goes on: {rest:?}");
            return;
        }
        let streamed = rest.split_once("\r\n\r\n").map_or("", |(_, body)| body);
        assert!(
            rest.starts_with("HTTP/1.1 200 ") && streamed == "hello",
            "{how}: another response stands within the 10,000 bytes of the body: {streamed:?}"
        );
    }
}

#[test]
fn whenever_it_fails_while_the_one_before_leaves() {
    crate::support::on_each_wire(|scene| {
        // Nearly as much as TLS seals in one go, so that the second response begins while sealed bytes are held back.
        for len in [16 * 65_536 - 5_000, 90_000] {
            for fails_at in 3..10 {
                let mut play = Play::begin(scene, len, fails_at);
                let first = play.read_until(|_| false);
                play.trigger.pull();
                play.check(first);
            }
        }
    });
}

#[test]
fn if_it_fails_while_nothing_is_read() {
    crate::support::on_each_wire(|scene| {
        for len in [10, 70_000, 90_000, 110_000, 210_000, 1 << 20, 16 << 20] {
            let mut play = Play::begin(scene, len, usize::MAX);
            let first = play.read_until(|play| play.waits.try_recv().is_ok());
            play.trigger.pull();
            play.failed();
            play.check(first);
        }
    });
}
