//! An `https` URL goes over TLS, on any wire; who is at fault if it cannot is said.
#![cfg(feature = "tls")]

use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread;
use std::time::Duration;

use crate::support::{
    HANG, OK, Peer, block_on, builder, client, eventually, listening, on_each_wire, trial, wire,
};
use anywire_client::{CallRequest, Client, Error, Fault, Next, Phase, Response};
use anywire_http::h2::Code;
use anywire_loops::Loops;
use anywire_wire::tls::{ClientTlsOptions, HandshakeError, Roots};
use anywire_wire::{Address, ListenOptions, Listener};

const SCHEMES: [&str; 3] = ["tls", "tls+unix", "tls+memory"];

/// The address below the one of a wire with TLS.
fn below(address: &Address) -> Address {
    let plain = address.to_string().replacen("tls:", "tcp:", 1).replacen("tls+", "", 1);
    plain.parse().expect("an address")
}

fn error(client: &Client, url: &str) -> Error {
    block_on(client.get(url).send()).expect_err("no answer")
}

fn handshake(error: &Error) -> &HandshakeError {
    assert!(error.is_connect() && error.is_handshake() && !error.may_have_been_processed(), "{error:?}");
    assert_eq!(error.phase(), Some(Phase::Handshake));
    error.handshake().expect("TLS found something")
}

#[test]
fn the_wire_below_is_chosen_as_ever() {
    for scheme in SCHEMES {
        let peer = Peer::answering(wire(scheme), OK);
        let (_loops, client) = client(1, |builder| builder);
        // The three that are the same.
        let below = below(peer.via());
        for (url, via) in [
            ("https://peer.example/", peer.via()),
            ("https://peer.example/", &below),
            ("https://peer.example:443/", &below),
        ] {
            let answer = block_on(client.get(url).via(via).send()).expect("an answer");
            let tls = answer.tls().expect("a handshake");
            assert_eq!(tls.version.as_deref(), Some("TLSv1.3"));
            assert_eq!(tls.server_name.as_deref(), Some("peer.example"));
            assert_eq!(tls.protocol, None, "the peer offers nothing");
            assert!(tls.cipher_suite.as_deref().is_some_and(|suite| suite.starts_with("TLS13_")), "{tls:?}");
            assert_eq!(tls.peer_certificates.len(), 1);
            assert_eq!(block_on(answer.text()).expect("a body"), "ok");
        }
        assert_eq!((peer.accepted(), client.counters().total().dialed), (1, 1));
    }
}

/// As a link does that knows which hosts want TLS.
async fn upgrade_to_https(mut request: CallRequest, next: Next) -> Result<Response, Error> {
    request.set_url("https://peer.example/".parse().expect("a URL"));
    next.call(request).await
}

#[test]
fn a_url_that_becomes_https_under_way_takes_its_wire_along() {
    for scheme in SCHEMES {
        let (report, credentials) = std::sync::mpsc::channel();
        let peer = Peer::start(wire(scheme), move |mut talk| {
            while let Some(request) = talk.request() {
                let _ = report.send(request.head.headers().get("authorization").map(str::to_owned));
                talk.say(OK);
            }
        });
        for is_of_attempts in [false, true] {
            let (_loops, client) = client(1, |builder| match is_of_attempts {
                false => builder.bearer("https://peer.example", "token").intercept(upgrade_to_https),
                true => builder.intercept_attempts(upgrade_to_https),
            });
            let call = client.get("http://peer.example/").via(below(peer.via()));
            let answer = block_on(call.send()).expect("an answer over TLS");
            assert_eq!((answer.tls().is_some(), answer.url().scheme()), (true, "https"));
            let expected = if is_of_attempts { None } else { Some("Bearer token") };
            assert_eq!(credentials.recv().expect("a request").as_deref(), expected);
        }
    }
}

