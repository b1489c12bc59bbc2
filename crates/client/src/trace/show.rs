//! A timeline as text.

use std::fmt;
use std::time::Duration;

use super::Timeline;

impl fmt::Display for Timeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut end = Duration::ZERO;
        for (at, attempt) in self.attempts.iter().enumerate() {
            if at > 0 {
                writeln!(f)?;
            }
            write!(f, "{} {}: ", attempt.method, attempt.url)?;
            match (&attempt.error, attempt.status) {
                (Some(_), _) => f.write_str("failed")?,
                (None, Some(status)) => write!(f, "{}", status.as_u16())?,
                (None, None) => f.write_str("no response")?,
            }
            write!(f, " after {:.1} ms", ms(attempt.until.saturating_sub(attempt.queued)))?;
            attempt.error.iter().try_for_each(|error| write!(f, ": {error}"))?;
            let before = attempt.queued.saturating_sub(end);
            if before >= SHOWN {
                line(f, "before it", before)?;
            }
            for span in attempt.phases() {
                line(f, &span.phase.to_string(), span.until - span.from)?;
            }
            end = attempt.until;
        }
        match self.attempts.len() {
            0 | 1 => Ok(()),
            _ => write!(f, "\nin all after {:.1} ms", ms(self.elapsed)),
        }
    }
}

fn line(f: &mut fmt::Formatter<'_>, name: &str, time: Duration) -> fmt::Result {
    write!(f, "\n  {name:<NAME_WIDTH$} {:>8.1} ms", ms(time))
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// As long as the longest name of a phase.
const NAME_WIDTH: usize = 25;

/// The shortest time between attempts that has a line: pauses and interceptors take longer, all else does not.
const SHOWN: Duration = Duration::from_millis(1);

#[cfg(test)]
mod tests {
    use anywire_http::{Method, StatusCode};

    use super::*;
    use crate::TracedAttempt;

    fn attempt(queued: u64, until: u64) -> TracedAttempt {
        TracedAttempt {
            method: Method::GET,
            url: "http://shop/".to_owned(),
            hop: 0,
            queued: Duration::from_millis(queued),
            dial: None,
            acquired: None,
            connection: None,
            written: None,
            first_byte: None,
            interim: Vec::new(),
            head: None,
            status: Some(StatusCode::OK),
            ended: Some(Duration::from_millis(until)),
            until: Duration::from_millis(until),
            failed_in: None,
            error: None,
        }
    }

    #[test]
    fn what_is_between_attempts_is_shown() {
        let attempts = vec![attempt(5, 7), attempt(47, 50)];
        let timeline = Timeline { elapsed: Duration::from_millis(50), is_over: true, attempts };
        let shown = timeline.to_string();
        let lines: Vec<&str> = shown.lines().filter(|line| !line.contains("waiting")).collect();
        let expected = [
            "GET http://shop/: 200 after 2.0 ms",
            "  before it                      5.0 ms",
            "GET http://shop/: 200 after 3.0 ms",
            "  before it                     40.0 ms",
            "in all after 50.0 ms",
        ];
        assert_eq!(lines, expected, "{shown}");
    }
}
