//! Every phase of a call with all defaults on, scaled down by one factor: which deadline ends it, what the caller sees,
//! and which counter moves. Peers send nothing, one byte at a time, or read nothing.

use std::sync::{Arc, Mutex, mpsc};
use std::task::Poll;
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use crate::support::bytes_of_http2::DATA;
use crate::support::{
    AnyWire, Gate, HANG, Peer, Talk, block_on, builder, client, client_of_http2, eventually, fed,
    on_four_wires_at_a_time, poll_once, wire,
};
use anywire_client::{Call, Client, ClientBuilder, Counters, Error, Limits, Phase, Timeouts};
use anywire_loops::Loops;
use bytes::Bytes;

/// A call that some deadline has to end.
struct Case {
    name: &'static str,
    /// What the peer does with the connection.
    peer: fn(&mut Talk),
    /// What the call has beside its URL.
    call: fn(Call) -> Call,
    ends_by: fn(AnyWire) -> Phase,
}

const CASES: &[Case] = &[
    Case {
        name: "a head that the peer does not read",
        peer: reads_nothing,
        call: |call| call.header("x-large", vec![b'x'; MORE_THAN_A_WIRE_HOLDS]),
        ends_by: |_| Phase::Write,
    },
    Case {
        name: "a whole body that the peer does not read",
        peer: reads_nothing,
        call: large_body,
        ends_by: |_| Phase::Write,
    },
    Case {
        name: "a streamed body that the peer does not read",
        peer: reads_nothing,
        call: |call| call.body(fed(|| Some(Bytes::from_static(&[b'x'; 64 << 10])), Duration::ZERO)),
        ends_by: |_| Phase::Write,
    },
    Case {
        name: "a body that the peer reads byte by byte",
        peer: |talk| {
            while talk.read(1).is_some() {
                sleep(PACE)
            }
        },
        call: large_body,
        // Only the wires in memory take a byte where one was read. Kernels and our own TCP wait for more room.
        ends_by: |wire| match wire.scheme() {
            "memory" | "shm" => Phase::Total,
            _ => Phase::Write,
        },
    },
    Case {
        name: "a body that the peer does not read, while it sends interim answers byte by byte",
        peer: |talk| {
            trickle(talk, "HTTP/1.1 103 Early Hints\r\n\r\n");
            reads_nothing(talk);
        },
        call: large_body,
        ends_by: |_| Phase::Write,
    },
    Case {
        name: "a body that its caller never makes",
        peer: |talk| talk.wait_for_end(),
        call: |call| call.body(fed(|| None, PACE)),
        ends_by: |_| Phase::Total,
    },
    Case {
        name: "a body that its caller makes byte by byte",
        peer: |talk| talk.wait_for_end(),
        call: |call| call.body(fed(|| Some(Bytes::from_static(b"x")), PACE)),
        ends_by: |_| Phase::Total,
    },
    Case { name: "no answer", peer: |talk| talk.wait_for_end(), call: |call| call, ends_by: |_| Phase::Read },
    Case {
        name: "a head byte by byte",
        peer: |talk| {
            talk.request_head();
            talk.say("HTTP/1.1 200 OK\r\nx: ");
            trickle(talk, "x");
        },
        call: |call| call,
        ends_by: |_| Phase::Total,
    },
    Case {
        name: "interim answers byte by byte",
        peer: |talk| {
            talk.request_head();
            trickle(talk, "HTTP/1.1 103 Early Hints\r\n\r\n");
        },
        call: |call| call,
        ends_by: |_| Phase::Total,
    },
    Case {
        name: "a body that stops",
        peer: |talk| {
            talk.request_head();
            talk.say("HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf");
            talk.wait_for_end();
        },
        call: |call| call,
        ends_by: |_| Phase::Body,
    },
    Case {
        name: "a body byte by byte, in chunks",
        peer: |talk| {
            talk.request_head();
            talk.say("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n");
            trickle(talk, "1\r\nx\r\n");
        },
        call: |call| call,
        ends_by: |_| Phase::Total,
    },
    Case {
        name: "trailers that stop",
        peer: |talk| {
            talk.request_head();
            talk.say("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\nx: ");
            talk.wait_for_end();
        },
        call: |call| call,
        ends_by: |_| Phase::Body,
    },
    Case {
        name: "trailers byte by byte",
        peer: |talk| {
            talk.request_head();
            talk.say("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\nx: ");
            trickle(talk, "x");
        },
        call: |call| call,
        ends_by: |_| Phase::Total,
    },
];

