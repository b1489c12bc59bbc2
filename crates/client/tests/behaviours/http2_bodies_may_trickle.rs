//! Over HTTP/2 the read timeout is about silence, not about the whole body; the total deadline of a call holds for its body, and that of
//! a client by default for a collected one only. One stream that is late costs the others nothing. On simulated time.

use std::time::Duration;

use anywire_client::{Client, Error, Phase, Response, Timeouts};
use anywire_http::h2::Code;
use tokio::time::sleep;

use crate::support::bytes_of_http2::*;
use crate::support::simulated::{Line, Simulated, SimulatedPeer};

/// A body of ten bytes, one each second, to each request: ten seconds in all. What is asked for meanwhile is answered as well.
fn trickling(scene: &Simulated) -> SimulatedPeer {
    scene.peer(|mut line: Line| async move {
        line.greet(&[]).await;
        let Some(stream) = line.request().await else { return };
        line.frame(HEADERS, END_HEADERS, stream, b"\x88").await;
        for at in 0..10 {
            sleep(Duration::from_secs(1)).await;
            line.frame(DATA, if at == 9 { END_STREAM } else { 0 }, stream, b"x").await;
        }
        // Whoever is late is told of, and the connection goes on.
        while let Some(frame) = line.next().await {
            if frame.kind == RST_STREAM {
                assert_eq!((frame.stream, frame.code()), (stream, Some(Code::CANCEL.0)));
            }
            if frame.kind == HEADERS {
                line.answer(frame.stream).await;
            }
        }
    })
}

/// A client with these deadlines in seconds.
fn client(scene: &Simulated, read: u64, total: u64) -> Client {
    let (read, total) = (Duration::from_secs(read), Duration::from_secs(total));
    let timeouts = Timeouts { read, total, ..Timeouts::default() };
    scene.client(|builder| builder.http2_prior_knowledge().timeouts(timeouts))
}

async fn chunks(mut response: Response) -> Result<usize, Error> {
    let mut read = 0;
    while let Some(chunk) = response.chunk().await? {
        read += chunk.len();
    }
    Ok(read)
}

#[test]
fn a_stream_may_last_longer_than_both_deadlines() {
    let scene = Simulated::new();
    let (peer, client) = (trickling(&scene), client(&scene, 2, 3));
    scene.run(async move || {
        let response = client.get("http://peer.example/").via(peer.via()).send().await.expect("a head");
        assert_eq!(chunks(response).await.expect("a good body"), 10);
    });
}

#[test]
fn a_stream_ends_by_the_total_deadline_of_its_call_and_others_go_on() {
    let scene = Simulated::new();
    let (peer, client) = (trickling(&scene), client(&scene, 2, 60));
    scene.run(async move || {
        let limit = Duration::from_secs(5);
        let call = client.get("http://peer.example/").via(peer.via()).total_timeout(limit);
        let error = chunks(call.send().await.expect("a head")).await.expect_err("too late");
        assert!(
            matches!(error, Error::Timeout { phase: Phase::Total, limit: told, .. } if told == limit),
            "{error:?}"
        );
        assert_eq!(client.counters().total().total_timeouts, 1);
        let next = client.get("http://peer.example/").via(peer.via()).total_timeout(Duration::from_secs(60));
        // The peer looks for no request before.
        let text = async { next.read_timeout(Duration::from_secs(30)).send().await?.text().await }.await;
        assert_eq!((text.expect("an answer"), peer.accepted()), ("ok".to_owned(), 1));
    });
}

#[test]
fn a_stream_that_its_caller_does_not_take_ends_by_the_total_deadline_too() {
    let scene = Simulated::new();
    let (peer, client) = (trickling(&scene), client(&scene, 2, 60));
    scene.run(async move || {
        let call = client.get("http://peer.example/").via(peer.via()).total_timeout(Duration::from_secs(5));
        let response = call.send().await.expect("a head");
        sleep(Duration::from_secs(20)).await;
        let error = chunks(response).await.expect_err("too late");
        assert!(matches!(error, Error::Timeout { phase: Phase::Total, .. }), "{error:?}");
    });
}

#[test]
fn a_collected_body_ends_by_the_total_deadline_and_not_by_the_read_timeout() {
    for (total, is_whole) in [(5, false), (60, true)] {
        let scene = Simulated::new();
        let (peer, client) = (trickling(&scene), client(&scene, 2, total));
        scene.run(async move || {
            let response = client.get("http://peer.example/").via(peer.via()).send().await.expect("a head");
            match response.bytes().await {
                Ok(bytes) => assert!(is_whole && bytes.len() == 10, "{total}"),
                Err(error) => {
                    assert!(
                        !is_whole && matches!(error, Error::Timeout { phase: Phase::Total, .. }),
                        "{error:?}"
                    );
                }
            }
        });
    }
}

#[test]
fn a_gap_that_is_too_long_is_silence() {
    let scene = Simulated::new();
    let peer = scene.peer(|mut line: Line| async move {
        line.greet(&[]).await;
        let Some(stream) = line.request().await else { return };
        line.frame(HEADERS, END_HEADERS, stream, b"\x88").await;
        for gap in [1, 1, 3] {
            sleep(Duration::from_secs(gap)).await;
            line.frame(DATA, 0, stream, b"x").await;
        }
        line.wait_for_end().await;
    });
    let client = client(&scene, 2, 60);
    scene.run(async move || {
        let mut response = client.get("http://peer.example/").via(peer.via()).send().await.expect("a head");
        for _ in 0..2 {
            assert_eq!(response.chunk().await.expect("a piece").as_deref(), Some(&b"x"[..]));
        }
        let error = response.chunk().await.expect_err("silence");
        assert!(matches!(error, Error::Timeout { phase: Phase::Body, .. }), "{error:?}");
        assert_eq!(client.counters().total().body_timeouts, 1);
    });
}
