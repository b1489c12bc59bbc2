//! No bytes make the request decoder panic, loop, or give a head that cannot be read.

#![no_main]

use anywire_http::Buffer;
use anywire_http::h1::{Limits, RequestDecoder, RequestEvent};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let mut decoder = RequestDecoder::new(Limits::default());
    let mut input = Buffer::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        let copied = input.fill_from(rest);
        assert!(copied > 0, "a full buffer stands without an error");
        rest = &rest[copied..];
        loop {
            let before = input.len();
            match decoder.decode(&mut input) {
                Err(error) => {
                    assert!(error.status().is_client_error() || error.status().is_server_error());
                    return;
                }
                Ok(None) => break,
                Ok(Some(RequestEvent::Head(head, info))) => {
                    assert!(!head.target().is_empty());
                    assert!(head.target().contains(head.path()));
                    assert_eq!(head.clone().headers(), head.headers());
                    let lines: usize =
                        head.headers().iter().map(|(name, value)| name.len() + value.len() + 3).sum();
                    assert!(lines <= head.headers().wire_bytes().len());
                    assert!(!info.expects_continue || !info.framing.is_empty());
                    let _ = (head.query(), head.host(), head.scheme(), head.authority());
                }
                Ok(Some(RequestEvent::Data(data))) => assert!(!data.is_empty() && data.len() <= before),
                Ok(Some(RequestEvent::Trailers(trailers))) => assert!(!trailers.is_empty()),
                Ok(Some(RequestEvent::End)) => {}
            }
        }
    }
    let _ = decoder.finish();
});
