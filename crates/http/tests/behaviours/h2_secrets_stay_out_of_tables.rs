//! A value that its maker has marked as a secret, or that came marked so, leaves as a literal that nobody may put into a table
//! (RFC 7541 sections 6.2.3 and 7.1.3): in requests, responses, interim responses and trailers.

use anywire_http::h2::{Engine, Event, Limits, ResponseParts};
use anywire_http::{Buffer, Headers, Method, RequestHead, StatusCode};

use crate::support::h2::*;

/// A name of which the encoder knows nothing, one that it puts into its table as a rule, and one in upper case.
const NAMES: [&str; 3] = ["x-api-key", "user-agent", "X-Key"];

/// Fields of these names, all of them secrets, and one that is none.
fn marked() -> Headers {
    let mut map = http::HeaderMap::new();
    for name in NAMES {
        let mut value = http::HeaderValue::from_static("secret");
        value.set_sensitive(true);
        map.append(http::HeaderName::from_bytes(name.as_bytes()).expect("a name"), value);
    }
    map.append("vary", http::HeaderValue::from_static("plain"));
    Headers::from(&map)
}

fn request(headers: Headers) -> RequestHead {
    let mut head = RequestHead::new(Method::GET, "/").expect("a target");
    head.set_origin("http", "b").expect("an origin");
    *head.headers_mut() = headers;
    head
}

/// How often a secret stands in these bytes, each time as a literal that is never indexed.
#[track_caller]
fn secrets(bytes: &[u8]) -> usize {
    let values: Vec<_> = bytes.windows(6).enumerate().filter(|(_, part)| *part == b"secret").collect();
    for (at, _) in &values {
        // A length, and before it a name with its length behind 0x10, or an index of the static table behind 0x1f.
        let before = &bytes[..at - 1];
        let named = NAMES.iter().find(|name| before.ends_with(name.to_ascii_lowercase().as_bytes()));
        let first = match named {
            Some(name) => before[before.len() - name.len() - 2],
            None => before[before.len() - 2],
        };
        assert_eq!(first & 0xf0, 0x10, "{}", bytes.escape_ascii());
    }
    values.len()
}

#[test]
fn as_its_maker_has_marked_it() {
    let (mut client, mut server) = (End::client(Limits::default()), End::server(Limits::default()));
    for _ in 0..2 {
        client.out.clear();
        client.engine.open(&request(marked()), None, true, &mut client.out).expect("a slot");
        assert_eq!(secrets(&client.out), NAMES.len());
        server.events(&client.out).expect("good");
        let id = server.newest.expect("a request");
        server.out.clear();
        let fields = marked();
        server.engine.inform(id, StatusCode::EARLY_HINTS, &fields, &mut server.out).expect("open");
        let parts = ResponseParts::new(StatusCode::OK, &fields);
        server.engine.respond(id, &parts, false, &mut server.out).expect("open");
        server.engine.send_trailers(id, &fields, &mut server.out).expect("open");
        assert_eq!(secrets(&server.out), 3 * NAMES.len());
    }
    // What is no secret is in the table by now.
    assert!(!client.out.windows(4).any(|part| part == b"vary") && !server.out.ends_with(b"plain"));
}

/// As a proxy does it: what came is sent to another server.
#[test]
fn as_it_came() {
    let (now, mut out, mut input) = (clock(), Vec::new(), Buffer::new());
    let mut server = Engine::server(Limits::default(), now, &mut out);
    // Secrets: a new name, and `user-agent` and `vary` by their indices. Then `if-match`, which is none.
    let block = [
        REQUEST,
        b"\x10\x09x-api-key\x06secret",
        b"\x1f\x2b\x06secret",
        b"\x1f\x2c\x06secret",
        b"\x0f\x18\x05plain",
    ]
    .concat();
    let bytes =
        [PREFACE, &frame(SETTINGS, 0, 0, &[]), &frame(HEADERS, END_HEADERS | END_STREAM, 1, &block)].concat();
    input.fill_from(&bytes);
    let Ok(Some(Event::Request { head, .. })) = server.receive(now, &mut input, &mut out) else {
        panic!("a request was sent")
    };
    assert!(!format!("{head:?}").contains("secret"), "{head:?}");
    let mut headers = head.headers().clone();
    headers.append("x-via", "proxy").expect("a field");
    headers.remove_hop_by_hop();
    let mut client = End::client(Limits::default());
    for _ in 0..2 {
        client.out.clear();
        client.engine.open(&request(headers.clone()), None, true, &mut client.out).expect("a slot");
        assert_eq!(secrets(&client.out), 3, "{}", client.out.escape_ascii());
        let plain = client.out.windows(5).position(|part| part == b"plain").expect("it is sent");
        assert_eq!(client.out[plain - 3] & 0xf0, 0, "it came without a mark");
    }
}

/// Of a field that goes into the table, the bit that marks a secret belongs to the index of its name.
#[test]
fn what_goes_into_the_table_is_no_secret() {
    let (now, mut out, mut input) = (clock(), Vec::new(), Buffer::new());
    let mut server = Engine::server(Limits::default(), now, &mut out);
    // `accept-encoding`, by its index 16.
    let block = [REQUEST, b"\x50\x04gzip"].concat();
    let bytes =
        [PREFACE, &frame(SETTINGS, 0, 0, &[]), &frame(HEADERS, END_HEADERS | END_STREAM, 1, &block)].concat();
    input.fill_from(&bytes);
    let Ok(Some(Event::Request { head, .. })) = server.receive(now, &mut input, &mut out) else {
        panic!("a request was sent")
    };
    let map = http::HeaderMap::try_from(head.headers()).expect("convertible");
    assert!(map["accept-encoding"] == "gzip" && !map["accept-encoding"].is_sensitive());
}

#[test]
fn a_cookie_of_which_a_piece_is_secret_is_secret() {
    let (now, mut out, mut input) = (clock(), Vec::new(), Buffer::new());
    let mut server = Engine::server(Limits::default(), now, &mut out);
    let block = [REQUEST, b"\x0f\x11\x03a=1\x1f\x11\x03b=2"].concat();
    let bytes =
        [PREFACE, &frame(SETTINGS, 0, 0, &[]), &frame(HEADERS, END_HEADERS | END_STREAM, 1, &block)].concat();
    input.fill_from(&bytes);
    let Ok(Some(Event::Request { head, .. })) = server.receive(now, &mut input, &mut out) else {
        panic!("a request was sent")
    };
    assert_eq!(head.headers().get("cookie"), Some("a=1; b=2"));
    let map = http::HeaderMap::try_from(head.headers()).expect("convertible");
    assert!(map["cookie"].is_sensitive());
}
