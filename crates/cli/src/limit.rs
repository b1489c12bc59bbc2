//! `anywire load --search`: the options of the search for the highest rate, and what its end means for the exit code.

use std::time::Duration;

use anywire::advice::Message;
use anywire::load::search::{ATTEMPTS_MAX, Attempt, End, Rates, Search, SearchFigures, Stage, search_by};
use anywire::load::{Outcome, Plan, Requirement, Stop, text};
use clap::Args;

use crate::failure::{Code, Failure};
use crate::{output, pace};

/// The options of the search for the highest rate.
#[derive(Debug, Args)]
#[command(next_help_heading = "Finding the limit")]
pub(crate) struct Limit {
    /// Search for the highest rate that keeps to --require [default: p99<5ms and errors<0.1%], such as --search or --search=100:20k
    ///
    /// Rates double from --rate [default: 1k] until one does not hold, and the distance is halved until it is small enough. The rate that
    /// was found then has to hold for longer (--confirm), or gives way to lower ones. Each rate is measured for --duration. With --agents each
    /// run is dealt over all of them; the search ends if one is lost.
    #[arg(long, value_name = "LOW:HIGH", num_args = 0..=1, require_equals = true, default_missing_value = EVERYWHERE, value_parser = range,
        conflicts_with_all = ["ramp", "step", "requests", "rounds", "agent", "index"])]
    search: Option<(f64, f64)>,
    /// How near the result has to be to a rate that does not hold
    #[arg(long, value_name = "SHARE", default_value = "5%", requires = "search", value_parser = precision)]
    precision: f64,
    /// How often each rate has to hold
    #[arg(long, value_name = "N", default_value_t = 1, requires = "search", value_parser = clap::value_parser!(u32).range(1..=i64::from(ATTEMPTS_MAX)))]
    repeats: u32,
    /// How long to measure the rate that was found once more [default: three times --duration]
    #[arg(long, value_name = "TIME", requires = "search", value_parser = text::positive_duration)]
    confirm: Option<Duration>,
}

impl Limit {
    /// The search that was asked for, from this rate on, if one is named; each rate is measured for `time`.
    pub(crate) fn search(
        &self,
        first: Option<f64>,
        time: Duration,
        required: &[Requirement],
    ) -> Result<Option<Search>, Failure> {
        let Some((lowest, highest)) = self.search else { return Ok(None) };
        let usual = Search::default();
        let first = first.unwrap_or_else(|| usual.rates.first.clamp(lowest, highest));
        if !(lowest..=highest).contains(&first) {
            let message = format!("searching from --rate {first}: it is not between {lowest} and {highest}");
            return Err(Failure::new(Code::Usage, message)
                .help("leave --rate out, or name a rate between those of --search"));
        }
        Ok(Some(Search {
            rates: Rates {
                first,
                lowest,
                highest,
                precision: self.precision,
                repeats: self.repeats,
                ..usual.rates
            },
            required: if required.is_empty() { usual.required } else { required.to_vec() },
            time,
            confirm_time: self.confirm.unwrap_or_else(|| time.saturating_mul(3)),
        }))
    }
}

/// Searches with runs that `once` carries out, and says what each has shown.
pub(crate) fn find(
    search: &Search,
    plan: &Plan,
    stop: &Stop,
    mut once: impl FnMut(&Plan) -> Result<Outcome, Failure>,
) -> Result<Outcome, Failure> {
    let run = |attempt: &Attempt| {
        if attempt.stage == Stage::Confirm {
            let time = text::time(search.confirm_time.as_secs_f64() * 1e6);
            output::say(format_args!("confirming {}/s for {time}", text::digits(attempt.rate)));
        }
        once(&search.plan(plan, attempt))
    };
    search_by(search, stop, run, |trial| output::say(trial))
}

/// What the end of a search means. Its result has been printed, with the same words.
pub(crate) fn judge(url: &str, found: &SearchFigures, outcome: &Outcome) -> Result<(), Failure> {
    let failed = |code, help: &str| {
        let why = found.why().map_or_else(String::new, |why| format!("; {why}"));
        Err(Failure::new(code, format_args!("searching the limit of {url}: {}{why}", found.found()))
            .help(help))
    };
    match found.end {
        // The signal says the rest.
        End::Found | End::Highest | End::Interrupted => Ok(()),
        End::Generator => failed(Code::Saturated, "use more loops on cores of their own, or another machine"),
        End::NothingHeld => match outcome.shortfall() {
            Some(Message { found, help }) => {
                let failure = Failure::new(Code::Partial, format_args!("loading {url}: {found}"));
                Err(failure.help(help.unwrap_or_else(|| SEE_LOG.to_owned())))
            }
            None => failed(Code::Threshold, "search from a lower rate (--search=LOW:HIGH), or require less"),
        },
        End::NoAnswer => failed(Code::Partial, SEE_LOG),
        End::Attempts => failed(Code::Partial, "take a coarser --precision, or fewer --repeats"),
    }
}

/// The lowest and the highest rate.
fn range(text: &str) -> Result<(f64, f64), String> {
    let (lowest, highest) =
        text.split_once(':').ok_or("write the lowest and the highest rate, such as --search=100:20k")?;
    let (lowest, highest) = (pace::rate(lowest)?, pace::rate(highest)?);
    if lowest <= highest {
        Ok((lowest, highest))
    } else {
        Err("the first of them is the lower one".to_owned())
    }
}

/// A share in percent, or from 0 to 1.
fn precision(text: &str) -> Result<f64, String> {
    let number = |text: &str| text.trim_end().parse::<f64>().ok();
    let share = match text.strip_suffix('%') {
        Some(percent) => number(percent).map(|percent| percent / 100.0),
        None => number(text),
    };
    share
        .filter(|share| (0.001..=1.0).contains(share))
        .ok_or_else(|| "write a share from 0.1% to 100%, such as 5%".to_owned())
}

/// From one request a second to any rate: what --search means alone.
const EVERYWHERE: &str = "1:100M";
const SEE_LOG: &str = "see the errors in the result and the server's log: it died, or refuses";

#[cfg(test)]
mod tests {
    use anywire::load::RATE_MAX;

    use super::*;

    #[test]
    fn a_range_is_two_rates() {
        assert_eq!(range("100:20k"), Ok((100.0, 20_000.0)));
        assert_eq!(range(EVERYWHERE), Ok((1.0, RATE_MAX)));
        assert_eq!(range("5:5"), Ok((5.0, 5.0)));
        for wrong in ["", "100", "100:", ":100", "20k:100", "NaN:1", "0:1", "1:2:3", "localhost:8080"] {
            assert!(range(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_precision_is_a_share() {
        assert_eq!((precision("5%"), precision("0.02"), precision("100%")), (Ok(0.05), Ok(0.02), Ok(1.0)));
        for wrong in ["", "%", "0", "0%", "0.01%", "101%", "NaN", "-5%", "inf"] {
            assert!(precision(wrong).is_err(), "{wrong}");
        }
    }
}
