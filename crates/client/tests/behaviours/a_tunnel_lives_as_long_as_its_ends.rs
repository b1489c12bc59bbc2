//! A connection, or a stream, that has left HTTP goes on while both ends want it to: no deadline of its call ends it, and none of its
//! ends keeps it alone.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use anywire_client::{AttemptEnd, ClientBuilder, Ended, Limits};
use anywire_http::Method;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::support::bytes_of_http2::*;
use crate::support::simulated::{Line, Simulated, SimulatedPeer};

/// `SETTINGS_ENABLE_CONNECT_PROTOCOL` (RFC 8441 section 3).
const ALLOWS_TUNNELS: [u8; 6] = [0, 8, 0, 0, 0, 1];

const SWITCH: &str = "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: toy\r\n\r\n";

/// Agrees to the upgrade over HTTP/2; its stream.
async fn agree(line: &mut Line) -> Option<u32> {
    line.greet(&ALLOWS_TUNNELS).await;
    let stream = line.request().await?;
    line.frame(HEADERS, END_HEADERS, stream, b"\x88").await;
    Some(stream)
}

/// The bytes that the caller sends until its end, over HTTP/2.
async fn heard(line: &mut Line) -> Vec<u8> {
    let mut heard = Vec::new();
    while let Some(frame) = line.next().await {
        match frame.kind {
            DATA => heard.extend(frame.payload),
            RST_STREAM => panic!("reset after {} bytes", heard.len()),
            _ => {}
        }
        if frame.kind == DATA && frame.flags & END_STREAM != 0 {
            break;
        }
    }
    heard
}

#[test]
fn the_deadlines_of_its_call_end_though_the_peer_ends_first() {
    let scene = Simulated::new();
    let (report, all) = std::sync::mpsc::channel();
    let peer = scene.peer(move |mut line| {
        let report = report.clone();
        async move {
            let Some(stream) = agree(&mut line).await else { return };
            tokio::time::sleep(Duration::from_secs(1)).await;
            line.frame(DATA, END_STREAM, stream, b"that is all").await;
            let _ = report.send(heard(&mut line).await);
        }
    });
    let client = scene.client(|builder| builder.http2_prior_knowledge());
    scene.run(async move || {
        let call = client.get("http://peer.example/").via(peer.via()).upgrade("toy");
        let mut upgraded = call.send().await.expect("a response").upgrade().expect("the stream");
        let mut said = String::new();
        upgraded.read_to_string(&mut said).await.expect("the peer's end");
        assert_eq!(said, "that is all");
        tokio::time::sleep(Duration::from_secs(3600)).await;
        upgraded.write_all(b"late").await.expect("it goes on");
        upgraded.shutdown().await.expect("an end");
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(client.counters().total().total_timeouts, 0);
    });
    assert_eq!(all.try_recv().expect("the peer has heard the end"), b"late");
}

/// What a peer that reads nothing does with its own direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Says {
    Nothing,
    /// It ends it at once.
    ItsEnd,
}

/// Agrees, and reads nothing more.
fn deaf(scene: &Simulated, is_http2: bool, says: Says) -> SimulatedPeer {
    scene.peer(move |mut line| async move {
        if is_http2 {
            let Some(stream) = agree(&mut line).await else { return };
            if says == Says::ItsEnd {
                line.frame(DATA, END_STREAM, stream, b"").await;
            }
        } else {
            line.head().await;
            line.say(SWITCH).await;
            if says == Says::ItsEnd {
                line.connection.shutdown().await.expect("its direction ends");
            }
        }
        std::future::pending::<()>().await;
    })
}

const VERSIONS: [fn(ClientBuilder) -> ClientBuilder; 2] =
    [|builder| builder.http1_only(), |builder| builder.http2_prior_knowledge()];

#[test]
fn a_peer_that_reads_nothing_keeps_none_whose_caller_has_left() {
    let versions = [false, true].into_iter().zip(VERSIONS);
    for ((is_http2, version), says) in
        versions.flat_map(|one| [Says::Nothing, Says::ItsEnd].map(|says| (one, says)))
    {
        let scene = Simulated::new();
        let peer = deaf(&scene, is_http2, says);
        let limits = Limits { connections_per_origin: 1, ..Limits::default() };
        let client = scene.client(|builder| version(builder).limits(limits));
        scene.run(async move || {
            let call = client.get("http://peer.example/").via(peer.via()).upgrade("toy");
            let mut upgraded = call.send().await.expect("a response").upgrade().expect("the stream");
            let more = async { while upgraded.write_all(&[b'x'; 10_000]).await.is_ok() {} };
            tokio::time::timeout(Duration::from_secs(1), more).await.expect_err("the way is full");
            drop(upgraded);
            // A silence of the peer, and no more.
            tokio::time::sleep(Duration::from_secs(40)).await;
            let counters = client.counters().total();
            assert_eq!(counters.active, 0, "HTTP/2: {is_http2}, says {says:?}: {counters:?}");
        });
    }
}

