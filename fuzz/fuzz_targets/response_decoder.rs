//! No bytes make the response decoder panic, loop, or give a head that cannot be read.

#![no_main]

use anywire_http::h1::{Limits, ResponseDecoder, ResponseEvent};
use anywire_http::{Buffer, Method};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    for method in [Method::GET, Method::HEAD, Method::CONNECT] {
        decode(bytes, &method);
    }
});

fn decode(bytes: &[u8], method: &Method) {
    let mut decoder = ResponseDecoder::new(Limits::default());
    decoder.request_method(method);
    let mut input = Buffer::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        let copied = input.fill_from(rest);
        assert!(copied > 0, "a full buffer stands without an error");
        rest = &rest[copied..];
        loop {
            match decoder.decode(&mut input) {
                Err(_) => return,
                Ok(None) => break,
                Ok(Some(ResponseEvent::Informational(head))) => assert!(head.status().is_informational()),
                Ok(Some(ResponseEvent::Head(head, info))) => {
                    assert!((101..1000).contains(&head.status().as_u16()));
                    assert_eq!(head.clone().headers(), head.headers());
                    assert!(!info.expects_continue);
                    let _ = (head.reason(), head.stated_length());
                }
                Ok(Some(ResponseEvent::Data(data))) => assert!(!data.is_empty()),
                Ok(Some(ResponseEvent::Trailers(trailers))) => assert!(!trailers.is_empty()),
                Ok(Some(ResponseEvent::End)) => {}
            }
        }
    }
    let _ = decoder.finish();
}
