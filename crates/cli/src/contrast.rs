//! What `ab` and `diff` judge alike: the noise limit, the seed, and the regression at which they fail.

use std::fs::File;
use std::path::{Path, PathBuf};

use anywire::advice::Message;
use anywire::load::contrast::{MetricContrast, Noise};
use anywire::load::{Stored, StoredError};
use clap::Args;

use crate::failure::{Code, Failure};
use crate::values;

/// How a comparison is judged.
#[derive(Debug, Args)]
pub(crate) struct Judging {
    /// Up to which deviation a difference does not count: a percentage, or the JSON of an 'ab' of a server against itself [default: 2%]
    #[arg(long, value_name = "LIMIT", value_parser = noise)]
    noise: Option<NoiseFrom>,
    /// Fail with exit code 3 if the second one is shown to be slower by more than this
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    fail_on_regression: Option<f64>,
}

#[derive(Debug, Clone)]
enum NoiseFrom {
    Percent(f64),
    File(PathBuf),
}

impl Judging {
    /// The noise limits; a file is read now.
    pub(crate) fn noise(&self) -> Result<Noise, Failure> {
        let file = match &self.noise {
            None => return Ok(Noise::default()),
            Some(NoiseFrom::Percent(limit)) => return Ok(Noise::fixed(*limit)),
            Some(NoiseFrom::File(file)) => file,
        };
        match stored(file)? {
            Stored::Ab(trial) if trial.is_trial => Ok(Noise::of_trial(&trial.contrast)),
            _ => {
                let message = format!(
                    "taking the noise from {}: it is no 'ab' of a server against itself",
                    file.display()
                );
                let help = "measure it: anywire ab URL URL --json FILE, with the same URL twice";
                Err(Failure::new(Code::Usage, message).help(help))
            }
        }
    }

    /// The metrics that are worse by more than `--fail-on-regression` allows; empty without that option.
    pub(crate) fn regressions<R>(&self, beyond: impl FnOnce(f64) -> Vec<R>) -> Vec<R> {
        self.fail_on_regression.map(beyond).unwrap_or_default()
    }

    /// A failure if it was asked about and cannot be told, because requests failed: a gate must not open for a broken server.
    pub(crate) fn refuse(&self, why_no_verdict: Option<String>) -> Result<(), Failure> {
        let Some(why) = why_no_verdict.filter(|_| self.fail_on_regression.is_some()) else { return Ok(()) };
        Err(Failure::new(Code::Failed, format_args!("telling whether it is slower: {why}"))
            .help("see the errors in the result and the server's log"))
    }

    /// A failure if there are any.
    pub(crate) fn judge(&self, regressions: &[String]) -> Result<(), Failure> {
        let Some(limit) = self.fail_on_regression.filter(|_| !regressions.is_empty()) else { return Ok(()) };
        let message = format!("slower by more than {} %: {}", limit * 100.0, regressions.join(", "));
        Err(Failure::new(Code::Threshold, message)
            .help("the result shows each round; --fail-on-regression sets what is allowed"))
    }
}

/// A metric with its change: `p99 +12.0 %`.
pub(crate) fn told(metric: &&MetricContrast) -> String {
    format!("{} {}", metric.title(), metric.change())
}

/// Reads a result that was stored as JSON; `-` is stdin.
pub(crate) fn stored(path: &Path) -> Result<Stored, Failure> {
    let name = path.display();
    let read = if path == Path::new("-") {
        values::whole_text(std::io::stdin().lock(), FILE_BYTES_MAX)
    } else {
        File::open(path).and_then(|file| values::whole_text(file, FILE_BYTES_MAX))
    };
    let text = read.map_err(|cause| {
        Failure::new(Code::Read, format_args!("reading the result {name} failed: {cause}"))
            .help("name a file that this user can read, written by --json")
    })?;
    Stored::from_json(&text).map_err(|error: StoredError| {
        let code = if error.is_other_kind() { Code::Usage } else { Code::Read };
        Failure::of_message(code, Message::read(format_args!("reading the result {name}: {error}")))
    })
}

/// A percentage as a share: `5%` is 0.05.
fn percent(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').unwrap_or(text).trim();
    let wrong = || format!("{text:?} is no percentage; write one from 0 up, such as 5%");
    let share = number.parse::<f64>().map_err(|_| wrong())? / 100.0;
    if share.is_finite() && share >= 0.0 { Ok(share) } else { Err(wrong()) }
}

fn noise(text: &str) -> Result<NoiseFrom, String> {
    if text.ends_with('%') || text.parse::<f64>().is_ok() {
        return percent(text).map(NoiseFrom::Percent);
    }
    Ok(NoiseFrom::File(PathBuf::from(text)))
}

/// 256 MiB: a result with its intervals and histograms has some MiB.
const FILE_BYTES_MAX: u64 = 256 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages_are_shares() {
        let near = |text, share: f64| percent(text).is_ok_and(|found| (found - share).abs() < 1e-12);
        assert!(near("5%", 0.05) && near("0.5 %", 0.005) && near("0", 0.0) && near("12", 0.12));
        for wrong in ["", "%", "-1%", "NaN", "inf%", "five"] {
            assert!(percent(wrong).is_err(), "{wrong}");
        }
        assert!(matches!(noise("3%"), Ok(NoiseFrom::Percent(_))));
        assert!(matches!(noise("trial.json"), Ok(NoiseFrom::File(_))));
        assert!(noise("-3%").is_err());
    }
}
