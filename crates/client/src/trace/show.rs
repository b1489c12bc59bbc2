//! A timeline as text.

use std::fmt;
use std::time::Duration;

use super::Timeline;

impl fmt::Display for Timeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, attempt) in self.attempts.iter().enumerate() {
            if at > 0 {
                writeln!(f)?;
            }
            write!(f, "{} {}: ", attempt.method, attempt.url)?;
            match (&attempt.error, attempt.status) {
                (Some(error), _) => write!(f, "{error}")?,
                (None, Some(status)) => write!(f, "{}", status.as_u16())?,
                (None, None) => f.write_str("no response")?,
            }
            write!(f, " after {:.1} ms", ms(attempt.until.saturating_sub(attempt.queued)))?;
            for span in attempt.phases() {
                let name = span.phase.to_string();
                write!(f, "\n  {name:<NAME_WIDTH$} {:>8.1} ms", ms(span.until - span.from))?;
            }
        }
        Ok(())
    }
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// As long as the longest name of a phase.
const NAME_WIDTH: usize = 25;
