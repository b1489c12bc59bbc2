//! Many calls to a peer that closes, stalls and cuts at random, from callers who leave at random: in the end every
//! place is free again. `ANYWIRE_SEEDS` says how many storms.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::random::for_each_seed;
use crate::support::{Dice, OK, Peer, block_on, client, on_each_wire, until_no_call};
use anywire_client::Limits;

#[test]
fn after_a_storm_every_place_is_free() {
    for_each_seed(1, storm);
}

fn storm(seed: u64) {
    on_each_wire(|wire| {
        let of_peer = AtomicU64::new(seed << 32);
        let peer = Peer::start(wire, move |mut talk| {
            let dice = Dice::new(of_peer.fetch_add(1, Ordering::Relaxed));
            while let Some(request) = talk.request() {
                let calm = request.head.path() == "/calm";
                match dice.roll(8) {
                    _ if calm => talk.say(OK),
                    0 => return,
                    1 => return talk.say("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\ncut"),
                    2 => return talk.say(OK),
                    3 => talk.say("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok"),
                    4 => talk.say(format!(
                        "HTTP/1.1 200 OK\r\ncontent-length: 300000\r\n\r\n{}",
                        "x".repeat(300_000)
                    )),
                    _ => talk.say(OK),
                }
            }
        });
        let (loops, client) = client(2, |builder| {
            let limits = Limits { connections_per_origin: 5, queue_per_origin: 1000, ..Limits::default() };
            builder.limits(limits).acquire_timeout(Duration::from_secs(60))
        });
        let callers: Vec<_> = (0..40)
            .map(|number| {
                let (client, url, via) = (client.clone(), peer.url("/"), peer.via().clone());
                loops.get(number % 2).spawn(move || async move {
                    let dice = Dice::new(seed << 32 | (number as u64 + 1000));
                    for _ in 0..8 {
                        let call = client.request(
                            if dice.roll(2) == 0 { "GET" } else { "POST" }.parse().expect("a method"),
                            &url,
                        );
                        let mut call = call.via(&via).body("some").send();
                        if dice.roll(3) == 0 {
                            // Leaves at some moment between being queued and being answered.
                            for _ in 0..dice.roll(4) {
                                if crate::support::poll_once(&mut call).is_ready() {
                                    break;
                                }
                                tokio::task::yield_now().await;
                            }
                            continue;
                        }
                        if let Ok(mut answer) = call.await
                            && answer.chunk().await.is_ok()
                            && dice.roll(2) == 0
                        {
                            let _ = answer.bytes().await;
                        }
                    }
                })
            })
            .collect();
        for caller in callers {
            caller.wait().expect("no panic");
        }
        until_no_call(&client);
        let counters = client.counters();
        assert!(counters.total().idle <= 5, "{counters:?}");
        for _ in 0..20 {
            let answer = block_on(client.get(peer.url("/calm")).via(peer.via()).send()).expect("an answer");
            assert_eq!(block_on(answer.text()).expect("a body"), "ok");
        }
        block_on(client.shutdown(Duration::from_secs(60)));
        assert_eq!(client.counters().total().idle, 0);
    });
}
