//! Rules send calls elsewhere, each hop anew, and no credential goes where it was not meant to.

use std::sync::mpsc::{self, Receiver};

use anywire_client::rules::{Destination, Pattern, Rule, Rules, When};
use anywire_client::{CallRequest, Client, Error, Next};
use anywire_http::{Headers, Method};

use crate::support::{Peer, block_on, client, wire};

/// What a request was.
struct Seen {
    line: String,
    headers: Headers,
}

impl Seen {
    fn field(&self, name: &str) -> Option<&str> {
        self.headers.get(name)
    }
}

/// A peer that says its name, or redirects to what stands behind `?to=` of the target.
fn named(name: &'static str) -> (Peer, Receiver<Seen>) {
    let (report, seen) = mpsc::channel();
    let peer = Peer::start(wire("tcp"), move |mut talk| {
        while let Some(request) = talk.request() {
            let head = &request.head;
            let line = format!("{} {}", head.method(), head.target());
            let to = line.split_once("to=").map(|(_, to)| to.to_owned());
            let _ = report.send(Seen { line, headers: head.headers().clone() });
            talk.say(match to {
                Some(to) => format!("HTTP/1.1 307 Elsewhere\r\nlocation: {to}\r\ncontent-length: 0\r\n\r\n"),
                None => format!(
                    "HTTP/1.1 200 OK\r\nset-cookie: by={name}\r\ncontent-length: {}\r\n\r\n{name}",
                    name.len()
                ),
            });
        }
    });
    (peer, seen)
}

fn authority(peer: &Peer) -> String {
    peer.via().location().to_owned()
}

/// Sends what fits elsewhere.
fn to_authority(when: When, authority: String) -> Rule {
    Rule {
        when,
        to: vec![Destination { authority: Some(authority), ..Destination::default() }],
        ..Rule::default()
    }
}

fn path(prefix: &str) -> When {
    When { path: Some(Pattern::Prefix(prefix.to_owned())), ..When::default() }
}

fn text(client: &Client, url: &str) -> String {
    block_on(async { client.get(url).send().await?.text().await }).expect("an answer")
}

#[test]
fn a_file_says_where_calls_go_and_how() {
    let ((here, seen_here), (there, seen_there)) = (named("here"), named("there"));
    let rules = Rules::from_toml(&format!(
        r#"
        [[rule]]
        name = "orders"
        when.methods = ["GET", "POST"]
        when.authority.exact = "{here}"
        when.path.regex = "/orders/[0-9]+"
        when.any = [{{ headers.x-user.prefix = "a" }}, {{ query.beta.present = true }}]
        when.not.query.stable.exact = "1"

        [[rule.to]]
        authority = "{there}"
        path = {{ prefix = "/orders", with = "/v2/orders" }}
        remove_headers = ["x-user"]
        set_headers = {{ x-shop = "two" }}
        add_headers = {{ x-via = "rule" }}
        remove_query = ["beta"]
        add_query = {{ from = "a b" }}

        [[rule]]
        name = "all others"
        to = [{{ set_headers = {{ x-shop = "one" }} }}]
        "#,
        here = authority(&here),
        there = authority(&there),
    ))
    .expect("rules");
    let (_loops, client) = client(1, |builder| builder.rules(&rules));
    let call = |method: Method, target: &str, user: &str| {
        let call = client.request(method, here.url(target)).header("x-user", user).header("x-shop", "none");
        block_on(async { call.send().await?.text().await }).expect("an answer")
    };
    assert_eq!(call(Method::GET, "/orders/7?a=%20", "ada"), "there");
    let seen = seen_there.recv().expect("a request");
    assert_eq!(seen.line, "GET /v2/orders/7?a=%20&from=a+b");
    assert_eq!(
        (seen.field("x-shop"), seen.field("x-via"), seen.field("x-user")),
        (Some("two"), Some("rule"), None)
    );
    assert_eq!(seen.field("host"), Some(&*authority(&there)));
    assert_eq!(call(Method::POST, "/orders/7?beta", "bob"), "there");
    assert_eq!(seen_there.recv().expect("a request").line, "POST /v2/orders/7?from=a+b");
    for (method, target, user) in [
        (Method::PUT, "/orders/7?beta", "ada"),
        (Method::GET, "/orders/7", "bob"),
        (Method::GET, "/orders/7?stable=1", "ada"),
        (Method::GET, "/orders/7a", "ada"),
    ] {
        assert_eq!(call(method, target, user), "here", "{target}");
        assert_eq!(seen_here.recv().expect("a request").field("x-shop"), Some("one"));
    }
    let counters: Vec<_> = rules.counters().into_iter().map(|rule| (rule.name, rule.to)).collect();
    assert_eq!(counters, [("orders".to_owned(), vec![2]), ("all others".to_owned(), vec![4])]);
}