#[test]
fn each_case_ends_by_its_deadline_on_each_wire() {
    on_four_wires_at_a_time(|wire| {
        // Few loops, so that a slow machine is busy with deadlines and not with threads.
        let (there, here) = (Loops::start(1).expect("loops start"), Loops::start(1).expect("loops start"));
        let silent = Peer::start_on(&there, wire, |talk| talk.wait_for_end());
        let client = builder().on(&here).read_timeout(HANG).build();
        // A call with half as much time again: what ends after it ends too late.
        let clock = client.get(silent.url("/")).via(silent.via()).total_timeout(scaled().total * 3 / 2);
        let mut clock = clock.send();
        assert!(poll_once(&mut clock).is_pending());
        let clock = Mutex::new(clock);
        thread::scope(|scope| {
            for case in CASES {
                let named = thread::Builder::new().name(format!("{} on {}", case.name, wire.scheme()));
                let play = || {
                    case.play(wire, &there, &here);
                    let clock = poll_once(&mut *clock.lock().expect("one look at a time"));
                    assert!(clock.is_pending(), "{}: ended too late", case.name);
                };
                named.spawn_scoped(scope, play).expect("the system has threads left");
            }
        });
    });
}

impl Case {
    fn play(&self, wire: AnyWire, there: &Loops, here: &Loops) {
        let script = self.peer;
        let peer = Peer::start_on(there, wire, move |mut talk| script(&mut talk));
        // None ends by this deadline, and all dial at once.
        let client = defaults(builder().on(here)).connect_timeout(HANG).build();
        let call = (self.call)(client.post(peer.url("/")).via(peer.via()));
        let error = block_on(async { call.send().await?.bytes().await }).expect_err(self.name);
        let phase = (self.ends_by)(wire);
        let limits = scaled();
        let limit = match phase {
            Phase::Write => limits.write,
            Phase::Read | Phase::Body => limits.read,
            _ => limits.total,
        };
        assert!(
            matches!(&error, Error::Timeout { phase: found, limit: of, .. } if (*found, *of) == (phase, limit)),
            "{}: {error:?}",
            self.name
        );
        assert!(error.is_timeout() && error.may_have_been_processed(), "{}: {error:?}", self.name);
        assert_counted(self.name, &client, phase);
    }
}

#[test]
fn a_call_that_gets_no_connection_ends_by_the_acquire_deadline() {
    on_four_wires_at_a_time(|wire| {
        let peer = Peer::start(wire, |talk| talk.wait_for_end());
        let (_loops, client) = client(1, |builder| defaults(builder).limits(narrow()));
        let mut busy = client.get(peer.url("/")).via(peer.via()).send();
        assert!(poll_once(&mut busy).is_pending());
        eventually("the connection is busy", || client.counters().total().active == 1);
        let error = block_on(client.get(peer.url("/")).via(peer.via()).send()).expect_err("it is busy");
        assert!(matches!(error, Error::Timeout { phase: Phase::Acquire, sent: false, .. }), "{error:?}");
        drop(busy);
        assert_counted("a queue", &client, Phase::Acquire);
    });
}

#[test]
fn a_dial_that_hangs_ends_by_the_connect_deadline_and_not_by_the_shorter_one_for_waiting() {
    let gate = Gate::new();
    gate.fill();
    // Far apart, so that a late tick does not make them one.
    let timeouts =
        Timeouts { acquire: Duration::from_millis(1), connect: Duration::from_secs(2), ..scaled() };
    let (_loops, client) = client(1, |builder| builder.timeouts(timeouts));
    let error = block_on(client.get("http://peer.example/").via(gate.via()).send()).expect_err("no room");
    assert!(matches!(error, Error::Connect { sent: false, .. }), "{error:?}");
    assert!(error.is_connect() && error.is_timeout(), "{error:?}");
    assert_counted("a dial", &client, Phase::Connect);
    assert_eq!(client.counters().total().dial_failures, 1);
}

#[test]
fn a_call_that_waits_behind_a_dial_that_hangs_ends_by_the_acquire_deadline() {
    let gate = Gate::new();
    gate.fill();
    let timeouts = Timeouts { connect: HANG, ..scaled() };
    let (_loops, client) = client(1, |builder| builder.timeouts(timeouts).limits(narrow()));
    let mut dialing = client.get("http://peer.example/").via(gate.via()).send();
    assert!(poll_once(&mut dialing).is_pending());
    eventually("it waits for its dial", || client.counters().total().waiting == 1);
    let error = block_on(client.get("http://peer.example/").via(gate.via()).send()).expect_err("no place");
    assert!(matches!(error, Error::Timeout { phase: Phase::Acquire, .. }), "{error:?}");
    assert!(poll_once(&mut dialing).is_pending());
    assert_eq!(client.counters().total().waiting, 1);
}