#[test]
fn what_belongs_to_an_https_origin_is_not_sent_in_clear_text() {
    let (report, seen) = std::sync::mpsc::channel();
    let peer = Peer::start(wire("tcp"), move |talk| {
        let _ = report.send(talk.read(1024));
    });
    let (_loops, client) =
        client(1, |builder| builder.bearer("https://peer.example", "token").intercept(upgrade_to_https));
    let error = block_on(client.get("http://peer.example/").via(peer.via()).send());
    let error = error.expect_err("the peer speaks no TLS");
    assert!(error.is_handshake(), "{error:?}");
    let seen = seen.recv().expect("a connection").expect("its first bytes");
    assert_eq!(seen[0], 22, "a record of TLS's handshake: {:?}", String::from_utf8_lossy(&seen));
}

#[test]
fn an_http_origin_and_an_https_origin_share_no_connection() {
    for scheme in SCHEMES {
        let peer = Peer::answering(wire(scheme), OK);
        let (_loops, client) = client(1, |builder| builder);
        for (dialed, url) in [(1, "https://peer.example/"), (2, "http://peer.example:443/")].repeat(2) {
            let answer = block_on(client.get(url).via(peer.via()).send()).expect("an answer");
            assert!(answer.tls().is_some());
            block_on(answer.text()).expect("a body");
            assert!(client.counters().total().dialed >= dialed);
        }
        assert_eq!((peer.accepted(), client.counters().total().dialed), (2, 2));
    }
}

#[test]
fn without_a_handshake_nothing_is_told() {
    let peer = Peer::answering(wire("tcp"), OK);
    let (_loops, client) = client(1, |builder| builder);
    assert!(block_on(client.get(peer.url("/")).send()).expect("an answer").tls().is_none());
}

#[test]
fn the_url_leads_to_the_peer_and_another_name_may_be_asked_for() {
    let peer = Peer::answering(wire("tls"), OK);
    let (_loops, trusting) = client(1, |builder| builder);
    assert_eq!(block_on(trusting.get(peer.url("/")).send()).expect("an answer").status(), 200);
    let by_name = peer.url("/").replace("127.0.0.1", "localhost");
    assert_eq!(block_on(trusting.get(&by_name).send()).expect("an answer").status(), 200);

    let (_loops, named) = client(1, |builder| builder.server_name("peer.example"));
    let answer = block_on(named.get(&by_name).send()).expect("an answer");
    assert_eq!(answer.tls().and_then(|tls| tls.server_name.as_deref()), Some("peer.example"));

    let (_loops, wrong) = client(1, |builder| builder.server_name("elsewhere.example"));
    let error = error(&wrong, &by_name);
    let found = handshake(&error);
    assert!(found.is_certificate() && found.is_wrong_name() && !found.is_untrusted(), "{found:?}");
    assert_eq!(error.fault(), Fault::Peer);
    let text = anywire_advice::Chain(&error).to_string();
    assert!(
        text.contains("TLS handshake")
            && text.contains("for another name than elsewhere.example: localhost,"),
        "{text}"
    );
}

#[test]
fn who_is_not_trusted_is_not_talked_to() {
    let peer = Peer::answering(wire("tls"), OK);
    let other = rcgen::generate_simple_self_signed(["other".to_owned()]).expect("a certificate");
    let roots = Roots::only_pem(other.cert.pem().as_bytes()).expect("a root");
    let (_loops, client) =
        client(1, |builder| builder.tls(ClientTlsOptions { roots, ..ClientTlsOptions::default() }));
    for round in 1..=2 {
        let error = error(&client, &peer.url("/"));
        let found = handshake(&error);
        assert!(found.is_certificate() && found.is_untrusted() && !found.is_wrong_name(), "{found:?}");
        assert_eq!(error.fault(), Fault::Peer);
        assert!(!error.is_timeout());
        let counters = client.counters().total();
        assert_eq!((counters.dial_failures, counters.handshake_failures, counters.dialed), (round, round, 0));
    }
    assert_eq!(peer.accepted(), 0, "no handshake came to its end");
}

