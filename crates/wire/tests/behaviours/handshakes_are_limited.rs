//! Each loop has a limit of handshakes under way, at which the oldest is ended, so that peers that are slow in theirs lock
//! nobody out. How each handshake ended is counted.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use anywire_loops::Loops;
use anywire_wire::tls::{ClientTls, ClientTlsOptions, Roots};
use anywire_wire::{Address, DialOptions, Dialer, ListenOptions, ListenerCounters, ListenerHandle};

fn listen(loops: &Loops, options: &ListenOptions) -> ListenerHandle {
    crate::support::serve_echo(loops, &"tls:127.0.0.1:0".parse().expect("an address"), options)
}

/// A peer that begins a handshake and then gives one byte at a time.
struct Slow(TcpStream);

impl Slow {
    fn begin(listening: &ListenerHandle) -> Self {
        let stream = TcpStream::connect(listening.local().location()).expect("somebody listens there");
        stream.set_read_timeout(Some(crate::support::HANG)).expect("a socket");
        stream.set_nodelay(true).expect("a socket");
        let mut slow = Self(stream);
        slow.next(HEAD);
        slow
    }

    fn next(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).expect("it is still there");
    }

    /// The listener closes, and says nothing before.
    fn assert_closed(&mut self) {
        match self.0.read(&mut [0; 1]) {
            Ok(0) => {}
            Err(error) if error.kind() == ErrorKind::ConnectionReset => {}
            other => panic!("{other:?} instead of an end"),
        }
    }

    fn assert_open(&mut self) {
        self.0.set_nonblocking(true).expect("a socket");
        let read = self.0.read(&mut [0; 1]).expect_err("it is open");
        assert_eq!(read.kind(), ErrorKind::WouldBlock);
        self.0.set_nonblocking(false).expect("a socket");
    }
}

/// The head of a record and of a `client_hello` that is longer than what comes of it.
const HEAD: &[u8] = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc";

fn eventually(listening: &ListenerHandle, what: &str, is_so: impl Fn(&ListenerCounters) -> bool) {
    crate::support::eventually(what, || is_so(&listening.counters()));
}

#[test]
fn at_the_limit_the_oldest_is_ended() {
    let loops = crate::support::loops(1);
    let listening = listen(&loops, &ListenOptions { handshakes_max: 2, ..crate::support::listening() });
    let mut slow = Vec::new();
    for count in 1..=2 {
        slow.push(Slow::begin(&listening));
        eventually(&listening, "it is under way", |counters| counters.handshakes_under_way == count);
    }
    // A byte is no reason to stay.
    slow.iter_mut().for_each(|slow| slow.next(b"\x03"));
    slow.push(Slow::begin(&listening));
    eventually(&listening, "one is ended", |counters| counters.ended_handshakes == 1);
    slow[0].assert_closed();
    slow[1].assert_open();
    slow[2].assert_open();

    // More slow peers lock no honest one out.
    for count in 1..=20 {
        let mut more = Slow::begin(&listening);
        crate::support::play_on(&listening, async |mut connection| {
            crate::support::ask_echo(&mut connection).await
        });
        eventually(&listening, "it is made", |counters| counters.handshakes == count);
        more.assert_open();
        slow.push(more);
    }
    let counters = listening.counters();
    assert!(counters.handshakes_under_way <= 2, "{counters:?}");
    assert_eq!((counters.failed_handshakes, counters.handshake_timeouts), (0, 0), "{counters:?}");
}

#[test]
fn connections_past_their_handshake_do_not_count() {
    let loops = crate::support::loops(1);
    let listening = listen(&loops, &ListenOptions { handshakes_max: 1, ..crate::support::listening() });
    let address = listening.local().clone();
    crate::support::on_a_loop(move || async move {
        let mut connections = Vec::new();
        for _ in 0..4 {
            let mut connection = crate::support::dial(&address).await;
            // The end that dials is done before the listener has its last message.
            crate::support::ask_echo(&mut connection).await;
            connections.push(connection);
        }
        for connection in &mut connections {
            crate::support::ask_echo(connection).await;
        }
    });
    eventually(&listening, "all are made", |counters| counters.handshakes == 4);
    assert_eq!(listening.counters().ended_handshakes, 0);
}

#[test]
fn each_end_of_a_handshake_has_its_counter() {
    let loops = crate::support::loops(1);
    let handshake_timeout = Duration::from_millis(300);
    let listening = listen(&loops, &ListenOptions { handshake_timeout, ..crate::support::listening() });
    // One byte at a time renews no deadline.
    let mut slow = Slow::begin(&listening);
    eventually(&listening, "it is under way", |counters| counters.handshakes_under_way == 1);
    while listening.counters().handshake_timeouts == 0 {
        // The listener may be gone.
        let _ = slow.0.write_all(b"\0");
        std::thread::sleep(Duration::from_millis(10));
    }
    let mut garbage = Slow::begin(&listening);
    garbage.next(&[0xff; 600]);
    // The listener waits so long, for the peer to read why.
    drop(garbage);
    eventually(&listening, "it has failed", |counters| counters.failed_handshakes == 1);
    drop(Slow::begin(&listening));
    eventually(&listening, "its peer has left", |counters| counters.failed_handshakes == 2);

    let roots = Roots::only_pem(crate::support::trial::pem().0.as_bytes()).expect("a root");
    let tls = ClientTls::new(ClientTlsOptions { roots, ..ClientTlsOptions::default() }).expect("a root");
    for resumed in [0, 1] {
        let dialer = Dialer::new(DialOptions { tls: Some(tls.clone()), ..crate::support::dialling() });
        let address = listening.local().clone();
        crate::support::on_a_loop(move || async move {
            let mut connection = dialer.dial(&address).await.expect("somebody listens there");
            // The tickets come with the first bytes.
            crate::support::ask_echo(&mut connection).await;
        });
        eventually(&listening, "it is made", |counters| counters.handshakes == resumed + 1);
        assert_eq!(listening.counters().resumed_handshakes, resumed);
    }
    eventually(&listening, "nothing is left", |counters| counters.handshakes_under_way == 0);
    assert_eq!(listening.counters().ended_handshakes, 0);
}

#[test]
fn wires_without_a_handshake_count_none() {
    let loops = crate::support::loops(1);
    let address: Address = "tcp:127.0.0.1:0".parse().expect("an address");
    let listening = crate::support::serve_echo(&loops, &address, &crate::support::listening());
    crate::support::play_on(&listening, async |mut connection| {
        crate::support::ask_echo(&mut connection).await
    });
    assert_eq!(listening.counters().accepted, 1);
    assert_eq!(listening.counters().handshakes, 0);
}