/// A caller who keeps its end keeps the connection, until both directions have ended.
#[test]
fn it_ends_with_the_second_of_its_directions() {
    for (is_http2, version) in [false, true].into_iter().zip(VERSIONS) {
        let scene = Simulated::new();
        let peer = deaf(&scene, is_http2, Says::ItsEnd);
        let client = scene.client(version);
        scene.run(async move || {
            let call = client.get("http://peer.example/").via(peer.via()).upgrade("toy");
            let mut upgraded = call.send().await.expect("a response").upgrade().expect("the stream");
            assert_eq!(upgraded.read(&mut [0]).await.expect("the peer's end"), 0);
            tokio::time::sleep(Duration::from_secs(3600)).await;
            assert_eq!(client.counters().total().active, 1, "HTTP/2: {is_http2}");
            upgraded.write_all(b"more").await.expect("it goes on");
            upgraded.shutdown().await.expect("an end");
            tokio::time::sleep(Duration::from_secs(1)).await;
            assert_eq!(client.counters().total().active, 0, "HTTP/2: {is_http2}");
            drop(upgraded);
        });
    }
}

/// What the caller has sent before it left is the peer's, though that takes its time, and whatever the peer says meanwhile.
#[test]
fn a_peer_that_reads_late_gets_all_of_a_caller_who_has_left() {
    let versions = [false, true].into_iter().zip(VERSIONS);
    for ((is_http2, version), talks) in versions.flat_map(|one| [(one, false), (one, true)]) {
        let scene = Simulated::new();
        let (report, all) = std::sync::mpsc::channel();
        let peer = scene.peer(move |mut line| {
            let report = report.clone();
            async move {
                let mut stream = 0;
                if is_http2 {
                    let Some(agreed) = agree(&mut line).await else { return };
                    stream = agreed;
                } else {
                    line.head().await;
                    line.say(SWITCH).await;
                }
                tokio::time::sleep(Duration::from_secs(5)).await;
                match (talks, is_http2) {
                    (true, true) => drop(line.frame(DATA, 0, stream, b"tick").await),
                    (true, false) => drop(line.say(b"tick").await),
                    _ => {}
                }
                tokio::time::sleep(Duration::from_secs(5)).await;
                if is_http2 {
                    line.frame(WINDOW_UPDATE, 0, stream, &[0, 16, 0, 0]).await;
                    line.frame(WINDOW_UPDATE, 0, 0, &[0, 16, 0, 0]).await;
                    let _ = report.send(heard(&mut line).await.len());
                    return;
                }
                let (mut bytes, mut count) = (vec![0; 10_000], 0);
                while let Ok(read @ 1..) = line.connection.read(&mut bytes).await {
                    count += read;
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
                let _ = report.send(count);
            }
        });
        let client = scene.client(version);
        let written = scene.run(async move || {
            let call = client.get("http://peer.example/").via(peer.via()).upgrade("toy");
            let mut upgraded = call.send().await.expect("a response").upgrade().expect("the stream");
            let mut written = 0;
            while let Ok(count) =
                tokio::time::timeout(Duration::from_secs(1), upgraded.write(&[b'x'; 10_000])).await
            {
                written += count.expect("room");
            }
            drop(upgraded);
            tokio::time::sleep(Duration::from_secs(60)).await;
            assert_eq!(client.counters().total().active, 0);
            written
        });
        let heard = all.try_recv().expect("the peer has heard the end");
        assert_eq!(heard, written, "HTTP/2: {is_http2}, talks: {talks}");
    }
}

/// Every part that it takes gives it time for the next one.
#[test]
fn a_peer_that_reads_slowly_gets_all_of_a_caller_who_has_left() {
    for (is_http2, version) in [false, true].into_iter().zip(VERSIONS) {
        let scene = Simulated::new();
        let (report, all) = std::sync::mpsc::channel();
        let peer = scene.peer(move |mut line| {
            let report = report.clone();
            async move {
                let mut heard = 0;
                if is_http2 {
                    let Some(stream) = agree(&mut line).await else { return };
                    while let Some(frame) = line.next().await {
                        if frame.kind == DATA {
                            heard += frame.payload.len();
                        }
                        if frame.kind == RST_STREAM || frame.flags & END_STREAM != 0 && frame.kind == DATA {
                            break;
                        }
                        // A small window, and another one when it is used up.
                        if heard >= 65_535 {
                            tokio::time::sleep(Duration::from_secs(5)).await;
                            line.frame(WINDOW_UPDATE, 0, stream, &[0, 0, 8, 0]).await;
                            line.frame(WINDOW_UPDATE, 0, 0, &[0, 0, 8, 0]).await;
                        }
                    }
                } else {
                    line.head().await;
                    line.say(SWITCH).await;
                    let mut bytes = [0; 200];
                    while let Ok(read @ 1..) = line.connection.read(&mut bytes).await {
                        heard += read;
                        tokio::time::sleep(Duration::from_secs(1)).await;
                    }
                }
                let _ = report.send(heard);
            }
        });
        let client = scene.client(version);
        let written = scene.run(async move || {
            let call = client.get("http://peer.example/").via(peer.via()).upgrade("toy");
            let mut upgraded = call.send().await.expect("a response").upgrade().expect("the stream");
            let mut written = 0;
            for _ in 0..40 {
                let write = upgraded.write(&[b'x'; 10_000]);
                let Ok(count) = tokio::time::timeout(Duration::from_millis(10), write).await else { break };
                written += count.expect("room");
            }
            drop(upgraded);
            tokio::time::sleep(Duration::from_secs(7200)).await;
            assert_eq!(client.counters().total().active, 0, "HTTP/2: {is_http2}");
            written
        });
        assert_eq!(all.try_recv().expect("the peer has heard the end"), written, "HTTP/2: {is_http2}");
    }
}

/// Any success opens it (RFC 8441 section 5), whatever the method of the call is.
#[test]
fn it_has_bytes_whatever_opened_it() {
    // A length says nothing of a tunnel (RFC 9110 section 9.3.6).
    let lengths = [None, Some("0"), Some("3")];
    for ((method, status), length) in
        [("GET", "204"), ("HEAD", "200"), ("POST", "201")].into_iter().zip(lengths)
    {
        let scene = Simulated::new();
        let peer = scene.peer(move |mut line| async move {
            line.greet(&ALLOWS_TUNNELS).await;
            let Some(stream) = line.request().await else { return };
            let length = length.map(|length| ("content-length", length));
            let fields: Vec<_> = [Some((":status", status)), length].into_iter().flatten().collect();
            line.frame(HEADERS, END_HEADERS, stream, &literals(&fields)).await;
            line.frame(DATA, 0, stream, b"hello").await;
            assert_eq!(heard(&mut line).await, b"world");
            line.frame(DATA, END_STREAM, stream, b"").await;
        });
        let client = scene.client(|builder| builder.http2_prior_knowledge());
        scene.run(async move || {
            let method = Method::from_bytes(method.as_bytes()).expect("a method");
            let call = client.request(method, "http://peer.example/").via(peer.via()).upgrade("toy");
            let response = call.send().await.expect("a response");
            assert_eq!(response.status().as_str(), status);
            let mut upgraded = response.upgrade().expect("the stream");
            upgraded.write_all(b"world").await.expect("it goes on");
            upgraded.shutdown().await.expect("an end");
            let mut said = String::new();
            upgraded.read_to_string(&mut said).await.expect("the peer's end");
            assert_eq!(said, "hello");
        });
    }
}

#[test]
fn observers_are_told_when_it_begins() {
    for (is_http2, version) in [false, true].into_iter().zip(VERSIONS) {
        let scene = Simulated::new();
        let peer = deaf(&scene, is_http2, Says::Nothing);
        let ends = Arc::<Mutex<Vec<bool>>>::default();
        let seen = Arc::clone(&ends);
        let client = scene.client(|builder| {
            version(builder).observe(move |ended: &Ended<'_>| {
                seen.lock().expect("no panic").push(matches!(ended.end, AttemptEnd::Upgraded));
            })
        });
        let told = Arc::clone(&ends);
        scene.run(async move || {
            let call = client.get("http://peer.example/").via(peer.via()).upgrade("toy");
            let upgraded = call.send().await.expect("a response").upgrade().expect("the stream");
            assert_eq!(*told.lock().expect("no panic"), [true], "{is_http2}");
            drop(upgraded);
            tokio::time::sleep(Duration::from_secs(60)).await;
        });
        assert_eq!(*ends.lock().expect("no panic"), [true], "{is_http2}");
    }
}