#[test]
fn weights_share_calls() {
    let ((first, _a), (second, _b)) = (named("first"), named("second"));
    let to = |peer: &Peer, weight| Destination {
        weight,
        authority: Some(authority(peer)),
        ..Destination::default()
    };
    let rule = Rule { to: vec![to(&first, 3), to(&second, 1), to(&second, 0)], ..Rule::default() };
    let rules = Rules::new([rule]).expect("rules");
    let (_loops, client) = client(1, |builder| builder.rules(&rules));
    let count = (0..400).filter(|_| text(&client, "http://shop.example/") == "first").count();
    // 300 by the weights; five deviations of 8.7 below and above.
    assert!((256..=344).contains(&count), "{count}");
    assert_eq!(rules.counters()[0].to, [count as u64, 400 - count as u64, 0]);
}

#[test]
fn rules_are_replaced_while_calls_run() {
    let ((first, _a), (second, _b)) = (named("first"), named("second"));
    let rules = Rules::default();
    // One that waits within the call until the rules are others.
    let other = to_authority(When::default(), authority(&second));
    let replacing = rules.clone();
    let replace = move |request: CallRequest, next: Next| {
        if request.headers().contains("x-replace") {
            replacing.replace([other.clone()]).expect("rules");
        }
        next.call(request)
    };
    let (_loops, client) = client(1, |builder| builder.rules(&rules).intercept_attempts(replace));
    assert_eq!(text(&client, &first.url("/")), "first");
    let call = client.get(first.url("/")).header("x-replace", "1");
    let under_way = block_on(async { call.send().await?.text().await }).expect("an answer");
    assert_eq!(under_way, "first", "it was looked at before");
    assert_eq!(text(&client, &first.url("/")), "second");
    // Rules that are refused change nothing, and none are as good as others.
    rules.replace([Rule::default()]).expect_err("no destination");
    assert_eq!(text(&client, &first.url("/")), "second");
    rules.replace_toml("").expect("none");
    assert_eq!(text(&client, &first.url("/")), "first");
}

#[test]
fn each_hop_is_looked_at() {
    let ((here, seen_here), (there, seen_there)) = (named("here"), named("there"));
    let rules = Rules::new([to_authority(path("/new"), authority(&there))]).expect("rules");
    let (_loops, client) = client(1, |builder| builder.rules(&rules));
    // Here redirects to a path whose rule leads there, and back by a relative location.
    let call = client.get(here.url("/old?to=/new/a%3Fto=/old")).bearer("t");
    let response = block_on(call.send()).expect("an answer");
    assert_eq!(response.url(), &*here.url("/old"), "a location is resolved against the URL before the rules");
    let hops: Vec<_> = response.history().iter().map(|hop| hop.url.to_string()).collect();
    assert_eq!(hops, [here.url("/old?to=/new/a%3Fto=/old"), here.url("/new/a%3Fto=/old")]);
    let credentials = [&seen_here, &seen_there, &seen_here].map(|seen| {
        let seen = seen.recv().expect("a request");
        seen.field("authorization").map(str::to_owned)
    });
    assert_eq!(credentials, [Some("Bearer t".to_owned()), None, Some("Bearer t".to_owned())]);
    // The URL of a response is where it came from.
    let response = block_on(client.get(here.url("/new")).send()).expect("an answer");
    assert_eq!(response.url(), &*there.url("/new"));
}

#[test]
fn another_authority_gets_no_credentials_of_the_call() {
    let ((here, _seen), (there, seen)) = (named("here"), named("there"));
    let send = |to: Destination| {
        let to = Destination { authority: Some(authority(&there)), ..to };
        let rules = Rules::new([Rule { to: vec![to], ..Rule::default() }]).expect("rules");
        let redirects =
            anywire_client::Redirects { sensitive: vec!["x-api-key".to_owned()], ..Default::default() };
        let (_loops, client) = client(1, |builder| {
            builder.rules(&rules).redirects(redirects).bearer(here.url("/"), "of-here").basic(
                there.url("/"),
                "of",
                "there",
            )
        });
        let call =
            client.get(here.url("/")).header("cookie", "a=b").header("x-api-key", "k").header("x-other", "o");
        let answer = block_on(async { call.bearer("t").send().await?.text().await }).expect("an answer");
        assert_eq!(answer, "there");
        let seen = seen.recv().expect("a request");
        assert_eq!(seen.field("x-other"), Some("o"));
        ["authorization", "cookie", "x-api-key", "host"].map(|name| seen.field(name).map(str::to_owned))
    };
    // The credential of the client for that origin is meant to go there.
    let of_there = Some("Basic b2Y6dGhlcmU=".to_owned());
    assert_eq!(send(Destination::default()), [of_there.clone(), None, None, Some(authority(&there))]);
    let kept = send(Destination { keep_credentials: true, ..Destination::default() });
    let some = |text: &str| Some(text.to_owned());
    assert_eq!(kept, [some("Bearer t"), some("a=b"), some("k"), Some(authority(&there))]);
    let host = send(Destination { keep_host: true, ..Destination::default() });
    assert_eq!(host, [of_there, None, None, Some(authority(&here))]);
}

