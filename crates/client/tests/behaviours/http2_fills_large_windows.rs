//! A peer whose windows are larger than what the client writes at once gets a whole body without a word of its own.

use crate::support::bytes_of_http2::{DATA, SETTINGS, WINDOW_UPDATE};
use crate::support::{AnyWire, Peer, block_on, client_of_http2, on_each_wire};
use anywire_http::Body;
use bytes::Bytes;

const BODY_BYTES: usize = 3_000_000;

/// Takes a body, and opens no window for it but at the start.
fn peer(wire: AnyWire) -> Peer {
    Peer::of_http2(wire, |mut frames, _| {
        let window = [&[0, 4][..], &(1_u32 << 30).to_be_bytes()].concat();
        frames.say(SETTINGS, 0, 0, &window);
        frames.say(WINDOW_UPDATE, 0, 0, &(1_u32 << 30).to_be_bytes());
        let Some(stream) = frames.request() else { return };
        let mut read = 0;
        while let Some(data) = frames.until(DATA) {
            read += data.payload.len();
            if data.ends_stream() {
                break;
            }
        }
        assert_eq!(read, BODY_BYTES);
        frames.head(stream, true);
        frames.talk.wait_for_end();
    })
}

#[test]
fn a_body_that_is_there() {
    on_each_wire(|wire| {
        let peer = peer(wire);
        let (_loops, client) = client_of_http2(|builder| builder);
        let body = Bytes::from(vec![7; BODY_BYTES]);
        let answer = block_on(client.post(peer.url("/")).via(peer.via()).body(body).send());
        assert_eq!(answer.expect("an answer").status().as_u16(), 200);
    });
}

#[test]
fn a_body_that_comes_in_large_pieces() {
    on_each_wire(|wire| {
        let peer = peer(wire);
        let (_loops, client) = client_of_http2(|builder| builder);
        let (mut sender, body) = Body::channel(BODY_BYTES);
        let feeding = std::thread::spawn(move || {
            for _ in 0..3 {
                block_on(sender.send(Bytes::from(vec![7; BODY_BYTES / 3]))).expect("a reader");
            }
            sender.finish();
        });
        let answer = block_on(client.post(peer.url("/")).via(peer.via()).body(body).send());
        assert_eq!(answer.expect("an answer").status().as_u16(), 200);
        feeding.join().expect("no panic");
    });
}
