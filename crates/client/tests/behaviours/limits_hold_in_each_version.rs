//! Each limit of a response and of a pool is reached with its own error, alike over HTTP/1 and HTTP/2, and the next call is answered. A
//! limit of nothing, and a duration of none, lets calls fail or not, and none hangs.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anywire_client::connector::{Connecting, Connector, Target};
use anywire_client::{Client, ClientBuilder, Error, Fault, Limits, Timeouts};
use anywire_http::h1::DecodeError;
use anywire_http::{HeadLimits, h2};
use anywire_wire::{Address, Dialer};
use tokio::time::sleep;

use crate::support::bytes_of_http2::*;
use crate::support::simulated::{Line, Simulated, SimulatedPeer};

/// A response that is over a limit, in both versions.
struct Case {
    name: &'static str,
    limits: fn() -> Limits,
    fields: &'static [(&'static str, &'static str)],
    body: &'static str,
    trailers: &'static [(&'static str, &'static str)],
    is_it: fn(&Error) -> bool,
}

fn head(set: fn(&mut HeadLimits)) -> Limits {
    let mut limits = Limits::default();
    set(&mut limits.head);
    limits
}

fn decode(error: &Error) -> Option<DecodeError> {
    match error {
        Error::Response { source, .. } => Some(*source),
        _ => None,
    }
}

/// A hundred bytes.
const LONG: &str =
    "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx";

const CASES: &[Case] = &[
    Case {
        name: "bytes of a head",
        limits: || head(|head| head.bytes = 200),
        fields: &[("x", LONG), ("y", LONG)],
        body: "ok",
        trailers: &[],
        is_it: |error| decode(error) == Some(DecodeError::HeadTooLarge { limit: 200 }),
    },
    Case {
        name: "fields of a head",
        limits: || head(|head| head.fields = 3),
        fields: &[("x", "1"), ("x", "2"), ("x", "3"), ("x", "4")],
        body: "ok",
        trailers: &[],
        is_it: |error| decode(error) == Some(DecodeError::TooManyHeaders { limit: 3 }),
    },
    Case {
        name: "bytes of trailers",
        limits: || head(|head| head.trailer_bytes = 100),
        fields: &[],
        body: "ok",
        trailers: &[("x", LONG), ("y", LONG)],
        is_it: |error| decode(error) == Some(DecodeError::TrailersTooLarge { limit: 100 }),
    },
    Case {
        name: "fields of trailers",
        limits: || head(|head| head.trailer_fields = 1),
        fields: &[],
        body: "ok",
        trailers: &[("x", "1"), ("y", "2")],
        is_it: |error| decode(error) == Some(DecodeError::TooManyTrailers { limit: 1 }),
    },
    Case {
        name: "bytes of a body",
        limits: || Limits { body_bytes: 99, ..Limits::default() },
        fields: &[],
        body: LONG,
        trailers: &[],
        is_it: |error| matches!(error, Error::BodyTooLarge { limit_bytes: 99 }),
    },
    Case {
        name: "interim responses",
        limits: || Limits { interim_responses: 0, ..Limits::default() },
        fields: &[],
        body: "ok",
        trailers: &[],
        is_it: |error| matches!(error, Error::Interim { count: 1, .. }),
    },
];

#[test]
fn of_responses() {
    for case in CASES {
        in_each_version(|is_http2, version| {
            let scene = Simulated::new();
            let turns = Arc::<AtomicUsize>::default();
            let peer = scene.peer(move |line| case.serve(line, is_http2, Arc::clone(&turns)));
            let client = scene.client(|builder| version(builder).limits((case.limits)()));
            scene.run(async move || {
                for _ in 0..2 {
                    let error = text(&client, &peer).await.expect_err(case.name);
                    assert!((case.is_it)(&error), "{}, HTTP/2: {is_http2}: {error:?}", case.name);
                    let is_flood = matches!(error, Error::Interim { .. });
                    let fault = if is_flood { Fault::Peer } else { Fault::Limit };
                    assert_eq!(error.fault(), fault, "{}: {error:?}", case.name);
                    assert_eq!(text(&client, &peer).await.expect("an answer"), "ok", "{}", case.name);
                }
                assert_free(case.name, &client);
            });
        });
    }
}

impl Case {
    /// Every second response of the peer is over the limit, the first one too.
    async fn serve(&'static self, mut line: Line, is_http2: bool, turns: Arc<AtomicUsize>) {
        let is_large = || turns.fetch_add(1, Ordering::SeqCst).is_multiple_of(2);
        if is_http2 {
            line.greet(&[]).await;
            while let Some(stream) = line.request().await {
                self.answer_http2(&mut line, stream, is_large()).await;
            }
        } else {
            while line.head().await.is_some() {
                self.answer_http1(&mut line, is_large()).await;
            }
        }
    }

