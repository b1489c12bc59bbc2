//! Bodies by length, in chunks, until the close, none at all, and interim answers: each ends where it ends.

use crate::support::run;
use crate::support::server::{Manner, TestServer};
use anywire_http::Method;
use anywire_load::{Expect, Plan};
use anywire_loops::Loops;

#[test]
fn chunks_with_trailers_and_interim_answers() {
    let bytes = "HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n\
                 HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nHello\r\n8;x=y\r\n, World!\r\n0\r\na: b\r\n\r\n";
    let server = TestServer::start("memory:chunks", Manner::Bytes(bytes));
    let loops = Loops::start(1).unwrap();
    let expect = Expect { body_bytes: Some(13), ..Expect::default() };
    let totals = run(&loops, Plan { depth: 4, expect, ..server.plan(40) }).unwrap().totals;
    assert_eq!(
        (totals.measured.answered, totals.measured.errors.total()),
        (40, 0),
        "{:?}",
        totals.measured.error_samples
    );
}

#[test]
fn one_byte_at_a_time_is_the_same_answer() {
    for bytes in [
        "HTTP/1.1 200 OK\r\ncontent-length: 13\r\n\r\nHello, World!",
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 13\r\n\r\nHello, World!",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nHello\r\n8;x=y\r\n, World!\r\n0\r\na: b\r\n\r\n",
    ] {
        let server = TestServer::start("memory:bytes", Manner::Trickle(bytes));
        let loops = Loops::start(1).unwrap();
        let expect = Expect { body_bytes: Some(13), ..Expect::default() };
        let totals = run(&loops, Plan { depth: 3, expect, ..server.plan(20) }).unwrap().totals;
        assert_eq!(
            (totals.measured.answered, totals.measured.errors.total()),
            (20, 0),
            "{:?}",
            totals.measured.error_samples
        );
        assert_eq!((totals.bytes_in, totals.body_bytes_in), (20 * bytes.len() as u64, 260));
    }
}

#[test]
fn a_body_that_lasts_until_the_close_is_a_whole_answer() {
    let server =
        TestServer::start("memory:until", Manner::BytesThenEnd("HTTP/1.1 200 OK\r\n\r\nHello, World!"));
    let loops = Loops::start(1).unwrap();
    let expect = Expect { body_bytes: Some(13), ..Expect::default() };
    let totals = run(&loops, Plan { expect, ..server.plan(5) }).unwrap().totals;
    assert_eq!(
        (totals.measured.answered, totals.measured.errors.total()),
        (5, 0),
        "{:?}",
        totals.measured.error_samples
    );
    assert_eq!((totals.connections.opened, server.seen.connections()), (5, 5));
    let answer = "HTTP/1.1 200 OK\r\n\r\nHello, World!".len() as u64;
    assert_eq!((totals.bytes_in, totals.body_bytes_in), (5 * answer, 65));
}

#[test]
fn an_answer_to_head_has_a_length_and_no_body() {
    let server = TestServer::start("memory:head", Manner::Answer);
    let loops = Loops::start(1).unwrap();
    let plan = Plan { method: Method::HEAD, depth: 4, ..server.plan(40) };
    let totals = run(&loops, plan).unwrap().totals;
    assert_eq!(
        (totals.measured.answered, totals.measured.errors.total()),
        (40, 0),
        "{:?}",
        totals.measured.error_samples
    );
}

/// RFC 9112 section 6.3: these have no body, whatever their fields say. A length of theirs must not eat the next answer.
#[test]
fn answers_without_a_body_have_none_whatever_they_say() {
    for (method, bytes) in [
        (Method::GET, "HTTP/1.1 204 No Content\r\n\r\n"),
        (Method::GET, "HTTP/1.1 204 No Content\r\ncontent-length: 5\r\n\r\n"),
        (Method::GET, "HTTP/1.1 304 Not Modified\r\ncontent-length: 100\r\n\r\n"),
        (Method::GET, "HTTP/1.1 304 Not Modified\r\ntransfer-encoding: chunked\r\n\r\n"),
        (Method::HEAD, "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n"),
        (Method::HEAD, "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"),
    ] {
        let server = TestServer::start("memory:none", Manner::Bytes(bytes));
        let loops = Loops::start(1).unwrap();
        let totals = run(&loops, Plan { method, depth: 4, ..server.plan(40) }).unwrap().totals;
        let measured = &totals.measured;
        assert_eq!(
            (measured.answered, measured.errors.total()),
            (40, 0),
            "{bytes:?}: {:?}",
            measured.error_samples
        );
        assert_eq!((totals.connections.opened, server.seen.connections()), (1, 1), "{bytes:?}");
        assert_eq!((totals.bytes_in, totals.body_bytes_in), (40 * bytes.len() as u64, 0), "{bytes:?}");
    }
}
