//! What is sent again, and what never is, holds through a proxy as it does directly: one that reads the requests (absolute form), and
//! one that makes tunnels (CONNECT, with TLS in them).

use std::sync::{Mutex, mpsc};
use std::time::Duration;

use anywire_client::{Client, ClientBuilder, Error, Phase, Timeouts};
use anywire_loops::Loops;

use crate::support::{OK, Peer, Talk, block_on, builder, wire};

/// A way through a proxy.
#[derive(Debug, Clone, Copy)]
enum Way {
    Absolute,
    #[cfg(feature = "tls")]
    Tunnel,
}

impl Way {
    const ALL: &[Self] = &[
        Self::Absolute,
        #[cfg(feature = "tls")]
        Self::Tunnel,
    ];

    /// A proxy and the origin behind it: the script is that of each connection, which has reached the origin.
    fn proxy(self, script: impl Fn(Talk) + Send + Sync + 'static) -> Peer {
        Peer::start(wire("tcp"), move |talk| {
            #[cfg(feature = "tls")]
            let mut talk = talk;
            #[cfg(feature = "tls")]
            if let Self::Tunnel = self {
                assert_eq!(talk.request_head().target(), "peer.example:443");
                talk.say("HTTP/1.1 200 Here\r\n\r\n");
                talk.secure().expect("a client that trusts");
            }
            script(talk);
        })
    }

    fn client(self, proxy: &Peer, options: impl FnOnce(ClientBuilder) -> ClientBuilder) -> (Loops, Client) {
        let loops = Loops::start(1).expect("loops start");
        let at = format!("http://{}", proxy.via().location());
        // With the retries that a client has by default.
        let client = options(builder().retries(2).proxy(at).on(&loops)).build();
        (loops, client)
    }

    fn url(self) -> &'static str {
        match self {
            Self::Absolute => "http://peer.example/",
            #[cfg(feature = "tls")]
            Self::Tunnel => "https://peer.example/",
        }
    }

    /// What a request line names.
    fn target(self) -> &'static str {
        match self {
            Self::Absolute => "http://peer.example/",
            #[cfg(feature = "tls")]
            Self::Tunnel => "/",
        }
    }
}

/// Answers the first request of a connection, reads the second whole and closes. Reports each request.
fn fickle(way: Way) -> (Peer, mpsc::Receiver<String>) {
    let (report, seen) = mpsc::channel();
    let report = Mutex::new(report);
    let peer = way.proxy(move |mut talk| {
        for round in 0..2 {
            let Some(request) = talk.request() else { return };
            let line = format!("{} {}", request.head.method(), request.head.target());
            let _ = report.lock().expect("no panic").send(line);
            if round == 0 {
                talk.say(OK);
            }
        }
    });
    (peer, seen)
}

#[test]
fn a_post_whose_server_closes_is_seen_once() {
    for &way in Way::ALL {
        let (proxy, seen) = fickle(way);
        let (_loops, client) = way.client(&proxy, |builder| builder);
        block_on(async { client.get(way.url()).send().await?.text().await }).expect("an answer");
        let error = block_on(client.post(way.url()).body("order").send()).expect_err("no answer");
        assert!(
            matches!(error.last(), Error::ClosedByPeer { phase: Phase::Read, sent: true, .. }),
            "{error:?}"
        );
        assert!(error.may_have_been_processed(), "{way:?}");
        let target = way.target();
        assert_eq!(seen.try_iter().collect::<Vec<_>>(), [format!("GET {target}"), format!("POST {target}")]);
        assert_eq!(client.counters().total().retried, 0);
    }
}

#[test]
fn a_get_on_a_stale_connection_is_answered_on_a_fresh_one() {
    for &way in Way::ALL {
        let (proxy, seen) = fickle(way);
        let (_loops, client) = way.client(&proxy, |builder| builder);
        for _ in 0..2 {
            let text = block_on(async { client.get(way.url()).send().await?.text().await });
            assert_eq!(text.expect("an answer"), "ok", "{way:?}");
        }
        assert_eq!(seen.try_iter().collect::<Vec<_>>(), vec![format!("GET {}", way.target()); 3]);
        let counters = client.counters().total();
        // At once, and on the account of no budget.
        assert_eq!((counters.resent, counters.retried, counters.dialed), (1, 0, 2), "{way:?}");
    }
}

#[test]
fn a_connection_that_was_closed_while_it_was_idle_is_not_used() {
    for &way in Way::ALL {
        let proxy = way.proxy(|mut talk| {
            talk.request();
            talk.say(OK);
        });
        let (_loops, client) = way.client(&proxy, |builder| builder);
        for method in ["GET", "POST"] {
            let call = client.request(method.parse().expect("a method"), way.url());
            block_on(async { call.send().await?.text().await }).expect("an answer");
            crate::support::eventually("it is closed", || client.counters().total().idle == 0);
        }
        let counters = client.counters().total();
        assert_eq!((counters.resent, counters.dialed), (0, 2), "{way:?}");
    }
}

/// Reads until the bytes end so, and not further.
fn read_to(talk: &Talk, end: &str) -> String {
    let mut text = String::new();
    while !text.ends_with(end) {
        text.push_str(&String::from_utf8(talk.read(64 << 10).expect("more bytes")).expect("text"));
    }
    text
}

#[test]
fn a_final_status_in_the_place_of_a_100_spares_the_body() {
    for &way in Way::ALL {
        let proxy = way.proxy(|mut talk| {
            let head = read_to(&talk, "\r\n\r\n");
            if !head.contains("\r\nexpect: 100-continue\r\n") {
                // The next call, on a connection of its own.
                talk.say(OK);
                assert!(talk.request().is_none());
                return;
            }
            talk.say("HTTP/1.1 413 Content Too Large\r\ncontent-length: 2\r\n\r\nno");
            assert_eq!(talk.read(1), None, "no byte of the body");
        });
        let patient = Timeouts { expect: Duration::MAX, ..Timeouts::default() };
        let (_loops, client) = way.client(&proxy, |builder| builder.expect_continue(2).timeouts(patient));
        let refused = block_on(async {
            let response = client.post(way.url()).body("tea").send().await?;
            Ok::<_, Error>((response.status().as_u16(), response.text().await?))
        });
        assert_eq!(refused.expect("an answer"), (413, "no".to_owned()), "{way:?}");
        let next = block_on(async { client.get(way.url()).send().await?.text().await });
        assert_eq!((next.expect("an answer").as_str(), proxy.accepted()), ("ok", 2), "{way:?}");
    }
}

#[test]
fn a_100_asks_for_the_body() {
    for &way in Way::ALL {
        let proxy = way.proxy(|mut talk| {
            assert!(read_to(&talk, "\r\n\r\n").contains("\r\nexpect: 100-continue\r\n"));
            talk.say("HTTP/1.1 100 Continue\r\n\r\n");
            assert_eq!(read_to(&talk, "tea"), "tea");
            talk.say(OK);
            assert_eq!(talk.request().expect("the next call").body, b"");
            talk.say(OK);
        });
        let patient = Timeouts { expect: Duration::MAX, ..Timeouts::default() };
        let (_loops, client) = way.client(&proxy, |builder| builder.expect_continue(2).timeouts(patient));
        for call in [client.post(way.url()).body("tea"), client.get(way.url())] {
            let text = block_on(async { call.send().await?.text().await });
            assert_eq!(text.expect("an answer"), "ok", "{way:?}");
        }
        assert_eq!(proxy.accepted(), 1);
    }
}
