//! HPACK without frames. No bytes make the decoder panic, or hold more than its table. A part of a block gives the first fields of
//! the block. Decoded fields stay the same if they are encoded and decoded again.

#![no_main]

#[path = "support/frames.rs"]
#[allow(dead_code, reason = "each target uses its part")]
mod frames;

use anywire_http::h2::{Hpack, Pair};
use frames::Choices;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let mut choices = Choices(bytes);
    let limit = usize::from(choices.byte()) * 16;
    let (mut end, mut cut_end, mut other) = (Hpack::new(limit), Hpack::new(limit), Hpack::new(4096));
    while !choices.is_over() {
        let (length, cut) = (usize::from(choices.byte()), usize::from(choices.byte()));
        if choices.flag() {
            end.set_limit(cut * 20);
        }
        let (block, rest) = choices.0.split_at(length.min(choices.0.len()));
        choices.0 = rest;
        let (pairs, outcome) = end.decode(block);
        // The table keeps some evicted bytes beside its entries.
        assert!(end.held_bytes() <= limit + 2048, "{} bytes", end.held_bytes());
        if outcome.is_ok() && cut >= block.len() {
            assert_eq!(cut_end.decode(block), (pairs.clone(), Ok(())));
        } else {
            let (before, _) = cut_end.decode(&block[..cut.min(block.len())]);
            assert!(pairs.starts_with(&before), "{before:?} of {pairs:?}");
        }
        let encoded = end.encode(&pairs);
        let lower = |(name, value): &Pair| (name.to_ascii_lowercase(), value.clone());
        assert_eq!(other.decode(&encoded), (pairs.iter().map(lower).collect(), Ok(())));
        // Behind a fault or a cut the tables differ.
        if outcome.is_err() || cut < block.len() {
            return;
        }
    }
});
