//! Heads and chunks as they are written.

use super::*;
use crate::StaticHeader;

fn parts(headers: &Headers) -> FramedHead<'_> {
    FramedHead {
        status: StatusCode::OK,
        headers,
        framing: Framing::Length(5),
        stated_length: None,
        version: Version::HTTP_11,
        keep_alive: true,
        answers_head: false,
        date: None,
    }
}

fn encoded(parts: &FramedHead<'_>) -> (String, Commitment) {
    let mut out = Vec::new();
    let commitment = response_head(&mut out, parts);
    (String::from_utf8(out).expect("ASCII"), commitment)
}

#[test]
fn framing_fields_of_the_caller_are_left_out() {
    let mut headers = Headers::new();
    for (name, value) in
        [("content-length", "99"), ("x", "y"), ("transfer-encoding", "gzip"), ("keep-alive", "1")]
    {
        headers.append(name, value).expect("valid");
    }
    let (head, _) = encoded(&parts(&headers));
    assert_eq!(head, "HTTP/1.1 200 OK\r\nx: y\r\ncontent-length: 5\r\n\r\n");
}

#[test]
fn the_usual_answer_is_the_same_as_others() {
    static PLAIN: StaticHeader = StaticHeader::new("content-type: text/plain");
    let mut usual = Headers::new();
    usual.append_static(&PLAIN);
    let mut other = Headers::new();
    other.append("content-type", "text/plain").expect("valid");
    assert!(usual.ok_beginning().is_some() && other.ok_beginning().is_none());
    let date = DateLine::new().line(std::time::UNIX_EPOCH).to_vec();
    for keep_alive in [true, false] {
        for version in [Version::HTTP_10, Version::HTTP_11] {
            for answers_head in [true, false] {
                for status in [StatusCode::OK, StatusCode::NO_CONTENT] {
                    let date = Some(&date[..]);
                    let usual = parts(&usual);
                    let usual = FramedHead { status, version, keep_alive, answers_head, date, ..usual };
                    let other = FramedHead { headers: &other, ..usual };
                    assert_eq!(encoded(&usual), encoded(&other), "{usual:?}");
                }
            }
        }
    }
}

#[test]
fn static_fields_that_mean_something_are_heeded() {
    static CLOSE: StaticHeader = StaticHeader::new("connection: close");
    let mut headers = Headers::new();
    headers.append_static(&CLOSE);
    let (head, commitment) = encoded(&parts(&headers));
    assert_eq!(head, "HTTP/1.1 200 OK\r\ncontent-length: 5\r\nconnection: close\r\n\r\n");
    assert!(!commitment.keep_alive);
}

