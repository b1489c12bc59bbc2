//! A panic in the destructor of a caller's body ends nothing but that destructor.

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use crate::support::{HANG, OK, Peer, block_on, client, eventually, on_each_wire, poll_once};
use anywire_client::{Limits, Phase};
use anywire_http::{Body, BodyError};
use bytes::Bytes;
use futures_core::Stream;

/// A body that is never there, and panics when it goes.
struct Bomb;

impl Stream for Bomb {
    type Item = Result<Bytes, BodyError>;

    fn poll_next(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        Poll::Pending
    }
}

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("a destructor of the caller's");
    }
}

#[test]
fn calls_that_wait_beside_it_keep_their_deadlines() {
    on_each_wire(|wire| {
        let peer = Peer::start(wire, |mut talk| {
            talk.request_head();
            talk.wait_for_end();
        });
        let (_loops, client) = client(1, |builder| {
            let limits = Limits { connections_per_origin: 1, ..Limits::default() };
            builder.limits(limits).acquire_timeout(Duration::from_millis(50)).read_timeout(HANG)
        });
        let post = || client.post(peer.url("/")).via(peer.via());
        let mut busy = post().send();
        assert!(poll_once(&mut busy).is_pending());
        eventually("the call has the connection", || client.counters().total().active == 1);
        for _ in 0..2 {
            let mut bomb = post().body(Body::stream(Bomb)).send();
            assert!(poll_once(&mut bomb).is_pending());
            let error = block_on(post().send()).expect_err("no connection comes free");
            assert_eq!(error.phase(), Some(Phase::Acquire), "{error:?}");
            let error = block_on(bomb).expect_err("no connection comes free");
            assert_eq!(error.phase(), Some(Phase::Acquire), "{error:?}");
        }
        assert_eq!(client.counters().total().waiting, 0);
    });
}

type Calling = Pin<Box<dyn Future<Output = Result<anywire_client::Response, anywire_client::Error>> + Send>>;

/// A body that ends its own call, and then fails by an error that panics when it goes.
struct Ends(Arc<Mutex<Option<Calling>>>);

impl Stream for Ends {
    type Item = Result<Bytes, BodyError>;

    fn poll_next(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let call = self.0.lock().expect("no panic").take().expect("polled once");
        drop(call);
        Poll::Ready(Some(Err(BodyError::failed(OddError(Bomb)))))
    }
}

struct OddError(Bomb);

impl fmt::Debug for OddError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("OddError").field(&std::ptr::from_ref(&self.0)).finish()
    }
}

impl fmt::Display for OddError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("odd")
    }
}

impl std::error::Error for OddError {}

#[test]
fn an_error_that_no_caller_takes_may_panic_as_well() {
    on_each_wire(|wire| {
        let peer = Peer::answering(wire, OK);
        let (_loops, client) =
            client(1, |builder| builder.limits(Limits { connections_per_origin: 1, ..Limits::default() }));
        let call = Arc::<Mutex<Option<Calling>>>::default();
        let body = Body::stream(Ends(Arc::clone(&call)));
        let mut calling: Calling = Box::pin(client.post(peer.url("/")).via(peer.via()).body(body).send());
        {
            // The body waits for the lock until the call is in its place.
            let mut call = call.lock().expect("no panic");
            assert!(poll_once(&mut calling).is_pending());
            *call = Some(calling);
        }
        let next = client.get(peer.url("/")).via(peer.via()).send();
        assert_eq!(block_on(next).expect("the one connection comes free").status(), 200);
    });
}

#[test]
fn its_own_call_gets_the_answer() {
    on_each_wire(|wire| {
        let peer = Peer::start(wire, |mut talk| {
            talk.request_head();
            talk.say(OK);
            talk.wait_for_end();
        });
        let (_loops, client) = client(1, |builder| builder);
        let call = client.post(peer.url("/")).via(peer.via()).body(Body::stream(Bomb)).send();
        assert_eq!(block_on(call).expect("an early answer").status(), 200);
    });
}
