//! A signal sent the moment that a service of datagrams is known ends it in order, however busy its loops are.
//!
//! A process of its own: the signal goes to all of it.
#![cfg(feature = "udp")]

use std::sync::mpsc;

use anywire_server::udp::{Datagram, Replies, UdpServer};
use rustix::process::{Signal, getpid, kill_process};

#[test]
fn a_signal_at_once_ends_the_service_in_order() {
    let service = UdpServer::new(|| |_: &Datagram<'_>, _: &mut Replies<'_>| {});
    let mut running = service.listen("udp:127.0.0.1:0").loops(1).start().expect("a free port");
    running.register_signals().expect("signals can be received");
    running.register_signals().expect("they are registered already");
    // The loop can register nothing from here on until it is let go.
    let (busy, is_busy) = mpsc::channel();
    let (let_go, gone) = mpsc::channel::<()>();
    drop(running.loops().get(0).spawn(move || async move {
        busy.send(()).expect("the test waits");
        let _ = gone.recv();
    }));
    is_busy.recv().expect("the loop runs");
    kill_process(getpid(), Signal::TERM).expect("a process may signal itself");
    drop(let_go);
    let ended = running.wait_for_signal().expect("the signals are registered");
    assert_eq!(ended.counters.datagrams, 0);
}
