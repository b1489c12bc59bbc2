//! Shutdown of a server with HTTP/2 connections (RFC 9113 section 6.8): a first GOAWAY asks for no more streams, those on
//! their way are still taken until the peer has seen it, and a second one names the last. Streams that are open end as
//! they would have.

use std::sync::Arc;
use std::time::Duration;

use crate::support::h2::{
    ACK, Came, DATA, END_HEADERS, END_STREAM, GOAWAY, H2, HEADERS, PING, PREFACE, RST_STREAM, SETTINGS,
    frame, frames, request,
};
use crate::support::{Peer, Remote, Scene, Served};
use anywire_http::h2::Code;
use anywire_server::{Limits, Router, State};
use bytes::Bytes;
use tokio::sync::Semaphore;

/// Lets handlers go on.
type Gate = Arc<Semaphore>;

fn serve(scene: &Scene, gate: &Gate) -> Served {
    let router = Router::new()
        .state(Arc::clone(gate))
        .get("/", async || "ok")
        .get("/gated", async |gate: State<Gate>| {
            let _permit = gate.acquire().await;
            "finished"
        })
        .post("/collects", async |body: Bytes| body.len().to_string());
    // Nothing but the peer ends a connection.
    let never = Duration::from_secs(3600);
    let limits = Limits { idle_timeout: never, linger_timeout: never, ..Limits::default() };
    scene.serve_on(1, router, Limits { http2_shutdown_grace: never, ..limits })
}

#[test]
fn streams_that_are_open_end_as_they_would_have() {
    crate::support::on_each_wire(|scene| {
        let gate = Gate::new(Semaphore::new(0));
        let served = serve(scene, &gate);
        let mut idle = H2::connect(&served);
        assert_eq!(idle.ask("/").text(), "ok");
        let mut busy = H2::connect(&served);
        let upload = busy.open("POST", "/collects", &[], None, false);
        let waits = busy.get("/gated");
        served.await_count("requests", |counters| counters.requests, 3);
        let ending = served.running.shutdown(crate::support::HANG);
        assert_eq!(idle.end(), Some(Code::NO_ERROR));
        drop(idle);
        let first = busy.next();
        assert!(matches!(first, Came::GoAway(0x7fff_ffff, Code::NO_ERROR)), "{first:?}");
        let second = busy.next();
        assert!(matches!(second, Came::GoAway(last, Code::NO_ERROR) if last == waits.get()), "{second:?}");
        gate.add_permits(1);
        assert_eq!(busy.answer(waits).text(), "finished");
        busy.body(upload, &[7; 300_000], true);
        assert_eq!(busy.answer(upload).text(), "300000");
        assert!(matches!(busy.next(), Came::End));
        drop(busy);
        assert_eq!(ending.wait().connections_cut, 0);
    });
}

#[test]
fn streams_on_their_way_are_taken_until_the_peer_has_seen_it() {
    crate::support::on_each_wire(|scene| {
        let gate = Gate::new(Semaphore::new(0));
        let served = serve(scene, &gate);
        let mut peer = raw(&served, &gated(1));
        served.await_count("requests", |counters| counters.requests, 1);
        let Served { running, .. } = served;
        let ending = running.shutdown(crate::support::HANG);
        let (_, _, _, first) = until(&mut peer, GOAWAY);
        assert_eq!(first, [&[0x7f, 255, 255, 255], &Code::NO_ERROR.0.to_be_bytes()[..]].concat());
        let (_, _, _, opaque) = until(&mut peer, PING);
        // Sent before the peer has seen that.
        peer.send(request(3, true));
        assert_eq!(until(&mut peer, DATA), (DATA, END_STREAM, 3, b"ok".to_vec()));
        peer.send(frame(PING, ACK, 0, &opaque));
        let (_, _, _, second) = until(&mut peer, GOAWAY);
        assert_eq!(second, [3u32.to_be_bytes(), Code::NO_ERROR.0.to_be_bytes()].concat());
        // One too many: the peer knows that nobody answers this, and sends it elsewhere.
        peer.send(request(5, true));
        peer.send(frame(DATA, 0, 5, b"x"));
        gate.add_permits(1);
        let rest = frames(&peer.rest());
        assert_eq!(rest.last(), Some(&(DATA, END_STREAM, 1, b"finished".to_vec())));
        assert!(rest.iter().all(|(kind, _, stream, _)| *stream == 1 && *kind != RST_STREAM), "{rest:?}");
        drop(peer);
        assert_eq!(ending.wait().connections_cut, 0);
    });
}

