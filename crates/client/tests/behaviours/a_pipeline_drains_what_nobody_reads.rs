//! A response in a pipeline whose caller has left is read for the sake of the calls behind it, but only for as long as
//! [`Timeouts::drain`](anywire_client::Timeouts::drain) says: then they go out again elsewhere. Simulated time.

use std::time::Duration;

use anywire_client::{Call, Client, Error};
use anywire_http::{Method, Request};
use tokio::time::{Instant, sleep, timeout};

use crate::support::OK;
use crate::support::simulated::{Simulated, SimulatedPeer};

const SECOND: Duration = Duration::from_secs(1);

/// Answers one request, and then says this to the next one on its first connection: piece by piece, one each `pace`. The other
/// connections answer all.
fn dragging(scene: &Simulated, head: &'static str, piece: &'static str, pace: Duration) -> SimulatedPeer {
    scene.peer(move |mut line| async move {
        line.head().await;
        line.say(OK).await;
        if line.number == 0 {
            line.head().await;
            line.say(head).await;
            while line.say(piece).await {
                sleep(pace).await;
            }
        }
        while line.head().await.is_some() {
            line.say(OK).await;
        }
    })
}

async fn collect(call: Call) -> Result<Vec<u8>, Error> {
    Ok(call.send().await?.bytes().await?.to_vec())
}

fn forward(client: &Client, peer: &SimulatedPeer) -> Call {
    client.forward(Request::new(Method::GET, "/"), "http://peer.example").via(peer.via())
}

/// A call that is dropped after a second, one behind it, and how long that has taken from there.
fn behind(head: &'static str, piece: &'static str, pace: Duration, forwards: bool) -> (Duration, u64) {
    let scene = Simulated::new();
    let peer = dragging(&scene, head, piece, pace);
    let client = scene.client(|builder| builder.http1_only().pipelining(8));
    scene.run(async move || {
        collect(client.get("http://peer.example/").via(peer.via())).await.expect("an answer");
        let dropped = client.get("http://peer.example/dropped").via(peer.via());
        let next = match forwards {
            true => forward(&client, &peer),
            false => client.get("http://peer.example/next").via(peer.via()),
        };
        let dropped = anywire_loops::spawn(async move {
            let reads = async {
                let mut response = dropped.send().await?;
                while response.chunk().await?.is_some() {}
                Ok::<_, Error>(())
            };
            timeout(SECOND, reads).await.expect_err("no end has come");
            Instant::now()
        });
        sleep(SECOND / 2).await;
        let next = collect(next).await;
        assert_eq!(next.expect("an answer"), b"ok", "{head:?}");
        let took = Instant::now() - dropped.await.expect("no panic");
        assert_eq!(client.counters().total().active, 0);
        (took, client.counters().total().undrained)
    })
}

#[test]
fn those_behind_it_go_elsewhere_in_time() {
    let chunked = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
    for forwards in [false, true] {
        for (head, piece) in [
            // Nothing has come, the head drips, a chunk's size drips, the body drips.
            ("", ""),
            ("HTTP/1.1 200 OK\r\nx: ", "x"),
            (chunked, "0"),
            (chunked, "1\r\nx\r\n"),
        ] {
            let (took, undrained) = behind(head, piece, SECOND / 10, forwards);
            let drain = SECOND / 2;
            assert!(took >= drain && took < drain + SECOND / 20, "{head:?} {piece:?}: {took:?}");
            assert_eq!(undrained, 1, "{head:?} {piece:?}");
        }
    }
}

/// Nothing of it is worth waiting for.
#[test]
fn behind_a_stream_they_go_at_once() {
    let stream = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
    let (took, undrained) = behind(stream, "2\r\n:\n\r\n", SECOND / 10, false);
    assert!(took < SECOND / 20, "{took:?}");
    assert_eq!(undrained, 1);
}

/// What ends in time keeps the connection.
#[test]
fn a_rest_that_is_short_is_read() {
    let scene = Simulated::new();
    let peer = scene.peer(async |mut line| {
        line.head().await;
        line.say(OK).await;
        line.head().await;
        line.say("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\no").await;
        sleep(SECOND + SECOND / 4).await;
        line.say("k").await;
        while line.head().await.is_some() {
            line.say(OK).await;
        }
    });
    let client = scene.client(|builder| builder.http1_only().pipelining(8));
    scene.run(async move || {
        collect(client.get("http://peer.example/").via(peer.via())).await.expect("an answer");
        let dropped = client.get("http://peer.example/dropped").via(peer.via());
        let dropped = anywire_loops::spawn(timeout(SECOND, collect(dropped)));
        sleep(SECOND / 2).await;
        let next = client.get("http://peer.example/next").via(peer.via());
        assert_eq!(collect(next).await.expect("an answer"), b"ok");
        dropped.await.expect("no panic").expect_err("it was dropped");
        assert_eq!((peer.accepted(), client.counters().total().undrained), (1, 0));
    });
}
