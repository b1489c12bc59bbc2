//! Redirects are followed with the method, the body and the fields that belong to the next URL, and no further.

use std::collections::VecDeque;
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anywire_client::{Client, ClientBuilder, Error, Limits, RedirectFault, Redirects, Retries};
use anywire_http::{Body, Method, StatusCode};

use crate::support::bytes_of_http2::{DATA, END_HEADERS, HEADERS, literals};
use crate::support::simulated::Simulated;
use crate::support::{OK, Peer, Served, block_on, on_each_wire, wire};

/// What a request was, as far as these tests ask.
#[derive(Debug)]
struct Seen {
    line: String,
    body: String,
    fields: Vec<(String, String)>,
}

impl Seen {
    fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(known, _)| known == name).map(|(_, value)| &**value)
    }
}

/// A peer that gives these answers one after the other, then OK for ever, and reports the requests.
fn peer(scheme: &str, answers: &[String]) -> (Peer, Receiver<Seen>) {
    let (report, seen) = mpsc::channel();
    let answers = Arc::new(Mutex::new(VecDeque::from(answers.to_vec())));
    let peer = Peer::start(wire(scheme), move |mut talk| {
        while let Some(request) = talk.request() {
            let head = &request.head;
            let fields = head.headers().iter();
            let _ = report.send(Seen {
                line: format!("{} {}", head.method(), head.target()),
                body: String::from_utf8_lossy(&request.body).into_owned(),
                fields: fields
                    .map(|(name, value)| (name.to_owned(), String::from_utf8_lossy(value).into_owned()))
                    .collect(),
            });
            let next = answers.lock().expect("no panic").pop_front();
            talk.say(next.unwrap_or_else(|| OK.to_owned()));
        }
    });
    (peer, seen)
}

/// The same in HTTP/2: with the status and the location of each answer.
fn peer_of_http2(scheme: &str, answers: &[String]) -> (Peer, Receiver<Seen>) {
    let (report, seen) = mpsc::channel();
    let answers = Arc::new(Mutex::new(VecDeque::from(answers.to_vec())));
    let peer = Peer::asked_for_http2(wire(scheme), move |talk| {
        let mut served = Served::on(talk);
        while let Some((id, head, body)) = served.request() {
            let fields = head.headers().iter();
            let _ = report.send(Seen {
                line: format!("{} {}", head.method(), head.path_and_query()),
                body: String::from_utf8_lossy(&body).into_owned(),
                fields: fields
                    .map(|(name, value)| (name.to_owned(), String::from_utf8_lossy(value).into_owned()))
                    .collect(),
            });
            let answer = answers.lock().expect("no panic").pop_front();
            let is_head = *head.method() == Method::HEAD;
            match answer.as_deref().and_then(|answer| answer.split_once(" Elsewhere\r\nlocation: ")) {
                Some((status, rest)) => {
                    let status = status.rsplit(' ').next().and_then(|status| status.parse().ok());
                    let location = rest.lines().next().expect("a location");
                    let body: &[u8] = if is_head { b"" } else { b"away" };
                    served.answer(id, status.expect("a status"), &[("location", location)], body);
                }
                None => served.answer(id, 200, &[], if is_head { b"" } else { b"ok" }),
            }
        }
    });
    (peer, seen)
}

fn redirect(status: u16, location: &str) -> String {
    format!("HTTP/1.1 {status} Elsewhere\r\nlocation: {location}\r\ncontent-length: 4\r\n\r\naway")
}

fn fault(error: &Error) -> Option<RedirectFault> {
    match error {
        Error::Redirect { fault, .. } => Some(*fault),
        _ => None,
    }
}

#[test]
fn each_status_has_its_method_and_body() {
    has_its_method_and_body(peer, |builder| builder);
}

#[test]
fn each_status_has_its_method_and_body_over_http2() {
    has_its_method_and_body(peer_of_http2, ClientBuilder::http2_prior_knowledge);
}

/// Status, method, and the request that follows.
const ROWS: [(u16, &str, &str, &str); 12] = [
    (301, "POST", "GET", ""),
    (302, "POST", "GET", ""),
    (303, "POST", "GET", ""),
    (307, "POST", "POST", "tea"),
    (308, "POST", "POST", "tea"),
    (301, "PUT", "PUT", "tea"),
    (302, "DELETE", "DELETE", "tea"),
    (303, "PUT", "GET", ""),
    (303, "HEAD", "HEAD", ""),
    (301, "HEAD", "HEAD", ""),
    (302, "GET", "GET", ""),
    (308, "QUERY", "QUERY", "tea"),
];

