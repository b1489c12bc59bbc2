//! Every phase of a call over HTTP/2 with all defaults on, scaled down by one factor: which deadline ends it, and which
//! counter moves. Only what belongs to the call renews its deadlines.

use std::thread::{self, sleep};
use std::time::Duration;

use crate::support::bytes_of_http2::*;
use crate::support::{
    AnyWire, Frames, HANG, Peer, all, block_on, builder, client_of_http2, fed, on_each_wire,
    on_four_wires_at_a_time, wire,
};
use anywire_client::{Call, Error, Limits, Phase, Timeouts};
use anywire_http::{Body, h2};
use anywire_loops::Loops;
use bytes::Bytes;

/// A call that some deadline has to end.
struct Case {
    name: &'static str,
    /// What the peer does once it has read the head of the request.
    peer: fn(&mut Frames, u32),
    /// What the call has beside its URL.
    call: fn(Call) -> Call,
    ends_by: Phase,
}

const CASES: &[Case] = &[
    Case {
        name: "a body that the peer does not read",
        peer: |frames, _| {
            open_windows(frames);
            frames.talk.with(async |_| std::future::pending::<()>().await);
        },
        call: large_body,
        ends_by: Phase::Write,
    },
    Case {
        name: "a body for which the peer opens no window",
        peer: |frames, _| frames.talk.wait_for_end(),
        call: large_body,
        ends_by: Phase::Write,
    },
    Case {
        name: "a body for which the peer opens its window byte by byte",
        peer: |frames, stream| {
            frames.say(WINDOW_UPDATE, 0, 0, &[0, 1, 0, 0]);
            trickle(frames, &frame(WINDOW_UPDATE, 0, stream, &[0, 0, 0, 1]));
        },
        call: large_body,
        ends_by: Phase::Total,
    },
    Case {
        name: "a body that its caller never makes",
        peer: |frames, _| frames.talk.wait_for_end(),
        call: |call| {
            let (sender, body) = Body::channel(1);
            thread::spawn(move || {
                crate::support::eventually("the body is dropped", || {
                    sleep(PACE);
                    sender.is_closed()
                });
            });
            call.body(body)
        },
        ends_by: Phase::Total,
    },
    Case {
        name: "no answer",
        peer: |frames, _| frames.talk.wait_for_end(),
        call: |call| call,
        ends_by: Phase::Read,
    },
    Case {
        name: "no answer but pings",
        peer: |frames, _| trickle(frames, &frame(PING, 0, 0, &[0; 8])),
        call: |call| call,
        ends_by: Phase::Read,
    },
    Case {
        name: "interim answers without end",
        peer: |frames, stream| {
            trickle(frames, &frame(HEADERS, END_HEADERS, stream, &literals(&[(":status", "103")])));
        },
        call: |call| call,
        ends_by: Phase::Total,
    },
    Case {
        name: "a body that stops",
        peer: |frames, stream| {
            frames.head(stream, false);
            frames.say(DATA, 0, stream, b"half");
            frames.talk.wait_for_end();
        },
        call: |call| call,
        ends_by: Phase::Body,
    },
    Case {
        name: "a body that stops, and pings",
        peer: |frames, stream| {
            frames.head(stream, false);
            trickle(frames, &frame(PING, 0, 0, &[0; 8]));
        },
        call: |call| call,
        ends_by: Phase::Body,
    },
    Case {
        name: "a body byte by byte, in frames",
        peer: |frames, stream| {
            frames.head(stream, false);
            trickle(frames, &frame(DATA, 0, stream, b"x"));
        },
        call: |call| call,
        ends_by: Phase::Total,
    },
    Case {
        name: "one frame of a body byte by byte",
        peer: |frames, stream| {
            frames.head(stream, false);
            frames.talk.say([0, 0x40, 0, DATA, 0, 0, 0, 0, stream as u8]);
            trickle(frames, b"x");
        },
        call: |call| call,
        ends_by: Phase::Total,
    },
];

#[test]
fn each_case_ends_by_its_deadline_on_each_wire() {
    on_four_wires_at_a_time(|wire| {
        let (there, here) = (Loops::start(1).expect("loops start"), Loops::start(1).expect("loops start"));
        thread::scope(|scope| {
            for case in CASES {
                let named = thread::Builder::new().name(format!("{} on {}", case.name, wire.scheme()));
                let (there, here) = (&there, &here);
                let play = move || case.play(wire, there, here);
                named.spawn_scoped(scope, play).expect("the system has threads left");
            }
        });
    });
}

