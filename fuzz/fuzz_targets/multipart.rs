//! Forms with files: no bytes make the decoder panic, each cut of them gives the same parts, and no more than a piece and a head is held.

#![no_main]

use anywire_http::multipart::{Decoder, Error, Event, Limits};
use libfuzzer_sys::fuzz_target;

const LIMITS: Limits = Limits { parts: 20, head_bytes: 200, part_bytes: 1000, total_bytes: 4000 };

/// What was found: a line for each part with its content, and how the form ended.
fn read<'b>(pieces: impl Iterator<Item = &'b [u8]>) -> (Vec<(String, Vec<u8>)>, Result<(), Error>) {
    let mut decoder = Decoder::new("x", LIMITS).expect("a boundary");
    let mut parts: Vec<(String, Vec<u8>)> = Vec::new();
    let result = (|| {
        for piece in pieces {
            decoder.push(piece.to_vec().into())?;
            while let Some(event) = decoder.decode()? {
                match event {
                    Event::Part(head) => parts.push((format!("{head:?}"), Vec::new())),
                    Event::Data(data) => parts.last_mut().expect("a part has begun").1.extend(data),
                    Event::PartEnd | Event::End => {}
                }
            }
        }
        decoder.end()
    })();
    (parts, result)
}

fuzz_target!(|data: &[u8]| {
    let Some((&cut, body)) = data.split_first() else { return };
    let (whole, ended) = read([body].into_iter());
    let (cut, cut_ended) = read(body.chunks(usize::from(cut).max(1)));
    assert_eq!(ended.is_ok(), cut_ended.is_ok(), "{ended:?}, cut: {cut_ended:?}");
    if ended.is_ok() {
        assert_eq!(whole, cut);
    }
});