fn has_its_method_and_body(
    peer: fn(&str, &[String]) -> (Peer, Receiver<Seen>),
    version: fn(ClientBuilder) -> ClientBuilder,
) {
    for (status, method, next, body) in ROWS {
        let (peer, seen) = peer("tcp", &[redirect(status, "/next")]);
        let client = version(Client::builder()).build();
        let sent = if matches!(method, "GET" | "HEAD") { "" } else { "tea" };
        let method = Method::from_bytes(method.as_bytes()).expect("a method");
        let call =
            client.request(method.clone(), peer.url("/first")).body(sent).header("content-type", "text/x");
        let response = block_on(call.send()).expect("an answer");
        assert_eq!((response.status().as_u16(), response.url().as_str()), (200, &*peer.url("/next")));
        let hops: Vec<_> =
            response.history().iter().map(|hop| (hop.url.to_string(), hop.status.as_u16())).collect();
        assert_eq!(hops, [(peer.url("/first"), status)]);
        let (first, second) = (seen.recv().expect("a request"), seen.recv().expect("another one"));
        assert_eq!(first.line, format!("{method} /first"));
        assert_eq!((&*second.line, &*second.body), (&*format!("{next} /next"), body), "{status} {method}");
        let keeps_type = next == method.as_str();
        assert_eq!(second.field("content-type"), keeps_type.then_some("text/x"), "{status} {method}");
    }
}

#[test]
fn on_each_wire_the_connection_is_kept() {
    on_each_wire(|wire| {
        let peer = Peer::start(wire, |mut talk| {
            while let Some(request) = talk.request() {
                let path = request.head.path().to_owned();
                // The body comes behind its head.
                talk.say(if path == "/" {
                    "HTTP/1.1 302 Found\r\nlocation: /next\r\ncontent-length: 4\r\n\r\n"
                } else {
                    OK
                });
                talk.say(if path == "/" { "away" } else { "" });
            }
        });
        let (_loops, client) = crate::support::client(1, |builder| builder);
        let response = block_on(client.get(peer.url("/")).via(peer.via()).send()).expect("an answer");
        assert_eq!((response.url().as_str(), response.history().len()), (&*peer.url("/next"), 1));
        assert_eq!(peer.accepted(), 1);
    });
}

#[test]
fn a_location_may_be_any_reference() {
    for (location, path) in
        [("next", "/a/next"), ("../up", "/up"), ("?q=1", "/a/b?q=1"), ("/root#part", "/root"), ("./", "/a/")]
    {
        let (peer, _seen) = peer("tcp", &[redirect(302, location)]);
        let response = block_on(Client::new().get(peer.url("/a/b?c")).send()).expect("an answer");
        assert_eq!(response.url(), &*peer.url(path), "{location}");
    }
    let (other, _seen) = peer("tcp", &[]);
    let host = other.url("/").split_once(':').expect("a scheme").1.to_owned();
    let (peer, _seen) = peer("tcp", &[redirect(302, &host)]);
    let response = block_on(Client::new().get(peer.url("/a")).send()).expect("an answer");
    assert_eq!(response.url(), &*other.url("/"));
}

#[test]
fn a_location_keeps_its_bytes() {
    let (report, seen) = mpsc::channel();
    let peer = Peer::start(wire("tcp"), move |mut talk| {
        while let Some(request) = talk.request() {
            let _ = report.send(request.head.target().to_string());
            match request.head.target().to_string().as_str() {
                "/old" => talk.say(
                    b"HTTP/1.1 302 Found\r\nlocation: /caf\xe9/\xc3\xa9?\xff\r\ncontent-length: 0\r\n\r\n",
                ),
                _ => talk.say(OK),
            }
        }
    });
    let response = block_on(Client::new().get(peer.url("/old")).send()).expect("an answer");
    assert_eq!(response.url().as_str(), peer.url("/caf%E9/%C3%A9?%FF"));
    assert_eq!(seen.iter().take(2).collect::<Vec<_>>(), ["/old", "/caf%E9/%C3%A9?%FF"]);
}

