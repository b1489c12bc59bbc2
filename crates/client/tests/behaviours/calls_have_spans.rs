//! Spans of `tracing` are around calls and their attempts, with the names of OpenTelemetry, and `traceparent` says the span.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use anywire_client::{Client, Retries, TraceContext};
use anywire_http::Url;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Dispatch, Event, Metadata, Subscriber};

use crate::support::{OK, Peer, block_on, client, wire};

/// Keeps all spans.
#[derive(Clone, Default)]
struct Kept(Arc<Mutex<Vec<Span>>>);

#[derive(Default)]
struct Span {
    name: &'static str,
    parent: Option<u64>,
    fields: Fields,
}

#[derive(Clone, Debug, Default)]
struct Fields(BTreeMap<&'static str, String>);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.insert(field.name(), format!("{value:?}").trim_matches('"').to_owned());
    }
}

impl Subscriber for Kept {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, attributes: &Attributes<'_>) -> Id {
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        let parent = attributes.parent().map(Id::into_u64);
        let mut kept = self.0.lock().expect("no panic");
        kept.push(Span { name: attributes.metadata().name(), parent, fields });
        Id::from_u64(kept.len() as u64)
    }

    fn record(&self, span: &Id, values: &Record<'_>) {
        values.record(&mut self.0.lock().expect("no panic")[span.into_u64() as usize - 1].fields);
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, _: &Event<'_>) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

/// Runs this with the subscriber on this thread.
fn with_subscriber<T>(subscriber: impl Subscriber + Send + Sync, run: impl FnOnce() -> T) -> T {
    /// While `tracing` knows one subscriber alone, a thread without it that comes to a span first turns that span off for all.
    static SECOND: LazyLock<Dispatch> = LazyLock::new(|| Dispatch::new(Kept::default()));
    LazyLock::force(&SECOND);
    tracing::subscriber::with_default(subscriber, run)
}

impl Kept {
    /// What a call leaves: its span, and those of its attempts.
    fn of(call: impl FnOnce()) -> (Fields, Vec<Fields>) {
        let kept = Self::default();
        with_subscriber(kept.clone(), call);
        let spans = std::mem::take(&mut *kept.0.lock().expect("no panic"));
        let mut spans = spans.into_iter().filter(|span| span.name.starts_with("http."));
        let call = spans.next().expect("the span of the call");
        assert_eq!((call.name, call.parent), ("http.call", None));
        let attempts = spans.inspect(|span| assert_eq!((span.name, span.parent), ("http.request", Some(1))));
        (call.fields, attempts.map(|span| span.fields).collect())
    }
}

impl Fields {
    fn get(&self, name: &str) -> &str {
        self.0.get(name).map_or("", |value| value)
    }
}

/// Closes the first connection, redirects `/`, and answers with the `traceparent` that it gets.
fn peer() -> Peer {
    Peer::start(wire("tcp"), |mut talk| {
        while let Some(request) = talk.request() {
            let sent = request.head.headers().get("traceparent").unwrap_or_default().to_owned();
            match (talk.number, request.head.path()) {
                (0, _) => return,
                (_, "/") => talk.say("HTTP/1.1 302 Found\r\nlocation: /next\r\ncontent-length: 0\r\n\r\n"),
                (_, "/none") => talk.say("HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n"),
                _ => talk.say(format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{sent}", sent.len())),
            }
        }
    })
}

fn text(client: &Client, url: &str, traceparent: Option<&str>) -> String {
    let call = client.get(url);
    let call = traceparent.into_iter().fold(call, |call, value| call.header("traceparent", value));
    block_on(async { call.send().await?.text().await }).expect("an answer")
}

#[test]
fn each_attempt_has_one_within_that_of_its_call() {
    let peer = peer();
    let retries = Retries { first_pause: Duration::ZERO, ..Retries::default() };
    let (_loops, client) = client(1, |builder| builder.retries(retries).spans());
    let mut sent = String::new();
    let (call, attempts) = Kept::of(|| sent = text(&client, &peer.url("/"), None));
    let url = Url::parse(&peer.url("/")).expect("a URL");
    let port = url.port().to_string();
    for (name, value) in [
        ("http.request.method", "GET"),
        ("url.full", url.as_str()),
        ("server.address", url.host()),
        ("server.port", &port),
        ("http.response.status_code", "200"),
        ("error.type", ""),
    ] {
        assert_eq!(call.get(name), value, "{name}");
    }
    let [lost, found, next] = &*attempts else { panic!("three attempts: {attempts:?}") };
    let of = |fields: &Fields| {
        ["http.request.resend_count", "http.response.status_code", "error.type"]
            .map(|name| fields.get(name).to_owned())
    };
    assert_eq!(of(lost), ["", "", "connection"]);
    assert_eq!(of(found), ["1", "302", ""]);
    assert_eq!(of(next), ["2", "200", ""]);
    assert_eq!(next.get("url.full"), peer.url("/next"));
    for (name, value) in [
        ("otel.kind", "client"),
        ("network.protocol.version", "1.1"),
        ("network.peer.address", url.host()),
        ("network.peer.port", &port),
    ] {
        assert_eq!(next.get(name), value, "{name}");
    }
    // The peer of the last attempt was told of its span.
    let context: TraceContext = sent.parse().expect("a trace context");
    assert!(context.is_sampled);
    assert_eq!(format!("{:032x}", context.trace_id), next.get("trace_id"));
    assert_eq!(format!("{:016x}", context.span_id), next.get("span_id"));
    assert_eq!(lost.get("trace_id"), next.get("trace_id"));
    assert_ne!(lost.get("span_id"), next.get("span_id"));
}

#[test]
fn a_call_stays_within_the_trace_that_it_names() {
    let peer = Peer::start(wire("tcp"), |mut talk| {
        while let Some(request) = talk.request() {
            let sent = request.head.headers().get("traceparent").unwrap_or_default().to_owned();
            talk.say(format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{sent}", sent.len()));
        }
    });
    let (_loops, client) = client(1, |builder| builder.spans());
    let given = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00";
    let sent: TraceContext = text(&client, &peer.url("/"), Some(given)).parse().expect("a trace context");
    let given: TraceContext = given.parse().expect("it is one");
    assert_eq!((sent.trace_id, sent.is_sampled), (given.trace_id, false));
    assert_ne!(sent.span_id, given.span_id);
    // A program that records no spans still sends a trace context.
    let first: TraceContext = text(&client, &peer.url("/"), None).parse().expect("a trace context");
    let second: TraceContext = text(&client, &peer.url("/"), Some("none")).parse().expect("a trace context");
    assert_ne!(first.trace_id, second.trace_id);
}

#[test]
fn secrets_of_a_url_are_in_no_span() {
    let peer = Peer::start(wire("tcp"), |mut talk| {
        while talk.request().is_some() {
            talk.say("HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n");
        }
    });
    let (_loops, client) = client(1, |builder| builder.spans());
    let url = peer.url("/none?a=1&sig=abc&Signature=def").replacen("://", "://Ada:secret@", 1);
    let (call, attempts) = Kept::of(|| drop(block_on(client.get(&url).send()).expect("an answer")));
    assert_eq!(call.get("url.full"), peer.url("/none?a=1&sig=REDACTED&Signature=REDACTED"));
    assert_eq!(attempts[0].get("url.full"), call.get("url.full"));
    assert_eq!((call.get("error.type"), attempts[0].get("error.type")), ("404", "404"));
    for fields in attempts.iter().chain([&call]) {
        assert!(
            fields.0.values().all(|value| !value.contains("secret") && !value.contains("abc")),
            "{fields:?}"
        );
    }
}

#[test]
fn without_the_option_nothing_is_sent_or_opened() {
    let peer = Peer::start(wire("tcp"), |mut talk| {
        while let Some(request) = talk.request() {
            assert!(!request.head.headers().contains("traceparent"));
            talk.say(OK);
        }
    });
    let (_loops, client) = client(1, |builder| builder);
    let kept = Kept::default();
    with_subscriber(kept.clone(), || assert_eq!(text(&client, &peer.url("/"), None), "ok"));
    assert_eq!(
        kept.0.lock().expect("no panic").iter().filter(|span| span.name.starts_with("http.")).count(),
        0
    );
}

#[test]
fn what_belongs_to_no_trace_is_not_sent_with_a_new_one() {
    let peer = Peer::start(wire("tcp"), |mut talk| {
        while let Some(request) = talk.request() {
            let headers = request.head.headers();
            let all: Vec<_> = headers.get_all("traceparent").chain(headers.get_all("tracestate")).collect();
            let sent = all.iter().map(|value| String::from_utf8_lossy(value)).collect::<Vec<_>>().join(" ");
            talk.say(format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{sent}", sent.len()));
        }
    });
    let (_loops, client) = client(1, |builder| builder.spans());
    let of = |parents: &[&str]| {
        let call = client.get(peer.url("/")).header("tracestate", "vendor=1");
        let call = parents.iter().fold(call, |call, parent| call.header("traceparent", parent));
        block_on(async { call.send().await?.text().await }).expect("an answer")
    };
    let given = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let trace = &given[..35];
    let stays = of(&[given]);
    assert!(stays.starts_with(trace) && stays.ends_with(" vendor=1"), "{stays}");
    // Without a trace, with none that can be read, and with two, a new one begins.
    for parents in [&[][..], &["none"], &[given, "00-4bf92f3577b34da6a3ce929d0e0e4737-00f067aa0ba902b7-01"]] {
        let new = of(parents);
        assert!(new.parse::<TraceContext>().is_ok() && !new.starts_with(trace), "{parents:?}: {new}");
    }
}

/// Counts the spans that are open, and keeps what is said of errors.
#[derive(Clone, Default)]
struct Counted(Arc<Mutex<(BTreeMap<u64, usize>, Fields)>>);

impl Counted {
    fn open(&self) -> usize {
        self.0.lock().expect("no panic").0.values().filter(|count| **count > 0).count()
    }

    fn error(&self) -> String {
        self.0.lock().expect("no panic").1.get("error.type").to_owned()
    }

    fn count(&self, span: &Id, change: impl FnOnce(&mut usize)) {
        change(self.0.lock().expect("no panic").0.entry(span.into_u64()).or_default());
    }
}

impl Subscriber for Counted {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.name().starts_with("http.")
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        let mut counted = self.0.lock().expect("no panic");
        let id = counted.0.len() as u64 + 1;
        counted.0.insert(id, 1);
        Id::from_u64(id)
    }

    fn clone_span(&self, span: &Id) -> Id {
        self.count(span, |count| *count += 1);
        span.clone()
    }

    fn try_close(&self, span: Id) -> bool {
        self.count(&span, |count| *count -= 1);
        true
    }

    fn record(&self, _: &Id, values: &Record<'_>) {
        values.record(&mut self.0.lock().expect("no panic").1);
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, _: &Event<'_>) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

#[test]
fn they_end_with_the_body() {
    for breaks in [false, true] {
        let (go_on, goes_on) = std::sync::mpsc::channel();
        let goes_on = Mutex::new(goes_on);
        let peer = Peer::start(wire("tcp"), move |mut talk| {
            if talk.request().is_some() {
                talk.say("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n");
                goes_on.lock().expect("no panic").recv().expect("the test goes on");
                talk.say(if breaks { "o" } else { "ok" });
            }
        });
        let (_loops, client) = client(1, |builder| builder.spans());
        let counted = Counted::default();
        with_subscriber(counted.clone(), || {
            let mut response = block_on(client.get(peer.url("/")).send()).expect("an answer");
            assert_eq!(counted.open(), 2, "of the call and of its attempt");
            go_on.send(()).expect("the peer waits");
            let end = loop {
                match block_on(response.chunk()) {
                    Ok(Some(_)) => {}
                    end => break end,
                }
            };
            assert_eq!((end.is_err(), counted.error().is_empty()), (breaks, !breaks), "{}", counted.error());
            assert_eq!(counted.open(), if breaks { 2 } else { 0 });
            drop(response);
            assert_eq!(counted.open(), 0);
        });
    }
}
