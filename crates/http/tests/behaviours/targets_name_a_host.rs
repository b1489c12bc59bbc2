//! A target that names an authority names its host (RFC 9110 sections 4.2.1 and 4.2.2), and that of CONNECT its port as well (RFC 9110
//! section 9.3.6, RFC 9112 section 3.2.3, RFC 9113 section 8.5). What does not is refused over each version, and not sent either.

use anywire_http::h1::DecodeError::{InvalidHost, Target};
use anywire_http::h1::Framing;
use anywire_http::h1::encode::{self, EncodeError};
use anywire_http::h2::{Limits, Refused, RequestParts};
use anywire_http::{Headers, Method, RequestHead};

use crate::support::h2::{END_HEADERS, END_STREAM, End, HEADERS, frame, literals};
use crate::support::request_error;

/// Each is a target of CONNECT.
const TUNNELS: [&str; 10] = [
    "a:443",
    "a:1",
    "a:65535",
    "a:0443",
    "127.0.0.1:80",
    "[::1]:443",
    "[fe80::1%25eth0]:443",
    "[v1f.a:b]:443",
    "a%2fb:443",
    "x~y:443",
];

/// Each lacks its host or its port, or has a port that none can connect to.
const NO_TUNNELS: [&str; 16] = [
    "",
    ":",
    "a",
    "a:",
    ":443",
    "[::1]",
    "[::1]:",
    "::1",
    "a:0",
    "a:00",
    "a:65536",
    "a:99999",
    "a:4294967739",
    "a:443:443",
    "a:+443",
    "u@a:443",
];

/// Each is the authority of a URL.
const AUTHORITIES: [&str; 9] =
    ["a", "a:80", "a:", "a:99999", "127.0.0.1", "[::1]", "[::1]:80", "%41:80", "x~y"];

/// Each lacks its host.
const NO_AUTHORITIES: [&str; 4] = ["", ":", ":80", ":0"];

/// What the server makes of this head over HTTP/2: what it has taken, or `reset PROTOCOL_ERROR`.
fn over_http2(fields: &[(&str, &str)]) -> String {
    let mut server = End::server(Limits { extended_connect: true, ..Limits::default() });
    let head = frame(HEADERS, END_HEADERS | END_STREAM, 1, &literals(fields));
    let events = server.events(&head).expect("the connection goes on");
    let [event] = &events[..] else { panic!("{fields:?}: {events:?}") };
    event.trim_start_matches("1 ").trim_end_matches(" end").to_owned()
}

#[test]
fn a_tunnel_leads_to_a_host_and_a_port() {
    for target in TUNNELS {
        let text = format!("CONNECT {target} HTTP/1.1\r\nhost: {target}\r\n\r\n");
        assert_eq!(request_error(text.as_bytes()), None, "{target}");
        let taken = over_http2(&[(":method", "CONNECT"), (":authority", target)]);
        assert_eq!(taken, format!("CONNECT {target}"));
    }
    for target in NO_TUNNELS {
        // A request line without a target is none.
        if !target.is_empty() {
            let text = format!("CONNECT {target} HTTP/1.1\r\nhost: a\r\n\r\n");
            assert_eq!(request_error(text.as_bytes()), Some(Target), "{target}");
        }
        let taken = over_http2(&[(":method", "CONNECT"), (":authority", target)]);
        assert_eq!(taken, "reset PROTOCOL_ERROR", "{target}");
        let taken = over_http2(&[(":method", "CONNECT"), ("host", target)]);
        assert_eq!(taken, "reset PROTOCOL_ERROR", "{target} in the place of `:authority`");
    }
}

#[test]
fn a_url_has_a_host() {
    let schemes = ["http", "https", "HTTP"];
    for (scheme, authority) in schemes.iter().flat_map(|scheme| AUTHORITIES.map(|host| (scheme, host))) {
        let (text, fields) = forms(scheme, authority, "GET");
        assert_eq!(request_error(text.as_bytes()), None, "{text}");
        let taken = format!("GET {scheme}://{authority}/");
        assert_eq!(over_http2(&fields), taken);
        let in_host = fields.map(|(name, value)| (name.replace(":authority", "host"), value));
        assert_eq!(over_http2(&in_host.each_ref().map(|(name, value)| (&**name, *value))), taken);
    }
    for (scheme, authority) in schemes.iter().flat_map(|scheme| NO_AUTHORITIES.map(|host| (scheme, host))) {
        for method in ["GET", "POST", "OPTIONS"] {
            let (text, fields) = forms(scheme, authority, method);
            assert_eq!(request_error(text.as_bytes()), Some(Target), "{text}");
            assert_eq!(over_http2(&fields), "reset PROTOCOL_ERROR", "{fields:?}");
            let in_host = fields.map(|(name, value)| (name.replace(":authority", "host"), value));
            let taken = over_http2(&in_host.each_ref().map(|(name, value)| (&**name, *value)));
            assert_eq!(taken, "reset PROTOCOL_ERROR", "{in_host:?}");
        }
        // The URL of an extended CONNECT (RFC 8441 section 4).
        let [_, of_scheme, path, host] = forms(scheme, authority, "CONNECT").1;
        let extended = [(":method", "CONNECT"), (":protocol", "websocket"), of_scheme, path, host];
        assert_eq!(over_http2(&extended), "reset PROTOCOL_ERROR", "{extended:?}");
    }
}

