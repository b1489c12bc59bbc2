//! The first signal lets requests finish, the second one cuts them, and the shutdown counts them.
//!
//! A process of its own: the signals go to all of it.

#[path = "behaviours/support/mod.rs"]
mod support;

use std::sync::mpsc::Sender;
use std::time::Duration;

use anywire_server::{Router, Server, State};
use rustix::process::{Signal, getpid, kill_process};
use support::{Peer, Remote};

#[test]
fn a_second_signal_ends_a_server_at_once() {
    let (told, entered) = support::channel::<()>();
    let router =
        Router::new().state(told).get("/", async || "ok").get("/never", async |told: State<Sender<()>>| {
            told.send(()).expect("the test listens");
            std::future::pending::<()>().await;
        });
    let server = Server::new(router).listen("memory:two-signals").loops(1);
    let mut running = server.shutdown_deadline(Duration::MAX).start().expect("a free name");
    running.register_signals().expect("signals can be received");
    let connect = || Peer::new(Remote::dial(running.addresses().next().expect("one address")));
    let (mut idle, mut busy) = (connect(), connect());
    idle.send("GET / HTTP/1.1\r\nhost: x\r\n\r\n");
    assert_eq!(idle.answer(false).text(), "ok");
    busy.send("GET /never HTTP/1.1\r\nhost: x\r\n\r\n");
    entered.next();
    let ends = std::thread::spawn(move || running.wait_for_signal());
    let signal = || kill_process(getpid(), Signal::TERM).expect("a process may signal itself");
    signal();
    // Two signals at once may arrive as one.
    idle.assert_closed();
    signal();
    busy.assert_closed();
    let shutdown = ends.join().expect("no panic").expect("the signals are registered");
    assert_eq!(shutdown.connections_cut, 1);
}
