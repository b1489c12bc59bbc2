//! A reason phrase beyond ASCII is no fault, and is kept as it came (RFC 9112 section 4).

use anywire_http::h1::{Limits, ResponseDecoder, ResponseEvent};

/// The reason of a status line, byte by byte and as text, in a head that is kept and in one that is looked at.
fn reasons(line: &[u8]) -> [(Vec<u8>, String); 2] {
    let bytes = [line, b"\r\ncontent-length: 0\r\n\r\n"].concat();
    let mut decoder = ResponseDecoder::new(Limits::default());
    let Ok(Some(ResponseEvent::Head(head, _))) = decoder.decode(&mut &bytes[..]) else { panic!("{line:?}") };
    let mut decoder = ResponseDecoder::new(Limits::default());
    let mut input = &bytes[..];
    let looked = decoder.decode_with(&mut input, |head| head.reason().to_owned());
    let Ok(Some(ResponseEvent::Head(looked, _))) = looked else { panic!("{line:?}") };
    [(head.reason_bytes().to_vec(), head.reason().to_owned()), (head.reason_bytes().to_vec(), looked)]
}

#[test]
fn a_reason_is_kept_byte_by_byte() {
    for (line, bytes, text) in [
        (&b"HTTP/1.1 200 OK"[..], &b"OK"[..], "OK"),
        (b"HTTP/1.1 200 ", b"", ""),
        (b"HTTP/1.1 200", b"", ""),
        (b"HTTP/1.1 404 Nicht da", b"Nicht da", "Nicht da"),
        (
            "HTTP/1.1 404 N\u{e3}o est\u{e1} aqui".as_bytes(),
            "N\u{e3}o est\u{e1} aqui".as_bytes(),
            "N\u{e3}o est\u{e1} aqui",
        ),
        (b"HTTP/1.0 404 N\xe3o est\xe1", b"N\xe3o est\xe1", ""),
        (b"HTTP/1.1 200 \xff\x80 \xfe", b"\xff\x80 \xfe", ""),
    ] {
        for found in reasons(line) {
            assert_eq!(found, (bytes.to_vec(), text.to_owned()), "{line:?}");
        }
    }
}
