//! Calls through proxies: what the proxy reads, what the origin reads, and who goes through which proxy.

use std::net::{SocketAddr, TcpListener};
use std::process::Command;
use std::time::Duration;

use anywire_client::connector::{Connecting, Connector, Target};
use anywire_client::proxy::{Proxies, Proxy, Through};
use anywire_client::{Client, ClientBuilder, Error, Limits, Timeouts};
use anywire_http::{Method, Request};
use anywire_loops::Loops;
use anywire_wire::names::Hosts;
use anywire_wire::{Address, Dialer};
use tokio::time::Instant;

use crate::support::bytes_of_http2::{SETTINGS, frame};
use crate::support::simulated::Simulated;
use crate::support::{Frames, OK, Peer, Talk, block_on, client, wire};

/// A call's body.
fn text(client: &Client, url: &str) -> String {
    block_on(async { client.get(url).send().await?.text().await }).expect("an answer")
}

/// Where a peer listens, as the URL of a proxy.
fn at(peer: &Peer, scheme: &str) -> String {
    format!("{scheme}://{}", peer.via().location())
}

/// Reads CONNECT to this target, and makes the tunnel.
fn make_tunnel(talk: &mut Talk, target: &str, behind: &[u8]) {
    let head = talk.request_head();
    assert_eq!((head.method(), &*head.target()), (&Method::CONNECT, target));
    assert_eq!(head.headers().get("host"), Some(target));
    talk.say([b"HTTP/1.1 200 Here\r\ncontent-length: 3\r\n\r\n", behind].concat());
}

/// Answers what it is asked, and has each request end the script if it is not of this target.
fn answer_all(talk: &mut Talk, target: &str) {
    while let Some(request) = talk.request() {
        assert_eq!(request.head.target(), target);
        assert_eq!(request.head.headers().get("proxy-authorization"), None, "no origin is told");
        talk.say(OK);
    }
}

/// The proxy's end of SOCKS5 up to the request, and the connection.
fn socks(talk: &Talk, expected: &[u8]) {
    socks_replies(talk, expected, 0);
}

/// The same with this reply (RFC 1928 section 6).
fn socks_replies(talk: &Talk, expected: &[u8], reply: u8) {
    let exactly = |count: usize| {
        let mut bytes = Vec::new();
        while bytes.len() < count {
            bytes.extend(talk.read(count - bytes.len()).expect("the client is there"));
        }
        bytes
    };
    let greeting = exactly(2);
    assert_eq!(greeting[0], 5);
    let methods = exactly(greeting[1].into());
    if methods.contains(&2) {
        talk.say(b"\x05\x02");
        assert_eq!(exactly(12), b"\x01\x02me\x07sec ret");
        talk.say(b"\x01\x00");
    } else {
        talk.say(b"\x05\x00");
    }
    assert_eq!(exactly(expected.len()), expected);
    talk.say([5, reply, 0, 3, 1, b'x', 0, 0]);
}

#[test]
fn an_http_proxy_reads_the_whole_url_and_who_asks() {
    let proxy = Peer::start(wire("tcp"), |mut talk| {
        while let Some(request) = talk.request() {
            let (target, headers) = (request.head.target().into_owned(), request.head.headers());
            let host = headers.get("host").expect("a host");
            assert!(target.starts_with(&format!("http://{host}")), "{target} {host}");
            assert_eq!(headers.get_all("proxy-authorization").count(), 1);
            let body = format!("{target} {}", headers.get("proxy-authorization").expect("a login"));
            talk.say(format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len()));
        }
    });
    let url = format!("http://me:sec%20ret@{}", proxy.via().location());
    let (_loops, client) = client(1, |builder| builder.proxy(url));
    let login = "Basic bWU6c2VjIHJldA==";
    for _ in 0..2 {
        assert_eq!(text(&client, "http://origin.example/a?b"), format!("http://origin.example/a?b {login}"));
    }
    assert_eq!(client.counters().total().dialed, 1, "the connection is used again");
    // The caller's own word counts.
    let own = client.get("http://origin.example:81").header("proxy-authorization", "Bearer x");
    let own = block_on(async { own.send().await?.text().await });
    assert_eq!(own.expect("an answer"), "http://origin.example:81/ Bearer x");
}

