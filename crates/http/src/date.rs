//! The `Date` header, rendered once a second at most (RFC 9110 section 6.6.1).

use std::fmt::Write as _;
use std::time::{SystemTime, UNIX_EPOCH};

use httpdate::HttpDate;

/// A ready `date: Sun, 06 Nov 1994 08:49:37 GMT\r\n` line; one a loop serves all its responses.
///
/// ```
/// use std::time::{Duration, UNIX_EPOCH};
///
/// let mut date = anywire_http::DateLine::new();
/// let line = date.line(UNIX_EPOCH + Duration::from_secs(784_111_777));
/// assert_eq!(line, b"date: Sun, 06 Nov 1994 08:49:37 GMT\r\n");
/// ```
#[derive(Clone, Debug)]
pub struct DateLine {
    /// The time of the last call: a coarse clock gives the same one many times, and comparing it is cheaper
    /// than finding its second.
    rendered_for: Option<SystemTime>,
    second: u64,
    line: String,
}

impl DateLine {
    /// The length of a line, which is the same for all dates.
    pub const BYTES: usize = "date: Sun, 06 Nov 1994 08:49:37 GMT\r\n".len();

    /// A line that has not been rendered yet.
    pub fn new() -> Self {
        Self { rendered_for: None, second: u64::MAX, line: String::new() }
    }

    /// The line for `now`; renders it only if the second changed since the last call.
    ///
    /// A time before 1970 or after the year 9999 counts as 1970, as no HTTP date can say it.
    #[inline]
    pub fn line(&mut self, now: SystemTime) -> &[u8] {
        if self.rendered_for != Some(now) {
            self.render(now);
        }
        self.line.as_bytes()
    }

    fn render(&mut self, now: SystemTime) {
        self.rendered_for = Some(now);
        let second = now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let second = if second > LAST_SECOND { 0 } else { second };
        if second != self.second {
            self.second = second;
            self.line.clear();
            let date = HttpDate::from(UNIX_EPOCH + std::time::Duration::from_secs(second));
            // Writing to a String does not fail.
            let _ = write!(self.line, "date: {date}\r\n");
        }
    }
}

impl DateLine {
    /// The line as it was rendered last; empty before the first time.
    #[inline]
    pub fn rendered(&self) -> &[u8] {
        self.line.as_bytes()
    }
}

impl Default for DateLine {
    fn default() -> Self {
        Self::new()
    }
}

/// 9999-12-31T23:59:59Z: `httpdate` panics beyond it.
const LAST_SECOND: u64 = 253_402_300_799;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn changes_with_the_second_only() {
        let mut date = DateLine::new();
        let first = date.line(UNIX_EPOCH + Duration::from_millis(1_000)).to_vec();
        assert_eq!(date.line(UNIX_EPOCH + Duration::from_millis(1_999)), first);
        assert_ne!(date.line(UNIX_EPOCH + Duration::from_millis(2_000)), first);
        assert_eq!(first, b"date: Thu, 01 Jan 1970 00:00:01 GMT\r\n");
        assert_eq!(first.len(), DateLine::BYTES);
    }

    #[test]
    fn times_that_no_http_date_can_say_do_not_panic() {
        let mut date = DateLine::new();
        let epoch = b"date: Thu, 01 Jan 1970 00:00:00 GMT\r\n";
        assert_eq!(date.line(UNIX_EPOCH - Duration::from_secs(5)), epoch);
        assert_eq!(date.line(UNIX_EPOCH + Duration::from_secs(LAST_SECOND + 1)), epoch);
        assert!(date.line(UNIX_EPOCH + Duration::from_secs(LAST_SECOND)).ends_with(b"9999 23:59:59 GMT\r\n"));
    }
}
