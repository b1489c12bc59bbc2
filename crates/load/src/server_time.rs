//! The server's own time of a response, as a field of its head tells it.
//!
//! `Server-Timing` (W3C) is `name;dur=MILLISECONDS, ..`. The entry `total` is the whole; without one, the whole is the sum of all
//! durations. Any other field holds one number, in milliseconds or with `us`, `ms` or `s` behind it.

use std::time::Duration;

/// Reads the field of the responses of one connection.
#[derive(Debug, Clone)]
pub(crate) struct ServerTime {
    name: String,
    /// In how many more responses it is looked for.
    looks: u32,
}

impl ServerTime {
    /// Of the field with this name; `None` is `Server-Timing`.
    pub(crate) fn new(name: Option<&str>) -> Self {
        Self { name: name.unwrap_or(SERVER_TIMING).to_ascii_lowercase(), looks: LOOKS }
    }

    /// The time that these fields of a response tell. A connection whose first responses tell none is not looked at any more, so
    /// that most runs pay nothing for it.
    #[inline]
    pub(crate) fn of<'f>(&mut self, fields: impl Iterator<Item = (&'f str, &'f [u8])>) -> Option<Duration> {
        if self.looks == 0 {
            return None;
        }
        self.look(fields)
    }

    #[cold]
    fn look<'f>(&mut self, fields: impl Iterator<Item = (&'f str, &'f [u8])>) -> Option<Duration> {
        self.looks -= 1;
        let own = fields.filter(|(name, _)| name.eq_ignore_ascii_case(&self.name));
        let values: Vec<&str> = own.filter_map(|(_, value)| std::str::from_utf8(value).ok()).collect();
        if values.is_empty() {
            return None;
        }
        self.looks = LOOKS;
        if self.name == SERVER_TIMING { server_timing(&values) } else { number(values[0]) }
    }
}

/// The whole of all entries of these values.
fn server_timing(values: &[&str]) -> Option<Duration> {
    let mut sum = None;
    for entry in values.iter().flat_map(|value| value.split(',')) {
        let mut parts = entry.split(';').map(str::trim);
        let name = parts.next().unwrap_or_default();
        let time = parts.find_map(|part| {
            let (parameter, value) = part.split_once('=')?;
            parameter
                .trim()
                .eq_ignore_ascii_case("dur")
                .then(|| milliseconds(value.trim().trim_matches('"')))?
        });
        let Some(time) = time else { continue };
        if name.eq_ignore_ascii_case("total") {
            return Some(time);
        }
        sum = Some(sum.unwrap_or(Duration::ZERO).saturating_add(time));
    }
    sum
}

/// A number with or without its unit.
fn number(value: &str) -> Option<Duration> {
    let value = value.trim();
    let digits = value.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let factor = match &value[digits.len()..] {
        "us" => 1e-3,
        "" | "ms" => 1.0,
        "s" => 1e3,
        _ => return None,
    };
    scaled(digits.trim(), factor)
}

fn milliseconds(number: &str) -> Option<Duration> {
    scaled(number, 1.0)
}

fn scaled(number: &str, factor: f64) -> Option<Duration> {
    let number: f64 = number.parse().ok()?;
    Duration::try_from_secs_f64(number * factor / 1e3).ok()
}

const SERVER_TIMING: &str = "server-timing";
/// Responses of a connection, one after the other, without the field.
const LOOKS: u32 = 64;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn timing(values: &[&str]) -> Option<f64> {
        server_timing(values).map(|time| time.as_micros() as f64 / 1e3)
    }

    #[test]
    fn a_total_is_the_whole_and_else_the_sum_is() {
        assert_eq!(timing(&["db;dur=53, app;dur=47.5"]), Some(100.5));
        assert_eq!(timing(&["db;dur=53, total;desc=\"all\";dur=123.4"]), Some(123.4));
        assert_eq!(timing(&["db;dur=1", "app;dur=2"]), Some(3.0));
        assert_eq!(timing(&["cache;desc=\"hit\", miss"]), None);
        assert_eq!(timing(&["db;dur=fast, app;dur=2"]), Some(2.0));
        assert_eq!(timing(&["db;dur=-1"]), None);
    }

    #[test]
    fn other_fields_hold_a_number() {
        let of = |value| number(value).map(|time| time.as_micros());
        assert_eq!(of("12"), Some(12_000));
        assert_eq!(of(" 1.5 ms "), Some(1500));
        assert_eq!(of("250us"), Some(250));
        assert_eq!(of("0.002s"), Some(2000));
        assert_eq!((of("fast"), of("1h"), of("NaN"), of("-1"), of("1e300")), (None, None, None, None, None));
    }

    #[test]
    fn who_never_tells_is_not_asked_for_ever() {
        let mut time = ServerTime::new(None);
        let none = || std::iter::empty::<(&str, &[u8])>();
        (0..LOOKS - 1).for_each(|_| assert_eq!(time.of(none()), None));
        let field = || [("Server-Timing", &b"a;dur=1"[..])].into_iter();
        assert_eq!(time.of(field()), Some(Duration::from_millis(1)));
        (0..LOOKS).for_each(|_| assert_eq!(time.of(none()), None));
        assert_eq!(time.of(field()), None);
        let mut own = ServerTime::new(Some("X-Response-Time"));
        assert_eq!(own.of([("x-response-time", &b"3ms"[..])].into_iter()), Some(Duration::from_millis(3)));
    }

    proptest! {
        #[test]
        fn any_value_is_read_or_not(value in "\\PC*|[a-z;=,\" .0-9+-]{0,40}") {
            let _ = (server_timing(&[&value]), number(&value));
        }
    }
}
