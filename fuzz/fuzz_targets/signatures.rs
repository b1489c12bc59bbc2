//! Fields of signatures and digests of any bytes: nothing panics, and nothing is right without the key.

#![no_main]

use std::time::{Duration, UNIX_EPOCH};

use anywire_http::signatures::{Message, Verifier, VerifyingKey, check_content_digest};
use anywire_http::{Headers, Method, Url};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let mut headers = Headers::new();
    for (line, name) in data
        .split(|byte| *byte == b'\n')
        .zip(["signature-input", "signature", "content-digest"].iter().cycle())
    {
        let _ = headers.append(name, line);
    }
    let url = Url::parse("http://h.example/a?b=c&d").expect("a URL");
    let verifier =
        Verifier::new(|_| Some(VerifyingKey::hmac_sha256(b"nobody knows this"))).max_age(Duration::MAX);
    let now = UNIX_EPOCH + Duration::from_secs(1_700_000_000);
    assert!(verifier.verify(&Message::request(&Method::GET, &url, &headers), now).is_err());
    let _ = check_content_digest(&headers, data);
});