#[test]
fn a_pin_that_is_not_met_ends_the_handshake() {
    let peer = Peer::answering(wire("tls"), OK);
    let roots = || Roots::only_pem(trial::pem().0.as_bytes()).expect("a root");
    let options = |pins| ClientTlsOptions { roots: roots(), pins, ..ClientTlsOptions::default() };
    let (_loops, client) = client(1, |builder| builder.tls(options(vec![[7; 32]])));
    let error = error(&client, &peer.url("/"));
    let found = handshake(&error);
    assert!(found.is_certificate() && !found.is_untrusted(), "{found:?}");
    assert!(found.to_string().contains("pinned"), "{found}");
}

#[test]
fn options_that_cannot_be_used_are_an_error_of_the_calls_that_need_them() {
    let key = rcgen::generate_simple_self_signed(["other".to_owned()]).expect("a certificate").signing_key;
    let (chain, _) = trial::pem();
    let identity = anywire_wire::tls::Identity::from_pem(chain.as_bytes(), key.serialize_pem().as_bytes());
    let identity = Some(identity.expect("both are there"));
    let (_loops, client) =
        client(1, |builder| builder.tls(ClientTlsOptions { identity, ..ClientTlsOptions::default() }));
    let error = error(&client, "https://127.0.0.1:1/");
    assert!(matches!(error, Error::Tls { .. }), "{error:?}");
    assert_eq!(error.fault(), Fault::Caller);
    let plain = Peer::answering(wire("tcp"), OK);
    assert_eq!(block_on(client.get(plain.url("/")).send()).expect("an answer").status(), 200);
}

#[test]
fn a_peer_that_shakes_no_hands_ends_the_call_by_the_deadline_for_that() {
    // It accepts, and never says a word.
    let silent = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("https://{}/", silent.local_addr().expect("an address"));
    let (_loops, client) = client(1, |builder| builder.handshake_timeout(Duration::from_millis(50)));
    let error = error(&client, &url);
    assert!(error.is_handshake() && error.is_timeout() && error.handshake().is_none(), "{error:?}");
    assert!(!error.may_have_been_processed());
    let text = anywire_advice::Chain(&error).to_string();
    assert!(text.contains("TLS handshake") && text.contains("50ms"), "{text}");
    let counters = client.counters().total();
    assert_eq!(
        (counters.handshake_failures, counters.handshake_timeouts, counters.connect_timeouts),
        (1, 1, 0)
    );
}

#[test]
fn a_plain_port_is_known_for_one() {
    // As a server that answers whatever comes, one that waits for a line, and one that leaves.
    for (answer, is_known) in [
        (&b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\n\r\n"[..], true),
        (b"220 mail.example ESMTP\r\n", true),
        (b"", false),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let url = format!("https://{}/", listener.local_addr().expect("an address"));
        let serving = thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a connection");
            // All of the client's hello, so that the close is no reset.
            let mut hello = [0; 16 << 10];
            let _ = stream.read(&mut hello).expect("a hello");
            stream.write_all(answer).expect("a client that reads");
        });
        let (_loops, client) = client(1, |builder| builder);
        let error = error(&client, &url);
        assert!(error.is_handshake() && !error.may_have_been_processed(), "{error:?}");
        assert_eq!(error.handshake().is_some_and(HandshakeError::is_clear_text), is_known, "{error:?}");
        let text = anywire_advice::Chain(&error).to_string();
        let found = if is_known { "speaks no TLS on this port" } else { "closed the connection before" };
        assert!(text.contains(found) && text.contains("port"), "{text}");
        serving.join().expect("no panic");
    }
}

