//! Whatever a peer sends or leaves unsent: the call gets a typed error, and other calls go on.

use std::time::Duration;

use crate::support::{
    AnyWire, HANG, OK, Peer, Talk, block_on, client, on_each_wire, on_four_wires_at_a_time, until_no_call,
};
use anywire_client::{Call, Error, Fault, Limits, Phase};
use anywire_http::h1::DecodeError;

/// The error of a call to a peer that follows `script` on its first connection, while another call, made before, waits
/// for its answer on the second. That one and a third are answered.
fn error_beside_good_calls(wire: AnyWire, script: impl Fn(&mut Talk) + Send + Sync + 'static) -> Error {
    error_in_time(HANG, wire, script)
}

/// The same for a peer that falls silent: its call is given up after `read_timeout`.
fn error_in_time(
    read_timeout: Duration,
    wire: AnyWire,
    script: impl Fn(&mut Talk) + Send + Sync + 'static,
) -> Error {
    let peer = Peer::start(wire, move |mut talk| {
        while let Some(request) = talk.request() {
            match request.head.path() {
                "/bad" => return script(&mut talk),
                _ => talk.say(OK),
            }
        }
    });
    let (_loops, client) = client(1, |builder| builder.read_timeout(HANG));
    let call = |path: &str| client.get(peer.url(path)).via(peer.via());
    let answer = async |call: Call| call.send().await?.bytes().await;
    block_on(answer(call("/good"))).expect("an answer");
    let error = block_on(answer(call("/bad").read_timeout(read_timeout))).expect_err("a bad answer");
    block_on(answer(call("/good"))).expect("an answer");
    until_no_call(&client);
    error
}

fn decode_error(wire: AnyWire, answer: impl AsRef<[u8]> + Send + Sync + 'static) -> DecodeError {
    let error = error_beside_good_calls(wire, move |talk| {
        talk.say(answer.as_ref());
        talk.half_close();
        talk.wait_for_end();
    });
    match error {
        Error::Response { source, .. } => source,
        other => panic!("{other:?}"),
    }
}

#[test]
fn garbage_and_bad_framing() {
    on_four_wires_at_a_time(|wire| {
        assert_eq!(decode_error(wire, "SSH-2.0-OpenSSH_9.6\r\n"), DecodeError::StartLine);
        assert_eq!(decode_error(wire, "\x16\x03\x01\x02\x00"), DecodeError::StartLine);
        let both = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\ntransfer-encoding: chunked\r\n\r\nok";
        assert_eq!(decode_error(wire, both), DecodeError::BothLengths);
        let chunk = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\nok\r\n0\r\n\r\n";
        assert_eq!(decode_error(wire, chunk), DecodeError::ChunkSize);
    });
}

#[test]
fn what_came_before_a_fault_is_handed_out() {
    on_four_wires_at_a_time(|wire| {
        let bad = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\nzz\r\n";
        let peer = Peer::answering(wire, bad);
        let (_loops, client) = client(1, |builder| builder);
        block_on(async {
            let mut answer = client.get(peer.url("/")).via(peer.via()).send().await.expect("a head");
            assert_eq!(answer.chunk().await.expect("good bytes").as_deref(), Some(&b"hello"[..]));
            let error = answer.chunk().await.expect_err("the fault");
            assert!(matches!(error, Error::Response { source: DecodeError::ChunkSize, .. }), "{error:?}");
        });
    });
}

#[test]
fn a_head_without_end() {
    on_four_wires_at_a_time(|wire| {
        let bomb = format!("HTTP/1.1 200 OK\r\n{}", "x-bomb: boom\r\n".repeat(100_000));
        assert!(matches!(
            decode_error(wire, bomb),
            DecodeError::TooManyHeaders { .. } | DecodeError::HeadTooLarge { .. }
        ));
    });
}

#[test]
fn a_head_or_a_body_cut_short() {
    on_four_wires_at_a_time(|wire| {
        assert_eq!(decode_error(wire, "HTTP/1.1 200 OK\r\ncontent-"), DecodeError::HeadCutShort);
        assert_eq!(
            decode_error(wire, "HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf"),
            DecodeError::BodyCutShort
        );
        let ten_gigabytes = "HTTP/1.1 200 OK\r\ncontent-length: 10000\r\n\r\n1";
        assert_eq!(decode_error(wire, ten_gigabytes), DecodeError::BodyCutShort);
    });
}

