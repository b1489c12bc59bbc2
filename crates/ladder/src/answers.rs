//! The answers, built in advance: one response, over and over.

use std::ops::Range;
use std::time::SystemTime;

/// Whole responses, one after another.
pub(crate) struct Answers {
    bytes: Box<[u8]>,
    one: usize,
}

impl Answers {
    /// Answers with a body of so many bytes.
    pub(crate) fn new(body_bytes: usize, now: SystemTime) -> Self {
        let one = response(body_bytes, now);
        Self { bytes: one.repeat((OUTPUT_BYTES / one.len()).max(1)).into(), one: one.len() }
    }

    /// One response.
    pub(crate) fn one(&self) -> &[u8] {
        &self.bytes[..self.one]
    }

    /// All bytes, for a ring that keeps its own.
    pub(crate) fn all(&self) -> &[u8] {
        &self.bytes
    }

    /// Where the next bytes are for a connection that is owed so many. They always end with a whole response, so one number
    /// says how much of the current one the peer has.
    #[inline]
    pub(crate) fn part(&self, owed: usize) -> Range<usize> {
        let into = owed % self.one;
        let start = if into == 0 { 0 } else { self.one - into };
        start..self.bytes.len().min(start + owed)
    }
}

/// One response, with the header fields that a real server would send.
fn response(body_bytes: usize, now: SystemTime) -> Vec<u8> {
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-length: {body_bytes}\r\ncontent-type: text/plain; charset=utf-8\r\ndate: {}\r\n\r\n",
        httpdate::fmt_http_date(now)
    );
    let mut response = head.into_bytes();
    response.extend(GREETING.iter().cycle().take(body_bytes));
    response
}

pub(crate) const GREETING: &[u8] = b"Hello, world!";
/// The responses that one `send` may carry: what the kernel's send buffer takes at once, at the very most.
const OUTPUT_BYTES: usize = 256 << 10;

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;

    #[test]
    fn a_response_has_head_and_body() {
        let at = UNIX_EPOCH + Duration::from_secs(784_111_777);
        let text = String::from_utf8(response(15, at)).expect("all ASCII");
        assert_eq!(
            text,
            "HTTP/1.1 200 OK\r\ncontent-length: 15\r\ncontent-type: text/plain; charset=utf-8\r\n\
             date: Sun, 06 Nov 1994 08:49:37 GMT\r\n\r\nHello, world!He"
        );
    }

    #[test]
    fn what_is_owed_says_where_in_a_response_the_peer_is() {
        let answers = Answers::new(13, UNIX_EPOCH);
        let one = answers.one().len();
        assert_eq!(answers.part(one), 0..one);
        assert_eq!(answers.part(one - 5), 5..one);
        assert_eq!(answers.part(3 * one - 5), 5..3 * one);
        assert_eq!(answers.part(usize::MAX / one * one).end, answers.all().len());
    }
}