#[test]
fn only_the_write_deadline_ends_a_request_that_is_not_taken() {
    on_four_wires_at_a_time(|wire| {
        let peer = Peer::start(wire, |mut talk| reads_nothing(&mut talk));
        let timeouts =
            Timeouts { read: HANG * 60, total: HANG * 60, write: Duration::from_millis(100), ..scaled() };
        let (_loops, client) = client(1, |builder| builder.timeouts(timeouts));
        let call = large_body(client.post(peer.url("/")).via(peer.via()));
        let error = block_on(call.send()).expect_err("it is not taken");
        assert!(matches!(error, Error::Timeout { phase: Phase::Write, .. }), "{error:?}");
    });
}

#[test]
fn a_caller_who_makes_its_body_byte_by_byte_renews_no_write_deadline() {
    // In memory, where a first piece of 100 KiB is more than the wire holds and leaves room for what the caller adds.
    let peer = Peer::start(wire("memory"), |mut talk| reads_nothing(&mut talk));
    let timeouts = Timeouts { write: Duration::from_millis(500), total: HANG * 60, ..scaled() };
    let (_loops, client) = client(1, |builder| builder.timeouts(timeouts));
    let mut first = Some(Bytes::from_static(&[b'x'; 100 << 10]));
    let body = fed(move || Some(first.take().unwrap_or(Bytes::from_static(b"x"))), PACE);
    let call = client.post(peer.url("/")).via(peer.via()).body(body);
    let error = block_on(call.send()).expect_err("it is not taken");
    assert!(matches!(error, Error::Timeout { phase: Phase::Write, .. }), "{error:?}");
}

#[test]
fn the_wake_of_one_deadline_renews_no_other() {
    let peer = Peer::start(wire("memory"), |mut talk| {
        if talk.request_head().path() == "/stops" {
            talk.say("HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf");
        }
        talk.wait_for_end();
    });
    let (total, read) = (Duration::from_secs(1), Duration::from_secs(3));
    let timeouts = Timeouts { total, read, ..Timeouts::default() };
    let (_loops, client) = client(1, |builder| builder.timeouts(timeouts));
    let mut answer = block_on(client.get(peer.url("/stops")).via(peer.via()).send()).expect("an answer");
    assert_eq!(block_on(answer.chunk()).expect("a good body").expect("some of it"), "half");
    // Begins later on the same loop, and ends before a silence that began anew when the total deadline passed.
    let clock = client.get(peer.url("/never")).via(peer.via());
    let mut clock = clock.read_timeout(HANG).total_timeout(read + total / 2).send();
    assert!(poll_once(&mut clock).is_pending());
    let error = block_on(answer.chunk()).expect_err("nothing more comes");
    assert!(matches!(error, Error::Timeout { phase: Phase::Body, .. }), "{error:?}");
    assert!(poll_once(&mut clock).is_pending(), "the silence began anew");
}

#[test]
fn no_deadline_ends_an_answer_whose_caller_takes_its_time() {
    on_four_wires_at_a_time(|wire| {
        const LENGTH: usize = 4 << 20;
        let peer = Peer::start(wire, |mut talk| {
            if talk.request_head().path() == "/never" {
                return talk.wait_for_end();
            }
            talk.say(format!("HTTP/1.1 200 OK\r\ncontent-length: {LENGTH}\r\n\r\n"));
            talk.say(vec![b'x'; LENGTH]);
            talk.wait_for_end();
        });
        let second = Duration::from_secs(1);
        let timeouts = Timeouts { read: second, write: second, total: second * 2, ..Timeouts::default() };
        let (_loops, client) = client(1, |builder| builder.timeouts(timeouts));
        let slow = client.get(peer.url("/")).via(peer.via());
        let mut answer = block_on(slow.send()).expect("an answer");
        let mut read = block_on(answer.chunk()).expect("a good body").expect("some of it").len();
        // A call that begins later and has longer ends: all deadlines of the first have passed.
        let clock = client.get(peer.url("/never")).via(peer.via());
        let clock = clock.total_timeout(second * 3).read_timeout(HANG);
        assert!(block_on(clock.send()).expect_err("never answered").is_timeout());
        assert_counted("a clock", &client, Phase::Total);
        while let Some(chunk) = block_on(answer.chunk()).expect("a good body") {
            read += chunk.len();
        }
        assert_eq!(read, LENGTH);
    });
}

