//! How the bytes of requests are cut on their way changes no event.
//!
//! The last byte of the input says how long the pieces are, so that the rest is plain HTTP which mutates
//! well.

#![no_main]

use anywire_http::Buffer;
use anywire_http::h1::{Limits, RequestDecoder, RequestEvent};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Some((&length, bytes)) = bytes.split_last() else { return };
    let whole = events([bytes].into_iter());
    let pieces = events(bytes.chunks(usize::from(length) + 1));
    assert_eq!(whole, pieces);
    assert_eq!(whole, events(bytes.chunks(1)));
});

/// Head and data as text, neighbouring data joined; and whether it ended in an error, which a longer piece
/// may show sooner.
fn events<'b>(pieces: impl Iterator<Item = &'b [u8]>) -> (Vec<(&'static str, Vec<u8>)>, bool) {
    let mut decoder = RequestDecoder::new(Limits::default());
    let mut input = Buffer::new();
    let mut events: Vec<(&'static str, Vec<u8>)> = Vec::new();
    for mut piece in pieces {
        while !piece.is_empty() {
            let copied = input.fill_from(piece);
            assert!(copied > 0, "a full buffer stands without an error");
            piece = &piece[copied..];
            loop {
                match decoder.decode(&mut input) {
                    Err(_) => return (events, true),
                    Ok(None) => break,
                    Ok(Some(RequestEvent::Head(head, info))) => {
                        events.push(("head", format!("{head:?} {info:?}").into_bytes()))
                    }
                    Ok(Some(RequestEvent::Data(data))) => match events.last_mut() {
                        Some(("data", before)) => before.extend_from_slice(data),
                        _ => events.push(("data", data.to_vec())),
                    },
                    Ok(Some(RequestEvent::Trailers(trailers))) => {
                        events.push(("trailers", trailers.wire_bytes().to_vec()));
                    }
                    Ok(Some(RequestEvent::End)) => events.push(("end", Vec::new())),
                }
            }
        }
    }
    let failed = decoder.finish().is_err();
    (events, failed)
}
