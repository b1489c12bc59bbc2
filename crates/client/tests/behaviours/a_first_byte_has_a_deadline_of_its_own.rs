//! The wait for a response may have another deadline than silence within it, shorter or longer: of a client, an origin or a call. On
//! simulated time.

use std::time::Duration;

use anywire_client::{Call, ClientBuilder, Error, OriginOptions, Phase, Timeouts};
use tokio::time::{Instant, sleep};

use crate::support::bytes_of_http2::{DATA, END_HEADERS, HEADERS};
use crate::support::simulated::{Line, Simulated};

const SECOND: Duration = Duration::from_secs(1);

/// Ways to say that the first byte may take 5 s, or 40 s.
type Says = (&'static str, fn(ClientBuilder, Duration) -> ClientBuilder, fn(Call, Duration) -> Call);

const SAYS: &[Says] = &[
    ("the client", |builder, limit| builder.first_byte_timeout(limit), |call, _| call),
    (
        "the origin",
        |builder, limit| {
            let timeouts = Timeouts { first_byte: Some(limit), read: 20 * SECOND, ..Timeouts::default() };
            let options = OriginOptions::default().timeouts(timeouts);
            builder.first_byte_timeout(SECOND).origin_options("http://peer.example", options)
        },
        |call, _| call,
    ),
    (
        "the call",
        |builder, _| builder.first_byte_timeout(SECOND),
        |call, limit| call.first_byte_timeout(limit),
    ),
];

type Version = (&'static str, bool, fn(ClientBuilder) -> ClientBuilder);

const VERSIONS: &[Version] = &[
    ("HTTP/1", false, |builder| builder.http1_only()),
    ("a pipeline", false, |builder| builder.http1_only().pipelining(8)),
    ("HTTP/2", true, |builder| builder.http2_prior_knowledge()),
];

/// Says a head and half of a body when so much time has passed, and then nothing.
async fn begins_after(mut line: Line, is_http2: bool, after: Duration) {
    if is_http2 {
        line.greet(&[]).await;
        let Some(stream) = line.request().await else { return };
        sleep(after).await;
        line.frame(HEADERS, END_HEADERS, stream, b"\x88").await;
        line.frame(DATA, 0, stream, b"half").await;
    } else {
        line.head().await;
        sleep(after).await;
        line.say("HTTP/1.1 200 OK\r\ncontent-length: 8\r\n\r\nhalf").await;
    }
    line.wait_for_end().await;
}

/// The phase and the limit by which a call ends whose first byte comes `after` so much time; when it ends.
fn ends_by(
    version: &Version,
    after: Duration,
    options: impl FnOnce(ClientBuilder) -> ClientBuilder,
    call: impl FnOnce(Call) -> Call + Send + 'static,
) -> (Phase, Duration, Duration) {
    let (_, is_http2, of_version) = *version;
    let scene = Simulated::new();
    let peer = scene.peer(move |line| begins_after(line, is_http2, after));
    let client = scene.client(|builder| options(of_version(builder).read_timeout(20 * SECOND)));
    scene.run(async move || {
        let begin = Instant::now();
        let call = call(client.get("http://peer.example/").via(peer.via()));
        let outcome = async { call.send().await?.bytes().await }.await;
        let error = outcome.expect_err("half of a body");
        let Error::Timeout { phase, limit, .. } = error else { panic!("{error:?}") };
        let counters = client.counters().total();
        let counted = if phase == Phase::Read { counters.read_timeouts } else { counters.body_timeouts };
        assert_eq!(counted, 1, "{counters:?}");
        (phase, limit, begin.elapsed())
    })
}

#[track_caller]
fn assert_ends(name: &str, found: (Phase, Duration, Duration), phase: Phase, limit: Duration, at: Duration) {
    let (found, of, took) = found;
    assert_eq!((found, of), (phase, limit), "{name}");
    // Never early, and late by 1 ms and 1 % at most.
    assert!(took >= at && took <= at + at / 100 + Duration::from_millis(5), "{name}: {took:?}");
}

#[test]
fn it_may_be_shorter_or_longer_than_silence_in_a_response() {
    for version in VERSIONS {
        for &(who, of_client, of_call) in SAYS {
            let name = format!("{who} over {}", version.0);
            for first in [5 * SECOND, 40 * SECOND] {
                let ends = |after| {
                    ends_by(
                        version,
                        after,
                        |builder| of_client(builder, first),
                        move |call| of_call(call, first),
                    )
                };
                assert_ends(&name, ends(100 * SECOND), Phase::Read, first, first);
                // It begins in time.
                let (begins, silence) = (first - SECOND, 20 * SECOND);
                assert_ends(&name, ends(begins), Phase::Body, silence, begins + silence);
            }
        }
    }
}

#[test]
fn without_one_it_is_as_long_as_other_silence() {
    for version in VERSIONS {
        let silence = 20 * SECOND;
        let of_client = ends_by(version, 100 * SECOND, |builder| builder, |call| call);
        assert_ends(version.0, of_client, Phase::Read, silence, silence);
        let of_call = ends_by(version, 100 * SECOND, |builder| builder, |call| call.read_timeout(3 * SECOND));
        assert_ends(version.0, of_call, Phase::Read, 3 * SECOND, 3 * SECOND);
    }
}