#[test]
fn credentials_stay_with_their_origin() {
    let fields = ["authorization", "proxy-authorization", "cookie", "x-api-key", "accept"];
    let redirects = Redirects { sensitive: vec!["X-Api-Key".to_owned()], ..Redirects::default() };
    let client = Client::builder().redirects(redirects).build();
    let send = |url: String| {
        let call = fields.iter().fold(client.get(url), |call, name| call.header(name, "secret"));
        block_on(call.header("host", "virtual.example").send()).expect("an answer")
    };
    let (same, seen) = peer("tcp", &[redirect(302, "/next")]);
    send(same.url("/"));
    drop(seen.recv());
    let second = seen.recv().expect("a request");
    assert!(fields.iter().all(|name| second.field(name) == Some("secret")), "{second:?}");
    assert_eq!(second.field("host"), Some("virtual.example"));

    // The port is a part of the origin.
    let (other, seen) = peer("tcp", &[]);
    let (first, _first_seen) = peer("tcp", &[redirect(302, &other.url("/next"))]);
    send(first.url("/"));
    let second = seen.recv().expect("a request");
    let kept: Vec<_> = fields.iter().filter(|name| second.field(name).is_some()).collect();
    assert_eq!(kept, [&"accept"]);
    assert_eq!(second.field("host"), Some(&*other.via().location().to_owned()));
}

/// Another host is another origin, though it is the same machine, and so is another scheme.
#[test]
fn credentials_stay_with_their_host_and_their_scheme() {
    let fields = ["authorization", "proxy-authorization", "cookie"];
    let mut schemes = vec!["tcp"];
    if cfg!(feature = "tls") {
        schemes.push("tls");
    }
    for (scheme, is_host) in schemes.iter().flat_map(|scheme| [(*scheme, false), (*scheme, true)]) {
        let (other, seen) = peer(scheme, &[]);
        let target =
            if is_host { other.url("/next").replace("127.0.0.1", "localhost") } else { other.url("/next") };
        let (first, first_seen) = peer("tcp", &[redirect(302, &target)]);
        let client = crate::support::builder().build();
        let call = fields.iter().fold(client.get(first.url("/")), |call, name| call.header(name, "secret"));
        let response = block_on(call.send()).expect("an answer");
        assert_eq!(response.url(), &*target);
        assert_eq!(first_seen.recv().expect("a request").field("cookie"), Some("secret"));
        let second = seen.recv().expect("a request");
        assert!(fields.iter().all(|name| second.field(name).is_none()), "{target}: {second:?}");
    }
}

#[test]
fn over_http2_credentials_and_locations_are_treated_alike() {
    let (_loops, client) = crate::support::client_of_http2(|builder| builder);
    let (other, seen) = peer_of_http2("tcp", &[]);
    let reference = other.url("/next").split_once(':').expect("a scheme").1.to_owned();
    let chain = [redirect(302, "../up"), redirect(307, "?q=1"), redirect(303, &reference)];
    let (first, first_seen) = peer_of_http2("tcp", &chain);
    let fields = ["authorization", "cookie"];
    let call = fields.iter().fold(client.post(first.url("/a/b")), |call, name| call.header(name, "secret"));
    let response = block_on(call.body("tea").send()).expect("an answer");
    assert_eq!((response.url().as_str(), response.history().len()), (&*other.url("/next"), 3));
    let lines: Vec<_> =
        first_seen.try_iter().map(|seen| (seen.line.clone(), seen.field("cookie").is_some())).collect();
    let expected = [("POST /a/b", true), ("GET /up", true), ("GET /up?q=1", true)];
    assert_eq!(lines, expected.map(|(line, has_cookie)| (line.to_owned(), has_cookie)));
    let last = seen.recv().expect("a request");
    assert_eq!(last.line, "GET /next");
    assert!(fields.iter().all(|name| last.field(name).is_none()), "{last:?}");
    // The body of each was read, and its stream is over.
    assert_eq!((first.accepted(), other.accepted()), (1, 1));
}

#[test]
fn over_http2_five_are_followed_and_a_circle_is_left() {
    let client = Client::builder().http2_prior_knowledge().build();
    let chain: Vec<_> = (1..=6).map(|hop| redirect(302, &format!("/{hop}"))).collect();
    let (peer, seen) = peer_of_http2("tcp", &chain);
    let error = block_on(client.get(peer.url("/0")).send()).expect_err("one too many");
    assert_eq!(fault(&error), Some(RedirectFault::TooMany(5)), "{error:?}");
    assert_eq!(seen.try_iter().count(), 6);
    let (peer, seen) = peer_of_http2("tcp", &[redirect(302, "/b"), redirect(302, "/a"), redirect(302, "/b")]);
    let error = block_on(client.get(peer.url("/a")).send()).expect_err("a circle");
    assert_eq!((fault(&error), seen.try_iter().count()), (Some(RedirectFault::Circle), 3));
}