#[test]
fn lengths_have_all_their_digits() {
    let around = |power: u64| [power - 1, power, power + 1];
    let powers = (0..=9).map(|digits| 10_u64.pow(digits)).flat_map(around);
    for length in powers.chain([54_321, 123_456, u64::MAX]) {
        let headers = Headers::new();
        let (head, _) = encoded(&FramedHead { framing: Framing::Length(length), ..parts(&headers) });
        assert_eq!(head, format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n"));
    }
}

#[test]
fn a_http10_client_gets_no_chunks() {
    let headers = Headers::new();
    let old = FramedHead { version: Version::HTTP_10, framing: Framing::Chunked, ..parts(&headers) };
    let (head, commitment) = encoded(&old);
    assert_eq!(head, "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n");
    assert_eq!(commitment, Commitment { framing: Framing::UntilClose, keep_alive: false });
}

#[test]
fn a_http10_client_is_told_that_it_may_stay() {
    let headers = Headers::new();
    let (head, commitment) = encoded(&FramedHead { version: Version::HTTP_10, ..parts(&headers) });
    assert_eq!(head, "HTTP/1.1 200 OK\r\ncontent-length: 5\r\nconnection: keep-alive\r\n\r\n");
    assert!(commitment.keep_alive);
}

#[test]
fn statuses_without_body_have_no_length() {
    let headers = Headers::new();
    for (status, line) in
        [(StatusCode::NO_CONTENT, "204 No Content"), (StatusCode::NOT_MODIFIED, "304 Not Modified")]
    {
        let (head, commitment) = encoded(&FramedHead { status, ..parts(&headers) });
        assert_eq!(head, format!("HTTP/1.1 {line}\r\n\r\n"));
        assert_eq!(commitment.framing, Framing::None);
    }
}

#[test]
fn a_205_says_that_it_is_empty() {
    let headers = Headers::new();
    let (head, commitment) = encoded(&FramedHead { status: StatusCode::RESET_CONTENT, ..parts(&headers) });
    assert_eq!(head, "HTTP/1.1 205 Reset Content\r\ncontent-length: 0\r\n\r\n");
    assert!(commitment.framing.is_empty());
}

#[test]
fn an_answer_to_head_has_the_length_and_no_body() {
    let headers = Headers::new();
    let (head, commitment) = encoded(&FramedHead { answers_head: true, ..parts(&headers) });
    assert_eq!(head, "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n");
    assert_eq!(commitment, Commitment { framing: Framing::None, keep_alive: true });
}

#[test]
fn a_stated_length_stands_only_where_no_body_follows() {
    let headers = Headers::new();
    let stated = FramedHead { framing: Framing::None, stated_length: Some(7), ..parts(&headers) };
    let (head, commitment) = encoded(&FramedHead { answers_head: true, ..stated });
    assert_eq!(head, "HTTP/1.1 200 OK\r\ncontent-length: 7\r\n\r\n");
    assert_eq!(commitment, Commitment { framing: Framing::None, keep_alive: true });
    let (head, commitment) = encoded(&FramedHead { status: StatusCode::NOT_MODIFIED, ..stated });
    assert_eq!(head, "HTTP/1.1 304 Not Modified\r\ncontent-length: 7\r\n\r\n");
    assert_eq!(commitment.framing, Framing::None);
    let (head, _) = encoded(&FramedHead { status: StatusCode::NO_CONTENT, ..stated });
    assert_eq!(head, "HTTP/1.1 204 No Content\r\n\r\n");
    let (head, _) = encoded(&stated);
    assert_eq!(head, "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
    let unknown = FramedHead { answers_head: true, stated_length: None, ..stated };
    assert_eq!(encoded(&unknown).0, "HTTP/1.1 200 OK\r\n\r\n");
}

#[test]
fn lengths_of_any_size_are_written_in_full() {
    let headers = Headers::new();
    for length in (0..=20).map(|power| 10u64.saturating_pow(power)).flat_map(|n| [n - 1, n]) {
        let (head, _) = encoded(&FramedHead { framing: Framing::Length(length), ..parts(&headers) });
        assert_eq!(head, format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n"));
    }
}

#[test]
fn the_date_of_the_caller_wins() {
    let mut headers = Headers::new();
    let date = Some(&b"date: now\r\n"[..]);
    assert!(encoded(&FramedHead { date, ..parts(&headers) }).0.contains("date: now\r\n"));
    headers.append("Date", "then").expect("valid");
    let (head, _) = encoded(&FramedHead { date, ..parts(&headers) });
    assert!(head.contains("Date: then\r\n") && !head.contains("now"));
}

#[test]
fn close_among_the_fields_closes() {
    let mut headers = Headers::new();
    headers.append("Connection", "Close").expect("valid");
    let (head, commitment) = encoded(&parts(&headers));
    assert_eq!(head, "HTTP/1.1 200 OK\r\ncontent-length: 5\r\nconnection: close\r\n\r\n");
    assert!(!commitment.keep_alive);
}

#[test]
fn unknown_statuses_have_an_empty_reason() {
    let headers = Headers::new();
    let status = StatusCode::from_u16(299).expect("three digits");
    assert!(encoded(&FramedHead { status, ..parts(&headers) }).0.starts_with("HTTP/1.1 299 \r\n"));
}

#[test]
fn requests_are_refused_before_they_break_apart() {
    let mut out = Vec::new();
    let headers = Headers::new();
    let mut encode =
        |target, host| request_head(&mut out, &Method::GET, target, host, &headers, Framing::None);
    assert_eq!(encode("/a b", "h"), Err(EncodeError::Target));
    assert_eq!(encode("/\r\nx: y", "h"), Err(EncodeError::Target));
    assert_eq!(encode("", "h"), Err(EncodeError::Target));
    assert_eq!(encode("/", "h\r\nx: y"), Err(EncodeError::Host));
    assert_eq!(encode("/", "h"), Ok(()));
    assert_eq!(out, b"GET / HTTP/1.1\r\nhost: h\r\n\r\n");
}

#[test]
fn chunks_have_sizes_in_hexadecimal() {
    let mut out = Vec::new();
    chunk(&mut out, &[b'x'; 26]);
    chunk(&mut out, b"");
    let mut trailers = Headers::new();
    trailers.append("sum", "1").expect("valid");
    trailers.append("content-length", "1").expect("valid");
    trailers.append("connection", "sum").expect("valid");
    last_chunk(&mut out, Some(&trailers));
    assert_eq!(out, [b"1a\r\n", &[b'x'; 26][..], b"\r\n0\r\nsum: 1\r\n\r\n"].concat());
    for len in [1, 15, 16, 255, 256, 65_535, usize::MAX] {
        out.clear();
        chunk_head(&mut out, len);
        assert_eq!(out, format!("{len:x}\r\n").into_bytes());
    }
}