/// Such as that of a laptop which sleeps.
#[test]
fn a_peer_that_acknowledges_nothing_does_not_hold_up_the_end() {
    crate::support::on_each_wire(|scene| {
        let gate = Gate::new(Semaphore::new(0));
        let router = Router::new().state(Arc::clone(&gate)).get("/gated", async |gate: State<Gate>| {
            let _permit = gate.acquire().await;
            "finished"
        });
        let http2_shutdown_grace = Duration::from_millis(50);
        let served = scene.serve_on(1, router, Limits { http2_shutdown_grace, ..Limits::default() });
        let mut sleeps = raw(&served, &[]);
        let mut waits = raw(&served, &gated(1));
        served.await_count("requests", |counters| counters.requests, 1);
        served.await_count("connections", |counters| counters.http2_connections, 2);
        let ending = served.running.shutdown(crate::support::HANG);
        for (peer, last) in [(&mut sleeps, 0u32), (&mut waits, 1)] {
            let first = until(peer, GOAWAY).3;
            assert_eq!(first[..4], [0x7f, 255, 255, 255]);
            assert_eq!(until(peer, GOAWAY).3[..4], last.to_be_bytes());
        }
        sleeps.assert_closed();
        gate.add_permits(1);
        assert_eq!(until(&mut waits, DATA).3, b"finished");
        waits.assert_closed();
        drop((sleeps, waits));
        assert_eq!(ending.wait().connections_cut, 0);
    });
}

/// A request that crosses the end of an idle connection was not processed, and its client has to know that.
#[test]
fn an_idle_connection_that_ends_names_its_last_stream() {
    crate::support::on_each_wire(|scene| {
        let limits = Limits { idle_timeout: Duration::from_millis(100), ..Limits::default() };
        let served = scene.serve_on(1, Router::new().get("/", async || "ok"), limits);
        let mut peer = H2::connect(&served);
        let asked = peer.get("/");
        assert_eq!(peer.answer(asked).text(), "ok");
        let last = peer.next();
        assert!(matches!(last, Came::GoAway(last, Code::NO_ERROR) if last == asked.get()), "{last:?}");
        assert!(matches!(peer.next(), Came::End));
    });
}

#[test]
fn a_peer_that_does_not_react_is_cut_at_the_deadline() {
    crate::support::on_each_wire(|scene| {
        let served = serve(scene, &Gate::new(Semaphore::new(0)));
        let mut peer = raw(&served, &request(1, true));
        assert_eq!(until(&mut peer, DATA).3, b"ok");
        let Served { running, .. } = served;
        let ended = running.shutdown(Duration::from_millis(100)).wait();
        assert_eq!(ended.connections_cut, 1);
        let said: Vec<_> = frames(&peer.rest()).iter().map(|(kind, ..)| *kind).collect();
        // A machine that stands still for so long says nothing before.
        assert!(said == [GOAWAY, PING] || said.is_empty(), "{said:?}");
    });
}

/// A connection whose settings are agreed on.
fn raw(served: &Served, more: &[u8]) -> Peer<Remote> {
    let mut peer = served.connect();
    peer.send([PREFACE, &frame(SETTINGS, 0, 0, &[]), &frame(SETTINGS, ACK, 0, &[]), more].concat());
    peer
}

/// Reads up to the next frame of this kind.
fn until(peer: &mut Peer<Remote>, kind: u8) -> (u8, u8, u32, Vec<u8>) {
    loop {
        let mut bytes = peer.read_exactly(9);
        let length = u32::from_be_bytes([0, bytes[0], bytes[1], bytes[2]]) as usize;
        bytes.extend(peer.read_exactly(length));
        if let Some(frame) = frames(&bytes).pop()
            && frame.0 == kind
        {
            return frame;
        }
    }
}

/// A request of `/gated`.
fn gated(stream: u32) -> Vec<u8> {
    frame(HEADERS, END_HEADERS | END_STREAM, stream, b"\x82\x86\x04\x06/gated\x41\x01a")
}