#[test]
fn a_question_to_the_server_as_a_whole_names_no_path() {
    let proxy = Peer::start(wire("tcp"), |talk| {
        let request = talk.read(1 << 10).expect("a request");
        let target = request.split(|byte| *byte == b' ').nth(1).expect("a target");
        assert_eq!(String::from_utf8_lossy(target), "http://origin.example");
        talk.say(OK);
    });
    let (_loops, client) = client(1, |builder| builder.proxy(at(&proxy, "http")));
    assert_eq!(block_on(client.options("http://origin.example").send()).expect("an answer").status(), 200);
}

#[cfg(feature = "tls")]
#[test]
fn https_goes_through_a_tunnel() {
    let proxy = Peer::start(wire("tcp"), |mut talk| {
        make_tunnel(&mut talk, "peer.example:443", b"");
        talk.secure().expect("a client that trusts");
        answer_all(&mut talk, "/a");
    });
    let url = at(&proxy, "http").replace("://", "://me:secret@");
    let (_loops, client) = client(1, |builder| builder.proxy(url));
    for _ in 0..2 {
        let answer = block_on(client.get("https://peer.example/a").send()).expect("an answer");
        let tls = answer.tls().expect("TLS with the origin").clone();
        assert_eq!(tls.server_name.as_deref(), Some("peer.example"));
        assert_eq!(block_on(answer.text()).expect("a body"), "ok");
    }
    assert_eq!((proxy.accepted(), client.counters().total().dialed), (1, 1));
}

#[cfg(feature = "tls")]
#[test]
fn tls_is_spoken_to_the_proxy_and_again_within() {
    let proxy = Peer::start(wire("tls"), |mut talk| {
        if talk.number == 0 {
            make_tunnel(&mut talk, "one.example:444", b"");
            talk.secure().expect("a client that trusts");
            answer_all(&mut talk, "/");
        } else {
            let request = talk.request().expect("a request");
            assert_eq!(request.head.target(), "http://two.example/");
            talk.say(OK);
        }
    });
    let (_loops, client) =
        client(1, |builder| builder.proxy(at(&proxy, "https").replace("127.0.0.1", "localhost")));
    let answer = block_on(client.get("https://one.example:444/").send()).expect("an answer");
    let tls = answer.tls().expect("TLS with the origin");
    assert_eq!(tls.server_name.as_deref(), Some("one.example"));
    assert_eq!(block_on(answer.text()).expect("a body"), "ok");
    let answer = block_on(client.get("http://two.example/").send()).expect("an answer");
    assert!(answer.tls().is_none(), "there is no TLS with the origin");
}

#[cfg(feature = "tls")]
#[test]
fn a_proxy_has_to_prove_its_host() {
    let proxy = Peer::start(wire("tls"), |talk| talk.wait_for_end());
    let elsewhere: Proxy = "https://elsewhere.example".parse().expect("a proxy");
    let elsewhere = elsewhere.via(proxy.via()).expect("an address");
    // A name for origins is none for proxies.
    let (_loops, client) = client(1, |builder| builder.proxy(elsewhere).server_name("peer.example"));
    let error = block_on(client.get("https://peer.example/").send()).expect_err("another name");
    assert!(matches!(error, Error::Proxy { .. }) && error.is_handshake(), "{error:?}");
    assert!(error.handshake().is_some_and(|found| found.is_wrong_name()));
    let text = anywire_advice::Chain(&error).to_string();
    assert!(
        text.contains("the proxy https://elsewhere.example:443") && text.contains("another name"),
        "{text}"
    );
}

#[cfg(feature = "tls")]
#[test]
fn what_tls_finds_in_a_tunnel_is_the_origins_fault() {
    let proxy = Peer::start(wire("tcp"), |mut talk| {
        make_tunnel(&mut talk, "elsewhere.example:443", b"");
        // The client finds out, and closes.
        let _ = talk.secure();
    });
    let (_loops, client) = client(1, |builder| builder.proxy(at(&proxy, "http")));
    let error = block_on(client.get("https://elsewhere.example/").send()).expect_err("another name");
    assert!(matches!(error, Error::Connect { .. }) && error.is_handshake(), "{error:?}");
    let text = anywire_advice::Chain(&error).to_string();
    assert!(text.contains("tls:elsewhere.example:443") && text.contains("another name"), "{text}");
}