#[test]
fn a_port_with_tls_is_known_for_one() {
    let loops = Loops::start(1).expect("loops start");
    let address: Address = "tls:127.0.0.1:0".parse().expect("an address");
    let listener = Listener::bind(&address, &listening(), &loops).expect("a free port").serve(|_| {});
    // An alert, as other servers send it to what is no TLS.
    let alerting = Peer::start(wire("tcp"), |mut talk| {
        talk.request();
        talk.say([21, 3, 3, 0, 2, 2, 70]);
    });
    let (_loops, client) = client(1, |builder| builder);
    let error = error(&client, &alerting.url("/"));
    assert!(matches!(error, Error::SpeaksTls { .. }), "{error:?}");
    assert!(error.is_protocol());
    assert_eq!(error.fault(), Fault::Caller);
    // Ours closes, or answers in clear text if it is told to.
    let plain = format!("http://{}/", listener.local().location());
    assert!(block_on(client.get(plain).send()).is_err());
}

#[test]
fn a_port_with_tls_is_known_over_http2_too() {
    let loops = Loops::start(1).expect("loops start");
    let address: Address = "tls:127.0.0.1:0".parse().expect("an address");
    let refusal: fn(&[u8]) -> Vec<u8> = |first| {
        assert!(first.starts_with(b"PRI "), "{first:?}");
        Code::INADEQUATE_SECURITY.refusal("this port speaks TLS")
    };
    let options = ListenOptions { answer_to_clear_text: Some(refusal), ..listening() };
    let listener = Listener::bind(&address, &options, &loops).expect("a free port").serve(|_| {});
    let alerting = Peer::start(wire("tcp"), |talk| {
        talk.read(16 << 10);
        talk.say([21, 3, 3, 0, 2, 2, 70]);
        talk.wait_for_end();
    });
    for url in [alerting.url("/"), format!("http://{}/", listener.local().location())] {
        let (_loops, client) = crate::support::client_of_http2(|builder| builder);
        let error = error(&client, &url);
        assert!(matches!(error, Error::SpeaksTls { .. }), "{error:?}");
        assert!(!error.may_have_been_processed());
        assert_eq!(client.counters().total().dialed, 1, "no other try would end otherwise");
    }
}

#[test]
fn a_body_that_is_cut_does_not_look_whole() {
    for scheme in SCHEMES {
        let peer = Peer::start(wire(scheme), |mut talk| {
            let is_cut = talk.request_head().path() == "/cut";
            talk.say("HTTP/1.1 200 OK\r\n\r\nthe first half");
            if is_cut {
                talk.reset();
            }
        });
        let (_loops, client) = client(1, |builder| builder);
        let get = async |path| {
            let call = client.get(format!("https://peer.example{path}"));
            call.via(peer.via()).send().await?.text().await
        };
        assert_eq!(block_on(get("/whole")).expect("an end with its close_notify"), "the first half");
        let error = block_on(get("/cut")).expect_err("no close_notify");
        assert!(matches!(error, Error::Io { phase: Phase::Body, .. }), "{error:?}");
        assert!(error.may_have_been_processed());
    }
}

#[test]
fn an_idle_connection_that_is_cut_is_closed_and_no_fault() {
    for scheme in SCHEMES {
        let peer = Peer::start(wire(scheme), |mut talk| {
            talk.request();
            talk.say(OK);
            talk.reset();
        });
        let (_loops, client) = client(1, |builder| builder);
        for round in 1..=2 {
            let answer = block_on(client.get("https://peer.example/").via(peer.via()).send());
            assert_eq!(answer.expect("an answer").status(), 200);
            eventually("it is gone", || client.counters().total().evicted == round);
        }
        assert_eq!(client.counters().total().resent, 0);
    }
}

