//! A long response that its caller does not read stops its sender, on each wire, through a proxy and over HTTP/2: the bytes in between stay
//! below a bound.

use std::sync::mpsc;
use std::time::Duration;

use crate::support::bytes_of_http2::{ACK, DATA, PING, WINDOW_UPDATE};
use crate::support::{
    Peer, Talk, block_on, client, client_of_http2, on_each_wire, on_four_wires_at_a_time, wire,
};
use anywire_client::{Call, Response};

/// Ten GiB, of which nearly all is never sent.
const HEAD: &str = "HTTP/1.1 200 OK\r\ncontent-length: 10737418240\r\n\r\n";
const PIECE: &[u8] = &[0; 64 << 10];

/// What the system keeps of a connection on both ends is a few MiB.
const STOPS_BY: usize = 48 << 20;

/// Sends until the client takes no more bytes, or until more have left than it may take. Returns how many left.
fn pour(talk: &Talk) -> usize {
    let mut sent = 0;
    while sent <= STOPS_BY
        && let Some(count) = talk.say_within(PIECE, Duration::from_millis(200))
    {
        sent += count;
    }
    sent
}

/// Sends a long response, and reports how much of it was taken; and a piece more when it is told to.
fn pouring(scheme: &str) -> (Peer, mpsc::Receiver<usize>, mpsc::Sender<()>) {
    let ((report, sent), (again, told)) = (mpsc::channel(), mpsc::channel());
    let told = std::sync::Mutex::new(told);
    let peer = Peer::start(wire(scheme), move |mut talk| {
        assert!(talk.request().is_some());
        talk.say(HEAD);
        let _ = report.send(pour(&talk));
        if told.lock().expect("no panic").recv().is_ok() && talk.try_say(PIECE) {
            let _ = report.send(PIECE.len());
        }
    });
    (peer, sent, again)
}

/// Reads so many bytes, and leaves the rest.
fn read(response: &mut Response, mut bytes: usize) {
    while bytes > 0 {
        let chunk = block_on(response.chunk()).expect("a good body").expect("it goes on");
        bytes = bytes.saturating_sub(chunk.len());
    }
}

fn assert_stops(call: Call, sent: &mpsc::Receiver<usize>, again: &mpsc::Sender<()>) {
    let mut response = block_on(call.send()).expect("an answer");
    let first = sent.recv().expect("it stops");
    assert!(first <= STOPS_BY, "{first} bytes were taken");
    // A wire with TLS may hold some of them until the peer goes on.
    again.send(()).expect("the peer waits");
    read(&mut response, first);
    assert_eq!(sent.recv(), Ok(PIECE.len()), "what was read makes room for more");
}

#[test]
fn over_http1_on_each_wire() {
    on_four_wires_at_a_time(|wire| {
        let (peer, sent, again) = pouring(wire.scheme());
        let (_loops, client) = client(1, |builder| builder.no_proxy());
        assert_stops(client.get(peer.url("/")).via(peer.via()), &sent, &again);
    });
}

#[test]
fn through_a_proxy() {
    let (peer, sent, again) = pouring("tcp");
    let proxy = format!("http://{}", peer.via().location());
    let (_loops, client) = client(1, |builder| builder);
    assert_stops(client.get("http://origin.example/").proxy(proxy), &sent, &again);
}

#[test]
fn over_http2_no_window_is_given_back_for_what_is_not_read() {
    on_each_wire(|wire| {
        let (report, given) = mpsc::channel();
        let (read_on, reading) = mpsc::channel::<()>();
        let reading = std::sync::Mutex::new(reading);
        let peer = Peer::of_http2(wire, move |mut frames, _| {
            let stream = frames.request().expect("a call");
            frames.head(stream, false);
            // The window of a stream, as the client has it by default.
            (0..16).for_each(|_| frames.say(DATA, 0, stream, &[0; 16 << 10]));
            frames.say(PING, 0, 0, b"are they");
            let mut window = 0;
            while let Some(frame) = frames.next() {
                match frame.kind {
                    WINDOW_UPDATE if frame.stream == stream => {
                        let size = frame.payload.as_slice().try_into().expect("four bytes");
                        window += u32::from_be_bytes(size) as usize;
                    }
                    PING if frame.flags & ACK != 0 => break,
                    _ => {}
                }
            }
            let _ = report.send(window);
            let _ = reading.lock().expect("no panic").recv();
            while frames.until(WINDOW_UPDATE).is_some_and(|frame| frame.stream != stream) {}
            let _ = report.send(1);
            frames.talk.wait_for_end();
        });
        let (_loops, client) = client_of_http2(|builder| builder);
        let mut response = block_on(client.get(peer.url("/")).via(peer.via()).send()).expect("an answer");
        let ahead = anywire_client::Limits::default().body_ahead_bytes;
        let window = given.recv().expect("all was sent");
        assert!(window <= ahead, "{window} bytes of window for what nobody has read");
        read_on.send(()).expect("the peer waits");
        read(&mut response, 16 * (16 << 10));
        assert_eq!(given.recv(), Ok(1), "what was read gives its window back");
        drop(response);
    });
}