impl Case {
    fn play(&self, wire: AnyWire, there: &Loops, here: &Loops) {
        let script = self.peer;
        let peer = Peer::start_with(there, wire, &["h2"], move |talk| {
            let Some(mut frames) = Frames::accept(talk, &[]) else { return };
            if let Some(stream) = frames.request() {
                script(&mut frames, stream);
            }
        });
        let limits = Limits { body_bytes: usize::MAX, interim_responses: usize::MAX, ..Limits::default() };
        let builder = builder().on(here).timeouts(scaled()).limits(limits);
        let client = builder.http2_prior_knowledge().build();
        let call = (self.call)(client.post(peer.url("/")).via(peer.via()));
        let error = block_on(async { call.send().await?.bytes().await }).expect_err(self.name);
        let Error::Timeout { phase, sent: true, .. } = &error else { panic!("{}: {error:?}", self.name) };
        assert_eq!(*phase, self.ends_by, "{}", self.name);
        let counters = client.counters().total();
        let counted = match phase {
            Phase::Write => counters.write_timeouts,
            Phase::Read => counters.read_timeouts,
            Phase::Body => counters.body_timeouts,
            _ => counters.total_timeouts,
        };
        assert_eq!((counted, counters.active), (1, 0), "{}: {counters:?}", self.name);
    }
}

#[test]
fn a_caller_who_makes_its_body_byte_by_byte_renews_no_write_deadline() {
    // In memory, where a first piece of 100 KiB is more than the wire holds and leaves room for what the caller adds.
    let peer = Peer::of_http2(wire("memory"), |frames, _| {
        open_windows(&frames);
        frames.say(SETTINGS, ACK, 0, &[]);
        frames.talk.with(async |_| std::future::pending::<()>().await);
    });
    let timeouts = Timeouts { write: Duration::from_millis(500), total: HANG * 60, ..scaled() };
    let (_loops, client) = client_of_http2(|builder| builder.timeouts(timeouts));
    let mut first = Some(Bytes::from_static(&[b'x'; 100 << 10]));
    let body = fed(move || Some(first.take().unwrap_or(Bytes::from_static(b"x"))), PACE);
    let call = client.post(peer.url("/")).via(peer.via()).body(body);
    let error = block_on(call.send()).expect_err("it is not taken");
    assert!(matches!(error, Error::Timeout { phase: Phase::Write, .. }), "{error:?}");
}

#[test]
fn one_call_over_time_does_not_end_another() {
    on_four_wires_at_a_time(|wire| {
        let peer = Peer::of_http2(wire, |mut frames, _| {
            let (Some(first), Some(second)) = (frames.request(), frames.request()) else { return };
            frames.until(RST_STREAM);
            frames.answer(second);
            assert!(first < second);
            frames.talk.wait_for_end();
        });
        let (_loops, client) = client_of_http2(|builder| builder);
        let call = async |limit| {
            client.get(peer.url("/")).via(peer.via()).read_timeout(limit).send().await?.text().await
        };
        let answers = all([Duration::from_millis(100), HANG].map(call));
        let [Err(Error::Timeout { phase: Phase::Read, .. }), Ok(text)] = &answers[..] else {
            panic!("{answers:?}")
        };
        assert_eq!(text, "ok");
        assert_eq!(client.counters().total().dialed, 1);
    });
}

#[test]
fn a_connection_that_has_fallen_silent_gets_no_more_calls() {
    on_four_wires_at_a_time(|wire| {
        let peer = Peer::of_http2(wire, |mut frames, number| {
            let mut calls = 0;
            while let Some(stream) = frames.request() {
                calls += 1;
                if number > 0 || calls == 1 {
                    frames.answer(stream);
                }
            }
        });
        let (_loops, client) = client_of_http2(|builder| builder);
        let answer = || {
            let call = client.get(peer.url("/")).via(peer.via());
            block_on(async { call.send().await?.text().await })
        };
        // Behind it nothing more comes of the connection's start, which would be heard as late as it comes.
        assert_eq!(answer().expect("an answer"), "ok");
        let call = client.get(peer.url("/")).via(peer.via()).read_timeout(Duration::from_millis(100));
        let error = block_on(call.send()).expect_err("no answer");
        assert!(matches!(error, Error::Timeout { phase: Phase::Read, .. }), "{error:?}");
        assert_eq!(answer().expect("an answer"), "ok");
        assert_eq!(client.counters().total().dialed, 2);
    });
}

#[test]
fn a_peer_that_answers_no_ping_loses_its_calls() {
    on_four_wires_at_a_time(|wire| {
        let peer = Peer::of_http2(wire, |frames, _| frames.talk.wait_for_end());
        let limits = Limits {
            http2: h2::Limits { ping_deadline: Duration::from_millis(200), ..Limits::default().http2 },
            ..Limits::default()
        };
        let (_loops, client) =
            client_of_http2(|builder| builder.limits(limits).ping_interval(Duration::from_millis(200)));
        let error = block_on(client.get(peer.url("/")).via(peer.via()).send()).expect_err("nobody is there");
        assert!(
            matches!(
                error,
                Error::Http2 { source: h2::Error::Silent { what: h2::Unacknowledged::Ping }, .. }
            ),
            "{error:?}"
        );
    });
}