#[test]
fn five_are_followed_and_a_sixth_is_an_error() {
    let chain: Vec<_> = (1..=6).map(|hop| redirect(302, &format!("/{hop}"))).collect();
    let (peer, seen) = peer("tcp", &chain[..5]);
    let response = block_on(Client::new().get(peer.url("/0")).send()).expect("an answer");
    assert_eq!((response.url().as_str(), response.history().len()), (&*peer.url("/5"), 5));
    assert_eq!(seen.try_iter().count(), 6);

    let (peer, seen) = self::peer("tcp", &chain);
    let error = block_on(Client::new().get(peer.url("/0")).send()).expect_err("one too many");
    assert_eq!(fault(&error), Some(RedirectFault::TooMany(5)), "{error:?}");
    assert_eq!(seen.try_iter().count(), 6);
    assert!(error.to_string().contains("/5") && error.status().is_some(), "{error}");
}

#[test]
fn none_is_followed_where_none_is_wanted() {
    for call in [0, 1] {
        let (peer, seen) = peer("tcp", &[redirect(307, "/next")]);
        let client = Client::builder().redirects(call).build();
        let response = block_on(client.get(peer.url("/")).redirects(0).send()).expect("an answer");
        assert_eq!((response.status().as_u16(), response.url().as_str()), (307, &*peer.url("/")));
        assert_eq!(block_on(response.text()).expect("its body"), "away");
        assert_eq!(seen.try_iter().count(), 1);
    }
    // What is forwarded leads the caller, not the proxy.
    let (peer, seen) = peer("tcp", &[redirect(307, "/next")]);
    let request = anywire_http::Request::new(Method::GET, "/");
    let response = block_on(Client::new().forward(request, peer.url("/")).send()).expect("an answer");
    assert_eq!((response.status().as_u16(), seen.try_iter().count()), (307, 1));
}

#[test]
fn a_status_without_a_location_is_the_callers() {
    for status in [300, 301, 304, 305, 308] {
        let location = if status == 300 { "location: /next\r\n" } else { "" };
        let (peer, _seen) =
            peer("tcp", &[format!("HTTP/1.1 {status} So\r\n{location}content-length: 0\r\n\r\n")]);
        let response = block_on(Client::new().get(peer.url("/")).send()).expect("an answer");
        assert_eq!(response.status().as_u16(), status);
    }
}

#[test]
fn a_circle_is_left() {
    let (peer, seen) = peer("tcp", &[redirect(302, "/b"), redirect(302, "/a"), redirect(302, "/b")]);
    let redirects = Redirects { hops: 100, ..Redirects::default() };
    let error =
        block_on(Client::new().get(peer.url("/a")).redirects(redirects).send()).expect_err("a circle");
    assert_eq!(fault(&error), Some(RedirectFault::Circle), "{error:?}");
    assert_eq!(seen.try_iter().count(), 3);
}

#[test]
fn a_location_that_cannot_be_called_is_an_error() {
    for location in ["ftp://host/", "http://me:secret@host/", "http://", "mailto:me@host"] {
        let (peer, _seen) = peer("tcp", &[redirect(302, location)]);
        let error = block_on(Client::new().get(peer.url("/")).send()).expect_err(location);
        assert!(matches!(fault(&error), Some(RedirectFault::Location(_))), "{error:?}");
        assert!(!format!("{error} {error:?}").contains("secret"), "{error}");
    }
}

#[test]
fn a_body_that_was_read_goes_nowhere_else() {
    for (status, follows) in [(307, false), (308, false), (303, true), (302, true)] {
        let (peer, seen) = peer("tcp", &[redirect(status, "/next")]);
        let (mut sender, body) = Body::channel(16);
        let _ = sender.try_send("tea");
        sender.finish();
        let replied = block_on(Client::new().post(peer.url("/")).body(body).send());
        match follows {
            true => assert_eq!(replied.expect("an answer").url(), &*peer.url("/next")),
            false => assert_eq!(fault(&replied.expect_err("no body")), Some(RedirectFault::BodyIsGone)),
        }
        assert_eq!(seen.try_iter().count(), 1 + usize::from(follows));
    }
}

#[test]
fn a_call_by_its_own_wire_stays_with_its_origin() {
    let (peer, _seen) = peer("memory", &[redirect(302, "http://other.example/")]);
    let error =
        block_on(Client::new().get(peer.url("/")).via(peer.via()).send()).expect_err("another origin");
    assert_eq!(fault(&error), Some(RedirectFault::LeavesWire), "{error:?}");
}

