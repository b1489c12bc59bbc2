//! An upgrade over HTTP/2 waits until the server has said whether it takes one (RFC 8441 section 3). A server that says nothing holds
//! up neither it nor other calls: its deadlines hold, and its caller may leave.

use std::time::Duration;

use anywire_client::{Call, Client, Error, Limits, Phase};
use tokio::time::Instant;

use crate::support::simulated::{Simulated, SimulatedPeer};

/// Takes all bytes, and never says any.
fn silent(scene: &Simulated) -> SimulatedPeer {
    scene.peer(async |mut line| line.wait_for_end().await)
}

fn client(scene: &Simulated) -> Client {
    let limits = Limits { connections_per_origin: 1, ..Limits::default() };
    scene.client(|builder| builder.http2_prior_knowledge().limits(limits))
}

/// Why it failed, and after how many seconds.
async fn failure(call: Call) -> (Error, u64) {
    let begin = Instant::now();
    let error = call.send().await.expect_err("the peer is silent");
    (error, begin.elapsed().as_secs())
}

#[test]
fn its_deadlines_hold() {
    let second = Duration::from_secs(1);
    for (read, total, phase, seconds) in [(3, 2, Phase::Total, 2), (2, 3, Phase::Read, 2)] {
        let scene = Simulated::new();
        let (peer, client) = (silent(&scene), client(&scene));
        scene.run(async move || {
            let call = client.get("http://peer.example/").via(peer.via()).upgrade("websocket");
            let (error, took) = failure(call.read_timeout(second * read).total_timeout(second * total)).await;
            assert!(matches!(error, Error::Timeout { phase: late, .. } if late == phase), "{error:?}");
            assert!(!error.may_have_been_processed(), "{error:?}");
            assert_eq!((took, client.counters().total().active), (seconds, 0));
            let _peer = peer;
        });
    }
}

#[test]
fn without_deadlines_the_one_of_the_connection_ends_it() {
    let scene = Simulated::new();
    let (peer, client) = (silent(&scene), client(&scene));
    scene.run(async move || {
        let call = client.get("http://peer.example/").via(peer.via()).upgrade("websocket");
        let (error, took) = failure(call.read_timeout(Duration::MAX).total_timeout(Duration::MAX)).await;
        assert!(matches!(error, Error::Http2 { .. }), "{error:?}");
        // As any call that is there when the settings do not come.
        assert_eq!((took, peer.accepted(), error.may_have_been_processed()), (10, 1, false));
    });
}

#[test]
fn calls_behind_it_go_on() {
    let scene = Simulated::new();
    let (peer, client) = (silent(&scene), client(&scene));
    scene.run(async move || {
        let call = || client.get("http://peer.example/").via(peer.via());
        let upgrade = call().upgrade("websocket").read_timeout(Duration::MAX).send();
        let behind = failure(call().read_timeout(Duration::from_secs(2)));
        let (_, (error, took)) = tokio::join!(upgrade, behind);
        assert!(matches!(error, Error::Timeout { phase: Phase::Read, sent: true, .. }), "{error:?}");
        assert_eq!((took, peer.accepted()), (2, 1));
    });
}

#[test]
fn its_caller_may_leave() {
    let scene = Simulated::new();
    let (peer, client) = (silent(&scene), client(&scene));
    scene.run(async move || {
        let call = client.get("http://peer.example/").via(peer.via()).upgrade("websocket");
        let left = tokio::time::timeout(Duration::from_secs(1), call.send()).await;
        assert!(left.is_err(), "{left:?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
        let counters = client.counters().total();
        assert_eq!((counters.active, counters.idle), (0, 1), "{counters:?}");
        let _peer = peer;
    });
}

/// It goes out as soon as the settings are there.
#[test]
fn it_goes_out_once_the_server_has_spoken() {
    let scene = Simulated::new();
    let peer = scene.peer(async |mut line| {
        tokio::time::sleep(Duration::from_secs(1)).await;
        line.greet(&[]).await;
        line.wait_for_end().await;
    });
    let client = client(&scene);
    scene.run(async move || {
        let call = client.get("http://peer.example/").via(peer.via()).upgrade("websocket");
        let (error, took) = failure(call).await;
        assert!(matches!(error, Error::NoUpgrade { .. }), "{error:?}");
        assert_eq!((took, peer.accepted()), (1, 1));
    });
}
