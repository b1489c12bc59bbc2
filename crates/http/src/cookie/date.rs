//! The dates of cookies, which servers write in many ways (RFC 6265bis section 5.1.1).

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Reads the date of an attribute `Expires`: a time, a day, a month and a year in any order that makes sense. `None` if it is none.
/// One before 1970 counts as 1970, since both have passed.
///
/// ```
/// use std::time::{Duration, UNIX_EPOCH};
///
/// use anywire_http::cookie::parse_date;
///
/// let date = Some(UNIX_EPOCH + Duration::from_secs(784_111_777));
/// assert_eq!(parse_date(b"Sun, 06 Nov 1994 08:49:37 GMT"), date);
/// assert_eq!(parse_date(b"08:49:37 6-nov-94"), date);
/// ```
pub fn parse_date(text: &[u8]) -> Option<SystemTime> {
    let (mut time, mut day, mut month, mut year) = (None, None, None, None);
    for token in text.split(|byte| is_delimiter(*byte)).filter(|token| !token.is_empty()) {
        // A token that could be two of them is the first of these which is still missing.
        if time.is_none() && parse_time(token).is_some() {
            time = parse_time(token);
        } else if day.is_none() && number(token, 1..=2).is_some() {
            day = number(token, 1..=2);
        } else if month.is_none() && parse_month(token).is_some() {
            month = parse_month(token);
        } else if year.is_none() {
            year = number(token, 2..=4);
        }
    }
    let year = match year? {
        year @ 70..=99 => year + 1900,
        year @ 0..=69 => year + 2000,
        year => year,
    };
    let ((hour, minute, second), month, day) = (time?, month?, day?);
    let is_time = hour <= 23 && minute <= 59 && second <= 59;
    if year < 1601 || !is_time || day < 1 || day > days_of(month, year) {
        return None;
    }
    let seconds = days_since_1970(year, month, day) * 86_400 + i64::from(hour * 3600 + minute * 60 + second);
    Some(UNIX_EPOCH + Duration::from_secs(u64::try_from(seconds).unwrap_or(0)))
}

fn is_delimiter(byte: u8) -> bool {
    matches!(byte, 0x09 | 0x20..=0x2f | 0x3b..=0x40 | 0x5b..=0x60 | 0x7b..=0x7e)
}

/// The number at the start of a token, if it has so many digits.
fn number(token: &[u8], digits: std::ops::RangeInclusive<usize>) -> Option<u32> {
    let length = token.iter().take_while(|byte| byte.is_ascii_digit()).count();
    digits
        .contains(&length)
        .then(|| token[..length].iter().fold(0, |sum, digit| sum * 10 + u32::from(digit - b'0')))
}

/// `hour:minute:second`, and anything that is no digit behind it.
fn parse_time(token: &[u8]) -> Option<(u32, u32, u32)> {
    let mut fields = token.splitn(3, |byte| *byte == b':');
    let whole = |field: &[u8]| number(field, 1..=2).filter(|_| field.iter().all(u8::is_ascii_digit));
    let (hour, minute) = (whole(fields.next()?)?, whole(fields.next()?)?);
    Some((hour, minute, number(fields.next()?, 1..=2)?))
}

/// The month whose English name begins like the token, from 1.
fn parse_month(token: &[u8]) -> Option<u32> {
    let months = b"janfebmaraprmayjunjulaugsepoctnovdec";
    let start = token.get(..3)?;
    let at = months.chunks(3).position(|month| month.eq_ignore_ascii_case(start))?;
    u32::try_from(at + 1).ok()
}

fn days_of(month: u32, year: u32) -> u32 {
    let is_leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if is_leap => 29,
        2 => 28,
        _ => 31,
    }
}

/// Days from 1970-01-01, by the calendar of today. Years are counted from March, so that the day of a leap year is their last.
fn days_since_1970(year: u32, month: u32, day: u32) -> i64 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let of_year = (153 * month + 2) / 5 + day - 1;
    let days = 365 * year + year / 4 - year / 100 + year / 400 + of_year;
    i64::from(days) - DAYS_BEFORE_1970
}

/// From the first of March of the year 0.
const DAYS_BEFORE_1970: i64 = 719_468;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn seconds(text: &str) -> Option<u64> {
        let date = parse_date(text.as_bytes())?;
        Some(date.duration_since(UNIX_EPOCH).expect("not before 1970").as_secs())
    }

    #[test]
    fn dates_are_read_as_servers_write_them() {
        for (text, is) in [
            ("Sun, 06 Nov 1994 08:49:37 GMT", 784_111_777),
            ("Sunday, 06-Nov-94 08:49:37 GMT", 784_111_777),
            ("Sun Nov  6 08:49:37 1994", 784_111_777),
            ("8:49:37x november6 6nov 1994", 784_111_777),
            ("1994 6 Nov 08:49:37", 784_111_777),
            ("06 Nov 1994 08:49:37 +0100", 784_111_777),
            ("Thu, 29-Feb-2024 23:59:59 GMT", 1_709_251_199),
            ("Tue, 19 Jan 2038 03:14:08 GMT", 2_147_483_648),
            ("Fri, 31-Dec-9999 23:59:59 GMT", 253_402_300_799),
            ("Thu, 01-Jan-70 00:00:01 GMT", 1),
            ("Mon, 01-Jan-69 00:00:00 GMT", 3_124_224_000),
            ("Mon, 01 Jan 1601 00:00:00 GMT", 0),
        ] {
            assert_eq!(seconds(text), Some(is), "{text}");
        }
    }

    #[test]
    fn what_is_no_date_is_none() {
        for wrong in [
            "",
            "soon",
            "06 Nov 1994",
            "Nov 1994 08:49:37",
            "06 1994 08:49:37",
            "06 Nov 08:49:37",
            "32 Nov 1994 08:49:37",
            "31 Nov 1994 08:49:37",
            "29 Feb 1900 08:49:37",
            "00 Nov 1994 08:49:37",
            "06 Nov 1600 08:49:37",
            "06 Nov 19940 08:49:37",
            "06 Nov 1994 24:00:00",
            "06 Nov 1994 08:60:00",
            "06 Nov 1994 08:49:60",
            "06 Nov 1994 08:49",
            "06 Nov 1994 108:49:37",
        ] {
            assert_eq!(seconds(wrong), None, "{wrong:?}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_date_or_none(text in proptest::collection::vec(any::<u8>(), 0..60)) {
            let _ = parse_date(&text);
        }

        #[test]
        fn each_date_of_http_is_read_alike(second in 0..253_402_300_800u64) {
            let date = UNIX_EPOCH + Duration::from_secs(second);
            prop_assert_eq!(parse_date(httpdate::fmt_http_date(date).as_bytes()), Some(date));
        }
    }
}