/// The time for which a caller asks for nothing, while its peer sends nothing either, is no silence. That of a caller who asks is,
/// also if it asks again and again, as `select!` does.
#[test]
fn a_silence_counts_only_while_the_caller_asks() {
    let second = Duration::from_secs(1);
    let options = |builder: ClientBuilder| builder.read_timeout(second);
    let (go_on, going_on) = mpsc::channel::<()>();
    let going_on = Arc::new(Mutex::new(going_on));
    let wait = move || going_on.lock().expect("no panic").recv().expect("the test goes on");
    let over_http2 = wait.clone();
    let peer = Peer::start(wire("tcp"), move |mut talk| {
        talk.request_head();
        talk.say("HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\na");
        wait();
        talk.say("b");
        talk.wait_for_end();
    });
    let peer_of_http2 = Peer::of_http2(wire("tcp"), move |mut frames, _| {
        let Some(stream) = frames.request() else { return };
        frames.head(stream, false);
        frames.say(DATA, 0, stream, b"a");
        over_http2();
        frames.say(DATA, 0, stream, b"b");
        frames.talk.wait_for_end();
    });
    let silent = Peer::start(wire("tcp"), |talk| talk.wait_for_end());
    let (_clock_loops, clock) = client(1, |builder| builder);
    for (peer, (_loops, client)) in [(&peer, client(1, options)), (&peer_of_http2, client_of_http2(options))]
    {
        let mut answer = block_on(client.get(peer.url("/")).send()).expect("an answer");
        assert_eq!(block_on(answer.chunk()).expect("a good body").expect("some of it"), "a");
        // A call that begins later and has longer ends.
        let clock = clock.get(silent.url("/")).read_timeout(second * 2);
        assert!(block_on(clock.send()).expect_err("never answered").is_timeout());
        go_on.send(()).expect("the peer waits");
        assert_eq!(block_on(answer.chunk()).expect("a good body").expect("some of it"), "b");
        let hang = Instant::now() + HANG;
        let error = loop {
            let mut chunk = Box::pin(answer.chunk());
            if let Poll::Ready(ended) = poll_once(&mut chunk) {
                break ended.expect_err("nothing more comes");
            }
            assert!(Instant::now() < hang, "its silence begins anew");
            sleep(PACE);
        };
        assert!(matches!(error, Error::Timeout { phase: Phase::Body, .. }), "{error:?}");
    }
}

/// The counters of deadlines: that of `phase` says 1, and the others 0.
fn assert_counted(name: &str, client: &Client, phase: Phase) {
    let Counters {
        acquire_timeouts,
        resolve_timeouts,
        connect_timeouts,
        handshake_timeouts,
        write_timeouts,
        read_timeouts,
        body_timeouts,
        total_timeouts,
        ..
    } = client.counters().total();
    let counted = [
        (Phase::Acquire, acquire_timeouts),
        (Phase::Resolve, resolve_timeouts),
        (Phase::Connect, connect_timeouts),
        (Phase::Handshake, handshake_timeouts),
        (Phase::Write, write_timeouts),
        (Phase::Read, read_timeouts),
        (Phase::Body, body_timeouts),
        (Phase::Total, total_timeouts),
    ];
    for (other, count) in counted {
        assert_eq!(count, u64::from(other == phase), "{name}: {other} while {phase} ended it");
    }
}

fn defaults(builder: ClientBuilder) -> ClientBuilder {
    // Bodies that never end are collected until a deadline ends them.
    builder.timeouts(scaled()).limits(Limits { body_bytes: usize::MAX, ..Limits::default() })
}

fn narrow() -> Limits {
    Limits { connections_per_origin: 1, ..Limits::default() }
}

/// The default deadlines of a call, all shorter by one factor.
fn scaled() -> Timeouts {
    // A handshake has work to do, which takes its time on a busy machine.
    let Timeouts {
        acquire,
        resolve,
        connect,
        handshake,
        expect,
        write,
        first_byte,
        read,
        stream,
        forwarded,
        total,
        stream_total,
        drain,
        idle,
        lifetime,
        pool_unused,
    } = Timeouts::default();
    let by = |timeout: Duration| timeout / FACTOR;
    Timeouts {
        acquire: by(acquire),
        resolve: by(resolve),
        connect: by(connect),
        handshake,
        expect: by(expect),
        write: by(write),
        first_byte: first_byte.map(by),
        read: by(read),
        stream: by(stream),
        forwarded: by(forwarded),
        total: by(total),
        stream_total,
        drain: by(drain),
        idle: by(idle),
        lifetime: by(lifetime),
        pool_unused: by(pool_unused),
    }
}

/// Holds the connection for as long as the peer lives.
fn reads_nothing(talk: &mut Talk) {
    talk.with(async |_| std::future::pending::<()>().await);
}

/// Sends `text` again and again, one byte at a time, until the client has left.
fn trickle(talk: &Talk, text: &str) {
    for byte in text.bytes().cycle() {
        if !talk.try_say([byte]) {
            return;
        }
        sleep(PACE);
    }
}

fn large_body(call: Call) -> Call {
    call.body(vec![b'x'; MORE_THAN_A_WIRE_HOLDS])
}

/// 60 s of the total deadline are 15 s.
const FACTOR: u32 = 4;

/// Time between two bytes: a thirtieth of the shortest deadline that they renew.
const PACE: Duration = Duration::from_millis(50);

/// More bytes than two sockets hold between them.
const MORE_THAN_A_WIRE_HOLDS: usize = 24 << 20;
