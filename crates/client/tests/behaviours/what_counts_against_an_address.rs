//! An address of several is out by its own faults: silence, a lost connection, a response that is none. What its callers do says
//! nothing of it: a deadline for the whole call, a call that is dropped, a body that fails.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use anywire_client::{Balance, Call, ClientBuilder, Error, Phase};
use anywire_http::{Body, BodyError};

use crate::support::bytes_of_http2::*;
use crate::support::simulated::{Simulated, SimulatedPeer};

const SECOND: Duration = Duration::from_secs(1);

type Version = fn(ClientBuilder) -> ClientBuilder;

const VERSIONS: [(&str, Version); 3] = [
    ("HTTP/1", |builder| builder.http1_only()),
    ("a pipeline", |builder| builder.http1_only().pipelining(8)),
    ("HTTP/2", |builder| builder.http2_prior_knowledge()),
];

/// Where the peer falls silent.
#[derive(Debug, Clone, Copy)]
enum Silent {
    BeforeTheHead,
    WithinTheBody,
}

impl Silent {
    const EACH: [Self; 2] = [Self::BeforeTheHead, Self::WithinTheBody];

    fn peer(self, scene: &Simulated, is_http2: bool) -> SimulatedPeer {
        scene.peer(move |mut line| async move {
            match (self, is_http2) {
                (Self::BeforeTheHead, false) => {}
                (Self::BeforeTheHead, true) => drop(line.greet(&[]).await),
                (Self::WithinTheBody, false) => {
                    line.head().await;
                    line.say("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nx").await;
                }
                (Self::WithinTheBody, true) => {
                    line.greet(&[]).await;
                    let Some(stream) = line.request().await else { return };
                    line.frame(HEADERS, END_HEADERS, stream, b"\x88").await;
                    line.frame(DATA, 0, stream, b"x").await;
                }
            }
            line.wait_for_end().await;
        })
    }
}

/// What a test does with a call.
type Play = fn(Call) -> Pin<Box<dyn Future<Output = ()>>>;

/// The failures of an address behind a call to it, in each version.
fn failures(silent: Silent, play: Play) -> [u64; 3] {
    VERSIONS.map(|(name, version)| {
        println!("{name}, {silent:?}");
        let scene = Simulated::new();
        let peer = silent.peer(&scene, name == "HTTP/2");
        let balance = Balance::over([peer.via()]);
        let client = scene.client(|builder| version(builder).balance("http://shop.example", balance));
        scene.run(async move || {
            play(client.post("http://shop.example/")).await;
            tokio::time::sleep(Duration::from_millis(10)).await;
            assert_eq!(peer.accepted(), 1);
            client.address_counters().await[0].failures
        })
    })
}

async fn failure(call: Call) -> Error {
    let collected = async { call.send().await?.bytes().await }.await;
    collected.expect_err("the peer is silent")
}

#[test]
fn silence_does() {
    for silent in Silent::EACH {
        let failures = failures(silent, |call| {
            Box::pin(async {
                let error = failure(call.read_timeout(SECOND)).await;
                assert!(matches!(error.phase(), Some(Phase::Read | Phase::Body)), "{error:?}");
            })
        });
        assert_eq!(failures, [1, 1, 1], "{silent:?}");
    }
}

#[test]
fn the_deadline_of_a_whole_call_does_not() {
    for silent in Silent::EACH {
        let failures = failures(silent, |call| {
            Box::pin(async {
                let error = failure(call.total_timeout(SECOND)).await;
                assert_eq!(error.phase(), Some(Phase::Total), "{error:?}");
            })
        });
        assert_eq!(failures, [0, 0, 0], "{silent:?}");
    }
}

#[test]
fn a_call_that_is_dropped_does_not() {
    for silent in Silent::EACH {
        let failures = failures(silent, |call| {
            Box::pin(async {
                tokio::time::timeout(SECOND, failure(call)).await.expect_err("it is dropped");
            })
        });
        assert_eq!(failures, [0, 0, 0], "{silent:?}");
    }
}

#[test]
fn a_body_that_fails_does_not() {
    let failures = failures(Silent::BeforeTheHead, |call| {
        Box::pin(async {
            let (sender, body) = Body::channel(16);
            sender.abort(BodyError::failed("no more"));
            let error = failure(call.body(body)).await;
            assert!(matches!(error, Error::RequestBody { .. }), "{error:?}");
        })
    });
    assert_eq!(failures, [0, 0, 0]);
}
