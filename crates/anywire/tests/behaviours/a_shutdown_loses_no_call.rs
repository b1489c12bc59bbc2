//! A shutdown loses no call of a busy client: each is answered, or was surely not processed and may be sent again
//! (RFC 9112 section 9.6, RFC 9113 section 6.8).

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::support::{AnyWire, HANG, Served, block_on, client, eventually, on_each_wire};
use anywire::Router;
use anywire::client::ClientBuilder;
use anywire::server::Limits;

const CALLERS: usize = 8;

/// Callers that make one call after the other, until one fails: how many of these calls are lost.
fn play(wire: AnyWire, version: impl Fn(ClientBuilder) -> ClientBuilder) {
    let router = Router::new().post("/", async || {
        tokio::task::yield_now().await;
        "posted"
    });
    // However slowly a caller comes to its next call.
    let limits = Limits { shutdown_grace: HANG, ..Limits::default() };
    let Served { running, address } = Served::start_with(wire, router, limits, &[]);
    let (_loops, client) = client(version);
    let answers = AtomicUsize::new(0);
    std::thread::scope(|threads| {
        let callers: Vec<_> = (0..CALLERS)
            .map(|_| {
                threads.spawn(|| {
                    loop {
                        let call = client.post("http://peer.example/").via(&address);
                        match block_on(async { call.send().await?.text().await }) {
                            Ok(text) => assert_eq!(text, "posted"),
                            Err(error) => return error,
                        }
                        answers.fetch_add(1, Ordering::SeqCst);
                    }
                })
            })
            .collect();
        eventually("the callers are busy", || answers.load(Ordering::SeqCst) > 20 * CALLERS);
        let ending = running.shutdown(HANG);
        for caller in callers {
            let error = caller.join().expect("no panic");
            assert!(!error.may_have_been_processed(), "{error:?}");
        }
        assert_eq!(ending.wait().connections_cut, 0);
    });
}

#[test]
fn over_http1() {
    on_each_wire(|wire| play(wire, |builder| builder));
}

#[test]
fn over_http2() {
    on_each_wire(|wire| play(wire, ClientBuilder::http2_prior_knowledge));
}