#[cfg(feature = "cookies")]
#[test]
fn cookies_are_those_of_the_new_authority() {
    let ((here, seen_here), (there, seen)) = (named("here"), named("there"));
    let rules = Rules::new([to_authority(path("/new"), authority(&there).replace("127.0.0.1", "localhost"))]);
    let rules = rules.expect("rules");
    let jar = anywire_client::cookies::CookieJar::new();
    let (_loops, client) = client(1, |builder| builder.rules(&rules).cookies(jar));
    assert_eq!(text(&client, &here.url("/old")), "here");
    assert_eq!(text(&client, &here.url("/new")), "there");
    assert_eq!(seen.recv().expect("a request").field("cookie"), None);
    assert_eq!(text(&client, &here.url("/new")), "there");
    assert_eq!(seen.recv().expect("a request").field("cookie"), Some("by=there"));
    assert_eq!(text(&client, &here.url("/old")), "here");
    let cookies = [seen_here.recv(), seen_here.recv()].map(|seen| seen.expect("a request"));
    assert_eq!(cookies[1].field("cookie"), Some("by=here"));
}

#[test]
fn another_wire_leaves_the_url_and_its_credentials() {
    for scheme in ["tcp", "unix", "memory"] {
        let (report, seen) = mpsc::channel();
        let peer = Peer::start(wire(scheme), move |mut talk| {
            while let Some(request) = talk.request() {
                let _ = report.send(Seen { line: String::new(), headers: request.head.headers().clone() });
                talk.say(
                    "HTTP/1.1 302 Found\r\nlocation: http://other.example/\r\ncontent-length: 0\r\n\r\n",
                );
            }
        });
        let when = When { authority: Some(Pattern::Exact("peer.example".to_owned())), ..When::default() };
        let to = Destination { via: Some(peer.via().to_string()), ..Destination::default() };
        let rules = Rules::new([Rule { when, to: vec![to], ..Rule::default() }]).expect("rules");
        let refuses = |_: CallRequest, _| async { Err(Error::custom("not this one")) };
        let (_loops, client) = client(1, |builder| builder.rules(&rules).redirects(0));
        let call = client.get("http://peer.example/").bearer("t");
        let response = block_on(call.send()).expect("an answer");
        assert_eq!((response.status().as_u16(), response.url().as_str()), (302, "http://peer.example/"));
        let seen = seen.recv().expect("a request");
        assert_eq!(
            (seen.field("host"), seen.field("authorization")),
            (Some("peer.example"), Some("Bearer t"))
        );
        // A call that names its wire keeps it.
        let own = client.get("http://peer.example/").via("unix:/nowhere/at/all.sock");
        assert!(block_on(own.send()).expect_err("nobody there").is_connect());
        // The wire is for this hop alone, so that a redirect may leave it.
        let (_loops, client) = self::client(1, |builder| {
            builder.rules(&rules).intercept_attempts(move |request: CallRequest, next: Next| async move {
                match request.url().host() {
                    "other.example" => refuses(request, next).await,
                    _ => next.call(request).await,
                }
            })
        });
        let error = block_on(client.get("http://peer.example/").send()).expect_err("it was refused");
        assert!(matches!(error, Error::Custom(_)), "{error:?}");
    }
}

#[cfg(feature = "tls")]
#[test]
fn a_new_authority_has_to_prove_its_own_name() {
    let peer = Peer::answering(wire("tls"), crate::support::OK);
    let port = peer.via().port().expect("a port");
    let rules = Rules::default();
    let (_loops, client) = client(1, |builder| builder.rules(&rules));
    let call = || block_on(client.get("https://peer.example/").send());
    // The certificate is for `localhost` and `peer.example`, and not for this address.
    rules.replace([to_authority(When::default(), format!("127.0.0.2:{port}"))]).expect("rules");
    let error = call().expect_err("another name");
    assert!(error.is_connect(), "{error:?}");
    rules.replace([to_authority(When::default(), format!("localhost:{port}"))]).expect("rules");
    let response = call().expect("an answer");
    assert_eq!(response.tls().and_then(|tls| tls.server_name.as_deref()), Some("localhost"));
    // By another wire the name stays.
    let via = Destination { via: Some(format!("tcp:127.0.0.1:{port}")), ..Destination::default() };
    rules.replace([Rule { to: vec![via], ..Rule::default() }]).expect("rules");
    let response = call().expect("an answer");
    assert_eq!(response.tls().and_then(|tls| tls.server_name.as_deref()), Some("peer.example"));
}
