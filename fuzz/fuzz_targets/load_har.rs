//! Recordings of any bytes: none makes the reader panic or hold more than its limits, and what it gives can be sent.

#![no_main]

use anywire_load::script::{HarLimits, HarOptions, read_har};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let limits = HarLimits { file_bytes: 1 << 20, held_bytes: 4096, requests: 16 };
    for think in [false, true] {
        let options = HarOptions { think, host: None, cookies: false, limits: limits.clone() };
        let Ok(har) = read_har(data, &options) else { continue };
        let steps: Vec<_> = har.script.sequences.iter().flat_map(|sequence| &sequence.steps).collect();
        assert!((1..=16).contains(&steps.len()));
        let held: usize =
            steps.iter().map(|step| step.target.as_bytes().len() + step.body.as_bytes().len()).sum();
        assert!(held <= 4096);
        har.script.check().expect("what is not left out can be sent");
    }
});
