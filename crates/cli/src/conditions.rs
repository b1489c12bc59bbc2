//! Conditional requests for files, which have a date of modification and no entity tag (RFC 9110 section 13).

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anywire::http::Headers;
use anywire::http::date::parse_date;

/// What the conditions of a request come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The file is sent.
    Send,
    /// The client has it: 304.
    NotModified,
    /// A condition does not hold: 412.
    Failed,
}

/// Evaluates the conditions of a `GET` or `HEAD` in the order of RFC 9110 section 13.2.2. `modified` is what
/// `Last-Modified` says, if there is one.
pub(crate) fn judge(headers: &Headers, modified: Option<SystemTime>, now: SystemTime) -> Verdict {
    // Without a tag, no tag that a client lists is the file's; `*` is any file that is there.
    if headers.contains("if-match") {
        if !lists_any(headers, "if-match") {
            return Verdict::Failed;
        }
    } else if let (Some(modified), Some(date)) = (modified, date(headers, "if-unmodified-since", now))
        && modified > date
    {
        return Verdict::Failed;
    }
    if headers.contains("if-none-match") {
        // Then If-Modified-Since does not count (section 13.1.3).
        return if lists_any(headers, "if-none-match") { Verdict::NotModified } else { Verdict::Send };
    }
    match (modified, date(headers, "if-modified-since", now)) {
        (Some(modified), Some(date)) if modified <= date => Verdict::NotModified,
        _ => Verdict::Send,
    }
}

/// What `Last-Modified` says of a file: whole seconds, and never later than now (RFC 9110 section 8.8.2.1). `None` for a
/// time that the text of a date cannot say: before 1970 or, if the clock itself is wrong, after 9999.
pub(crate) fn last_modified(modified: SystemTime, now: SystemTime) -> Option<SystemTime> {
    let seconds = modified.min(now).duration_since(UNIX_EPOCH).ok()?.as_secs();
    (seconds < YEAR_10000).then(|| UNIX_EPOCH + Duration::from_secs(seconds))
}

fn lists_any(headers: &Headers, name: &str) -> bool {
    headers.get_all(name).any(|value| value.trim_ascii() == b"*")
}

/// The date in this field; `None` if it is absent, no date, or there twice, in which cases it does not count.
fn date(headers: &Headers, name: &str, now: SystemTime) -> Option<SystemTime> {
    let mut values = headers.get_all(name);
    let (value, None) = (values.next()?, values.next()) else { return None };
    parse_date(value, now)
}

/// In seconds since 1970: a date has four digits for the year.
const YEAR_10000: u64 = 253_402_300_800;

#[cfg(test)]
mod tests {
    use super::*;

    const EARLIER: &str = "Sun, 06 Nov 1994 08:49:36 GMT";
    const MODIFIED: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
    const LAST: &str = "Fri, 31 Dec 9999 23:59:59 GMT";
    const LATER: &str = "Sunday, 06-Nov-94 08:49:38 GMT";

    /// In 2027.
    fn now() -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(1_800_000_000)
    }

    fn judged(fields: &[(&str, &str)]) -> Verdict {
        let mut headers = Headers::new();
        for (name, value) in fields {
            headers.append(name, value).expect("valid in this test");
        }
        judge(&headers, httpdate::parse_http_date(MODIFIED).ok(), now())
    }

    #[test]
    fn conditions_hold_in_the_order_of_the_rfc() {
        let (ims, ius) = ("if-modified-since", "if-unmodified-since");
        assert_eq!(judged(&[]), Verdict::Send);
        assert_eq!(judged(&[(ims, MODIFIED)]), Verdict::NotModified);
        assert_eq!(judged(&[(ims, LATER)]), Verdict::NotModified);
        assert_eq!(judged(&[(ims, EARLIER)]), Verdict::Send);
        assert_eq!(judged(&[(ims, "yesterday")]), Verdict::Send);
        assert_eq!(judged(&[(ims, MODIFIED), (ims, MODIFIED)]), Verdict::Send);
        assert_eq!(judged(&[(ims, MODIFIED), ("if-none-match", "\"a\"")]), Verdict::Send);
        assert_eq!(judged(&[(ims, EARLIER), ("if-none-match", "*")]), Verdict::NotModified);
        assert_eq!(judged(&[(ius, MODIFIED)]), Verdict::Send);
        assert_eq!(judged(&[(ius, EARLIER)]), Verdict::Failed);
        assert_eq!(judged(&[(ius, EARLIER), ("if-match", "*")]), Verdict::Send);
        assert_eq!(judged(&[("if-match", "\"a\", \"b\"")]), Verdict::Failed);
        assert_eq!(judged(&[("if-match", "*"), (ims, MODIFIED)]), Verdict::NotModified);
        assert_eq!(judged(&[(ius, EARLIER), (ims, MODIFIED)]), Verdict::Failed);
    }

    #[test]
    fn without_a_date_dates_do_not_count() {
        let mut headers = Headers::new();
        headers.append("if-modified-since", LATER).expect("valid");
        headers.append("if-unmodified-since", EARLIER).expect("valid");
        assert_eq!(judge(&headers, None, now()), Verdict::Send);
    }

    #[test]
    fn dates_are_whole_seconds_between_1970_and_now() {
        let at = |seconds: f64| UNIX_EPOCH + Duration::from_secs_f64(seconds);
        let now = at(2_000_000_000.25);
        assert_eq!(last_modified(at(7.75), now), Some(at(7.0)));
        assert_eq!(last_modified(at(4e9), now), Some(at(2e9)));
        assert_eq!(last_modified(at(1e12), now), Some(at(2e9)), "the year 33658");
        assert_eq!(last_modified(UNIX_EPOCH - Duration::from_nanos(1), now), None);
        let year_10000 = at(YEAR_10000 as f64);
        assert_eq!(last_modified(year_10000, year_10000), None);
        let last = year_10000 - Duration::from_secs(1);
        assert_eq!(last_modified(last, year_10000).map(httpdate::fmt_http_date).as_deref(), Some(LAST));
    }
}
