//! What is wrong with an answer is named, with who ended it and in which phase, over each version of HTTP, by a call and by a
//! load; a limit of ours is said with the option that raises it.

use std::net::{TcpListener, TcpStream};

use crate::common::{anywire, assert_refused, stderr};
use crate::peer::{DATA, GOAWAY, Peer, RST_STREAM, frame, head, say, wait_for_end};

/// What a call and a load say of the same server over HTTP/2.
#[track_caller]
fn over_http2(bytes: Vec<u8>, code: i32, call: &str, load: &str) {
    let peer = Peer::of_http2(move |stream| say(stream, &bytes));
    assert_says(&peer, "--http2", code, call, load);
}

#[track_caller]
fn over_http1(bytes: &str, code: i32, call: &str, load: &str) {
    let bytes = bytes.to_owned();
    let peer = Peer::of_http1(move |stream| say(stream, &bytes));
    assert_says(&peer, "--http1", code, call, load);
}

#[track_caller]
fn assert_says(peer: &Peer, version: &str, code: i32, call: &str, load: &str) {
    let url = peer.url();
    assert_refused(&anywire(&["get", version, &url]), code, call);
    assert_refused(&anywire(&["load", version, "-n", "1", "-c", "1", &url]), 1, load);
}

fn go_away(code: u8, text: &str) -> Vec<u8> {
    frame(GOAWAY, 0, 0, &[&[0, 0, 0, 1, 0, 0, 0, code], text.as_bytes()].concat())
}

#[test]
fn a_goaway_is_shown_with_its_code_and_its_text() {
    over_http2(
        go_away(11, "too_many_pings"),
        16,
        "ended the connection by GOAWAY while waiting for the response: ENHANCE_YOUR_CALM (\"too_many_pings\")",
        "GOAWAY: ENHANCE_YOUR_CALM (\"too_many_pings\")",
    );
    // What it says does not act on the terminal.
    over_http2(
        [head(&[]), frame(DATA, 0, 1, b"half"), go_away(2, "\x1b[2J")].concat(),
        16,
        "by GOAWAY while reading the body: INTERNAL_ERROR (\"\\u{1b}[2J\")",
        "GOAWAY: INTERNAL_ERROR (\"\\u{1b}[2J\")",
    );
    over_http2(
        go_away(0, "max_age"),
        16,
        "while waiting for the response: NO_ERROR (\"max_age\")",
        "closed with 1 request unanswered, having said GOAWAY: NO_ERROR (\"max_age\")",
    );
}

/// The request lies behind the last stream on which the server acts (RFC 9113 section 6.8): it leaves in order.
#[test]
fn a_server_that_leaves_before_it_acts_is_not_at_fault() {
    let text = "maintenance until noon";
    let bytes = frame(GOAWAY, 0, 0, &[&[0; 8], text.as_bytes()].concat());
    over_http2(
        bytes.clone(),
        16,
        "the server is leaving, and did not act on the request: GOAWAY, NO_ERROR (\"maintenance until noon\")",
        "by GOAWAY, NO_ERROR (\"maintenance until noon\"), and announced that it would not act on",
    );
    let peer = Peer::of_http2(move |stream| say(stream, &bytes));
    let said = stderr(&anywire(&["get", "--http2", &peer.url()]));
    assert!(!said.contains("at fault") && !said.contains("nothing was sent"), "{said}");
}

/// A peer that leaves at once throws away what is on its way to it, and that resets the connection.
#[test]
fn a_goaway_is_shown_though_a_reset_follows() {
    let bytes = [head(&[]), frame(DATA, 0, 1, b"half"), go_away(2, "disk on fire")].concat();
    let peer = Peer::of_http2(move |stream| {
        say(stream, &bytes);
        leave_at_once(stream);
    });
    let said = "INTERNAL_ERROR (\"disk on fire\")";
    assert_says(&peer, "--http2", 16, said, said);
}

