//! Observers see each attempt from its begin to its end, step by step, and each connection; whatever they do, the calls go on.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use anywire_client::{
    Acquired, AttemptEnd, Begun, Closed, Dialed, Ended, Error, Limits, Observer, Pipelining, Retries,
};
use anywire_http::StatusCode;
use anywire_wire::DialStep;

use crate::support::{OK, Peer, block_on, client, client_of_http2, eventually, poll_once, wire};

/// Writes down what it sees.
#[derive(Clone, Default)]
struct Notes(Arc<Mutex<Vec<String>>>);

impl Notes {
    fn note(&self, text: impl Into<String>) {
        self.0.lock().expect("no panic").push(text.into());
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().expect("no panic"))
    }

    fn has(&self, text: &str) -> bool {
        self.0.lock().expect("no panic").iter().any(|note| note == text)
    }
}

/// When the latest step of an attempt was.
struct Seen(Duration);

impl Seen {
    fn step(&mut self, after: Duration) {
        assert!(after >= self.0, "a step is not before the one before it");
        self.0 = after;
    }
}

impl Observer for Notes {
    type Attempt = Seen;

    fn begin(&self, begun: &Begun<'_>) -> Seen {
        self.note(format!(
            "{} {}{}",
            begun.method,
            begun.url.path_and_query(),
            if begun.is_retry { " again" } else { "" }
        ));
        Seen(Duration::ZERO)
    }

    fn acquired(&self, seen: &mut Seen, acquired: &Acquired<'_>) {
        seen.step(acquired.after);
        let what = if acquired.is_reused { "reuses" } else { "has" };
        let version = if acquired.is_http2 { "HTTP/2" } else { "HTTP/1" };
        self.note(format!("{what} {} {version}", acquired.connection));
    }

    fn written(&self, seen: &mut Seen, after: Duration) {
        seen.step(after);
        self.note("written");
    }

    fn first_byte(&self, seen: &mut Seen, after: Duration) {
        seen.step(after);
        self.note("first byte");
    }

    fn head(&self, seen: &mut Seen, status: StatusCode, after: Duration) {
        seen.step(after);
        self.note(status.as_str());
    }

    fn end(&self, mut seen: Seen, ended: &Ended<'_>) {
        seen.step(ended.duration);
        let steps = [ended.acquired_after, ended.written_after, ended.first_byte_after, ended.head_after];
        let steps: Vec<_> = steps.into_iter().flatten().collect();
        assert!(steps.is_sorted() && steps.iter().all(|step| *step <= ended.duration), "{ended:?}");
        self.note(match ended.end {
            AttemptEnd::Complete => {
                let status = ended.status.expect("a head").as_u16();
                format!("complete {status} {}", ended.received_bytes)
            }

            AttemptEnd::Failed(error) => format!("failed {}", error.kind()),
            AttemptEnd::Upgraded => "upgraded".to_owned(),
            AttemptEnd::SentAgain => "sent again".to_owned(),
            AttemptEnd::Abandoned => format!("abandoned {}", ended.received_bytes),
            _ => "another end".to_owned(),
        });
    }

    fn dialed(&self, dialed: &Dialed<'_>) {
        assert!(dialed.done_after(DialStep::Connected).is_none_or(|after| after <= dialed.duration));
        self.note(match dialed.outcome {
            Ok(made) => format!("dialed {}{}", made.connection, if made.tls.is_some() { " TLS" } else { "" }),
            Err(_) => "not dialed".to_owned(),
        });
    }

    fn closed(&self, closed: &Closed<'_>) {
        self.note(format!("closed {} after {} calls", closed.connection, closed.calls));
    }
}

const CALL: [&str; 5] = ["written", "first byte", "200", "complete 200 2", "closed 0 after 2 calls"];