#[test]
fn a_hook_is_asked_before_each_hop() {
    let (peer, seen) = peer("tcp", &[redirect(302, "/open"), redirect(302, "/admin")]);
    let follow =
        |target: &anywire_client::RedirectTarget<'_>| !target.to.path_and_query().starts_with("/admin");
    let redirects = Redirects { follow: Some(Arc::new(follow)), ..Redirects::default() };
    let response = block_on(Client::new().get(peer.url("/")).redirects(redirects).send()).expect("an answer");
    assert_eq!((response.status().as_u16(), response.url().as_str()), (302, &*peer.url("/open")));
    assert_eq!((seen.try_iter().count(), response.history().len()), (2, 1));
}

#[test]
fn the_deadline_of_the_call_holds_for_all_hops() {
    // Each hop is quick enough for itself.
    let (peer, _seen) = peer("tcp", &[redirect(302, "/1")]);
    let silent = Peer::start(wire("tcp"), |mut talk| {
        talk.request();
        talk.wait_for_end();
    });
    let (first, _first_seen) = self::peer("tcp", &[redirect(302, &silent.url("/"))]);
    drop(peer);
    let call = Client::new().get(first.url("/")).total_timeout(Duration::from_millis(300));
    let error = block_on(call.send()).expect_err("silence");
    assert!(error.is_timeout() && error.phase() == Some(anywire_client::Phase::Total), "{error:?}");
}

#[cfg(feature = "tls")]
#[test]
fn clear_text_is_no_place_to_go_from_tls() {
    let (plain, _seen) = peer("tcp", &[]);
    let (secure, _secure_seen) =
        peer("tls", &[redirect(302, &plain.url("/")), redirect(302, &plain.url("/"))]);
    let client = crate::support::builder().build();
    let error = block_on(client.get(secure.url("/")).send()).expect_err("no TLS");
    assert_eq!(fault(&error), Some(RedirectFault::ClearText), "{error:?}");
    let redirects = Redirects { to_clear_text: true, ..Redirects::default() };
    let response = block_on(client.get(secure.url("/")).redirects(redirects).send()).expect("it is allowed");
    assert_eq!(response.url(), &*plain.url("/"));
}

/// The body of a response that nobody reads holds up no hop and no attempt: one that drips, is silent, or breaks a rule is left. The one
/// connection that there may be is free then.
#[test]
fn a_body_that_nobody_reads_holds_up_no_hop() {
    let bodies = [
        "content-length: 9\r\n\r\nx",
        "transfer-encoding: chunked\r\n\r\n1\r\nx\r\n",
        "transfer-encoding: chunked\r\n\r\nzz\r\n",
    ];
    for (is_http2, body) in bodies.map(|body| (false, body)).into_iter().chain([(true, "")]) {
        for status in ["302", "503"] {
            let scene = Simulated::new();
            let peer = scene.peer(move |mut line| async move {
                if is_http2 {
                    line.greet(&[]).await;
                    let fields =
                        literals(&[(":status", status), ("location", "/next"), ("retry-after", "0")]);
                    let Some(first) = line.request().await else { return };
                    line.frame(HEADERS, END_HEADERS, first, &fields).await;
                    line.frame(DATA, 0, first, b"x").await;
                    while let Some(next) = line.request().await {
                        line.answer(next).await;
                    }
                } else if line.number == 0 {
                    line.head().await;
                    let fields = "location: /next\r\nretry-after: 0";
                    line.say(format!("HTTP/1.1 {status} So\r\n{fields}\r\n{body}")).await;
                    line.trickle("x", Duration::from_secs(20)).await;
                } else {
                    while line.head().await.is_some() {
                        line.say(OK).await;
                    }
                }
            });
            let limits = Limits { connections_per_origin: 1, ..Limits::default() };
            let retries = Retries { statuses: vec![StatusCode::SERVICE_UNAVAILABLE], ..Retries::default() };
            let client = scene.client(|builder| {
                let version =
                    if is_http2 { ClientBuilder::http2_prior_knowledge } else { ClientBuilder::http1_only };
                version(builder).limits(limits).retries(retries)
            });
            scene.run(async move || {
                let begin = tokio::time::Instant::now();
                let call = client.get("http://peer.example/").via(peer.via());
                let response = call.send().await.expect("an answer");
                assert_eq!(response.text().await.expect("a body"), "ok");
                assert!(begin.elapsed() < Duration::from_secs(2), "{status} {body}: {:?}", begin.elapsed());
            });
        }
    }
}
