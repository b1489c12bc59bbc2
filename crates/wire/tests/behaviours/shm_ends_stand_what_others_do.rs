//! An end of a connection over shared memory stands that its peer dies without a word, and that the waker of another end panics.
#[allow(dead_code, reason = "a part of it is used here")]
use std::future::poll_fn;
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Poll};

use anywire_wire::{Address, ListenOptions};

fn scratch() -> Address {
    crate::support::wires()
        .find(|wire| wire.scheme() == "shm")
        .and_then(|wire| wire.scratch())
        .expect("a path")
}

#[test]
fn a_write_to_a_dead_peer_fails_though_there_is_room() {
    for reads_first in [false, true] {
        let (write, written) = mpsc::channel();
        let (die, dead) = tokio::sync::oneshot::channel();
        let died = Arc::new(Mutex::new(Some(dead)));
        let loops = crate::support::loops(1);
        let listening = crate::support::bind(&loops, &scratch(), &ListenOptions::default()).serve(
            move |mut connection| {
                let (write, dead) =
                    (write.clone(), died.lock().expect("no panic").take().expect("one connection"));
                drop(anywire_loops::spawn(async move {
                    if reads_first {
                        // Registered with the socket as a reader, which then reads no more.
                        let quiet =
                            poll_fn(|cx| Poll::Ready(connection.poll_readable(cx).is_pending())).await;
                        assert!(quiet);
                    }
                    dead.await.expect("the peer dies");
                    let mut bytes = 0;
                    // As many as there is room for without the peer.
                    while bytes < 4096 && connection.write_all(b"x").await.is_ok() {
                        bytes += 1;
                        tokio::task::yield_now().await;
                    }
                    write.send(bytes).expect("the test waits");
                }));
            },
        );
        drop(crate::raw::set_up(listening.local()));
        die.send(()).expect("it waits");
        let bytes = written.recv_timeout(crate::support::HANG).expect("it fails at last");
        assert!(bytes < 4096, "all of the ring was written to, after a read: {reads_first}");
    }
}

#[test]
fn a_panicking_waker_costs_no_other_end_its_wake_up() {
    let (answered, wait_for_answer) = mpsc::channel();
    let (release, released) = tokio::sync::watch::channel(false);
    let serving = crate::support::loops(1);
    let listening =
        crate::support::bind(&serving, &scratch(), &ListenOptions::default()).serve(move |mut connection| {
            let (answered, mut released) = (answered.clone(), released.clone());
            drop(anywire_loops::spawn(async move {
                let mut buffer = [0; 16];
                while let Ok(read @ 1..) = connection.read(&mut buffer).await {
                    if buffer[0] == b's' {
                        let _ = released.wait_for(|released| *released).await;
                    }
                    connection.write_all(&buffer[..read]).await.expect("the peer is there");
                    answered.send(()).expect("the test goes on");
                }
            }));
        });
    let address = listening.local().clone();
    let here = crate::support::loops(1);
    let (tell, told) = mpsc::channel();
    let playing = here.get(0).spawn(move || async move {
        let mut other = crate::support::dial(&address).await;
        let mut hit = crate::support::dial(&address).await;
        other.write_all(b"slow").await.expect("the peer is there");
        // It waits first, so that its turn comes last.
        let waiting = anywire_loops::spawn(async move { other.read(&mut [0; 16]).await.expect("an answer") });
        tokio::task::yield_now().await;
        hit.write_all(b"echo").await.expect("the peer is there");
        let panics = crate::support::panicking_waker();
        assert!(hit.poll_read(&mut Context::from_waker(&panics), &mut [0; 16]).is_pending());
        // The loop stays awake until the peer has answered, so the change has come when it goes to sleep.
        wait_for_answer.recv().expect("an answer");
        tell.send(waiting.await.expect("no panic")).expect("the test waits");
        drop(hit);
    });
    crate::support::eventually("the waker has panicked", || here.get(0).counters().panics == 1);
    release.send(true).expect("it waits");
    assert_eq!(told.recv_timeout(crate::support::HANG), Ok(4), "the answer came, and nobody was woken");
    playing.wait().expect("no panic");
}