#[test]
fn socks_carries_the_name_to_the_proxy() {
    let proxy = Peer::start(wire("tcp"), |mut talk| {
        socks(&talk, b"\x05\x01\x00\x03\x0eorigin.example\x00\x51");
        answer_all(&mut talk, "/a");
    });
    let proxied = at(&proxy, "socks5h").replace("://", "://me:sec%20ret@");
    for url in [at(&proxy, "socks5h"), proxied] {
        let (_loops, client) = client(1, |builder| builder.proxy(url));
        assert_eq!(text(&client, "http://origin.example:81/a"), "ok");
        assert_eq!(text(&client, "http://origin.example:81/a"), "ok");
        assert_eq!(client.counters().total().dialed, 1);
    }
}

#[test]
fn socks5_resolves_the_name_here() {
    let proxy = Peer::start(wire("tcp"), |mut talk| {
        socks(&talk, b"\x05\x01\x00\x01\x7f\x00\x00\x01\x00\x51");
        answer_all(&mut talk, "/");
    });
    let (_loops, client) = client(1, |builder| builder.proxy(at(&proxy, "socks5")));
    // A name that resolves without a name server, whichever family comes first.
    assert_eq!(text(&client, "http://127.1:81/"), "ok");
    let error = block_on(client.get("http://no-such-host.invalid/").send()).expect_err("no such host");
    assert!(matches!(error.last(), Error::Connect { .. }), "{error:?}");
}

/// No call fails because one address of several is dead, as without a proxy.
#[test]
fn socks5_asks_for_the_next_address_if_one_is_not_reached() {
    let proxy = Peer::start(wire("tcp"), |mut talk| {
        let asked = [5, 1, 0, 1, 10, 0, 0, talk.number as u8 + 1, 0, 81];
        if talk.number == 0 {
            socks_replies(&talk, &asked, 4);
            talk.wait_for_end();
        } else {
            socks(&talk, &asked);
            answer_all(&mut talk, "/");
        }
    });
    let addresses = [1, 2].map(|last: u8| SocketAddr::from(([10, 0, 0, last], 81)));
    let hosts = Hosts::default().add("origin.example", addresses);
    let (_loops, reaches) = client(1, |builder| builder.proxy(at(&proxy, "socks5")).hosts(hosts));
    assert_eq!(text(&reaches, "http://origin.example:81/"), "ok");
    assert_eq!(proxy.accepted(), 2);

    let nobody = Peer::start(wire("tcp"), |talk| {
        socks_replies(&talk, &[5, 1, 0, 1, 10, 0, 0, talk.number as u8 + 1, 0, 81], 4);
        talk.wait_for_end();
    });
    let hosts = Hosts::default().add("origin.example", addresses);
    let (_loops, client) = client(1, |builder| builder.proxy(at(&nobody, "socks5")).hosts(hosts).retries(0));
    let error = block_on(client.get("http://origin.example:81/").send()).expect_err("nobody is there");
    assert!(matches!(error.last(), Error::Proxy { .. }), "{error:?}");
    assert_eq!(nobody.accepted(), 2, "each address once");
}

/// Reaches the proxy in two seconds.
struct Slow(Address);

impl Connector for Slow {
    fn connect<'a>(&'a self, _: &'a Target) -> Connecting<'a> {
        Box::pin(async move {
            tokio::time::sleep(Duration::from_secs(2)).await;
            Ok(Dialer::default().dial(&self.0).await?)
        })
    }
}

#[test]
fn all_addresses_behind_a_proxy_have_the_time_of_one_tunnel() {
    let scene = Simulated::new();
    let proxy = scene.peer(|mut line| async move {
        // It reaches none of them.
        if line.bytes(3).await.is_some() && line.say(b"\x05\x00").await {
            line.bytes(10).await;
            line.say([5, 4, 0, 3, 1, b'x', 0, 0]).await;
        }
        line.wait_for_end().await;
    });
    let addresses = [1, 2, 3].map(|last: u8| SocketAddr::from(([10, 0, 0, last], 81)));
    let through = Through::new("socks5://proxy.example".parse().expect("a URL"));
    let through = through.over(Slow(proxy.via().clone()));
    let hosts = Hosts::default().add("origin.example", addresses);
    let timeouts = Timeouts { connect: Duration::from_secs(3), ..Timeouts::default() };
    let client = scene.client(|builder| builder.connector(through).hosts(hosts).timeouts(timeouts));
    scene.run(async move || {
        let begun = Instant::now();
        let error = client.get("http://origin.example:81/").send().await.expect_err("it is not reached");
        assert!(format!("{error:?}").contains("TimedOut { after: 3s }"), "{error:?}");
        assert_eq!(begun.elapsed().as_secs(), 2 + 3, "the proxy is reached once before the tunnel's time");
        let _proxy = proxy;
    });
}

