//! What a peer reads that speaks clear text to a port with TLS.

use anywire_http::h1::{Framing, encode};
use anywire_http::h2::Code;
use anywire_http::{DateLine, IntoResponse, StatusCode, Version};
use anywire_loops::clock;

/// A response in the version of HTTP that the peer's first bytes begin with.
pub(super) fn answer(first: &[u8]) -> Vec<u8> {
    // The method of the preface, which no request has (RFC 9113 section 3.4).
    if first.starts_with(b"PRI ") { Code::INADEQUATE_SECURITY.refusal(TEXT.trim_end()) } else { response() }
}

/// A whole response of HTTP/1.1.
fn response() -> Vec<u8> {
    let response = TEXT.into_response();
    let mut date = DateLine::new();
    let parts = encode::FramedHead {
        status: StatusCode::BAD_REQUEST,
        headers: &response.headers,
        framing: Framing::Length(TEXT.len() as u64),
        stated_length: None,
        version: Version::HTTP_11,
        keep_alive: false,
        answers_head: false,
        date: Some(date.line(clock::unix_time())),
    };
    let mut answer = Vec::new();
    encode::response_head(&mut answer, &parts);
    answer.extend_from_slice(TEXT.as_bytes());
    answer
}

const TEXT: &str = "this port speaks TLS: use https://\n";
