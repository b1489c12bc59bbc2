//! Response heads of the usual form are read by a shorter way. It gives what the other way gives, which looks at heads in place: of
//! each head, and of each beginning of one.

use anywire_http::h1::{HeadInfo, Limits, ResponseDecoder, ResponseEvent};
use anywire_http::{HeadLimits, Method, StatusCode, Version};
use proptest::prelude::*;

use crate::support::near::{a_byte_more_or_less, each_byte_replaced};

const HEAD: &[u8] = b"HTTP/1.1 200 OK\r\nServer: a/1.2 (x; y)\r\nDate: Thu, 01 Jan 2026 00:00:00 GMT\r\n\
                      Connection: keep-alive\r\nContent-Length: 10\r\nX-Long-Name-Of-A-Field: 0123456789 0123456789\r\n\r\n";

#[test]
fn the_usual_head_is_read_in_full() {
    let Ok(Some(ResponseEvent::Head(head, info))) = decoder(Limits::default()).decode(&mut { HEAD }) else {
        panic!("a good head");
    };
    assert_eq!((head.status(), head.reason(), head.headers().len()), (StatusCode::OK, "OK", 5));
    assert_eq!(head.headers().get("x-long-name-of-a-field"), Some("0123456789 0123456789"));
    assert_eq!((info.framing.length(), info.keep_alive), (Some(10), true));
}

/// Every byte in every place: status, reason, names, values, line ends.
#[test]
fn any_byte_in_any_place_changes_both_ways_alike() {
    each_byte_replaced(HEAD, |bytes| agree(bytes, Limits::default()));
}

#[test]
fn a_byte_more_or_less_changes_both_ways_alike() {
    a_byte_more_or_less(HEAD, |bytes| agree(bytes, Limits::default()));
}

#[test]
fn any_two_lines_of_fields_are_read_alike() {
    for start in STARTS {
        for (one, two) in FIELDS.iter().flat_map(|one| FIELDS.iter().map(move |two| (one, two))) {
            agree([start, one, two, "\r\n"].concat().as_bytes(), Limits::default());
        }
    }
}

#[test]
fn each_limit_is_met_at_the_same_byte() {
    let head = b"HTTP/1.1 404 Not Found\r\nServer: a\r\nX: y\r\nAge: 5\r\n\r\n";
    for limit in 1..=head.len() + 1 {
        let usual = HeadLimits::default();
        for head_limits in [
            HeadLimits { bytes: limit, ..usual },
            HeadLimits { target_bytes: limit, ..usual },
            HeadLimits { fields: limit, ..usual },
        ] {
            agree(head, Limits { head: head_limits, ..Limits::default() });
        }
    }
}

proptest! {
    #[test]
    fn lines_in_any_order_are_read_alike(
        start in prop::sample::select(STARTS),
        fields in prop::collection::vec(prop::sample::select(FIELDS), 0..12),
        tail in prop::collection::vec(any::<u8>(), 0..12),
    ) {
        agree(&[start.as_bytes(), fields.concat().as_bytes(), &tail].concat(), Limits::default());
    }
}

const STARTS: &[&str] = &[
    "HTTP/1.1 200 OK\r\n",
    "HTTP/1.1 404 Not Found\r\n",
    "HTTP/1.1 103 Early Hints\r\n",
    "HTTP/1.1 101 Switching Protocols\r\n",
    "HTTP/1.1 204 No Content\r\n",
    "HTTP/1.1 304 Not Modified\r\n",
    "HTTP/1.1 999 X\r\n",
    "HTTP/1.1 099 X\r\n",
    "HTTP/1.1 200\r\n",
    "HTTP/1.1 200 \r\n",
    "HTTP/1.1 200  OK\r\n",
    "HTTP/1.1 200 OK \r\n",
    "HTTP/1.1 200 a\tb\r\n",
    "HTTP/1.1 200 \u{fc}\r\n",
    "HTTP/1.1 200 OK\n",
    "HTTP/1.0 200 OK\r\n",
    "HTTP/1.2 200 OK\r\n",
    "http/1.1 200 OK\r\n",
];

const FIELDS: &[&str] = &[
    "Host: a\r\n",
    "Content-Length: 5\r\n",
    "Content-Length: +5\r\n",
    "Transfer-Encoding: chunked\r\n",
    "Connection: close\r\n",
    "Connection: Keep-Alive\r\n",
    "Connection: keep-alive, close\r\n",
    "Keep-Alive: timeout=5\r\n",
    "Upgrade: x\r\n",
    "Date: x\r\n",
    "X: y\r\n",
    "X: y \r\n",
    "X:  y\r\n",
    "X: \r\n",
    "X : y\r\n",
    "X: a\tb\r\n",
    "X: \u{fc}\r\n",
    "X-3: y\r\n",
    ": y\r\n",
    "X: a\r\n b\r\n",
    "X: y\n",
    "\r\n",
];

fn decoder(limits: Limits) -> ResponseDecoder {
    ResponseDecoder::new(limits)
}

/// The shorter way agrees with the other one about these bytes, and takes as many of them, whatever was asked for.
#[track_caller]
fn agree(bytes: &[u8], limits: Limits) {
    for method in [Method::GET, Method::HEAD, Method::CONNECT] {
        let (mut short, mut long) = (bytes, bytes);
        let (mut one, mut other) = (decoder(limits), decoder(limits));
        one.request_method(&method);
        other.request_method(&method);
        let one = one.decode(&mut short).map(|event| {
            seen(event, |head| Seen {
                line: (head.status(), head.reason().to_owned(), head.version()),
                fields: fields(head.headers().iter()),
            })
        });
        let other = other.decode_with(&mut long, |head| Seen {
            line: (head.status(), head.reason().to_owned(), head.version()),
            fields: fields(head.fields()),
        });
        let other = other.map(|event| seen(event, |seen| seen));
        assert_eq!((one, short.len()), (other, long.len()), "{method} {}", bytes.escape_ascii());
    }
}

/// All that a head says.
#[derive(Debug, PartialEq)]
struct Seen {
    line: (StatusCode, String, Version),
    fields: Vec<(String, Vec<u8>)>,
}

fn fields<'h>(fields: impl Iterator<Item = (&'h str, &'h [u8])>) -> Vec<(String, Vec<u8>)> {
    fields.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

fn seen<H>(
    event: Option<ResponseEvent<'_, H>>,
    look: impl FnOnce(H) -> Seen,
) -> Option<(Seen, Option<HeadInfo>)> {
    match event? {
        ResponseEvent::Informational(head) => Some((look(head), None)),
        ResponseEvent::Head(head, info) => Some((look(head), Some(info))),
        _ => panic!("a head comes first"),
    }
}
