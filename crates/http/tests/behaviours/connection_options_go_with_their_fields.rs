//! A field that concerns one connection goes with an option of the same name in `Connection`, or not at all, so that no proxy
//! passes it on blindly (RFC 9110 sections 7.6.1, 7.8 and 10.1.4).

use anywire_http::h1::{Framing, encode};
use anywire_http::{Headers, Method, StatusCode, Version};

fn headers(fields: &[(&str, &str)]) -> Headers {
    let mut headers = Headers::new();
    for (name, value) in fields {
        headers.append(name, value).expect("a field");
    }
    headers
}

fn request(fields: &[(&str, &str)]) -> String {
    let mut out = Vec::new();
    encode::request_head(&mut out, &Method::GET, "/", "x", &headers(fields), Framing::None).expect("good");
    let text = String::from_utf8(out).expect("ASCII");
    text.strip_prefix("GET / HTTP/1.1\r\nhost: x\r\n").expect("the beginning").to_owned()
}

fn response(status: StatusCode, version: Version, fields: &[(&str, &str)]) -> String {
    let mut out = Vec::new();
    let headers = headers(fields);
    let parts = encode::FramedHead {
        status,
        headers: &headers,
        framing: Framing::Length(0),
        stated_length: None,
        version,
        keep_alive: true,
        answers_head: false,
        date: None,
    };
    encode::response_head(&mut out, &parts);
    let text = String::from_utf8(out).expect("ASCII");
    text.split_once("\r\n").expect("a status line").1.to_owned()
}

#[test]
fn in_requests() {
    for (fields, expected) in [
        (&[("te", "trailers")][..], "te: trailers\r\nconnection: te\r\n\r\n"),
        (&[("TE", "")], "TE: \r\nconnection: te\r\n\r\n"),
        (&[("te", "trailers"), ("Connection", "x, TE")], "te: trailers\r\nConnection: x, TE\r\n\r\n"),
        (
            &[("connection", "close"), ("te", "gzip")],
            "connection: close\r\nte: gzip\r\nconnection: te\r\n\r\n",
        ),
        (&[("upgrade", "h2c")], "upgrade: h2c\r\nconnection: upgrade\r\n\r\n"),
        (&[("connection", "Upgrade"), ("upgrade", "a")], "connection: Upgrade\r\nupgrade: a\r\n\r\n"),
        (
            &[("te", "trailers"), ("upgrade", "a")],
            "te: trailers\r\nupgrade: a\r\nconnection: te\r\nconnection: upgrade\r\n\r\n",
        ),
        (&[("accept", "te, upgrade")], "accept: te, upgrade\r\n\r\n"),
    ] {
        assert_eq!(request(fields), expected);
    }
}

#[test]
fn in_responses() {
    for status in [200, 204, 304, 400, 426] {
        let status = StatusCode::from_u16(status).expect("a status");
        let length = if [204, 304].contains(&status.as_u16()) { "" } else { "content-length: 0\r\n" };
        let with = response(status, Version::HTTP_11, &[("upgrade", "a")]);
        assert_eq!(with, format!("upgrade: a\r\nconnection: upgrade\r\n{length}\r\n"), "{status}");
        // What a handler says of the connection does not count, but for its end.
        let own = response(status, Version::HTTP_11, &[("upgrade", "a"), ("connection", "upgrade")]);
        assert_eq!(own, with, "{status}");
        let without = response(status, Version::HTTP_11, &[("server", "upgrade")]);
        assert_eq!(without, format!("server: upgrade\r\n{length}\r\n"), "{status}");
    }
    let switches = response(StatusCode::SWITCHING_PROTOCOLS, Version::HTTP_11, &[("upgrade", "a")]);
    assert_eq!(switches, "upgrade: a\r\nconnection: upgrade\r\n\r\n");
}

#[test]
fn never_in_trailers() {
    let mut out = Vec::new();
    encode::last_chunk(&mut out, Some(&headers(&[("te", "trailers"), ("upgrade", "a"), ("sum", "1")])));
    assert_eq!(String::from_utf8_lossy(&out), "0\r\nsum: 1\r\n\r\n");
}
