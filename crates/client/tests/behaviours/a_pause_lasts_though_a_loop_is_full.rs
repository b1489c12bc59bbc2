//! The pause before a retry is there to leave a server alone: it lasts though other loops take nothing more.

use std::sync::mpsc;
use std::time::{Duration, Instant};

use anywire_client::Retries;
use anywire_http::StatusCode;
use anywire_loops::Loops;

use crate::support::{Peer, builder, wire};

#[test]
fn a_caller_on_a_loop_waits_there() {
    let busy = "HTTP/1.1 503 Busy\r\nretry-after: 1\r\ncontent-length: 0\r\n\r\n";
    let peer = Peer::answering(wire("tcp"), busy);
    let limits = anywire_loops::Limits { hand_overs_waiting: 4, ..anywire_loops::Limits::default() };
    let loops = Loops::builder().count(2).limits(limits).start().expect("loops start");
    let retries = Retries { max: 2, statuses: vec![StatusCode::SERVICE_UNAVAILABLE], ..Retries::default() };
    let client = builder().on(&loops).http1_only().retries(retries).build();

    // The other loop is blocked, and its inbox full.
    let (blocked, is_blocked) = mpsc::channel();
    let (unblock, unblocked) = mpsc::channel::<()>();
    let blocks = loops.get(1).spawn(move || async move {
        let _ = blocked.send(());
        let _ = unblocked.recv();
    });
    is_blocked.recv().expect("it is blocked");
    while loops.get(1).post(|| ()).is_ok() {}

    let call = client.get(peer.url("/"));
    let begin = Instant::now();
    let answer =
        loops.get(0).spawn(move || call.send()).wait().expect("no panic").expect("the last response");
    assert_eq!((answer.status().as_u16(), client.counters().total().retried), (503, 2));
    assert!(begin.elapsed() >= Duration::from_secs(2), "{:?}", begin.elapsed());
    drop(unblock);
    blocks.wait().expect("no panic");
}
