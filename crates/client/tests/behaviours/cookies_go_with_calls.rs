//! A client with a jar keeps the cookies of responses and sends them, to each hop anew; one without a jar, and a call without, do neither.

use std::time::{Duration, SystemTime};

use anywire_client::Retries;
use anywire_client::cookies::CookieJar;
use anywire_http::StatusCode;

use crate::support::{Peer, block_on, client, wire};

/// A peer that answers with the cookies it got. Some paths set cookies, and one of them redirects.
fn echo() -> Peer {
    Peer::start(wire("tcp"), |mut talk| {
        while let Some(request) = talk.request() {
            let cookies: Vec<_> =
                request.head.headers().get_all("cookie").map(String::from_utf8_lossy).collect();
            let cookies = cookies.join(" | ");
            let (status, fields) = match request.head.path() {
                "/set" => {
                    ("200 OK", "set-cookie: a=1\r\nset-cookie: b=2; Path=/\r\nset-cookie: x=; Domain=com\r\n")
                }
                "/hop" => (
                    "302 Found",
                    "set-cookie: a=; Max-Age=0\r\nset-cookie: c=3; Path=/to\r\nlocation: /to/end\r\n",
                ),
                "/away" => ("302 Found", "location: /set\r\nset-cookie: d=4; Path=/set\r\n"),
                _ => ("200 OK", ""),
            };
            let length = cookies.len();
            talk.say(format!("HTTP/1.1 {status}\r\n{fields}content-length: {length}\r\n\r\n{cookies}"));
        }
    })
}

#[test]
fn cookies_come_and_go() {
    let peer = echo();
    let jar = CookieJar::new();
    let (_loops, client) = client(1, |builder| builder.cookies(jar.clone()));
    let call = |path: &str| client.get(peer.url(path));
    let text =
        |call: anywire_client::Call| block_on(async { call.send().await?.text().await }).expect("answered");
    assert_eq!(text(call("/set")), "");
    assert_eq!(text(call("/get")), "a=1; b=2");
    assert_eq!(jar.counters().refused, 1);
    // Those of the call itself count more, and are one field.
    assert_eq!(text(call("/get").header("cookie", "b=9").header("cookie", "z=8")), "b=9; z=8; a=1");
    assert_eq!(text(call("/get").without_cookies()), "");
    assert_eq!(text(call("/set").without_cookies().header("cookie", "z=8")), "z=8");
    // The redirect has removed one and set one, and that is what the next hop gets.
    assert_eq!(text(call("/hop")), "c=3; b=2");
    assert_eq!(text(call("/get").header("cookie", "b=9")), "b=9");
    assert_eq!(text(call("/away").header("cookie", "z=8")), "z=8; d=4; b=2");
    assert_eq!(jar.cookies(SystemTime::now()).len(), 4);
    // Another's request has another's cookies.
    let forwarded = anywire_http::Request::get("/get").header("cookie", "z=8");
    assert_eq!(text(client.forward(forwarded, peer.url(""))), "z=8");
}

#[test]
fn nothing_is_kept_without_a_jar() {
    let peer = echo();
    let (_loops, client) = client(1, |builder| builder);
    let text = |path: &str| {
        block_on(async { client.get(peer.url(path)).send().await?.text().await }).expect("answered")
    };
    assert_eq!(text("/set"), "");
    assert_eq!(text("/get"), "");
    assert_eq!(text("/hop"), "");
}

/// Such as the cookie of a check that a gateway asks for.
#[test]
fn a_response_that_is_tried_again_has_set_its_cookies() {
    let peer = Peer::start(wire("tcp"), |mut talk| {
        while let Some(request) = talk.request() {
            let status = match request.head.headers().get("cookie") {
                Some("own=1; checked=2") => "200 OK",
                Some("own=1") => "503 Service Unavailable\r\nset-cookie: checked=2",
                other => panic!("{other:?}"),
            };
            talk.say(format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n"));
        }
    });
    let statuses = vec![StatusCode::SERVICE_UNAVAILABLE];
    let retries = Retries { max: 1, first_pause: Duration::ZERO, statuses, ..Retries::default() };
    let (_loops, client) = client(1, |builder| builder.cookies(CookieJar::new()).retries(retries));
    let call = client.get(peer.url("/")).header("cookie", "own=1");
    assert_eq!(block_on(call.send()).expect("an answer").status(), StatusCode::OK);
}
