//! A folded line of an answer is read with a space for each fold (RFC 9112 section 5.2), unless it decides where the
//! body ends. And a status that is no known class is a status.

use anywire_http::h1::{DecodeError, Limits, RequestDecoder, ResponseDecoder, ResponseEvent};
use anywire_http::{Buffer, HeadLimits, Headers};

/// What an answer says that comes in pieces of `piece` bytes: status, fields, body and trailers.
fn decoded(answer: &[u8], piece: usize) -> Result<(u16, Headers, Vec<u8>, Option<Headers>), DecodeError> {
    let mut decoder = ResponseDecoder::new(Limits::default());
    let mut input = Buffer::new();
    let (mut status, mut fields, mut body, mut trailers) = (0, Headers::new(), Vec::new(), None);
    for bytes in answer.chunks(piece) {
        assert_eq!(input.fill_from(bytes), bytes.len());
        while let Some(event) = decoder.decode(&mut input)? {
            match event {
                ResponseEvent::Informational(_) => panic!("no interim answer was sent"),
                ResponseEvent::Head(head, _) => {
                    status = head.status().as_u16();
                    fields = head.into_headers();
                }
                ResponseEvent::Data(data) => body.extend_from_slice(data),
                ResponseEvent::Trailers(found) => trailers = Some(found),
                ResponseEvent::End => {
                    assert!(input.is_empty() && decoder.is_idle());
                    return Ok((status, fields, body, trailers));
                }
            }
        }
    }
    Err(decoder.finish().expect_err("no whole answer"))
}

fn error(answer: &str) -> DecodeError {
    let whole = decoded(answer.as_bytes(), answer.len()).expect_err("refused");
    assert_eq!(decoded(answer.as_bytes(), 1).expect_err("refused"), whole, "{answer:?} in single bytes");
    let mut decoder = ResponseDecoder::new(Limits::default());
    let in_place = decoder.decode_with(&mut answer.as_bytes(), |_| ()).expect_err("refused");
    assert_eq!(in_place, whole, "{answer:?} in place");
    whole
}

#[test]
fn a_fold_is_a_space_however_the_answer_is_cut() {
    let answer =
        b"HTTP/1.1 200 OK\r\nX-Long: one \r\n\ttwo\r\n  three\r\nContent-Length: 2\r\nX-Empty:\r\n \r\n\r\nok";
    for piece in 1..=answer.len() {
        let (status, fields, body, _) = decoded(answer, piece).expect("an answer");
        assert_eq!((status, &body[..]), (200, &b"ok"[..]), "in pieces of {piece}");
        assert_eq!(fields.get("x-long"), Some("one two three"), "in pieces of {piece}");
        assert_eq!(fields.get("x-empty"), Some(""));
        let lines = b"X-Long: one two three\r\nContent-Length: 2\r\nX-Empty: \r\n";
        assert_eq!(fields.wire_bytes(), lines, "no fold is left to be sent on");
    }
}

#[test]
fn a_head_that_is_looked_at_in_place_has_no_folds_either() {
    let mut input = &b"HTTP/1.1 204 No Content\r\nX: a\r\n b\r\nY: c\r\n\r\nrest"[..];
    let mut decoder = ResponseDecoder::new(Limits::default());
    let fields = decoder.decode_with(&mut input, |head| {
        head.fields().map(|(name, value)| (name.to_owned(), value.to_vec())).collect::<Vec<_>>()
    });
    let Ok(Some(ResponseEvent::Head(fields, _))) = fields else { panic!("{fields:?}") };
    assert_eq!(fields, [("X".to_owned(), b"a b".to_vec()), ("Y".to_owned(), b"c".to_vec())]);
    assert_eq!(input, b"rest");
}

#[test]
fn trailers_may_be_folded_too() {
    let answer =
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nSum: a\r\n b\r\nX: y\r\n\r\n";
    for piece in 1..=answer.len() {
        let (_, _, body, trailers) = decoded(answer, piece).expect("an answer");
        assert_eq!(&body[..], b"ok");
        assert_eq!(trailers.as_ref().and_then(|trailers| trailers.get("sum")), Some("a b"));
    }
    let refused = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n Sum: a\r\n\r\n";
    assert_eq!(decoded(refused, refused.len()).expect_err("refused"), DecodeError::HeaderName);
}

#[test]
fn lines_that_decide_the_framing_are_refused() {
    for lines in [
        "Content-Length:\r\n 2",
        "Content-Length: 1\r\n 2",
        "content-length: 2\r\n ",
        "Transfer-Encoding:\r\n\tchunked",
        "Transfer-Encoding: chunked\r\n ",
        "X: y\r\n z\r\nContent-Length:\r\n 2",
        " Content-Length: 2",
        "\tX: y\r\nContent-Length: 2",
        "X\r\n : y",
    ] {
        assert_eq!(
            error(&format!("HTTP/1.1 200 OK\r\n{lines}\r\n\r\nok")),
            DecodeError::HeaderName,
            "{lines:?}"
        );
    }
    assert_eq!(error("HTTP/1.1 200\r\n OK\r\nContent-Length: 2\r\n\r\nok"), DecodeError::HeaderName);
}

#[test]
fn a_fold_makes_nothing_else_right() {
    assert_eq!(error("HTTP/1.1 200 OK\r\nX: y\r\n z\nY: z\r\n\r\n"), DecodeError::LineEnding);
    assert_eq!(error("HTTP/1.1 200 OK\r\nX: y\r\n z\n\nY: z\r\n\r\n"), DecodeError::LineEnding);
    assert_eq!(error("HTTP/1.1 200 OK\r\nX: y\r\n \0\r\n\r\n"), DecodeError::HeaderValue);
    let both = "HTTP/1.1 200 OK\r\nX: y\r\n z\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n";
    assert_eq!(error(both), DecodeError::BothLengths);
    let mut decoder = RequestDecoder::new(Limits::default());
    let request = b"GET / HTTP/1.1\r\nHost: a\r\nX: y\r\n z\r\n\r\n";
    assert_eq!(decoder.decode(&mut &request[..]).expect_err("a request"), DecodeError::HeaderName);
}

#[test]
fn folded_heads_have_the_limits_of_others() {
    let limits: Limits = HeadLimits { bytes: 100, ..HeadLimits::default() }.into();
    let folds = format!("HTTP/1.1 200 OK\r\nX: y{}\r\n\r\n", "\r\n z".repeat(20));
    let mut decoder = ResponseDecoder::new(limits);
    let error = decoder.decode(&mut folds.as_bytes()).expect_err("too large");
    assert_eq!(error, DecodeError::HeadTooLarge { limit: 100 });
    let mut decoder = ResponseDecoder::new(limits);
    let error = decoder.decode(&mut &folds.as_bytes()[..folds.len() - 4]).expect_err("too large");
    assert_eq!(error, DecodeError::HeadTooLarge { limit: 100 });
}

#[test]
fn a_status_has_three_digits_of_which_the_first_is_not_zero() {
    for status in [200, 299, 599, 600, 799, 999] {
        let answer = format!("HTTP/1.1 {status} Odd\r\nContent-Length: 2\r\n\r\nok");
        let (found, _, body, _) = decoded(answer.as_bytes(), answer.len()).expect("an answer");
        assert_eq!((found, &body[..]), (status, &b"ok"[..]));
    }
    for status in ["0", "99", "099", "000", "1000", "20", "2000", "2O0", "-20", ""] {
        let answer = format!("HTTP/1.1 {status} Odd\r\nContent-Length: 2\r\n\r\nok");
        assert_eq!(error(&answer), DecodeError::StartLine, "{status:?}");
    }
}