    async fn answer_http1(&self, line: &mut Line, is_large: bool) {
        let lines = |fields: &[(&str, &str)]| -> String {
            fields.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect()
        };
        if !is_large {
            line.say("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await;
            return;
        }
        if self.name == "interim responses" {
            line.say("HTTP/1.1 103 Early Hints\r\n\r\n").await;
        }
        let (fields, trailers) = (lines(self.fields), lines(self.trailers));
        line.say(format!("HTTP/1.1 200 OK\r\n{fields}transfer-encoding: chunked\r\n\r\n")).await;
        line.say(format!("{:x}\r\n{}\r\n0\r\n{trailers}\r\n", self.body.len(), self.body)).await;
    }

    async fn answer_http2(&self, line: &mut Line, stream: u32, is_large: bool) {
        if !is_large {
            return line.answer(stream).await;
        }
        if self.name == "interim responses" {
            line.frame(HEADERS, END_HEADERS, stream, &literals(&[(":status", "103")])).await;
        }
        let fields = [b"\x88", &literals(self.fields)[..]].concat();
        line.frame(HEADERS, END_HEADERS, stream, &fields).await;
        let is_over = self.trailers.is_empty();
        line.frame(DATA, if is_over { END_STREAM } else { 0 }, stream, self.body.as_bytes()).await;
        if !is_over {
            line.frame(HEADERS, END_HEADERS | END_STREAM, stream, &literals(self.trailers)).await;
        }
    }
}

fn in_each_version(play: impl Fn(bool, fn(ClientBuilder) -> ClientBuilder)) {
    play(false, |builder| builder.http1_only());
    play(true, |builder| builder.http2_prior_knowledge());
}

async fn text(client: &Client, peer: &SimulatedPeer) -> Result<String, Error> {
    client.get("http://peer.example/").via(peer.via()).send().await?.text().await
}

#[track_caller]
fn assert_free(name: &str, client: &Client) {
    let counters = client.counters().total();
    assert_eq!((counters.active, counters.waiting), (0, 0), "{name}: {counters:?}");
}

/// A peer that answers all requests.
fn answering(scene: &Simulated, is_http2: bool) -> SimulatedPeer {
    scene.peer(move |mut line| async move {
        if is_http2 {
            line.greet(&[]).await;
            while let Some(stream) = line.request().await {
                line.answer(stream).await;
            }
        } else {
            while line.head().await.is_some() {
                line.say("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await;
            }
        }
    })
}

/// Counts the dials under way, each of which takes a second.
struct Slow {
    peer: Address,
    dials: Arc<[AtomicUsize; 2]>,
}

impl Connector for Slow {
    fn connect<'a>(&'a self, _: &'a Target) -> Connecting<'a> {
        Box::pin(async move {
            let [now, most] = &*self.dials;
            most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            sleep(Duration::from_secs(1)).await;
            now.fetch_sub(1, Ordering::SeqCst);
            Ok(Dialer::default().dial(&self.peer).await?)
        })
    }
}

#[test]
fn of_dials() {
    in_each_version(|is_http2, version| {
        let scene = Simulated::new();
        let peer = answering(&scene, is_http2);
        let dials = Arc::<[AtomicUsize; 2]>::default();
        let slow = Slow { peer: peer.via().clone(), dials: Arc::clone(&dials) };
        let limits = Limits {
            dials_per_origin: 2,
            http2: h2::Limits { streams: 1, ..Limits::default().http2 },
            ..Limits::default()
        };
        let client = scene.client(|builder| version(builder).limits(limits).connector(slow));
        scene.run(async move || {
            let calls: Vec<_> =
                (0..6).map(|_| anywire_loops::spawn(client.get("http://peer.example/").send())).collect();
            for call in calls {
                assert_eq!(call.await.expect("no panic").expect("an answer").status(), 200);
            }
            let _peer = peer;
        });
        assert_eq!(dials[1].load(Ordering::SeqCst), 2, "HTTP/2: {is_http2}");
    });
}

/// Sets one limit to nothing.
type Nothing = (&'static str, fn(&mut Limits));

const NOTHING: &[Nothing] = &[
    ("connections_per_origin", |all| all.connections_per_origin = 0),
    ("queue_per_origin", |all| all.queue_per_origin = 0),
    ("dials_per_origin", |all| all.dials_per_origin = 0),
    ("origins", |all| all.origins = 0),
    ("interim_responses", |all| all.interim_responses = 0),
    ("body_bytes", |all| all.body_bytes = 0),
    ("body_ahead_bytes", |all| all.body_ahead_bytes = 0),
    ("replay_bytes", |all| all.replay_bytes = 0),
    ("head.bytes", |all| all.head.bytes = 0),
    ("head.target_bytes", |all| all.head.target_bytes = 0),
    ("head.fields", |all| all.head.fields = 0),
    ("head.trailer_bytes", |all| all.head.trailer_bytes = 0),
    ("head.trailer_fields", |all| all.head.trailer_fields = 0),
    ("http2.streams", |all| all.http2.streams = 0),
    ("http2.stream_window_bytes", |all| all.http2.stream_window_bytes = 0),
    ("http2.connection_window_bytes", |all| all.http2.connection_window_bytes = 0),
    ("http2.continuations", |all| all.http2.continuations = 0),
    ("http2.resets", |all| all.http2.resets = h2::Rate { burst: 0, per_second: 0 }),
    ("http2.idle_frames", |all| all.http2.idle_frames = h2::Rate { burst: 0, per_second: 0 }),
    ("http2.settings_deadline", |all| all.http2.settings_deadline = Duration::ZERO),
    ("http2.ping_interval", |all| all.http2.ping_interval = Some(Duration::ZERO)),
    ("http2.ping_deadline", |all| all.http2.ping_deadline = Duration::ZERO),
];

/// What comes of three calls in a row: `ok` or an error. None takes longer than a deadline of the defaults, and none is left.
fn three_calls(name: &str, is_http2: bool, options: impl FnOnce(ClientBuilder) -> ClientBuilder) -> String {
    let scene = Simulated::new();
    let peer = answering(&scene, is_http2);
    let client = scene.client(options);
    let name = name.to_owned();
    scene.run(async move || {
        let mut outcomes = Vec::new();
        for _ in 0..3 {
            let begin = tokio::time::Instant::now();
            outcomes.push(match text(&client, &peer).await {
                Ok(text) => text,
                Err(error) => format!("{:?} {:?}", error.fault(), error.phase()),
            });
            assert!(begin.elapsed() < Duration::from_secs(1), "{name}: {outcomes:?}");
        }
        sleep(Duration::from_secs(1)).await;
        assert_free(&name, &client);
        assert_eq!(client.shutdown(Duration::from_secs(1)).await.calls_cut, 0, "{name}");
        outcomes.dedup();
        outcomes.join(", ")
    })
}

#[test]
fn of_nothing() {
    let unexpected = std::cell::RefCell::new(Vec::new());
    in_each_version(|is_http2, version| {
        for (name, set) in NOTHING {
            let mut limits = Limits::default();
            set(&mut limits);
            let outcome = three_calls(name, is_http2, |builder| version(builder).limits(limits));
            let expected = match *name {
                // One at least. This peer sends two, whatever the window is.
                "http2.stream_window_bytes" if is_http2 => "Peer Some(Body)",
                "http2.idle_frames" if is_http2 => "Limit Some(Read)",
                "body_bytes" => "Limit Some(Body)",
                "head.bytes" => "Limit Some(Read)",
                "head.target_bytes" | "head.fields" if !is_http2 => "Limit Some(Read)",
                _ => "ok",
            };
            if outcome != expected {
                unexpected.borrow_mut().push(format!("{name}, HTTP/2: {is_http2}: {outcome}"));
            }
        }
    });
    assert!(unexpected.borrow().is_empty(), "{unexpected:?}");
}

/// Sets one duration to none.
type Instantly = (&'static str, fn(&mut Timeouts));

const INSTANTLY: &[Instantly] = &[
    ("acquire", |all| all.acquire = Duration::ZERO),
    ("resolve", |all| all.resolve = Duration::ZERO),
    ("connect", |all| all.connect = Duration::ZERO),
    ("handshake", |all| all.handshake = Duration::ZERO),
    ("expect", |all| all.expect = Duration::ZERO),
    ("write", |all| all.write = Duration::ZERO),
    ("first_byte", |all| all.first_byte = Some(Duration::ZERO)),
    ("read", |all| all.read = Duration::ZERO),
    ("stream", |all| all.stream = Duration::ZERO),
    ("forwarded", |all| all.forwarded = Duration::ZERO),
    ("total", |all| all.total = Duration::ZERO),
    ("stream_total", |all| all.stream_total = Duration::ZERO),
    ("idle", |all| all.idle = Duration::ZERO),
    ("lifetime", |all| all.lifetime = Duration::ZERO),
    ("pool_unused", |all| all.pool_unused = Duration::ZERO),
];

#[test]
fn of_no_time() {
    in_each_version(|is_http2, version| {
        for (name, set) in INSTANTLY {
            let mut timeouts = Timeouts::default();
            set(&mut timeouts);
            let outcome = three_calls(name, is_http2, |builder| version(builder).timeouts(timeouts));
            // What comes at once is in time, or is not: whichever is looked at first.
            let late = format!("Peer Some({})", if *name == "total" { "Total" } else { "Read" });
            let may_be_late = matches!(*name, "total" | "first_byte" | "read");
            assert!(
                outcome == "ok" || may_be_late && outcome == late,
                "{name}, HTTP/2: {is_http2}: {outcome}"
            );
        }
    });
}
