//! Answers decoded in place give the same events, and the same error, as copied ones.
//!
//! The last two bytes of the input choose the limits and the method, and say how long the pieces are, so that the
//! rest is plain HTTP which mutates well.

#![no_main]

mod support;

use anywire_http::h1::{DecodeError, Limits, ResponseDecoder, ResponseEvent, ResponseView};
use anywire_http::{Buffer, Method};
use libfuzzer_sys::fuzz_target;

use support::{Events, SMALL, text};

fuzz_target!(|bytes: &[u8]| {
    let [bytes @ .., how, length] = bytes else { return };
    let limits = if how % 2 == 0 { Limits::default() } else { SMALL };
    let method = &[Method::GET, Method::HEAD, Method::CONNECT][usize::from(how / 2 % 3)];
    for length in [bytes.len().clamp(1, Buffer::DEFAULT_BYTES), usize::from(*length) + 1, 1] {
        let pieces = || bytes.chunks(length);
        assert_eq!(in_place(pieces(), method, limits), copied(pieces(), method, limits));
    }
});

fn copied<'b>(
    pieces: impl Iterator<Item = &'b [u8]>,
    method: &Method,
    limits: Limits,
) -> (Events, Option<DecodeError>) {
    let mut decoder = ResponseDecoder::new(limits);
    decoder.request_method(method);
    let mut input = Buffer::new();
    let mut events = Events::new();
    for piece in pieces {
        assert_eq!(
            input.fill_from(piece),
            piece.len(),
            "what waits for more is never near the buffer's limit"
        );
        loop {
            match decoder.decode(&mut input) {
                Err(error) => return (events, Some(error)),
                Ok(None) => break,
                Ok(Some(event)) => note(&mut events, event, |head| {
                    let line = format!("{} {} {:?}", head.status(), head.reason(), head.version());
                    text(line, head.headers().iter())
                }),
            }
        }
    }
    end(events, &mut decoder)
}

fn in_place<'b>(
    pieces: impl Iterator<Item = &'b [u8]>,
    method: &Method,
    limits: Limits,
) -> (Events, Option<DecodeError>) {
    let mut decoder = ResponseDecoder::new(limits);
    decoder.request_method(method);
    let mut left = Vec::new();
    let mut events = Events::new();
    let look = |head: &ResponseView<'_>| {
        let line = format!("{} {} {:?}", head.status(), head.reason(), head.version());
        text(line, head.fields())
    };
    for piece in pieces {
        left.extend_from_slice(piece);
        let mut input = &left[..];
        loop {
            match decoder.decode_with(&mut input, look) {
                Err(error) => return (events, Some(error)),
                Ok(None) => break,
                Ok(Some(event)) => note(&mut events, event, |head| head),
            }
        }
        left.drain(..left.len() - input.len());
    }
    end(events, &mut decoder)
}

/// Nothing more comes, which may be the end of a body.
fn end(mut events: Events, decoder: &mut ResponseDecoder) -> (Events, Option<DecodeError>) {
    match decoder.finish() {
        Ok(Some(event)) => note(&mut events, event, |_| Vec::new()),
        Ok(None) => {}
        Err(error) => return (events, Some(error)),
    }
    (events, None)
}

fn note<H>(events: &mut Events, event: ResponseEvent<'_, H>, text: impl FnOnce(H) -> Vec<u8>) {
    match (event, events.last_mut()) {
        (ResponseEvent::Data(data), Some(("data", before))) => before.extend_from_slice(data),
        (ResponseEvent::Data(data), _) => events.push(("data", data.to_vec())),
        (ResponseEvent::Informational(head), _) => events.push(("interim", text(head))),
        (ResponseEvent::Head(head, info), _) => {
            events.push(("head", [text(head), format!("\n{info:?}").into_bytes()].concat()));
        }
        (ResponseEvent::Trailers(trailers), _) => events.push(("trailers", trailers.wire_bytes().to_vec())),
        (ResponseEvent::End, _) => events.push(("end", Vec::new())),
    }
}
