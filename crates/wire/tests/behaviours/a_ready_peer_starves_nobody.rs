//! A peer that is always ready, and a crowd of new connections, leave the other tasks of the loop their turns.

use std::cell::Cell;
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::task::Poll;

use anywire_wire::Connection;
use tokio::sync::Semaphore;

/// So often nothing on this loop could have happened by chance.
const MANY: usize = 100_000;

/// Repeats the step until another task has run, and fails if none ever does.
async fn until_somebody_else_runs(mut step: impl AsyncFnMut()) {
    let has_run = Rc::new(Cell::new(false));
    let seen = Rc::clone(&has_run);
    drop(anywire_loops::spawn(async move { seen.set(true) }));
    for _ in 0..MANY {
        if has_run.get() {
            return;
        }
        step().await;
    }
    panic!("nobody else had a turn in {MANY} steps");
}

/// Reads and writes that are ready, mostly, between two ends in one task.
#[test]
fn by_reading_and_writing() {
    for address in crate::support::addresses() {
        let loops = crate::support::loops(1);
        let (accepted, mut accepting) = tokio::sync::mpsc::unbounded_channel();
        let listening =
            crate::support::bind(&loops, &address, &crate::support::listening()).serve(move |connection| {
                // It cannot leave its loop, which is that of the task below.
                anywire_loops::local(Kept::default).0.set(Some(connection));
                accepted.send(()).expect("the test waits");
            });
        let address = listening.local().clone();
        let both = loops.get(0).spawn(move || async move {
            let mut here = crate::support::dial(&address).await;
            accepting.recv().await.expect("it is served");
            let mut there = anywire_loops::local(Kept::default).0.take().expect("it was kept");
            until_somebody_else_runs(async || {
                here.write_all(b"x").await.expect("an open connection");
                there.read(&mut [0; 1]).await.expect("an open connection");
            })
            .await;
            here.write_all(b"there is something").await.expect("an open connection");
            until_somebody_else_runs(async || there.readable().await.expect("an open connection")).await;
        });
        both.wait().expect("no panic");
    }
}

#[derive(Default)]
struct Kept(Cell<Option<Connection>>);

#[test]
fn by_reading_alone_or_writing_alone() {
    let large = vec![0; 60_000];
    crate::support::on_a_loop(move || async move {
        let (mut here, mut there) = Connection::pair();
        let mut steps = 0;
        until_somebody_else_runs(async || {
            here.write_all(b"x").await.expect("an open connection");
            steps += 1;
            assert!(steps < 60_000, "the pipe is full, and nobody had a turn");
        })
        .await;
        here.write_all(&large[..60_000 - steps]).await.expect("an open connection");
        until_somebody_else_runs(async || {
            assert_eq!(there.read(&mut [0; 1]).await.expect("an open connection"), 1);
        })
        .await;
    });
}

/// Another task has so much to do that the loop never sleeps.
#[test]
fn by_keeping_the_loop_awake() {
    for waits_for_room in [false, true] {
        for address in crate::support::addresses() {
            let waits = Arc::new(Semaphore::new(0));
            let begins = Arc::clone(&waits);
            let accepted = move |mut accepted: Connection| {
                let begins = Arc::clone(&begins);
                async move {
                    begins.acquire().await.expect("it is never closed").forget();
                    if waits_for_room {
                        let mut buffer = vec![0; 100_000];
                        while accepted.read(&mut buffer).await.expect("an open connection") > 0 {}
                    } else {
                        accepted.write_all(b"x").await.expect("an open connection");
                    }
                }
            };
            crate::support::play(&address, accepted, move |mut dialled| async move {
                let busy = Rc::new(Cell::new(true));
                let is_busy = Rc::clone(&busy);
                drop(anywire_loops::spawn(async move {
                    while is_busy.get() {
                        tokio::task::yield_now().await;
                    }
                }));
                // A task of its own, so that only its own wake-up brings it on.
                let done = anywire_loops::spawn(async move {
                    // More than any wire holds.
                    let (mut left, bytes) = (16 << 20, vec![0; 100_000]);
                    poll_fn(|cx| {
                        loop {
                            let polled = if waits_for_room {
                                dialled.poll_write(cx, &bytes[..left.min(bytes.len())])
                            } else {
                                dialled.poll_read(cx, &mut [0])
                            };
                            let Poll::Ready(moved) = polled else {
                                waits.add_permits(1);
                                return Poll::Pending;
                            };
                            left -= moved.expect("an open connection");
                            if !waits_for_room || left == 0 {
                                return Poll::Ready(());
                            }
                        }
                    })
                    .await;
                    poll_fn(|cx| dialled.poll_flush(cx)).await.expect("an open connection");
                });
                done.await.expect("no panic");
                busy.set(false);
            });
        }
    }
}

#[test]
fn by_connecting() {
    const PEERS: usize = 400;
    for address in crate::support::addresses_without_handshake() {
        let (loops, peers) = (crate::support::loops(1), crate::support::loops(1));
        let listener = crate::support::bind(&loops, &address, &crate::support::listening());
        let address = listener.local().clone();
        let (go_on, mut told) = tokio::sync::watch::channel(());
        let (dialled, all_dialled) = mpsc::channel();
        let waiting = peers.get(0).spawn(move || async move {
            let mut connections = Vec::new();
            for _ in 0..PEERS {
                connections.push(crate::support::dial(&address).await);
            }
            dialled.send(()).expect("the test waits");
            let _ = told.changed().await;
        });
        all_dialled.recv_timeout(crate::support::HANG).expect("the backlog has room");
        let accepted = Arc::new(AtomicUsize::new(0));
        let (seen, seeing) = mpsc::channel();
        let listening = listener.serve({
            let accepted = Arc::clone(&accepted);
            move |connection| {
                drop(connection);
                if accepted.fetch_add(1, Ordering::Relaxed) == 0 {
                    let (accepted, seen) = (Arc::clone(&accepted), seen.clone());
                    drop(anywire_loops::spawn(async move {
                        seen.send(accepted.load(Ordering::Relaxed)).expect("the test waits");
                    }));
                }
            }
        });
        let before = seeing.recv_timeout(crate::support::HANG).expect("another task runs");
        assert!(before < PEERS, "all of them were accepted before anybody else had a turn");
        crate::support::eventually("all are accepted", || accepted.load(Ordering::Relaxed) == PEERS);
        drop((listening, go_on));
        waiting.wait().expect("no panic");
    }
}
