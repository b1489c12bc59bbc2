//! A task is woken that had to wait, although its second attempt in the same turn succeeded: it may have acted on the first
//! result, because its peer runs at the same time.

use std::future::poll_fn;
use std::sync::{Arc, Mutex, mpsc};
use std::task::Poll;
use std::time::Instant;

use anywire_wire::{Address, ListenOptions, Listener};
use tokio::io::AsyncReadExt;
use tokio::task::unconstrained;
use tokio::time::timeout;

#[test]
fn for_room() {
    let address: Address = format!("shm:@anywire-twice-{}", std::process::id()).parse().expect("an address");
    let (here, there) = (crate::support::loops(1), crate::support::loops(1));
    let (begin, begins) = mpsc::channel();
    let begins = Arc::new(Mutex::new(begins));
    let listener = Listener::bind(address.clone(), &ListenOptions::default(), &there).expect("it is free");
    let _listening = listener.serve(move |mut connection| {
        let begins = Arc::clone(&begins);
        drop(anywire_loops::spawn(async move {
            // Its loop stands still until then, so that the ring fills.
            while begins.lock().expect("one connection").recv().is_ok() {
                for _ in 0..8 {
                    connection.read_exact(&mut [0; 4096]).await.expect("there is more");
                }
            }
        }));
    });
    let writing = here.get(0).spawn(move || async move {
        let mut connection = crate::support::dial(&address).await;
        for round in 0..ROUNDS {
            let mut has_given_up = false;
            // Without a budget, whose end would wake the task, too.
            let written_twice = unconstrained(poll_fn(|cx| {
                if std::mem::replace(&mut has_given_up, true) {
                    return Poll::Ready(());
                }
                while connection.poll_write(cx, &[7; 4096]).is_ready() {}
                begin.send(()).expect("the reader is there");
                while connection.poll_write(cx, &[7; 4096]).is_pending() {
                    std::thread::yield_now();
                }
                Poll::Pending
            }));
            let begun = Instant::now();
            let ended = timeout(crate::support::HANG, written_twice).await;
            // The timer polls the task, too, which is then done.
            assert!(
                ended.is_ok() && begun.elapsed() < crate::support::HANG,
                "nobody woke it in round {round}"
            );
        }
    });
    writing.wait().expect("no panic");
}

/// A wake-up of the set-up may come in the first one.
const ROUNDS: usize = 20;
