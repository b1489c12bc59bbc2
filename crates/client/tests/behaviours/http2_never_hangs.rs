//! What has made other clients hang over HTTP/2, with the peer's bytes: no call is lost, none waits for a window that is there, and
//! a connection that is told to go costs no time.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anywire_client::{Client, Error, Limits, Phase};
use anywire_http::{Body, h2};
use anywire_wire::Address;
use tokio::time::{Instant, sleep};

use crate::support::bytes_of_http2::*;
use crate::support::simulated::{Line, Simulated};

const WINDOW: usize = 65_535;

/// Streams may have 1 MiB; the connection has what it begins with, 65,535 bytes (RFC 9113 section 6.9.2).
const LARGE_STREAMS: &[u8] = &[0, 4, 0, 16, 0, 0];

async fn go_away(line: &mut Line, last: u32) {
    line.frame(GOAWAY, 0, 0, &[last.to_be_bytes(), [0; 4]].concat()).await;
}

async fn text(call: anywire_client::Sending) -> Result<String, Error> {
    call.await?.text().await
}

fn post(client: &Client, via: &Address, body: impl Into<Body>) -> anywire_client::Sending {
    client.post("http://peer.example/").via(via).body(body).send()
}

/// Begins a call as a task, so that others can be made beside it.
fn begin(call: anywire_client::Sending) -> anywire_loops::LocalTask<Result<String, Error>> {
    anywire_loops::spawn(text(call))
}

#[test]
fn the_last_byte_of_a_window_is_anybodys() {
    let scene = Simulated::new();
    let peer = scene.peer(async |mut line| {
        line.greet(LARGE_STREAMS).await;
        let mut got = [0; 4];
        while let Some(frame) = line.next().await {
            if frame.kind != DATA {
                continue;
            }
            got[frame.stream as usize] += frame.payload.len();
            if frame.ends_stream() {
                line.answer(frame.stream).await;
                if frame.stream == 3 {
                    assert_eq!(got, [0, WINDOW - 1, 0, 1]);
                    line.frame(WINDOW_UPDATE, 0, 0, &[0, 0, 0, 1]).await;
                }
            }
        }
    });
    let client = scene.client(|builder| builder.http2_prior_knowledge());
    scene.run(async move || {
        let (mut sender, body) = Body::channel(WINDOW);
        sender.try_send(vec![b'x'; WINDOW - 1]).expect("room");
        let first = begin(post(&client, peer.via(), body));
        sleep(Duration::from_secs(1)).await;
        // One byte is left of the window, and the first call, which has begun, has nothing to send.
        let second = text(post(&client, peer.via(), "y")).await;
        assert_eq!(second.expect("an answer"), "ok");
        sender.try_send("x").expect("room");
        sender.finish();
        assert_eq!(first.await.expect("no panic").expect("an answer"), "ok");
    });
}

#[test]
fn data_of_a_stream_that_is_gone_gives_its_window_back_behind_a_goaway_too() {
    let scene = Simulated::new();
    let peer = scene.peer(async |mut line| {
        line.greet(&[]).await;
        let (Some(dropped), Some(kept)) = (line.request().await, line.request().await) else { return };
        line.frame(HEADERS, END_HEADERS, dropped, b"\x88").await;
        line.frame(HEADERS, END_HEADERS, kept, b"\x88").await;
        go_away(&mut line, kept).await;
        assert_eq!(line.until(RST_STREAM).await.map(|reset| reset.stream), Some(dropped));
        // On its way when nobody wanted it any more.
        for at in (0..WINDOW).step_by(16 << 10) {
            line.frame(DATA, 0, dropped, &vec![b'x'; (WINDOW - at).min(16 << 10)]).await;
        }
        let mut room = 0;
        while room < 2 {
            let update = line.until(WINDOW_UPDATE).await.expect("the window opens again");
            if update.stream == 0 {
                room += u32::from_be_bytes(update.payload.try_into().expect("four bytes"));
            }
        }
        line.frame(DATA, END_STREAM, kept, b"ok").await;
        line.wait_for_end().await;
    });
    let http2 = h2::Limits {
        connection_window_bytes: WINDOW as u32,
        stream_window_bytes: WINDOW as u32,
        ..Limits::default().http2
    };
    let limits = Limits { http2, ..Limits::default() };
    let client = scene.client(|builder| builder.http2_prior_knowledge().limits(limits));
    scene.run(async move || {
        let get = || client.get("http://peer.example/").via(peer.via()).send();
        let first = anywire_loops::spawn(get());
        let second = begin(get());
        drop(first.await.expect("no panic").expect("a head"));
        assert_eq!(second.await.expect("no panic").expect("an answer"), "ok");
    });
}

