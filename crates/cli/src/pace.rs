//! When the requests of a load leave: the options of the open mode.

use std::time::Duration;

use anywire::load::{Gaps, RATE_MAX, RATE_MIN, Reuse, Schedule, Shape, text};
use clap::{Args, ValueEnum};

use crate::failure::{Code, Failure};

/// The options of the open mode: requests leave by a schedule, whatever the server does.
#[derive(Debug, Args)]
#[command(next_help_heading = "Open mode")]
pub(crate) struct Pace {
    /// Requests a second, all connections together, such as 500 or 10k: latencies then count from when a request should have left
    #[arg(long, value_name = "R", value_parser = rate)]
    rate: Option<f64>,
    /// Go from one rate to another over the measured time
    #[arg(long, value_name = "A:B", value_parser = ramp, conflicts_with_all = ["rate", "requests"])]
    ramp: Option<Shape>,
    /// Go from one rate to another in N steps, each with a result of its own
    #[arg(long, value_name = "A:B:N", value_parser = steps, conflicts_with_all = ["rate", "ramp", "requests"])]
    step: Option<Shape>,
    #[command(flatten)]
    spread: Spread,
    /// Do not send requests that are later than this when a connection could take them; they are counted as shed
    #[arg(long, value_name = "TIME", value_parser = text::duration)]
    deadline: Option<Duration>,
    /// Which of the connections with room takes the next request: the one that has waited longest, or the one used last
    #[arg(long, value_name = "WHICH", default_value = "lru")]
    reuse: Order,
    /// How long before a request is due the loop spins instead of sleeping; 0 spares the CPU time
    #[arg(long, value_name = "TIME", default_value = "50us", value_parser = text::duration)]
    spin: Duration,
    /// Close each connection after so many requests, and open a new one; in any mode
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    new_connection_every: Option<u64>,
}

/// How what leaves is spread within a second.
#[derive(Debug, Args)]
pub(crate) struct Spread {
    /// Draw the gaps from the exponential distribution, as if many people asked who do not know of each other
    #[arg(long)]
    poisson: bool,
    /// Let each leave at a random moment of its even gap, so that nothing resonates with the server's timers
    #[arg(long, conflicts_with = "poisson")]
    jitter: bool,
}

impl Spread {
    /// The gaps at a rate; without one there are none to be spread.
    pub(crate) fn gaps_at(&self, rate: Option<f64>) -> Result<Gaps, Failure> {
        let option = if self.poisson { "--poisson" } else { "--jitter" };
        match self.gaps() {
            Gaps::Even => Ok(Gaps::Even),
            gaps if rate.is_some() => Ok(gaps),
            _ => Err(Failure::new(Code::Usage, format_args!("{option} needs a rate"))
                .help("add --rate; without it requests leave when answers come")),
        }
    }

    pub(crate) fn gaps(&self) -> Gaps {
        match (self.poisson, self.jitter) {
            (true, _) => Gaps::Poisson,
            (_, true) => Gaps::Jitter,
            _ => Gaps::Even,
        }
    }
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Order {
    Lru,
    Mru,
}

impl Pace {
    /// The rate of --rate.
    pub(crate) fn rate(&self) -> Option<f64> {
        self.rate
    }

    /// The schedule that was asked for, or one of this `usual` rate, whose random gaps are drawn from `seed`; `None` for the closed mode. The
    /// error names the option that needs a rate.
    pub(crate) fn schedule(&self, usual: Option<f64>, seed: u64) -> Result<Option<Schedule>, &'static str> {
        let constant = |per_second| Shape::Constant { per_second };
        let shape = self.rate.map(constant).or(self.ramp).or(self.step).or(usual.map(constant));
        let Some(shape) = shape else {
            let needs = [
                (self.spread.poisson, "--poisson"),
                (self.spread.jitter, "--jitter"),
                (self.deadline.is_some(), "--deadline"),
            ];
            return needs.iter().find(|(is_given, _)| *is_given).map_or(Ok(None), |(_, name)| Err(*name));
        };
        Ok(Some(Schedule { shape, gaps: self.spread.gaps(), seed }))
    }

