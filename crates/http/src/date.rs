//! Dates: the `Date` header, rendered once a second at most (RFC 9110 section 6.6.1), and the dates of other fields, read.

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

/// Reads the date of a field, in any of the three forms of RFC 9110 section 5.6.7. `None` if it is none.
///
/// The old form of RFC 850 has two digits for the year. They stand for the year that is at most 50 years after `now`.
///
/// ```
/// use std::time::{Duration, UNIX_EPOCH};
///
/// use anywire_http::date::parse_date;
///
/// let now = UNIX_EPOCH + Duration::from_secs(1_800_000_000);
/// let date = Some(UNIX_EPOCH + Duration::from_secs(784_111_777));
/// assert_eq!(parse_date(b"Sun, 06 Nov 1994 08:49:37 GMT", now), date);
/// assert_eq!(parse_date(b"Sunday, 06-Nov-94 08:49:37 GMT", now), date);
/// assert_eq!(parse_date(b"Sun Nov  6 08:49:37 1994", now), date);
/// ```
pub fn parse_date(text: &[u8], now: SystemTime) -> Option<SystemTime> {
    let text = std::str::from_utf8(text).ok()?.trim_ascii();
    match with_whole_year(text, now) {
        Some(whole) => httpdate::parse_http_date(&whole).ok(),
        None => httpdate::parse_http_date(text).ok(),
    }
}

/// A date in the form of RFC 850 as one with a year of four digits. `None` if it has another form.
fn with_whole_year(text: &str, now: SystemTime) -> Option<String> {
    const DAYS: [&str; 7] = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];
    let (day_name, rest) = text.split_once(", ")?;
    let day_name = &DAYS.iter().find(|name| **name == day_name)?[..3];
    let (date, time) = rest.split_once(' ')?;
    let [day, month, year]: [&str; 3] = date.split('-').collect::<Vec<_>>().try_into().ok()?;
    let year: u16 =
        year.parse().ok().filter(|_| year.len() == 2 && year.bytes().all(|byte| byte.is_ascii_digit()))?;
    let second = now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs().min(LAST_SECOND));
    let now = httpdate::fmt_http_date(UNIX_EPOCH + std::time::Duration::from_secs(second));
    let this_year: u16 = now.get(12..16)?.parse().ok()?;
    // The last one that is not later than in 50 years, to the second.
    let first = this_year / 100 * 100 + 100 + year;
    let year = (0..3).filter_map(|centuries| first.checked_sub(centuries * 100)).find(|year| {
        let of_date = (*year, month_number(month), day, time);
        of_date <= (this_year + 50, month_number(&now[8..11]), &now[5..7], &now[17..])
    })?;
    Some(format!("{day_name}, {day} {month} {year} {time}"))
}

fn month_number(name: &str) -> Option<usize> {
    let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    months.iter().position(|month| *month == name)
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
    fn two_digits_are_a_year_of_the_last_fifty_to_come() {
        let at = |text: &str| httpdate::parse_http_date(text).expect(text);
        let now = at("Thu, 26 Nov 2026 01:02:03 GMT");
        for (text, is) in [
            ("Sunday, 06-Nov-94 08:49:37 GMT", "Sun, 06 Nov 1994 08:49:37 GMT"),
            ("Thursday, 26-Nov-26 01:02:03 GMT", "Thu, 26 Nov 2026 01:02:03 GMT"),
            // In 50 years, to the second, and one later.
            ("Thursday, 26-Nov-76 01:02:03 GMT", "Thu, 26 Nov 2076 01:02:03 GMT"),
            ("Friday, 26-Nov-76 01:02:04 GMT", "Fri, 26 Nov 1976 01:02:04 GMT"),
            ("Wednesday, 01-Dec-76 00:00:00 GMT", "Wed, 01 Dec 1976 00:00:00 GMT"),
            ("Sunday, 01-Nov-76 23:00:00 GMT", "Sun, 01 Nov 2076 23:00:00 GMT"),
            ("Tuesday, 01-Jan-75 00:00:00 GMT", "Tue, 01 Jan 2075 00:00:00 GMT"),
            ("Saturday, 01-Jan-77 00:00:00 GMT", "Sat, 01 Jan 1977 00:00:00 GMT"),
            ("Saturday, 01-Jan-00 00:00:00 GMT", "Sat, 01 Jan 2000 00:00:00 GMT"),
        ] {
            assert_eq!(parse_date(text.as_bytes(), now), Some(at(is)), "{text}");
        }
        let late = at("Fri, 31 Dec 2088 00:00:00 GMT");
        let next_century = parse_date(b"Friday, 01-Jan-10 00:00:00 GMT", late);
        assert_eq!(next_century, None, "2110 begins on a Wednesday");
        assert_eq!(
            parse_date(b"Wednesday, 01-Jan-10 00:00:00 GMT", late),
            Some(at("Wed, 01 Jan 2110 00:00:00 GMT"))
        );
        for wrong in [
            "Sunday, 06-Nov-1994 08:49:37 GMT",
            "Sunday, 06-Nov-+4 08:49:37 GMT",
            "Monday, 06-Nov-94 08:49:37 GMT",
            "Sun, 06-Nov-94 08:49:37 GMT",
            "Sunday, 06-Nov-94 08:49:37",
            "Sunday, 31-Feb-94 08:49:37 GMT",
            "Sunday, 06-No-94 08:49:37 GMT",
            "Sunday, \u{e4}-Nov-94 08:49:37 GMT",
            "yesterday",
            "",
        ] {
            assert_eq!(parse_date(wrong.as_bytes(), now), None, "{wrong:?}");
        }
        // Whatever the clock says, nothing panics.
        for now in [UNIX_EPOCH - Duration::from_secs(5), UNIX_EPOCH + Duration::from_secs(LAST_SECOND + 5)] {
            let _ = parse_date(b"Sunday, 06-Nov-94 08:49:37 GMT", now);
        }
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
