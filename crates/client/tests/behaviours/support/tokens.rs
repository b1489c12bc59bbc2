//! A peer of either version that answers when the test lets it.

use std::sync::{Arc, Mutex, mpsc};

use super::{AnyWire, OK, Peer};

/// A peer that answers a request for each token.
pub fn on_token(wire: AnyWire, is_http2: bool) -> (Peer, mpsc::Sender<()>) {
    let (give, tokens) = mpsc::channel();
    let tokens = Arc::new(Mutex::new(tokens));
    let token = move || tokens.lock().expect("no panic").recv().is_ok();
    let peer = match is_http2 {
        true => Peer::of_http2(wire, move |mut frames, _| {
            while let Some(stream) = frames.request() {
                if token() {
                    frames.answer(stream);
                }
            }
        }),
        false => Peer::start(wire, move |mut talk| {
            while talk.request().is_some() && token() {
                talk.say(OK);
            }
        }),
    };
    (peer, give)
}