#[test]
fn each_step_is_told_in_its_order() {
    let peer = Peer::answering(wire("tcp"), OK);
    let notes = Notes::default();
    let (_loops, client) = client(1, |builder| builder.observe(notes.clone()));
    for path in ["/a", "/b"] {
        block_on(async { client.get(peer.url(path)).send().await?.text().await }).expect("an answer");
    }
    drop(client);
    eventually("the connection is closed", || notes.has(CALL[4]));
    let first = ["GET /a", "dialed 0", "has 0 HTTP/1"].into_iter().chain(CALL[..4].to_vec());
    let second = ["GET /b", "reuses 0 HTTP/1"].into_iter().chain(CALL);
    assert_eq!(notes.take(), first.chain(second).collect::<Vec<_>>());
}

#[test]
fn over_http2_and_in_a_pipeline_as_well() {
    let of_http2 = Peer::of_http2(wire("tcp"), |mut frames, _| {
        while let Some(stream) = frames.request() {
            frames.answer(stream);
        }
    });
    let peer = Peer::answering(wire("tcp"), OK);
    for (version, is_http2) in [("HTTP/2", true), ("HTTP/1", false)] {
        let (peer, notes) = (if is_http2 { &of_http2 } else { &peer }, Notes::default());
        let (_loops, client) = match is_http2 {
            true => client_of_http2(|builder| builder.observe(notes.clone())),
            false => client(1, |builder| builder.pipelining(Pipelining::default()).observe(notes.clone())),
        };
        block_on(async { client.get(peer.url("/a")).send().await?.text().await }).expect("an answer");
        let has = format!("has 0 {version}");
        let all = ["GET /a", "dialed 0", &has].into_iter().chain(CALL[..4].to_vec());
        assert_eq!(notes.take(), all.collect::<Vec<_>>(), "{version}");
    }
}

#[test]
fn each_attempt_has_an_end_that_says_why() {
    let peer = Peer::start(wire("tcp"), |mut talk| {
        while let Some(request) = talk.request() {
            match request.head.path() {
                // The first connection of `/retry` and of `/stale` is closed.
                "/retry" if talk.number == 0 => return,
                "/stale" => return talk.say(OK),
                "/cut" => return talk.say("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\ncut"),
                "/wait" => {
                    talk.say("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\npart");
                    talk.wait_for_end();
                }
                _ => talk.say(OK),
            }
        }
    });
    let notes = Notes::default();
    let retries = Retries { max: 1, first_pause: Duration::ZERO, ..Retries::default() };
    let (_loops, client) = client(1, |builder| builder.retries(retries).observe(notes.clone()));
    block_on(async { client.get(peer.url("/retry")).send().await?.text().await }).expect("an answer");
    let all = notes.take();
    let ends: Vec<_> =
        all.iter().filter(|note| note.starts_with(['G', 'f', 'c']) && !note.starts_with("cl")).collect();
    assert_eq!(ends[0], "GET /retry");
    assert!(ends[1..].contains(&&"GET /retry again".to_owned()), "{all:?}");
    assert!(all.iter().any(|note| note.starts_with("failed ")), "{all:?}");
    assert_eq!(all.last().map(String::as_str), Some("complete 200 2"));

    block_on(async { client.get(peer.url("/cut")).send().await?.text().await }).expect_err("it is cut");
    eventually("it has an end", || {
        notes.0.lock().expect("no panic").iter().any(|note| note.starts_with("failed "))
    });
    notes.take();

    let response = block_on(client.get(peer.url("/wait")).send()).expect("a head");
    drop(response);
    eventually("it has an end", || notes.has("abandoned 4"));
}

#[test]
fn a_stale_connection_is_another_attempt() {
    let peer = Peer::of_http2(wire("tcp"), |mut frames, number| {
        while let Some(stream) = frames.request() {
            if number == 0 && stream > 1 {
                return;
            }
            frames.answer(stream);
        }
    });
    let notes = Notes::default();
    let (_loops, client) = client_of_http2(|builder| builder.observe(notes.clone()));
    for path in ["/a", "/b"] {
        block_on(async { client.get(peer.url(path)).send().await?.text().await }).expect("an answer");
    }
    let all = notes.take();
    let again = all.iter().position(|note| note == "sent again").unwrap_or_else(|| panic!("{all:?}"));
    assert_eq!(all[again + 1], "GET /b again");
    assert_eq!(all.iter().filter(|note| *note == "complete 200 2").count(), 2);
}

