//! Documents of OpenAPI of any bytes, in JSON and YAML: none makes the reader panic or hold more than its limits, each operation is
//! either sent or named, and what is sent can be.

#![no_main]

use anywire_http::Method;
use anywire_load::script::{OpenApiLimits, OpenApiOptions, read_openapi};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let limits = OpenApiLimits {
        file_bytes: 1 << 20,
        operations: 64,
        value_bytes: 4096,
        depth: 16,
        held_bytes: 16 << 10,
    };
    for methods in [vec![Method::GET], vec![Method::GET, Method::PUT, Method::POST, Method::DELETE]] {
        let options = OpenApiOptions { methods, limits: limits.clone(), ..OpenApiOptions::default() };
        let Ok(read) = read_openapi(data, &options) else { continue };
        let steps: Vec<_> = read.script.sequences.iter().flat_map(|sequence| &sequence.steps).collect();
        assert!(!steps.is_empty() && steps.len() + read.left_out.len() <= 64);
        let held: usize =
            steps.iter().map(|step| step.target.as_bytes().len() + step.body.as_bytes().len()).sum();
        assert!(held <= 16 << 10);
        assert!(steps.iter().all(|step| step.target.as_bytes().starts_with(b"/")));
        read.script.check().expect("what is not left out can be sent");
    }
});