#[test]
fn the_answer_of_the_peer_decides_on_the_version() {
    let loops = Loops::start(1).expect("loops start");
    let answering = |protocols: &[&str]| {
        Peer::start_with(&loops, wire("tls"), protocols, |mut talk| {
            while talk.request().is_some() {
                talk.say(OK);
            }
        })
    };
    let protocol = |client: &Client, url: &str| {
        let answer = block_on(client.get(url).send()).expect("an answer");
        answer.tls().expect("a handshake").protocol.clone()
    };
    let http1 = answering(&["http/1.1"]);
    let (_loops, client) = client(1, |builder| builder);
    assert_eq!(protocol(&client, &http1.url("/")).as_deref(), Some("http/1.1"));

    let http2 = Peer::of_http2(wire("tls"), |mut frames, _| {
        while let Some(stream) = frames.request() {
            frames.answer(stream);
        }
    });
    for _ in 0..3 {
        assert_eq!(protocol(&client, &http2.url("/")).as_deref(), Some("h2"));
    }
    assert_eq!(http2.accepted(), 1, "calls share it");

    // A client that speaks one version only accepts no other.
    let builder = builder().http1_only().build();
    let error = error(&builder, &http2.url("/"));
    assert!(error.is_handshake() && !error.may_have_been_processed(), "{error:?}");
    let (_loops, only_http2) = crate::support::client_of_http2(|builder| builder);
    for peer in [&http1, &answering(&[])] {
        let error = self::error(&only_http2, &peer.url("/"));
        assert!(error.is_handshake() && !error.may_have_been_processed(), "{error:?}");
        let text = anywire_advice::Chain(&error).to_string();
        assert!(text.contains("ALPN") || text.contains("protocols"), "{text}");
    }
}

#[test]
fn sessions_are_resumed_by_clients_that_share_their_tls() {
    let tls = anywire_wire::tls::ClientTls::new(ClientTlsOptions {
        roots: Roots::only_pem(trial::pem().0.as_bytes()).expect("a root"),
        ..ClientTlsOptions::default()
    });
    let tls = tls.expect("a root to trust");
    let peer = Peer::answering(wire("tls"), OK);
    let resumed = || {
        let (_loops, client) = client(1, |builder| builder.tls(&tls));
        let answer = block_on(client.get(peer.url("/")).send()).expect("an answer");
        answer.tls().expect("a handshake").is_resumed
    };
    assert_eq!([resumed(), resumed()], [false, true]);
}

#[test]
fn a_wire_without_tls_around_it_takes_no_https() {
    let (_loops, client) = client(1, |builder| builder);
    let via = wire("coat").scratch().expect("a free port");
    let error = block_on(client.get("https://peer.example/").via(via).send()).expect_err("no TLS there");
    assert!(matches!(error, Error::NoTls { .. }), "{error:?}");
    assert_eq!(error.fault(), Fault::Caller);
}

#[test]
fn each_wire_carries_https_where_tls_fits_around_it() {
    on_each_wire(|wire| {
        let Some(address) = wire.scratch().and_then(|address| address.with_tls()) else { return };
        let loops = Loops::start(1).expect("loops start");
        let listener = Listener::bind(&address, &ListenOptions { ..listening() }, &loops).expect("free");
        let serving = listener.serve(|mut connection| {
            drop(anywire_loops::spawn(async move {
                let mut bytes = [0; 4096];
                while connection.read(&mut bytes).await.is_ok_and(|count| count > 0) {
                    connection.write_all(OK.as_bytes()).await.expect("a client that reads");
                }
            }));
        });
        let (_loops, client) = client(1, |builder| builder.read_timeout(HANG));
        let plain = below(serving.local());
        let answer = block_on(client.get("https://peer.example/").via(plain).send()).expect("an answer");
        assert_eq!(block_on(answer.text()).expect("a body"), "ok");
    });
}

#[test]
fn a_peer_that_may_be_anybody_is_counted() {
    let peer = Peer::answering(wire("tls"), OK);
    for is_unverified in [true, false] {
        let options = ClientTlsOptions { dangerously_accept_any_certificate: true, ..Default::default() };
        let (_loops, client) =
            client(1, |builder| if is_unverified { builder.tls(options) } else { builder });
        let response =
            block_on(client.get("https://peer.example/").via(peer.via()).send()).expect("an answer");
        assert_eq!(response.tls().map(|tls| tls.is_unverified), Some(is_unverified));
        let total = client.counters().total();
        assert_eq!((total.dialed, total.unverified), (1, u64::from(is_unverified)));
    }
}
