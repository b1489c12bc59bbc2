//! An answer without a body, to HEAD or a 304, keeps the length that it states when its parts are handed on.

use crate::support::bytes_of_http2::{DATA, END_HEADERS, END_STREAM, HEADERS, PING, literals};
use crate::support::{Peer, block_on, client, client_of_http2, wire};
use anywire_client::Response;
use anywire_http::Method;

/// The status and the length that the body states after [`into_parts`](anywire_client::Response::into_parts).
fn stated(method: Method, answer: &'static str) -> (u16, Option<u64>) {
    let peer = Peer::start(wire("tcp"), move |mut talk| {
        while talk.request().is_some() {
            talk.say(answer);
        }
    });
    let (_loops, client) = client(1, |builder| builder);
    handed_on(block_on(client.request(method, peer.url("/")).send()).expect("an answer"))
}

/// The same over HTTP/2, where the end of the stream comes in a frame of its own, once the client has read the head.
fn stated_before_the_end(method: Method, fields: &'static [(&str, &str)]) -> (u16, Option<u64>) {
    let peer = Peer::of_http2(wire("tcp"), |mut frames, _| {
        while let Some(stream) = frames.request() {
            frames.say(HEADERS, END_HEADERS, stream, &literals(fields));
            frames.say(PING, 0, 0, b"the head");
            frames.until(PING);
            frames.say(DATA, END_STREAM, stream, b"");
        }
    });
    let (_loops, client) = client_of_http2(|builder| builder);
    handed_on(block_on(client.request(method, peer.url("/")).send()).expect("an answer"))
}

fn handed_on(answer: Response) -> (u16, Option<u64>) {
    assert_eq!(answer.length(), Some(0), "no byte is to come");
    let (head, mut body) = answer.into_parts();
    assert_eq!(block_on(body.bytes(1)).expect("no bytes"), "");
    (head.status().as_u16(), body.stated_length())
}

#[test]
fn of_head_and_of_304() {
    let sized = "HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\n";
    assert_eq!(stated(Method::HEAD, sized), (200, Some(99)));
    let unchanged = "HTTP/1.1 304 Not Modified\r\ncontent-length: 99\r\n\r\n";
    assert_eq!(stated(Method::GET, unchanged), (304, Some(99)));
}

#[test]
fn of_an_answer_that_states_none_or_has_no_body_at_all() {
    assert_eq!(stated(Method::HEAD, "HTTP/1.1 200 OK\r\n\r\n"), (200, None));
    assert_eq!(stated(Method::HEAD, "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"), (200, None));
    assert_eq!(stated(Method::GET, "HTTP/1.1 204 No Content\r\ncontent-length: 5\r\n\r\n"), (204, None));
    assert_eq!(stated(Method::GET, "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"), (200, None));
}

#[test]
fn of_an_answer_over_http2_whose_end_comes_behind_its_head() {
    let sized = &[(":status", "200"), ("content-length", "99")];
    assert_eq!(stated_before_the_end(Method::HEAD, sized), (200, Some(99)));
    // More than the client collects.
    let large = &[(":status", "200"), ("content-length", "20000000")];
    assert_eq!(stated_before_the_end(Method::HEAD, large), (200, Some(20_000_000)));
    let unchanged = &[(":status", "304"), ("content-length", "99")];
    assert_eq!(stated_before_the_end(Method::GET, unchanged), (304, Some(99)));
    assert_eq!(stated_before_the_end(Method::HEAD, &[(":status", "200")]), (200, None));
    let nothing = &[(":status", "204"), ("content-length", "5")];
    assert_eq!(stated_before_the_end(Method::GET, nothing), (204, None));
}
