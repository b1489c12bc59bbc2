//! How the bytes were cut on their way changes nothing, and no bytes make a decoder panic.

use crate::support::{Event, requests, requests_in_place, responses, responses_in_place};
use anywire_http::HeadLimits;
use anywire_http::Method;
use anywire_http::h1::Limits;
use proptest::prelude::*;

/// Pieces of HTTP, right and wrong, which meet the decoder's branches far more often than arbitrary bytes do.
const WORDS: &[&str] = &[
    "GET / HTTP/1.1\r\n",
    "POST /a?b HTTP/1.1\r\n",
    "GET / HTTP/1.0\r\n",
    "HTTP/1.1 200 OK\r\n",
    "HTTP/1.1 100 Continue\r\n\r\n",
    "HTTP/1.0 404 \r\n",
    "HTTP/1.1 204 No Content\r\n\r\n",
    "Host: a\r\n",
    "Content-Length: 5\r\n",
    "Content-Length: 0\r\n",
    "Transfer-Encoding: chunked\r\n",
    "Connection: close\r\n",
    "Connection: keep-alive\r\n",
    "X: y\r\n",
    "X: a\r\n b\r\n",
    "\r\n",
    "\n",
    "\r",
    "hello",
    "5\r\nhello\r\n",
    "a;x=y\r\n0123456789\r\n",
    "0\r\n\r\n",
    "0\r\nSum: 1\r\n\r\n",
    "GET /pipelined HTTP/1.1\r\nHost: a\r\n\r\n",
    "POST /c HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
    "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n",
    " ",
    ":",
    "\u{0}",
    "\u{ff}",
];

fn http_like() -> impl Strategy<Value = Vec<u8>> {
    let word = prop_oneof![
        20 => prop::sample::select(WORDS).prop_map(|word| word.as_bytes().to_vec()),
        1 => prop::collection::vec(any::<u8>(), 0..20),
    ];
    prop::collection::vec(word, 0..14).prop_map(|words| words.concat())
}

/// `bytes` cut at `cuts` (taken modulo the length).
fn cut<'b>(bytes: &'b [u8], cuts: &[usize]) -> Vec<&'b [u8]> {
    let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut % (bytes.len() + 1)).collect();
    cuts.sort_unstable();
    let mut pieces = Vec::new();
    let mut start = 0;
    for cut in cuts {
        pieces.push(&bytes[start..cut]);
        start = cut;
    }
    pieces.push(&bytes[start..]);
    pieces
}

/// Small limits, so that they are reached.
fn limits() -> impl Strategy<Value = Limits> {
    prop_oneof![
        Just(Limits::default()),
        Just(Limits {
            head: HeadLimits { bytes: 60, target_bytes: 24, fields: 3, trailer_bytes: 10, trailer_fields: 1 },
            chunk_extension_bytes: 3,
            chunk_extensions_bytes: 5,
        }),
    ]
}

/// An error may be found sooner in a longer piece, so only its presence is compared, and the events before
/// it.
fn comparable(result: (Vec<Event>, Option<anywire_http::h1::DecodeError>)) -> (Vec<Event>, bool) {
    (result.0, result.1.is_some())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn of_requests(bytes in http_like(), cuts in prop::collection::vec(any::<usize>(), 0..6), limits in limits()) {
        let whole = comparable(requests([&bytes[..]], limits));
        prop_assert_eq!(&comparable(requests(cut(&bytes, &cuts), limits)), &whole);
        prop_assert_eq!(&comparable(requests(bytes.chunks(1), limits)), &whole);
    }

    #[test]
    fn of_responses(
        bytes in http_like(),
        cuts in prop::collection::vec(any::<usize>(), 0..6),
        limits in limits(),
        method in prop::sample::select(&[Method::GET, Method::HEAD, Method::CONNECT][..]),
    ) {
        let whole = comparable(responses([&bytes[..]], &method, limits));
        prop_assert_eq!(&comparable(responses(cut(&bytes, &cuts), &method, limits)), &whole);
        prop_assert_eq!(&comparable(responses(bytes.chunks(1), &method, limits)), &whole);
    }

    #[test]
    fn of_heads_that_are_looked_at_in_place(
        bytes in http_like(),
        cuts in prop::collection::vec(any::<usize>(), 0..6),
        limits in limits(),
        method in prop::sample::select(&[Method::GET, Method::HEAD, Method::CONNECT][..]),
    ) {
        // Whatever is cut off, both ways see the same bytes at each step: even the errors are the same.
        for pieces in [vec![&bytes[..]], cut(&bytes, &cuts), bytes.chunks(1).collect()] {
            let pieces = || pieces.iter().copied();
            prop_assert_eq!(requests_in_place(pieces(), limits), requests(pieces(), limits));
            let copied = responses(pieces(), &method, limits);
            prop_assert_eq!(responses_in_place(pieces(), &method, limits), copied);
        }
    }

    #[test]
    fn of_arbitrary_bytes(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let whole = comparable(requests([&bytes[..]], Limits::default()));
        prop_assert_eq!(&comparable(requests(bytes.chunks(1), Limits::default())), &whole);
        let whole = comparable(responses([&bytes[..]], &Method::GET, Limits::default()));
        prop_assert_eq!(&comparable(responses(bytes.chunks(1), &Method::GET, Limits::default())), &whole);
    }
}

#[test]
fn of_one_exchange_cut_everywhere() {
    let bytes = b"\r\nPOST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n\
        5;ext=1\r\nhello\r\n0\r\nSum: 1\r\n\r\nGET /b HTTP/1.1\r\nHost: a\r\n\r\n";
    let whole = requests([&bytes[..]], Limits::default());
    assert_eq!((whole.0.len(), &whole.1), (5, &None));
    for first in 0..=bytes.len() {
        for second in first..=bytes.len() {
            let pieces = [&bytes[..first], &bytes[first..second], &bytes[second..]];
            assert_eq!(requests(pieces, Limits::default()), whole, "cut at {first} and {second}");
        }
    }
}