#[test]
fn a_body_declared_larger_than_what_is_collected() {
    on_four_wires_at_a_time(|wire| {
        let error = error_beside_good_calls(wire, |talk| {
            talk.say("HTTP/1.1 200 OK\r\ncontent-length: 10000000000\r\n\r\n1");
            talk.wait_for_end();
        });
        assert!(matches!(error, Error::BodyTooLarge { limit_bytes } if limit_bytes == 16 << 20), "{error:?}");
        assert_eq!(error.fault(), Fault::Limit);
    });
}

#[test]
fn another_protocol_that_nobody_asked_for() {
    on_four_wires_at_a_time(|wire| {
        let error = error_beside_good_calls(wire, |talk| {
            talk.say("HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n");
        });
        assert!(matches!(error, Error::Switched { .. }), "{error:?}");
        assert!(error.is_protocol() && error.may_have_been_processed());
        assert_eq!(error.fault(), Fault::Peer);
    });
}

#[test]
fn interim_answers_without_end() {
    on_four_wires_at_a_time(|wire| {
        let error =
            error_beside_good_calls(wire, |talk| talk.say("HTTP/1.1 102 Processing\r\n\r\n".repeat(1000)));
        assert!(matches!(error, Error::Interim { count: 17, .. }), "{error:?}");
        assert!(error.is_protocol() && error.may_have_been_processed());
        assert_eq!(error.fault(), Fault::Peer);
    });
}

#[test]
fn as_many_interim_answers_as_the_limit_allows() {
    on_each_wire(|wire| {
        for limit in [0, 2] {
            let peer = Peer::start(wire, move |mut talk| {
                while let Some(request) = talk.request() {
                    let more = usize::from(request.head.path() == "/more");
                    talk.say("HTTP/1.1 102 Processing\r\n\r\n".repeat(limit + more));
                    talk.say(OK);
                }
            });
            let limits = Limits { interim_responses: limit, ..Limits::default() };
            let (_loops, client) = client(1, |builder| builder.limits(limits));
            block_on(client.get(peer.url("/")).via(peer.via()).send()).expect("an answer");
            let error = block_on(client.get(peer.url("/more")).via(peer.via()).send()).expect_err("too many");
            assert!(matches!(&error, Error::Interim { count, .. } if *count == limit + 1), "{error:?}");
            assert_eq!(client.counters().total().too_many_interim, 1);
        }
    });
}

#[test]
fn silence_before_and_within_the_answer() {
    on_four_wires_at_a_time(|wire| {
        let error = error_in_time(SHORT, wire, |talk| talk.wait_for_end());
        assert!(matches!(error, Error::Timeout { phase: Phase::Read, sent: true, .. }), "{error:?}");
        assert!(error.is_timeout() && error.may_have_been_processed());
        // Again with more time until the head has come by then, however slow the machine is.
        let error_within = |read_timeout| {
            error_in_time(read_timeout, wire, |talk| {
                talk.say("HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf");
                talk.wait_for_end();
            })
        };
        let mut times = [SHORT, SHORT * 10].into_iter().map(error_within);
        let error = times.find(|error| error.phase() == Some(Phase::Body));
        let error = error.unwrap_or_else(|| error_within(HANG));
        assert!(matches!(error, Error::Timeout { phase: Phase::Body, .. }), "{error:?}");
    });
}

#[test]
fn a_reset_before_the_answer() {
    on_four_wires_at_a_time(|wire| {
        let peer = Peer::start(wire, |mut talk| {
            // Shutdown with unread bytes resets (RFC 2525 section 2.17): the body is left unread.
            talk.request_head();
        });
        let (_loops, client) = client(1, |builder| builder);
        let body = vec![b'x'; 10_000_000];
        let error =
            block_on(client.post(peer.url("/")).via(peer.via()).body(body).send()).expect_err("a reset");
        assert!(
            matches!(error, Error::Io { sent: true, .. } | Error::ClosedByPeer { sent: true, .. }),
            "{error:?}"
        );
        assert!(matches!(error.phase(), Some(Phase::Write | Phase::Read)), "{error:?}");
        assert!(error.may_have_been_processed());
    });
}

/// How long a peer is waited for that says nothing more.
const SHORT: Duration = Duration::from_millis(300);
