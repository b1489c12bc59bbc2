//! A head whose bytes are those of the last one means the same, without a second look; whatever it answers, and however it is cut.

use anywire_http::Method;
use anywire_http::h1::{LastHead, Limits, ResponseDecoder, ResponseEvent};
use proptest::prelude::*;

/// Heads that begin alike, and bodies by all framings but the close.
const ANSWERS: [&str; 7] = [
    "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi",
    "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nhoo",
    "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n",
    "HTTP/1.1 204 No Content\r\n\r\n",
    "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi",
    "HTTP/1.1 200 OK\r\nX: a\r\n b\r\nContent-Length: 2\r\n\r\nhi",
];
/// The same head as the first answer's, without the body that its length names.
const TO_HEAD: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n";

#[test]
fn only_heads_that_differ_are_looked_at() {
    let all = [ANSWERS[0], ANSWERS[0], ANSWERS[1], ANSWERS[1], ANSWERS[0]].concat();
    let (mut input, mut last, mut looks) = (all.as_bytes(), LastHead::new(), 0);
    let mut decoder = ResponseDecoder::new(Limits::default());
    while let Some(event) =
        decoder.decode_repeated(&mut input, &mut last, |_| looks += 1).expect("well formed")
    {
        drop(event);
    }
    assert_eq!((looks, input), (3, &b""[..]));
}

#[test]
fn a_head_that_breaks_a_rule_is_refused_behind_one_that_does_not() {
    let all = format!("{}HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nhi", ANSWERS[0]);
    let (mut input, mut last) = (all.as_bytes(), LastHead::new());
    let mut decoder = ResponseDecoder::new(Limits::default());
    let refused = loop {
        match decoder.decode_repeated(&mut input, &mut last, |_| ()) {
            Ok(event) => assert!(event.is_some(), "the second head is refused"),
            Err(error) => break error,
        }
    };
    assert_eq!(refused, anywire_http::h1::DecodeError::DuplicateContentLength);
}

/// All events as text. `asked` says of each answer whether it is one to HEAD.
fn events(asked: &[bool], pieces: &[&[u8]], mut last: Option<&mut LastHead<u16>>) -> Vec<String> {
    let mut decoder = ResponseDecoder::new(Limits::default());
    let (mut seen, mut kept, mut asked) = (Vec::new(), Vec::new(), asked.iter());
    let mut await_next = |decoder: &mut ResponseDecoder| {
        if asked.next() == Some(&true) {
            decoder.request_method(&Method::HEAD);
        }
    };
    await_next(&mut decoder);
    for piece in pieces {
        kept.extend_from_slice(piece);
        let mut input = &kept[..];
        loop {
            let event = match &mut last {
                Some(last) => decoder.decode_repeated(&mut input, last, |head| head.status().as_u16()),
                None => decoder.decode_with(&mut input, |head| head.status().as_u16()),
            };
            let Some(event) = event.expect("well formed") else { break };
            let is_over = match &event {
                ResponseEvent::Head(_, info) => info.framing == anywire_http::h1::Framing::None,
                event => matches!(event, ResponseEvent::End),
            };
            seen.push(format!("{event:?}"));
            if is_over {
                await_next(&mut decoder);
            }
        }
        kept = input.to_vec();
    }
    seen
}

proptest! {
    #[test]
    fn what_is_not_parsed_again_means_the_same(
        answers in prop::collection::vec((0..ANSWERS.len(), prop::bool::weighted(0.2)), 1..30),
        cuts in prop::collection::vec(1_usize..200, 1..20),
    ) {
        let texts: Vec<&str> = answers.iter().map(|(at, head)| if *head { TO_HEAD } else { ANSWERS[*at] }).collect();
        let asked: Vec<bool> = answers.iter().map(|(_, head)| *head).collect();
        let all = texts.concat();
        let (mut rest, mut pieces) = (all.as_bytes(), Vec::new());
        for cut in cuts {
            let (piece, behind) = rest.split_at(cut.min(rest.len()));
            pieces.push(piece);
            rest = behind;
        }
        pieces.push(rest);
        // What another connection has kept holds for this one.
        let mut last = LastHead::new();
        events(&[], &[ANSWERS[0].as_bytes()], Some(&mut last));
        prop_assert_eq!(events(&asked, &pieces, Some(&mut last)), events(&asked, &pieces, None));
    }
}