#[test]
fn http2_and_upgrades_go_through_a_tunnel_and_lose_no_byte() {
    let proxy = Peer::start(wire("tcp"), |mut talk| {
        // The origin speaks first, and its bytes come with the proxy's.
        make_tunnel(&mut talk, "origin.example:80", &frame(SETTINGS, 0, 0, &[]));
        if let Some(mut frames) = Frames::accept(talk, &[]) {
            while let Some(stream) = frames.request() {
                frames.answer(stream);
            }
        }
    });
    let (_loops, of_http2) = client(1, |builder| builder.proxy(at(&proxy, "http")).http2_prior_knowledge());
    assert_eq!(text(&of_http2, "http://origin.example/"), "ok");

    let proxy = Peer::start(wire("tcp"), |mut talk| {
        if talk.number == 0 {
            let request = talk.request().expect("a request");
            assert_eq!(request.head.target(), "http://origin.example/");
            talk.say(OK);
            talk.wait_for_end();
        } else {
            make_tunnel(&mut talk, "origin.example:80", b"");
            let head = talk.request_head();
            assert_eq!((&*head.target(), head.headers().get("upgrade")), ("/", Some("echo")));
            talk.say("HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: echo\r\n\r\nhello");
            talk.wait_for_end();
        }
    });
    let (_loops, client) = client(1, |builder| builder.proxy(at(&proxy, "http")));
    assert_eq!(text(&client, "http://origin.example/"), "ok");
    let answer = block_on(client.get("http://origin.example/").upgrade("echo").send()).expect("an answer");
    assert_eq!(answer.status(), 101);
    assert_eq!(proxy.accepted(), 2);
}

