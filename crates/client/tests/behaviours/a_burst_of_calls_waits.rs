//! A thousand calls at once, with the default limits: those beyond the connections wait, and all are answered.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;

use crate::support::{AnyWire, HANG, OK, block_on, client, listening, on_each_wire};
use anywire_client::{Client, Sending, Timeouts};
use anywire_loops::Loops;
use anywire_wire::{Address, Connection, ListenOptions, Listener, ListenerHandle};

const CALLS: usize = 1000;

/// Answers every request, on the loop: a thread for each connection would be half a thousand threads.
async fn answer(mut connection: Connection) {
    let mut seen = Vec::new();
    let mut bytes = [0; 4096];
    while let Ok(count @ 1..) = connection.read(&mut bytes).await {
        seen.extend_from_slice(&bytes[..count]);
        if seen.ends_with(b"\r\n\r\n") {
            seen.clear();
            if connection.write_all(OK.as_bytes()).await.is_err() {
                return;
            }
        }
    }
}

fn listen(wire: AnyWire, loops: &Loops) -> ListenerHandle {
    let address = wire.scratch().expect("every wire can make an address up");
    // The peer takes a burst, too.
    let options = ListenOptions { backlog: 1024, ..listening() };
    let listener = Listener::bind(&address, &options, loops).expect("a free address");
    listener.serve(|connection| drop(anywire_loops::spawn(answer(connection))))
}

/// Begins all calls before any is answered, and counts the good answers.
async fn burst(client: Client, via: Address) -> usize {
    let mut calls: Vec<Option<Sending>> =
        (0..CALLS).map(|_| Some(client.get("http://peer.example/").via(&via).send())).collect();
    let mut answered = 0;
    poll_fn(|cx| {
        for place in &mut calls {
            let Some(call) = place else { continue };
            if let Poll::Ready(reply) = Pin::new(call).poll(cx) {
                assert_eq!(reply.expect("an answer").status(), 200);
                *place = None;
                answered += 1;
            }
        }
        if answered == CALLS { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    answered
}

#[test]
fn from_outside_and_from_one_loop() {
    on_each_wire(|wire| {
        let peers = Loops::start(1).expect("loops start");
        let listening = listen(wire, &peers);
        let via = listening.local();
        // Half a thousand handshakes are work that takes its time.
        let (counts, acquire): (&[_], _) = match via.has_tls() {
            true => (&[2], HANG),
            false => (&[1, 2, 8], Timeouts::default().acquire),
        };
        for &loops in counts {
            let (loops, client) = client(loops, |builder| builder.acquire_timeout(acquire));
            let via = via.clone();
            assert_eq!(block_on(burst(client.clone(), via.clone())), CALLS);
            let (on_loop, caller) = (loops.get(0).clone(), client.clone());
            assert_eq!(on_loop.spawn(move || burst(caller, via)).wait().expect("no panic"), CALLS);
            let counters = client.counters().total();
            assert_eq!((counters.queue_full, counters.acquire_timeouts, counters.waiting), (0, 0, 0));
            assert!(counters.dialed <= 512, "{counters:?}");
        }
    });
}
