//! No text and no frame make a filter of a capture panic; a filter that is read is the one that it prints, and `not` turns it around.
//!
//! The first line of the bytes is the filter, the rest is the frame.

#![no_main]

use anywire_stack::capture::Filter;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let end = input.iter().position(|byte| *byte == b'\n').unwrap_or(input.len());
    let (text, frame) = input.split_at(end);
    let Ok(text) = std::str::from_utf8(text) else { return };
    match text.parse::<Filter>() {
        Ok(filter) => {
            assert_eq!(filter.to_string().parse(), Ok(filter.clone()));
            let passes = filter.matches(frame);
            // One more parenthesis may be too deep, and the text too long.
            if let Ok(turned) = format!("not ({text})").parse::<Filter>() {
                assert_ne!(turned.matches(frame), passes);
            }
        }
        Err(wrong) => assert!(wrong.at <= text.len()),
    }
});