/// A proxy that answers with the target, and an origin that answers `ok`.
fn proxy_and_origin() -> (Peer, Peer) {
    let proxy = Peer::start(wire("tcp"), |mut talk| {
        while let Some(request) = talk.request() {
            let target = request.head.target().into_owned();
            talk.say(format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{target}", target.len()));
        }
    });
    (proxy, Peer::answering(wire("tcp"), OK))
}

#[test]
fn a_call_decides_for_itself() {
    let (proxy, origin) = proxy_and_origin();
    let url = origin.url("/");
    let text =
        |call: anywire_client::Call| block_on(async { call.send().await?.text().await }).expect("an answer");
    let (_loops, proxied) = client(1, |builder| builder.proxy(at(&proxy, "http")));
    let (_other_loops, direct) = client(1, ClientBuilder::no_proxy);
    // Twice, so that a connection of the other kind would be there.
    for _ in 0..2 {
        assert_eq!(text(proxied.get(&url)), url);
        assert_eq!(text(proxied.get(&url).no_proxy()), "ok");
        assert_eq!(text(proxied.get(&url).via(origin.via())), "ok");
        assert_eq!(text(direct.get(&url)), "ok");
        assert_eq!(text(direct.get(&url).proxy(at(&proxy, "http"))), url);
        // The last word counts for the proxy, and a wire goes before any.
        assert_eq!(text(direct.get(&url).proxy(at(&proxy, "http")).via(origin.via())), "ok");
        assert_eq!(text(direct.get(&url).proxy(at(&proxy, "http")).no_proxy()), "ok");
    }
    // What is sent on goes to its upstream.
    let request = || Request::get("/");
    assert_eq!(text(proxied.forward(request(), origin.url(""))), "ok");
    assert_eq!(text(proxied.forward(request(), origin.url("")).proxy(at(&proxy, "http"))), url);
    assert_eq!(proxied.counters().total().dialed, 4);
}

#[test]
fn a_client_may_have_proxies_for_some_hosts() {
    let (proxy, origin) = proxy_and_origin();
    let url = origin.url("/");
    let proxies = Proxies::all(at(&proxy, "http")).expect("a proxy");
    let port = origin.via().port().expect("TCP has ports");
    for (except, answer) in
        [("", &*url), ("127.0.0.0/8", "ok"), (&format!("127.0.0.1:{port}"), "ok"), ("127.0.0.1:1", &*url)]
    {
        let (_loops, client) = client(1, |builder| builder.proxies(proxies.clone().except(except)));
        assert_eq!(text(&client, &url), answer, "except {except:?}");
    }
    let (_loops, client) =
        client(1, |builder| builder.proxies(Proxies::none().https(at(&proxy, "http")).expect("a proxy")));
    assert_eq!(text(&client, &url), "ok");
}

#[test]
fn what_is_no_proxy_is_an_error_of_each_call() {
    let origin = Peer::answering(wire("tcp"), OK);
    let (_loops, wrong) = client(1, |builder| builder.proxy("ftp://me:secret@host"));
    let error = block_on(wrong.get(origin.url("/")).send()).expect_err("no proxy");
    assert!(matches!(error, Error::ProxyUrl { .. }) && !error.may_have_been_processed());
    assert_eq!(error.fault(), anywire_client::Fault::Caller);
    let text = format!("{} {error:?} {wrong:?}", anywire_advice::Chain(&error));
    assert!(text.contains("ftp://...@host") && !text.contains("secret"), "{text}");
    assert_eq!(block_on(wrong.get(origin.url("/")).no_proxy().send()).expect("an answer").status(), 200);
    let (_loops, right) = client(1, |builder| builder);
    let error = block_on(right.get(origin.url("/")).proxy("http://h/path").send()).expect_err("no proxy");
    assert!(matches!(error, Error::ProxyUrl { .. }));
}

/// Has its own way to every target.
struct Own {
    address: String,
}

impl Connector for Own {
    fn connect<'a>(&'a self, target: &'a Target) -> Connecting<'a> {
        assert_eq!((target.scheme(), target.host(), target.port()), ("http", "origin.example", 80));
        assert_eq!(target.address().to_string(), "tcp:origin.example:80");
        Box::pin(async move {
            let connection = target.dialer().dial(&self.address).await?;
            Ok(target.secure(connection).await?)
        })
    }
}

#[test]
fn a_connector_of_ones_own_makes_the_connections() {
    let origin = Peer::answering(wire("memory"), OK);
    let (proxy, other) = proxy_and_origin();
    let own = Own { address: origin.via().to_string() };
    let (_loops, client) = client(1, |builder| builder.connector(own).proxy(at(&proxy, "http")));
    assert_eq!(text(&client, "http://origin.example/"), "ok");
    assert_eq!(origin.accepted(), 1);
    let forwarded = client.forward(Request::get("/"), "http://origin.example").send();
    assert_eq!(block_on(forwarded).expect("an answer").status(), 200);
    // A call that says how is not asked again.
    for call in [
        client.get("http://elsewhere.example/").via(other.via()),
        client.get("http://elsewhere.example/").proxy(at(&proxy, "http")),
    ] {
        assert_eq!(block_on(call.send()).expect("an answer").status(), 200);
    }
    assert_eq!((proxy.accepted(), other.accepted()), (1, 1));
}

#[test]
fn proxies_may_be_chained() {
    use anywire_client::proxy::Through;

    let near = Peer::start(wire("memory"), |mut talk| {
        socks(&talk, b"\x05\x01\x00\x03\x0bfar.example\x0c\x38");
        // Here the other one begins.
        make_tunnel(&mut talk, "origin.example:80", b"");
        answer_all(&mut talk, "/");
    });
    let near_one: Proxy = "socks5h://near.example".parse().expect("a proxy");
    let near_one = near_one.via(near.via()).expect("an address");
    let far: Proxy = "http://far.example:3128".parse().expect("a proxy");
    let (_loops, client) =
        client(1, |builder| builder.connector(Through::new(far).over(Through::new(near_one))));
    assert_eq!(text(&client, "http://origin.example/"), "ok");
}

/// Runs a test of this program in another process, with these variables.
fn in_environment(test: &str, variables: &[(&str, &str)]) {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    for name in ["http_proxy", "https_proxy", "all_proxy", "no_proxy", "REQUEST_METHOD"] {
        command.env_remove(name).env_remove(name.to_uppercase());
    }
    command.args(["--ignored", "--exact", &format!("calls_go_through_proxies::{test}")]);
    let output = command.envs(variables.iter().copied()).output().expect("it starts");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}

#[test]
fn a_client_uses_the_proxies_of_the_environment() {
    let proxy = Peer::answering(wire("tcp"), OK);
    let proxy = at(&proxy, "http");
    in_environment("in_an_environment_with_a_proxy", &[("http_proxy", &proxy), ("NO_PROXY", ".invalid")]);
    in_environment("in_an_environment_with_a_proxy", &[("HTTP_PROXY", &proxy), ("NO_PROXY", ".invalid")]);
    in_environment("in_an_environment_with_a_bad_proxy", &[("http_proxy", "ftp://h")]);
}

/// A port of this machine where nobody listens.
fn nobody() -> String {
    let port =
        TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port").port();
    format!("http://127.0.0.1:{port}/")
}

#[test]
#[ignore = "needs an environment: a_client_uses_the_proxies_of_the_environment runs it"]
fn in_an_environment_with_a_proxy() {
    let loops = Loops::start(1).expect("loops start");
    let client = Client::builder().on(&loops).build();
    assert_eq!(text(&client, "http://origin.example/"), "ok");
    for direct in [nobody(), "http://origin.invalid/".to_owned()] {
        let error = block_on(client.get(&direct).send()).expect_err("nobody is there");
        assert!(matches!(error.last(), Error::Connect { .. }), "{direct}: {error:?}");
    }
    let without = Client::builder().on(&loops).no_proxy().build();
    let error = block_on(without.get("http://origin.invalid/").send()).expect_err("no such host");
    assert!(matches!(error.last(), Error::Connect { .. }), "{error:?}");
}

#[test]
#[ignore = "needs an environment: a_client_uses_the_proxies_of_the_environment runs it"]
fn in_an_environment_with_a_bad_proxy() {
    let client = Client::new();
    let error = block_on(client.get("http://origin.example/").send()).expect_err("no proxy");
    let text = anywire_advice::Chain(&error).to_string();
    assert!(matches!(error, Error::ProxyUrl { .. }) && text.contains("http_proxy"), "{text}");
}

/// One connection, whatever the way.
fn one_connection(builder: ClientBuilder) -> ClientBuilder {
    builder.limits(Limits { connections_per_origin: 1, ..Limits::default() })
}

#[test]
fn calls_of_one_login_do_not_hold_up_those_of_another() {
    let proxy = Peer::answering(wire("tcp"), OK);
    let (_loops, client) = client(1, one_connection);
    for login in ["me:one", "you:two", "me:one"] {
        let url = format!("http://{login}@{}", proxy.via().location());
        block_on(client.get("http://origin.example/").proxy(url).send()).expect("an answer");
    }
    // Each makes room for the next.
    let counters = client.counters().total();
    assert_eq!((proxy.accepted(), counters.idle, counters.passed_on), (3, 1, 2));
}

#[test]
fn an_upgrade_does_not_wait_for_a_connection_that_the_proxy_reads() {
    let proxy = Peer::start(wire("tcp"), |mut talk| {
        if talk.number == 0 {
            return answer_all(&mut talk, "http://origin.example/");
        }
        make_tunnel(&mut talk, "origin.example:80", b"");
        talk.request_head();
        talk.say("HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: toy\r\n\r\n");
        talk.wait_for_end();
    });
    let (_loops, client) = client(1, |builder| one_connection(builder.proxy(at(&proxy, "http"))));
    block_on(client.get("http://origin.example/").send()).expect("an answer");
    let switched = block_on(client.get("http://origin.example/").upgrade("toy").send()).expect("a switch");
    assert_eq!(switched.status(), 101);
}

/// The tunnel of an upgrade is for upgrades: many proxies refuse to make one to a port of clear text.
#[test]
fn calls_behind_an_upgrade_are_read_by_the_proxy_as_before() {
    for is_first in [false, true] {
        let proxy = Peer::start(wire("tcp"), |mut talk| {
            while let Some(request) = talk.request() {
                if request.head.method() == Method::CONNECT {
                    return talk.say("HTTP/1.1 403 No\r\ncontent-length: 0\r\n\r\n");
                }
                assert_eq!(request.head.target(), "http://origin.example/");
                talk.say(OK);
            }
        });
        let (_loops, client) = client(1, |builder| builder.proxy(at(&proxy, "http")));
        let call = || client.get("http://origin.example/");
        if !is_first {
            block_on(call().send()).expect("an answer before");
        }
        for _ in 0..2 {
            let error = block_on(call().upgrade("toy").send()).expect_err("no tunnel");
            assert!(matches!(error, Error::Proxy { .. }), "{error:?}");
            assert_eq!(block_on(call().send()).expect("an answer behind it").status(), 200);
        }
    }
}
