//! Requests decoded in place give the same events, and the same error, as copied ones. So does the short way to the next head.
//!
//! The last two bytes of the input choose the limits and say how long the pieces are, so that the rest is plain HTTP
//! which mutates well.

#![no_main]

mod support;

use anywire_http::h1::{DecodeError, HeadInfo, Limits, RequestDecoder, RequestEvent, RequestView};
use anywire_http::{Buffer, RequestHead};
use libfuzzer_sys::fuzz_target;

use support::{Events, SMALL, text};

fuzz_target!(|bytes: &[u8]| {
    let [bytes @ .., how, length] = bytes else { return };
    let limits = if how % 2 == 0 { Limits::default() } else { SMALL };
    let (mut short, mut long) = (bytes, bytes);
    let next = RequestDecoder::new(limits).next_head(&mut short).map(|made| made.map(all_of));
    let first = RequestDecoder::new(limits).decode(&mut long).map(|event| match event? {
        RequestEvent::Head(head, info) => Some(all_of((head, info))),
        event => panic!("a head comes first, not {event:?}"),
    });
    assert_eq!((next, short), (first, long));
    for length in [bytes.len().clamp(1, Buffer::DEFAULT_BYTES), usize::from(*length) + 1, 1] {
        assert_eq!(in_place(bytes.chunks(length), limits), copied(bytes.chunks(length), limits));
    }
});

fn all_of((head, info): (RequestHead, HeadInfo)) -> Vec<u8> {
    let line = format!("{} {} {:?} {info:?}", head.method(), head.target(), head.version());
    text(line, head.headers().iter())
}

fn copied<'b>(pieces: impl Iterator<Item = &'b [u8]>, limits: Limits) -> (Events, Option<DecodeError>) {
    let mut decoder = RequestDecoder::new(limits);
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
                    let line = format!("{} {} {:?}", head.method(), head.target(), head.version());
                    text(line, head.headers().iter())
                }),
            }
        }
    }
    (events, decoder.finish().err())
}

fn in_place<'b>(pieces: impl Iterator<Item = &'b [u8]>, limits: Limits) -> (Events, Option<DecodeError>) {
    let mut decoder = RequestDecoder::new(limits);
    let mut left = Vec::new();
    let mut events = Events::new();
    let look = |head: &RequestView<'_>| {
        // A copied head has the path `/` where a URL has none.
        let copied = RequestHead::new(head.method().clone(), head.target()).expect("it was decoded");
        let line = format!("{} {} {:?}", head.method(), copied.target(), head.version());
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
    (events, decoder.finish().err())
}

fn note<H>(events: &mut Events, event: RequestEvent<'_, H>, text: impl FnOnce(H) -> Vec<u8>) {
    match (event, events.last_mut()) {
        (RequestEvent::Data(data), Some(("data", before))) => before.extend_from_slice(data),
        (RequestEvent::Data(data), _) => events.push(("data", data.to_vec())),
        (RequestEvent::Head(head, info), _) => {
            events.push(("head", [text(head), format!("\n{info:?}").into_bytes()].concat()));
        }
        (RequestEvent::Trailers(trailers), _) => events.push(("trailers", trailers.wire_bytes().to_vec())),
        (RequestEvent::End, _) => events.push(("end", Vec::new())),
    }
}
