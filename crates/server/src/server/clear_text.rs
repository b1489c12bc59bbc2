//! What a peer reads that speaks clear text to a port with TLS.

use anywire_http::h1::{Framing, encode};
use anywire_http::{DateLine, IntoResponse, StatusCode, Version};
use anywire_loops::clock;

/// A whole response, in HTTP/1.1 because such peers are mostly browsers and curl.
pub(super) fn answer() -> Vec<u8> {
    let response = TEXT.into_response();
    let mut date = DateLine::new();
    let parts = encode::ResponseParts {
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
