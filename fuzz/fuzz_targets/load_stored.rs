//! Stored results of any text: none makes the reader panic, and what is read can be compared with itself and printed.

#![no_main]

use anywire_load::Stored;
use anywire_load::contrast::Noise;
use anywire_load::diff::diff;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Ok(stored) = Stored::from_json(text) else { return };
    let outcome = diff(&stored, &stored, &Noise::default(), 0, false);
    if let Ok(outcome) = outcome {
        assert_eq!(outcome.compared, stored.schema());
        let _ = (outcome.to_string(), serde_json::to_string(&outcome).expect("it is data"));
    }
    match stored {
        Stored::Load(outcome) => drop(outcome.to_string()),
        Stored::Ab(outcome) => drop(outcome.to_string()),
        Stored::Compare(outcome) => drop(outcome.to_string()),
    }
});