#[test]
fn a_dial_that_fails_is_told() {
    let peer = Peer::answering(wire("tcp"), OK);
    peer.stop_listening();
    let notes = Notes::default();
    let (_loops, client) = client(1, |builder| builder.observe(notes.clone()));
    eventually("nobody listens", || block_on(client.get(peer.url("/")).send()).is_err());
    let all = notes.take();
    assert_eq!(all[all.len() - 2..], ["not dialed", "failed connect"], "{all:?}");
}

#[test]
fn a_call_that_waits_and_is_dropped_has_an_end() {
    let peer = Peer::start(wire("tcp"), |mut talk| {
        talk.request();
        talk.wait_for_end();
    });
    let limits = Limits { connections_per_origin: 1, ..Limits::default() };
    let notes = Notes::default();
    let (_loops, client) = client(1, |builder| builder.limits(limits).observe(notes.clone()));
    let mut calls: Vec<_> = ["/a", "/b"].map(|path| Box::pin(client.get(peer.url(path)).send())).into();
    for call in &mut calls {
        assert!(poll_once(call).is_pending());
    }
    eventually("one has a connection, one waits", || {
        let counters = client.counters().total();
        (counters.active, counters.waiting) == (1, 1)
    });
    drop(calls);
    eventually("both have ended", || {
        notes.0.lock().expect("no panic").iter().filter(|note| *note == "abandoned 0").count() == 2
    });
}

/// Panics at the step that it is for.
struct Panics(usize);

impl Observer for Panics {
    type Attempt = ();

    fn begin(&self, _: &Begun<'_>) {
        assert!(self.0 != 0, "at the begin");
    }

    fn acquired(&self, (): &mut (), _: &Acquired<'_>) {
        assert!(self.0 != 1, "with a connection");
    }

    fn head(&self, (): &mut (), _: StatusCode, _: Duration) {
        assert!(self.0 != 2, "at the head");
    }

    fn end(&self, (): (), _: &Ended<'_>) {
        assert!(self.0 != 3, "at the end");
    }

    fn dialed(&self, _: &Dialed<'_>) {
        assert!(self.0 != 4, "with a dial");
    }
}

#[test]
fn a_panic_of_an_observer_is_counted_and_costs_no_call() {
    let peer = Peer::answering(wire("tcp"), OK);
    for step in 0..5 {
        let notes = Notes::default();
        let (loops, client) = client(1, |builder| builder.observe(Panics(step)).observe(notes.clone()));
        let body = block_on(async { client.get(peer.url("/")).send().await?.text().await });
        assert_eq!(body.expect("an answer"), "ok");
        assert_eq!(client.counters().total().hook_panics, 1, "{step}");
        // The others see all the same.
        assert!(notes.has("complete 200 2"));
        assert_eq!(loops.counters().iter().map(|one| one.panics).sum::<u64>(), 0);
    }
}

#[test]
fn a_closure_sees_the_ends() {
    let peer = Peer::answering(wire("tcp"), "HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n");
    let seen = Arc::<Mutex<Vec<_>>>::default();
    let statuses = Arc::clone(&seen);
    let (_loops, client) = client(1, |builder| {
        builder.observe(move |ended: &Ended<'_>| {
            statuses.lock().expect("no panic").push((ended.url.path_and_query().to_owned(), ended.status));
        })
    });
    let gone =
        block_on(client.get(peer.url("/gone")).send()).and_then(anywire_client::Response::error_for_status);
    assert!(matches!(gone, Err(Error::Status { .. })));
    assert_eq!(*seen.lock().expect("no panic"), [("/gone".to_owned(), Some(StatusCode::NOT_FOUND))]);
}