/// Closes with bytes that nobody has read, once there are some.
fn leave_at_once(stream: &mut TcpStream) {
    say(stream, frame(PING, 0, 0, b"12345678"));
    let _ = stream.peek(&mut [0]);
    let other = TcpListener::bind("127.0.0.1:0").expect("a free port");
    *stream = TcpStream::connect(other.local_addr().expect("it is bound")).expect("a connection");
}

const PING: u8 = 6;

#[test]
fn an_end_has_its_phase() {
    let reset = || frame(RST_STREAM, 0, 1, &[0, 0, 0, 2]);
    over_http2(
        reset(),
        92,
        "the server reset the stream while waiting for the response: INTERNAL_ERROR",
        "reset a stream before its answer (INTERNAL_ERROR)",
    );
    over_http2(
        [head(&[]), frame(DATA, 0, 1, b"half"), reset()].concat(),
        92,
        "the server reset the stream while reading the body: INTERNAL_ERROR",
        "reset a stream inside its answer (INTERNAL_ERROR)",
    );
    over_http2(
        [head(&[]), frame(DATA, 0, 1, b"half")].concat(),
        18,
        "the server closed the connection while reading the body",
        "the server closed inside an answer",
    );
    over_http1(
        "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf",
        18,
        "reading a body: found the end of the connection",
        "closed inside an answer: reading a body: found the end of the connection",
    );
    over_http1(
        "HTTP/1.1 200 OK\r\ncont",
        18,
        "reading a head: found the end of the connection",
        "closed inside an answer: reading a head: found the end of the connection",
    );
    over_http1(
        "",
        52,
        "closed the connection while waiting for the response",
        "closed with 1 request unanswered",
    );
}

#[test]
fn what_is_malformed_is_named() {
    over_http2(
        [head(&[("content-length", "3")]), frame(DATA, 0, 1, b"four")].concat(),
        92,
        "the answer breaks the rules of HTTP/2: a body is longer than its `Content-Length`",
        "an answer breaks the rules of HTTP/2: a body is longer than its `Content-Length`",
    );
    over_http2(
        head(&[("a", "1"), ("connection", "close")]),
        92,
        "a field concerns the connection alone",
        "alone",
    );
    over_http1(
        "HTTP/1.1 200 OK\r\na b: c\r\n\r\n",
        56,
        "breaks the rules of HTTP/1.1: reading a header: found no `name: value`",
        "found no `name: value`",
    );
}

#[test]
fn a_limit_is_said_with_its_option() {
    let many: Vec<(String, String)> = (0..150).map(|at| (format!("x{at}"), "y".repeat(90))).collect();
    let fields: Vec<(&str, &str)> = many.iter().map(|(name, value)| (&**name, &**value)).collect();
    let of_http2 = head(&fields);
    let lines: String = many.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let of_http1 = format!("HTTP/1.1 200 OK\r\n{lines}content-length: 0\r\n\r\n");
    let peers = [
        ("--http1", Peer::of_http1(move |stream| say(stream, &of_http1))),
        (
            "--http2",
            Peer::of_http2(move |stream| {
                say(stream, &of_http2);
                wait_for_end(stream);
            }),
        ),
    ];
    for (version, peer) in &peers {
        for (limits, option) in [
            (&[][..], "--max-fields"),
            (&["--max-head", "10000", "--max-fields", "1000"], "--max-head"),
            // Over HTTP/2 the connection ends for a head that is so much larger.
            (&["--max-head", "400", "--max-fields", "1000"], "--max-head"),
        ] {
            for command in [&["get"][..], &["load", "-n", "1", "-c", "1"]] {
                let url = peer.url();
                let said = stderr(&anywire(&[command, &[version, &url], limits].concat()));
                let help = format!("help: raise {option}, or let the server send less");
                assert!(said.contains(&help), "{version} {command:?} {limits:?}: {said}");
            }
        }
    }
}
