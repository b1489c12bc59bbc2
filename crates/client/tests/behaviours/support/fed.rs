//! Bodies of callers who take their time.

use std::sync::mpsc;
use std::thread::{self, sleep};
use std::time::Duration;

use anywire_http::Body;
use bytes::Bytes;

use super::{block_on, eventually};

/// A body that a thread feeds with one piece each `pace`. After `None` it stays open and gets no more.
pub fn fed(mut piece: impl FnMut() -> Option<Bytes> + Send + 'static, pace: Duration) -> Body {
    let (mut sender, body) = Body::channel(1);
    let (hold, held) = mpsc::channel::<()>();
    thread::spawn(move || {
        let _hold = hold;
        while let Some(piece) = piece() {
            if block_on(sender.ready()).is_err() || sender.try_send(piece).is_err() {
                return;
            }
            sleep(pace);
        }
        // Stays open until the client drops the body.
        eventually("the body is dropped", || sender.is_closed());
    });
    drop(held);
    body
}