/// Of twenty requests in flight the peer has taken ten when it leaves, in one step or in two (RFC 9113 section 6.8).
#[test]
fn of_the_calls_in_flight_at_a_goaway_none_is_lost_and_none_is_sent_twice() {
    for steps in [vec![19], vec![STREAM_MAX, 19], vec![39, 19]] {
        let scene = Simulated::new();
        let taken = Arc::<Mutex<Vec<(usize, u32)>>>::default();
        let seen = Arc::clone(&taken);
        let peer = scene.peer(move |mut line| {
            let (seen, steps) = (Arc::clone(&seen), steps.clone());
            async move {
                line.greet(&[]).await;
                let mut streams = Vec::new();
                while let Some(stream) = line.request().await {
                    if line.number > 0 {
                        seen.lock().expect("no panic").push((1, stream));
                        line.answer(stream).await;
                        continue;
                    }
                    streams.push(stream);
                    if streams.len() < 20 {
                        continue;
                    }
                    for last in &steps {
                        go_away(&mut line, *last).await;
                        sleep(Duration::from_secs(1)).await;
                    }
                    for stream in streams.drain(..).filter(|stream| *stream <= 19) {
                        seen.lock().expect("no panic").push((0, stream));
                        line.answer(stream).await;
                    }
                }
            }
        });
        let client = scene.client(|builder| builder.http2_prior_knowledge());
        scene.run(async move || {
            let calls: Vec<_> = (0..20).map(|_| begin(post(&client, peer.via(), "tea"))).collect();
            for call in calls {
                assert_eq!(call.await.expect("no panic").expect("an answer"), "ok");
            }
            let counters = client.counters().total();
            assert_eq!((counters.resent, counters.dialed, counters.active, counters.waiting), (10, 2, 0, 0));
        });
        let taken = taken.lock().expect("no panic");
        assert_eq!((taken.len(), taken.iter().collect::<HashSet<_>>().len()), (20, 20), "{taken:?}");
    }
}

/// The largest stream: the peer leaves, and will say later what it has taken.
const STREAM_MAX: u32 = (1 << 31) - 1;

#[test]
fn an_idle_connection_that_is_told_to_go_in_two_steps_goes_and_costs_no_time() {
    let scene = Simulated::new();
    let peer = scene.peer(async |mut line| {
        line.greet(&[]).await;
        while let Some(stream) = line.request().await {
            line.answer(stream).await;
            sleep(Duration::from_secs(1)).await;
            go_away(&mut line, STREAM_MAX).await;
            // An hour later, if the client lets it.
            sleep(Duration::from_secs(3600)).await;
            go_away(&mut line, stream).await;
        }
    });
    let client = scene.client(|builder| builder.http2_prior_knowledge());
    scene.run(async move || {
        for dialed in 1..=2 {
            let call = client.get("http://peer.example/").via(peer.via()).send();
            assert_eq!(text(call).await.expect("an answer"), "ok");
            // Time passes only while nothing is busy.
            sleep(Duration::from_secs(2)).await;
            let counters = client.counters().total();
            assert_eq!((counters.dialed, counters.idle, counters.active), (dialed, 0, 0));
        }
    });
}

/// A head that no buffer holds, to a peer that reads nothing for a while, or for too long.
#[test]
fn a_large_head_waits_for_its_peer_within_the_write_deadline() {
    const LARGE: usize = 512 << 10;
    for (is_http2, is_settled) in [(false, true), (true, true), (true, false)] {
        for seconds in if is_settled { &[9, 11][..] } else { &[11] }.iter().copied() {
            let scene = Simulated::new();
            let peer = scene.peer(move |mut line| async move {
                if is_http2 {
                    // What the connection itself waits for is there.
                    line.frame(SETTINGS, 0, 0, &[]).await;
                    if is_settled {
                        line.frame(SETTINGS, ACK, 0, &[]).await;
                    }
                }
                sleep(Duration::from_secs(seconds)).await;
                if !is_http2 {
                    if line.head().await.is_some_and(|head| head.len() > LARGE) {
                        line.say("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await;
                    }
                    return;
                }
                if line.bytes(PREFACE.len()).await.is_none() {
                    return;
                }
                let mut got = 0;
                while let Some(frame) = line.next().await {
                    if matches!(frame.kind, HEADERS | CONTINUATION) {
                        got += frame.payload.len();
                        if frame.flags & END_HEADERS != 0 {
                            assert!(got > LARGE / 2);
                            line.answer(frame.stream).await;
                        }
                    }
                }
            });
            let client =
                scene.client(|builder| if is_http2 { builder.http2_prior_knowledge() } else { builder });
            scene.run(async move || {
                let begin = Instant::now();
                let call = client.get("http://peer.example/").via(peer.via());
                let answer = text(call.header("x-large", vec![b'x'; LARGE]).send()).await;
                if seconds == 9 {
                    assert_eq!(answer.expect("an answer"), "ok", "HTTP/2: {is_http2}");
                    return;
                }
                let error = answer.expect_err("it is not taken");
                assert!(error.may_have_been_processed(), "HTTP/2: {is_http2}, {error:?}");
                assert_eq!(error.phase(), Some(Phase::Write), "HTTP/2: {is_http2}, {error:?}");
                assert_eq!(error.is_timeout(), is_settled, "HTTP/2: {is_http2}, {error:?}");
                assert!(begin.elapsed() < Duration::from_secs(11));
            });
        }
    }
}