/// A request for `SCHEME://AUTHORITY/` in absolute-form, and its head over HTTP/2.
fn forms<'t>(scheme: &'t str, authority: &'t str, method: &'t str) -> (String, [(&'t str, &'t str); 4]) {
    let text = format!("{method} {scheme}://{authority}/ HTTP/1.1\r\nhost: a\r\n\r\n");
    (text, [(":method", method), (":scheme", scheme), (":path", "/"), (":authority", authority)])
}

/// The other half of the URL of a target in origin-form. An empty field says that there is no authority (RFC 9110 section 7.2).
#[test]
fn the_host_field_has_a_host_before_its_port() {
    for host in AUTHORITIES.iter().chain(&[""]) {
        assert_eq!(
            request_error(format!("GET / HTTP/1.1\r\nhost: {host}\r\n\r\n").as_bytes()),
            None,
            "{host}"
        );
    }
    for host in [":", ":80", ":0"] {
        let text = format!("GET / HTTP/1.1\r\nhost: {host}\r\n\r\n");
        assert_eq!(request_error(text.as_bytes()), Some(InvalidHost), "{host}");
    }
}

#[test]
fn no_such_target_is_made() {
    for target in NO_TUNNELS {
        assert!(RequestHead::new(Method::CONNECT, target).is_err(), "{target}");
    }
    let mut head = RequestHead::new(Method::GET, "/").expect("a target");
    for authority in NO_AUTHORITIES {
        assert!(RequestHead::new(Method::GET, &format!("http://{authority}/")).is_err(), "{authority}");
        assert!(head.set_origin("http", authority).is_err(), "{authority}");
    }
    assert_eq!(head.target(), "/");
}

#[test]
fn no_such_target_is_written_over_http1() {
    let mut out = Vec::new();
    let headers = Headers::new();
    let mut write = |method: &Method, target: &str, host: &str| {
        encode::request_head(&mut out, method, target, host, &headers, Framing::None)
    };
    for target in NO_TUNNELS.iter().chain(&["/", "http://a/", "*"]) {
        assert_eq!(write(&Method::CONNECT, target, "a"), Err(EncodeError::Target), "{target}");
    }
    for authority in NO_AUTHORITIES {
        let url = format!("http://{authority}/");
        assert_eq!(write(&Method::GET, &url, "a"), Err(EncodeError::Target), "{url}");
    }
    for host in [":", ":80"] {
        assert_eq!(write(&Method::GET, "/", host), Err(EncodeError::Host), "{host}");
    }
    for target in TUNNELS {
        assert_eq!(write(&Method::CONNECT, target, target), Ok(()), "{target}");
    }
    for authority in AUTHORITIES {
        assert_eq!(write(&Method::GET, &format!("http://{authority}/"), authority), Ok(()), "{authority}");
    }
    assert_eq!(write(&Method::OPTIONS, "*", "a"), Ok(()));
    assert_eq!(write(&Method::GET, "/", ""), Ok(()));
}

#[test]
fn no_such_target_is_written_over_http2() {
    let mut client = End::client(Limits::default());
    let headers = Headers::new();
    let parts = |authority| RequestParts {
        method: &Method::CONNECT,
        scheme: "",
        authority,
        path: "",
        protocol: None,
        headers: &headers,
        length: None,
    };
    for target in NO_TUNNELS {
        let opened = client.engine.open_parts(&parts(target), false, &mut client.out);
        assert_eq!(opened, Err(Refused::Origin), "{target}");
    }
    // A head may have changed its method since its target was checked. Then the field `Host` is all that it names.
    for host in ["a", ":80", "a b", ""] {
        let mut head = RequestHead::new(Method::GET, "/").expect("a target");
        head.set_method(Method::CONNECT);
        head.headers_mut().append("host", host).expect("a value");
        let opened = client.engine.open(&head, None, false, &mut client.out);
        assert_eq!(opened, Err(Refused::Origin), "{host}");
    }
    assert_eq!((client.out.len(), client.engine.open_streams()), (0, 0));
    for target in TUNNELS {
        let opened = client.engine.open_parts(&parts(target), false, &mut client.out);
        assert!(opened.is_ok(), "{target}");
    }
}
