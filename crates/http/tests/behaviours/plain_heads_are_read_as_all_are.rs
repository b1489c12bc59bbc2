//! Heads of the usual form are read by a shorter way. It gives what the other way gives: of each head, and of each beginning
//! of one.

use anywire_http::HeadLimits;
use anywire_http::h1::{DecodeError, HeadInfo, Limits, RequestDecoder, RequestEvent};
use anywire_http::{RequestHead, Version};
use proptest::prelude::*;

use crate::support::near::{a_byte_more_or_less, each_byte_replaced};

const HEAD: &[u8] = b"GET /a/b?c=d HTTP/1.1\r\nHost: a.example:80\r\nUser-Agent: curl/8.5 (x; y)\r\nAccept: */*\r\n\
                      Connection: keep-alive\r\nContent-Length: 10\r\nX-Long-Name-Of-A-Field: 0123456789 0123456789\r\n\r\n";

#[test]
fn the_usual_head_is_read_in_full() {
    let (head, info) = next(HEAD, Limits::default()).expect("a good head").expect("a whole one");
    assert!(
        head.starts_with("GET /a/b?c=d HTTP/1.1\nHost: a.example:80\r\nUser-Agent: curl/8.5 (x; y)\r\n"),
        "{head}"
    );
    assert!(head.ends_with("X-Long-Name-Of-A-Field: 0123456789 0123456789\r\n"), "{head}");
    assert!(info.contains("Length(10)"), "{info}");
}

/// Every byte in every place: names, values, line ends, the version, the space between a name's colon and its value.
#[test]
fn any_byte_in_any_place_changes_both_ways_alike() {
    each_byte_replaced(HEAD, |bytes| agree(bytes, Limits::default()));
}

#[test]
fn a_byte_more_or_less_changes_both_ways_alike() {
    a_byte_more_or_less(HEAD, |bytes| agree(bytes, Limits::default()));
}

/// A random choice hardly ever makes a head whose lines are right but for one.
#[test]
fn any_two_lines_of_fields_are_read_alike() {
    let (starts, fields): (Vec<&str>, Vec<&str>) = WORDS.iter().partition(|word| word.contains(" HTTP/1."));
    for start in starts {
        for (one, two) in fields.iter().flat_map(|one| fields.iter().map(move |two| (one, two))) {
            for head in [[start, "Host: a\r\n", one, two, "\r\n"], [start, one, two, "\r\n", "\r\n"]] {
                agree(head.concat().as_bytes(), Limits::default());
            }
        }
    }
}

#[test]
fn each_limit_is_met_at_the_same_byte() {
    let head = b"GET /a/b?c=d HTTP/1.1\r\nHost: a\r\nX: y\r\nAccept: */*\r\n\r\n";
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

/// They come by themselves, so that it is the shorter way which reads the head behind them.
#[test]
fn empty_lines_are_counted_from_the_head_before_them() {
    let mut decoder = RequestDecoder::new(Limits::default());
    for _ in 0..3 {
        assert!(decoder.next_head(&mut &b"\r\n\r\n\r\n"[..]).expect("few are forgiven").is_none());
        assert!(
            decoder.next_head(&mut &b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"[..]).expect("a good head").is_some()
        );
    }
}

proptest! {
    #[test]
    fn lines_in_any_order_are_read_alike(
        words in prop::collection::vec(prop::sample::select(WORDS), 0..12),
        is_small in any::<bool>(),
        tail in prop::collection::vec(any::<u8>(), 0..12),
    ) {
        let bytes = [words.concat().as_bytes(), &tail].concat();
        agree(&bytes, if is_small { small() } else { Limits::default() });
    }
}

const WORDS: &[&str] = &[
    "GET / HTTP/1.1\r\n",
    "POST /a?b HTTP/1.1\r\n",
    "PROPPATCH /0123456789012345 HTTP/1.1\r\n",
    "M-SEARCH * HTTP/1.1\r\n",
    "GET /a#b HTTP/1.1\r\n",
    "GET /\u{fc} HTTP/1.1\r\n",
    "GET / HTTP/1.0\r\n",
    "GET / HTTP/1.2\r\n",
    "CONNECT /a:80 HTTP/1.1\r\n",
    "Host: a\r\n",
    "Host: a b\r\n",
    "host:a\r\n",
    "Content-Length: 5\r\n",
    "Content-Length: +5\r\n",
    "Transfer-Encoding: chunked\r\n",
    "Connection: close\r\n",
    "Connection: Keep-Alive\r\n",
    "Connection: keep-alive, close\r\n",
    "Expect: 100-continue\r\n",
    "TE: trailers\r\n",
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
    "\r\n",
    "hello",
];

fn small() -> Limits {
    let head = HeadLimits { bytes: 120, target_bytes: 24, fields: 3, ..HeadLimits::default() };
    Limits { head, ..Limits::default() }
}

/// The shorter way agrees with the other one about these bytes, and takes as many of them.
#[track_caller]
fn agree(bytes: &[u8], limits: Limits) {
    let (mut short, mut long) = (bytes, bytes);
    let one = RequestDecoder::new(limits).next_head(&mut short).map(|made| made.map(text));
    let other = match RequestDecoder::new(limits).decode(&mut long) {
        Ok(Some(RequestEvent::Head(head, info))) => Ok(Some(text((head, info)))),
        Ok(None) => Ok(None),
        Ok(Some(event)) => panic!("a head comes first, not {event:?}"),
        Err(error) => Err(error),
    };
    assert_eq!((one, short.len()), (other, long.len()), "{}", bytes.escape_ascii());
}

fn next(mut bytes: &[u8], limits: Limits) -> Result<Option<(String, String)>, DecodeError> {
    Ok(RequestDecoder::new(limits).next_head(&mut bytes)?.map(text))
}

/// All that a head says.
fn text((head, info): (RequestHead, HeadInfo)) -> (String, String) {
    let version = if head.version() == Version::HTTP_11 { "HTTP/1.1" } else { "HTTP/1.0" };
    let lines = head.headers().wire_bytes().escape_ascii();
    let fields: Vec<_> =
        head.headers().iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    let line = format!(
        "{} {} {version}\n{}",
        head.method(),
        head.target(),
        lines.to_string().replace("\\r\\n", "\r\n")
    );
    (line, format!("{info:?} {fields:?}"))
}