    pub(crate) fn deadline(&self) -> Option<Duration> {
        self.deadline
    }

    pub(crate) fn reuse(&self) -> Reuse {
        match self.reuse {
            Order::Lru => Reuse::Lru,
            Order::Mru => Reuse::Mru,
        }
    }

    pub(crate) fn spin(&self) -> Duration {
        self.spin
    }

    pub(crate) fn requests_per_connection(&self) -> Option<u64> {
        self.new_connection_every
    }
}

/// A rate: a number, with `k` or `M` for thousands and millions, and perhaps `/s`.
pub(crate) fn rate(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix("/s").unwrap_or(text);
    let (digits, factor) = match number.as_bytes().last() {
        Some(b'k' | b'K') => (&number[..number.len() - 1], 1e3),
        Some(b'm' | b'M') => (&number[..number.len() - 1], 1e6),
        _ => (number, 1.0),
    };
    let number = digits
        .parse::<f64>()
        .map_err(|_| format!("{text:?} is no rate; write how many a second, such as 500 or 10k"))?;
    let rate = number * factor;
    if (RATE_MIN..=RATE_MAX).contains(&rate) {
        Ok(rate)
    } else {
        Err(format!("{text} is no rate that can be kept: it is {RATE_MIN} to {RATE_MAX} a second"))
    }
}

pub(crate) fn ramp(text: &str) -> Result<Shape, String> {
    let (from, to) = text.split_once(':').ok_or_else(|| "write two rates, such as 100:5k".to_owned())?;
    Ok(Shape::Ramp { from: rate(from)?, to: rate(to)? })
}

pub(crate) fn steps(text: &str) -> Result<Shape, String> {
    let parts: Vec<&str> = text.split(':').collect();
    let [from, to, count] = parts[..] else {
        return Err("write two rates and how many steps, such as 100:5k:10".to_owned());
    };
    let count = count.parse().ok().filter(|count| (2..=anywire::load::STEPS_MAX).contains(count));
    let count = count.ok_or_else(|| format!("there are 2 to {} steps", anywire::load::STEPS_MAX))?;
    Ok(Shape::Steps { from: rate(from)?, to: rate(to)?, count })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_have_thousands_and_millions() {
        for (text, wanted) in [
            ("500", 500.0),
            ("10k", 1e4),
            ("2.5K", 2500.0),
            ("1M", 1e6),
            ("0.5", 0.5),
            ("500/s", 500.0),
            ("10k/s", 1e4),
        ] {
            assert_eq!(rate(text), Ok(wanted), "{text}");
        }
        for wrong in [
            "", "k", "/s", "k/s", "10/sk", "10/s/s", "NaN", "nan", "inf", "-inf", "0", "-1", "-0", "1e300",
            "1e-9", "ten", "10kk", "1000M",
        ] {
            let said = rate(wrong).unwrap_err();
            assert!(said.contains("is no rate") && said.contains("a second"), "{wrong}: {said}");
        }
    }

    #[test]
    fn ramps_and_steps_are_read() {
        assert_eq!(ramp("100:5k"), Ok(Shape::Ramp { from: 100.0, to: 5000.0 }));
        assert_eq!(steps("1k:100:4"), Ok(Shape::Steps { from: 1000.0, to: 100.0, count: 4 }));
        for wrong in ["100", "100:", ":5", "1:2:3", "0:5", "NaN:1"] {
            assert!(ramp(wrong).is_err(), "{wrong}");
        }
        for wrong in ["1:2", "1:2:1", "1:2:0", "1:2:x", "1:2:-3", "1:2:99999999999", "1:2:3:4", "0:1:5"] {
            assert!(steps(wrong).is_err(), "{wrong}");
        }
    }
}
