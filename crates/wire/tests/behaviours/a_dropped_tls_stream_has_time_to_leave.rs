//! A connection with TLS that is dropped while its peer reads nothing holds sealed bytes. They leave once the peer reads, for a
//! few connections of each loop at a time, and no longer when the loop stops.

use std::future::poll_fn;
use std::sync::mpsc;
use std::task::Poll;
use std::time::Duration;

use anywire_loops::Loops;
use anywire_wire::{Address, Connection, ListenerHandle};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::sync::{oneshot, watch};
use tokio::task::coop::unconstrained;

/// Drops each connection once it takes no more, and tells how much it took. Begins when it is told.
fn serve(
    loops: &Loops,
    address: &Address,
    go: &watch::Sender<bool>,
) -> (ListenerHandle, UnboundedReceiver<usize>) {
    let (told, dropped) = unbounded_channel();
    let go = go.subscribe();
    let listening =
        crate::support::bind(loops, address, &crate::support::listening()).serve(move |connection| {
            let (told, mut go) = (told.clone(), go.clone());
            drop(anywire_loops::spawn(async move {
                go.wait_for(|go| *go).await.expect("the test goes on");
                let written = unconstrained(write_all_it_takes(connection)).await;
                told.send(written).expect("the test waits");
            }));
        });
    (listening, dropped)
}

async fn write_all_it_takes(mut connection: Connection) -> usize {
    let mut written = 0;
    loop {
        let polled = poll_fn(|cx| Poll::Ready(connection.poll_write(cx, &[b'x'; 10_000]))).await;
        let Poll::Ready(taken) = polled else { break };
        written += taken.expect("the peer is there");
        assert!(written < 64 << 20, "it takes more than any wire has room for");
    }
    assert!(connection.held_back() > 0, "its peer reads nothing");
    written
}

/// An address of the wire within this process, which has little room of its own.
fn memory() -> Address {
    crate::support::addresses().find(|address| address.scheme() == "tls+memory").expect("a wire of the build")
}

#[test]
fn what_was_written_is_read_after_the_drop() {
    for address in crate::support::addresses().filter(crate::support::has_tls) {
        let (loops, go) = (crate::support::loops(1), watch::Sender::new(true));
        let (listening, mut dropped) = serve(&loops, &address, &go);
        let address = listening.local().clone();
        let (written, read) = crate::support::on_a_loop(move || async move {
            let mut connection = crate::support::dial(&address).await;
            let written = dropped.recv().await.expect("it is served");
            (written, crate::support::read_to_end(&mut connection).await.expect("an orderly end").len())
        });
        assert_eq!(read, written);
    }
}

#[test]
fn few_linger_at_a_time() {
    // The limit, and some more.
    const CONNECTIONS: usize = 64 + 8;
    let (loops, go) = (crate::support::loops(1), watch::Sender::new(false));
    let (listening, mut dropped) = serve(&loops, &memory(), &go);
    let address = listening.local().clone();
    let cut = crate::support::on_a_loop(move || async move {
        let mut connections = Vec::new();
        for _ in 0..CONNECTIONS {
            connections.push(crate::support::dial(&address).await);
        }
        go.send_replace(true);
        for _ in 0..CONNECTIONS {
            dropped.recv().await.expect("it is served");
        }
        let mut cut = 0;
        for mut connection in connections {
            let end =
                crate::support::read_to_end(&mut connection).await.map(drop).map_err(|error| error.kind());
            cut += usize::from(crate::support::is_cut(&connection, &end));
        }
        cut
    });
    // On a slow machine the time of some others may be over, too.
    assert!((CONNECTIONS - 64..CONNECTIONS).contains(&cut), "{cut} of {CONNECTIONS} were cut");
}

#[test]
fn a_loop_that_stops_waits_for_none() {
    let (loops, go) = (crate::support::loops(1), watch::Sender::new(true));
    let (listening, mut dropped) = serve(&loops, &memory(), &go);
    let address = listening.local().clone();
    let (lingers, waits) = mpsc::channel();
    let (stopped, has_stopped) = oneshot::channel();
    let peers = crate::support::loops(1);
    let peer = peers.get(0).spawn(move || async move {
        let mut connection = crate::support::dial(&address).await;
        dropped.recv().await.expect("it is served");
        lingers.send(()).expect("the test waits");
        has_stopped.await.expect("the test goes on");
        let end = crate::support::read_to_end(&mut connection).await.map(drop).map_err(|error| error.kind());
        crate::support::is_cut(&connection, &end)
    });
    waits.recv_timeout(crate::support::HANG).expect("it lingers");
    // Less than a connection may linger.
    let ended = loops.shutdown(Duration::from_secs(4)).expect("this is no loop");
    assert!(ended.is_clean(), "{ended:?}");
    stopped.send(()).expect("the peer waits");
    assert!(peer.wait().expect("no panic"), "the rest was dropped, and the peer knows");
}
