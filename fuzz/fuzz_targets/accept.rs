//! No text makes the parsers of media types and of `Accept` panic. What is read has one normal form that reads as the same, and an
//! offer that is chosen is accepted, also alone.

#![no_main]

use anywire_http::Headers;
use anywire_http::accept::{Accept, MediaType};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let mut headers = Headers::new();
    if headers.append("accept", bytes).is_err() {
        return;
    }
    let offers = ["text/html", "text/plain; charset=utf-8", "application/problem+json", "a/b; x=\"1,2\""];
    let mut offers: Vec<MediaType> =
        offers.into_iter().map(|text| text.parse().expect("a media type")).collect();
    for part in bytes.split(|byte| *byte == b',') {
        let Ok(text) = std::str::from_utf8(part) else { continue };
        let Ok(read) = MediaType::parse(text) else {
            assert!(offers.iter().all(|offer| !offer.includes_text(text)));
            continue;
        };
        assert!(read.includes(&read) && read.includes_text(text));
        // The normal form has more spaces, so it may be too long.
        if let Ok(again) = MediaType::parse(read.as_str()) {
            assert_eq!((again.as_str(), &again), (read.as_str(), &read));
        }
        offers.push(read);
    }
    let accept = Accept::of(&headers);
    match accept.best(&offers) {
        Some(best) => assert!(accept.accepts(best)),
        None => assert!(offers.iter().all(|offer| !accept.accepts(offer))),
    }
});
