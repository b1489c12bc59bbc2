//! What a peer says as it leaves is told: the code and the text of its GOAWAY, who ended a stream, and the phase of the call.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::support::bytes_of_http2::*;
use crate::support::{AnyWire, Frames, Peer, block_on, client_of_http2, on_each_wire};
use anywire_client::{Error, Phase};
use anywire_http::h2::Code;

/// The error of a call whose peer follows `script`, and closes.
fn error(wire: AnyWire, script: impl Fn(&mut Frames, u32) + Send + Sync + 'static) -> Error {
    let peer = Peer::of_http2(wire, move |mut frames, _| {
        let Some(stream) = frames.request() else { return };
        script(&mut frames, stream);
        frames.talk.half_close();
        frames.talk.wait_for_end();
    });
    let (_loops, client) = client_of_http2(|builder| builder);
    let call = client.post(peer.url("/")).via(peer.via());
    block_on(async { call.send().await?.text().await }).expect_err("the peer leaves")
}

fn go_away(last: u32, code: Code, text: &str) -> Vec<u8> {
    frame(GOAWAY, 0, 0, &[&last.to_be_bytes(), &code.0.to_be_bytes(), text.as_bytes()].concat())
}

#[track_caller]
fn assert_says(error: &Error, code: Code, phase: Phase, text: &str) {
    let Error::GoAway { said, sent: true, .. } = error else { panic!("{error:?}") };
    assert_eq!((said.code, error.phase()), (code, Some(phase)), "{error}");
    assert!(error.to_string().contains(&format!("while {phase}")), "{error}");
    assert!(error.to_string().contains(&format!("{code} ({text:?})")), "{error}");
}

#[test]
fn a_goaway_before_the_response() {
    on_each_wire(|wire| {
        let calm = Code::ENHANCE_YOUR_CALM;
        let error =
            error(wire, move |frames, stream| frames.talk.say(go_away(stream, calm, "too_many_pings")));
        assert_says(&error, calm, Phase::Read, "too_many_pings");
    });
}

#[test]
fn a_goaway_within_a_body() {
    on_each_wire(|wire| {
        let error = error(wire, |frames, stream| {
            frames.head(stream, false);
            frames.say(DATA, 0, stream, b"half");
            frames.talk.say(go_away(stream, Code::NO_ERROR, "max_age"));
            // The error counts, whatever comes before and behind it.
            frames.talk.say(go_away(stream, Code::INTERNAL_ERROR, "no disk"));
            frames.talk.say(go_away(stream, Code::NO_ERROR, "bye"));
        });
        assert_says(&error, Code::INTERNAL_ERROR, Phase::Body, "no disk");
    });
}

#[test]
fn a_goaway_that_refuses_what_cannot_be_sent_again() {
    on_each_wire(|wire| {
        let error = error(wire, |frames, _| frames.talk.say(go_away(0, Code::ENHANCE_YOUR_CALM, "later")));
        let Error::GoAway { said, sent, .. } = &error else { panic!("{error:?}") };
        // It was sent anew so often, and never processed.
        assert_eq!((&*said.text, sent, error.may_have_been_processed()), ("later", &false, false));
    });
}

#[test]
fn a_reset_says_who_and_when() {
    on_each_wire(|wire| {
        for (has_head, phase) in [(false, Phase::Read), (true, Phase::Body)] {
            let was_read = Arc::new(AtomicBool::new(false));
            let error = error(wire, move |frames, stream| {
                // Once is enough: the second call would be another connection's.
                assert!(!was_read.swap(true, Ordering::SeqCst));
                if has_head {
                    frames.head(stream, false);
                    frames.say(DATA, 0, stream, b"half");
                }
                frames.say(RST_STREAM, 0, stream, &Code::INTERNAL_ERROR.0.to_be_bytes());
            });
            assert!(matches!(error, Error::Stream { why: None, .. }), "{error:?}");
            assert_eq!(error.phase(), Some(phase));
            let says = format!("was reset by the peer with INTERNAL_ERROR while {phase}");
            assert!(error.to_string().contains(&says), "{error}");
        }
    });
}
