//! Bodies of requests share the window of their connection, and the wire, in an order that the client keeps. One whose turn does not
//! come is not late, however long the peer reads others. A peer that opens no window is late with each of them. On simulated time.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use anywire_client::{Call, Client, Error, Phase, Timeouts};
use anywire_http::{Body, BodyError};
use bytes::Bytes;
use futures_core::Stream;
use tokio::time::sleep;

use crate::support::bytes_of_http2::*;
use crate::support::simulated::{Line, Simulated, SimulatedPeer};

static LARGE: [u8; 64 << 10] = [b'x'; 64 << 10];

/// A body that always has more.
struct Endless;

impl Stream for Endless {
    type Item = Result<Bytes, BodyError>;

    fn poll_next(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        Poll::Ready(Some(Ok(Bytes::from_static(&LARGE))))
    }
}

/// SETTINGS_INITIAL_WINDOW_SIZE: each stream may send much.
const WIDE: [u8; 6] = [0, 4, 0x3f, 0xff, 0xff, 0xff];

fn client(scene: &Simulated) -> Client {
    let timeouts = Timeouts {
        write: Duration::from_secs(2),
        read: Duration::from_secs(3600),
        total: Duration::from_secs(7200),
        ..Timeouts::default()
    };
    scene.client(|builder| builder.http2_prior_knowledge().timeouts(timeouts))
}

fn upload(client: &Client, peer: &SimulatedPeer) -> Call {
    client.post("http://peer.example/").via(peer.via())
}

/// What becomes of calls that are under way together.
async fn all(calls: Vec<Call>) -> Vec<Result<String, Error>> {
    let spawn = |call: Call| anywire_loops::spawn(async move { call.send().await?.text().await });
    let tasks: Vec<_> = calls.into_iter().map(spawn).collect();
    let mut outcomes = Vec::new();
    for task in tasks {
        outcomes.push(task.await.expect("no panic"));
    }
    outcomes
}

/// Reads a body at 32 KiB/s, by the window of the connection, and answers each that ends.
async fn read_slowly(mut line: Line) {
    line.greet(&WIDE).await;
    while let Some(data) = line.until(DATA).await {
        sleep(Duration::from_millis(500)).await;
        let length = u32::try_from(data.payload.len()).expect("a frame").to_be_bytes();
        if data.flags & END_STREAM != 0 {
            line.answer(data.stream).await;
        }
        if length != [0; 4] {
            line.frame(WINDOW_UPDATE, 0, 0, &length).await;
        }
    }
}

#[test]
fn uploads_that_wait_for_their_turn_go_on_as_long_as_others_are_read() {
    let scene = Simulated::new();
    let peer = scene.peer(read_slowly);
    let client = client(&scene);
    scene.run(async move || {
        let calls = (0..20).map(|_| upload(&client, &peer).body(Bytes::from_static(&LARGE))).collect();
        for outcome in all(calls).await {
            assert_eq!(outcome.expect("the peer reads all the time"), "ok");
        }
        assert_eq!((client.counters().total().write_timeouts, peer.accepted()), (0, 1));
    });
}

#[test]
fn uploads_in_pieces_as_well() {
    let scene = Simulated::new();
    let peer = scene.peer(read_slowly);
    let client = client(&scene);
    scene.run(async move || {
        let calls = (0..20).map(|_| {
            let (mut sender, body) = Body::channel(LARGE.len());
            sender.try_send(Bytes::from_static(&LARGE)).expect("room");
            sender.finish();
            upload(&client, &peer).body(body)
        });
        for outcome in all(calls.collect()).await {
            assert_eq!(outcome.expect("the peer reads all the time"), "ok");
        }
        assert_eq!((client.counters().total().write_timeouts, peer.accepted()), (0, 1));
    });
}

fn assert_late(outcomes: Vec<Result<String, Error>>) {
    for outcome in outcomes {
        let error = outcome.expect_err("the peer opens no window");
        assert!(matches!(error, Error::Timeout { phase: Phase::Write, .. }), "{error:?}");
    }
}

#[test]
fn uploads_behind_a_window_that_stays_closed_are_late_together() {
    let scene = Simulated::new();
    let peer = scene.peer(|mut line: Line| async move {
        line.greet(&WIDE).await;
        line.wait_for_end().await;
    });
    let client = client(&scene);
    scene.run(async move || {
        let calls = (0..5).map(|_| upload(&client, &peer).body(Bytes::from_static(&LARGE))).collect();
        assert_late(all(calls).await);
    });
}

/// A stream whose own window is closed has no share in what others send.
#[test]
fn an_upload_whose_own_window_stays_closed_is_late_beside_others() {
    let scene = Simulated::new();
    let peer = scene.peer(|mut line: Line| async move {
        line.greet(&[]).await;
        line.frame(WINDOW_UPDATE, 0, 0, &[0x3f, 0, 0, 0]).await;
        while let Some(data) = line.until(DATA).await {
            sleep(Duration::from_millis(500)).await;
            // Only the second one may go on.
            if data.stream == 3 && !data.payload.is_empty() {
                line.frame(WINDOW_UPDATE, 0, 3, &[0, 0, 0x40, 0]).await;
            }
        }
    });
    let client = client(&scene);
    scene.run(async move || {
        let goes_on = anywire_loops::spawn(upload(&client, &peer).body(Body::stream(Endless)).send());
        let late = upload(&client, &peer).body([&LARGE[..], &LARGE[..]].concat()).send().await;
        assert_late(vec![late.map(|_| String::new())]);
        assert!(!goes_on.is_finished(), "the peer reads this one");
    });
}

/// While the output is full, no stream waits for a window. It waits for one once the others have used that up.
#[test]
fn an_upload_that_waited_for_the_output_first_is_late_as_well() {
    let scene = Simulated::new();
    let peer = scene.peer(|mut line: Line| async move {
        line.greet(&WIDE).await;
        line.frame(WINDOW_UPDATE, 0, 0, &[0, 0x20, 0, 0]).await;
        // Meanwhile the output is full.
        line.request().await;
        sleep(Duration::from_secs(1)).await;
        line.wait_for_end().await;
    });
    let client = client(&scene);
    scene.run(async move || {
        let calls = (0..2).map(|_| upload(&client, &peer).body(Body::stream(Endless))).collect();
        assert_late(all(calls).await);
    });
}

/// What callers make meanwhile is no progress of the peer.
#[test]
fn uploads_whose_callers_drip_are_late_if_nobody_reads() {
    let scene = Simulated::new();
    let peer = scene.peer(|mut line: Line| async move {
        line.greet(&WIDE).await;
        line.request().await;
        std::future::pending::<()>().await;
    });
    let client = client(&scene);
    scene.run(async move || {
        let drips = || {
            let (mut sender, body) = Body::channel(8);
            drop(anywire_loops::spawn(async move {
                while sender.send("x").await.is_ok() {
                    sleep(Duration::from_millis(700)).await;
                }
            }));
            upload(&client, &peer).body(body)
        };
        assert_late(all((0..3).map(|_| drips()).collect()).await);
    });
}
