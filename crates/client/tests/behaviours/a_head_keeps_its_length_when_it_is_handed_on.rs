//! An answer without a body, to HEAD or a 304, keeps the length that it states when its parts are handed on.

use crate::support::{Peer, block_on, client, wire};
use anywire_http::Method;

/// The status and the length that the body states after [`into_parts`](anywire_client::Response::into_parts).
fn stated(method: Method, answer: &'static str) -> (u16, Option<u64>) {
    let peer = Peer::start(wire("tcp"), move |mut talk| {
        while talk.request().is_some() {
            talk.say(answer);
        }
    });
    let (_loops, client) = client(1, |builder| builder);
    let answer = block_on(client.request(method, peer.url("/")).send()).expect("an answer");
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
