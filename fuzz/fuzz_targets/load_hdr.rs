//! Histograms of any text: none makes the reader panic, and what is read counts the same when it is written and read again.

#![no_main]

use anywire_load::Latency;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    // Each line is one, so that several are merged.
    let mut all = Latency::new();
    for line in text.lines() {
        let Ok(latency) = Latency::from_hdr(line) else { continue };
        if let Some(summary) = latency.summary() {
            let again = Latency::from_summary(&summary).expect("what was written is read");
            assert_eq!(again.summary(), Some(summary));
        }
        assert_eq!(latency.since(&latency).count(), 0);
        let _ = (latency.bands(), latency.quantile(0.5));
        all.merge(&latency);
    }
    let _ = all.summary();
});