#[test]
fn a_peer_that_answers_pings_is_there() {
    on_each_wire(|wire| {
        let peer = Peer::of_http2(wire, |mut frames, _| {
            let mut pings = 0;
            let mut stream = 0;
            while let Some(frame) = frames.next() {
                match frame.kind {
                    HEADERS => stream = frame.stream,
                    PING => {
                        frames.say(PING, ACK, 0, &frame.payload);
                        pings += 1;
                    }
                    _ => {}
                }
                if pings == 3 && stream > 0 {
                    frames.answer(stream);
                }
            }
        });
        let (_loops, client) =
            client_of_http2(|builder| builder.ping_interval(Duration::from_millis(50)).read_timeout(HANG));
        let call = client.get(peer.url("/")).via(peer.via());
        assert_eq!(block_on(async { call.send().await?.text().await }).expect("an answer"), "ok");
    });
}

#[test]
fn a_peer_that_acknowledges_no_settings_loses_its_calls() {
    on_four_wires_at_a_time(|wire| {
        let peer = Peer::asked_for_http2(wire, |talk| {
            talk.say(frame(SETTINGS, 0, 0, &[]));
            talk.wait_for_end();
        });
        let limits = Limits {
            http2: h2::Limits { settings_deadline: Duration::from_millis(200), ..Limits::default().http2 },
            ..Limits::default()
        };
        let (_loops, client) = client_of_http2(|builder| builder.limits(limits));
        let error =
            block_on(client.get(peer.url("/")).via(peer.via()).send()).expect_err("no acknowledgement");
        let silent = matches!(
            error,
            Error::Http2 { source: h2::Error::Silent { what: h2::Unacknowledged::Settings }, .. }
        );
        assert!(silent, "{error:?}");
    });
}

#[test]
fn an_idle_connection_is_closed_in_time() {
    on_four_wires_at_a_time(|wire| {
        let (report, ended) = std::sync::mpsc::channel();
        let peer = Peer::of_http2(wire, move |mut frames, _| {
            while let Some(stream) = frames.request() {
                frames.answer(stream);
            }
            let _ = report.send(());
        });
        let (_loops, client) = client_of_http2(|builder| builder.idle_timeout(Duration::from_millis(100)));
        let call = client.get(peer.url("/")).via(peer.via());
        assert_eq!(block_on(async { call.send().await?.text().await }).expect("an answer"), "ok");
        ended.recv().expect("the connection ends");
        crate::support::eventually("it is counted", || {
            let counters = client.counters().total();
            // It counts as idle until it is closed, which takes a while on a wire with a closing of its own.
            counters.idle_timeouts == 1 && counters.idle == 0
        });
    });
}

/// The default deadlines of a call, all shorter by one factor.
fn scaled() -> Timeouts {
    let Timeouts { write, read, total, .. } = Timeouts::default();
    Timeouts { write: write / FACTOR, read: read / FACTOR, total: total / FACTOR, ..Timeouts::default() }
}

fn open_windows(frames: &Frames) {
    frames.say(SETTINGS, 0, 0, &[0, 4, 0x7f, 255, 255, 255]);
    frames.say(WINDOW_UPDATE, 0, 0, &[0x40, 0, 0, 0]);
}

/// Says a piece again and again, until the client has left. What the client says is dropped.
fn trickle(frames: &Frames, piece: &[u8]) {
    loop {
        let piece = piece.to_vec();
        let said = frames.talk.with(async move |connection| {
            let read = async {
                let mut bytes = vec![0; 64 << 10];
                while connection.read(&mut bytes).await.is_ok_and(|count| count > 0) {}
            };
            // Reads for as long as there is something, so that the client can write.
            let ended = tokio::time::timeout(PACE, read).await.is_ok();
            !ended && connection.write_all(&piece).await.is_ok()
        });
        if said != Some(true) {
            return;
        }
    }
}

fn large_body(call: Call) -> Call {
    call.body(vec![b'x'; MORE_THAN_A_WIRE_HOLDS])
}

/// 60 s of the total deadline are 6 s.
const FACTOR: u32 = 10;

/// Time between two bytes: a twelfth of the shortest deadline that they renew.
const PACE: Duration = Duration::from_millis(50);

/// More bytes than two sockets hold between them.
const MORE_THAN_A_WIRE_HOLDS: usize = 24 << 20;
