//! The plan of a run: ways, sizes and patterns.

use std::time::Duration;

use anywire_load::text;
use clap::{Args, ValueEnum};
use serde::Serialize;

/// What to measure.
#[derive(Debug, Clone, Args)]
pub struct Plan {
    /// Ways to measure, with commas between them; by default all, and those that spin with --spin alone
    #[arg(long, value_name = "WAYS", value_delimiter = ',')]
    pub ways: Vec<Way>,
    /// Sizes of messages, such as 64, 1k, 1m
    #[arg(long, value_name = "SIZES", value_delimiter = ',', value_parser = size, default_values = ["64", "100", "1k", "4k", "16k", "64k", "1m"])]
    pub sizes: Vec<usize>,
    /// What the messages do
    #[arg(long, value_name = "PATTERNS", value_delimiter = ',', default_values = ["ping-pong", "stream"])]
    pub patterns: Vec<Pattern>,
    /// How long each row is measured
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "300ms")]
    pub duration: Duration,
    /// Measure the ways that spin, too; they take both cores whole
    #[arg(long)]
    pub spin: bool,
    /// Leave it to the system on which cores the two ends run
    #[arg(long)]
    pub no_pin: bool,
}

/// A way for messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Way {
    /// TCP over loopback, in blocking calls
    Tcp,
    /// A Unix stream socket, in blocking calls
    Unix,
    /// A Unix socket of packets, in blocking calls
    Seqpacket,
    /// A pipe for each direction, in blocking calls
    Pipe,
    /// A connection over TCP on two loops
    TcpLoop,
    /// A connection over a Unix socket on two loops
    UnixLoop,
    /// A connection over shared memory on two loops, which sleep
    ShmLoop,
    /// A connection over shared memory on two loops, which spin
    ShmSpinLoop,
    /// The rings of shared memory alone, with two threads that spin
    ShmSpin,
    /// One line of the cache between two threads that spin: no message, the limit
    Line,
}

impl Way {
    /// Its name, as in the command line and in the result.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Unix => "unix",
            Self::Seqpacket => "seqpacket",
            Self::Pipe => "pipe",
            Self::TcpLoop => "tcp-loop",
            Self::UnixLoop => "unix-loop",
            Self::ShmLoop => "shm-loop",
            Self::ShmSpinLoop => "shm-spin-loop",
            Self::ShmSpin => "shm-spin",
            Self::Line => "line",
        }
    }

    /// How its ends wait.
    pub fn waits(self) -> &'static str {
        match self {
            Self::Tcp | Self::Unix | Self::Seqpacket | Self::Pipe => "blocks",
            Self::TcpLoop | Self::UnixLoop | Self::ShmLoop => "parks",
            Self::ShmSpinLoop | Self::ShmSpin | Self::Line => "spins",
        }
    }

    /// Whether it keeps both cores busy.
    pub fn spins(self) -> bool {
        self.waits() == "spins"
    }
}

/// What messages do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pattern {
    /// One message to and fro
    PingPong,
    /// Messages in one direction, as fast as they are taken
    Stream,
}

impl Plan {
    /// The ways to measure, in the order of the rows.
    pub fn chosen(&self) -> Vec<Way> {
        if self.ways.is_empty() {
            return Way::value_variants().iter().copied().filter(|way| self.spin || !way.spins()).collect();
        }
        self.ways.clone()
    }

    /// The rows that there will be.
    pub fn rows(&self) -> impl Iterator<Item = (Pattern, Way, usize)> {
        let ways = self.chosen();
        self.patterns.iter().flat_map(move |&pattern| {
            let sizes = self.sizes.clone();
            let rows = ways.clone().into_iter().flat_map(move |way| {
                // The line carries no message: it has one row.
                let sizes = if way == Way::Line { vec![0] } else { sizes.clone() };
                sizes.into_iter().map(move |size| (pattern, way, size))
            });
            rows.filter(|(pattern, way, _)| *way != Way::Line || *pattern == Pattern::PingPong)
        })
    }
}

fn size(text: &str) -> Result<usize, String> {
    let (number, unit) = match text.as_bytes().last() {
        Some(b'k') => (&text[..text.len() - 1], 1 << 10),
        Some(b'm') => (&text[..text.len() - 1], 1 << 20),
        _ => (text, 1),
    };
    let size = number.parse::<usize>().ok().and_then(|number| number.checked_mul(unit));
    let fits = |size: &usize| (1..=SIZE_MAX_BYTES).contains(size);
    size.filter(fits).ok_or_else(|| "a size from 1 to 16m, such as 64, 1k or 1m".to_owned())
}

fn time(text: &str) -> Result<Duration, String> {
    let time = text::duration(text)?;
    let fits = (TIME_MIN..=TIME_MAX).contains(&time);
    fits.then_some(time).ok_or_else(|| "a time from 1ms to 60s".to_owned())
}

const TIME_MIN: Duration = Duration::from_millis(1);
const TIME_MAX: Duration = Duration::from_secs(60);
const SIZE_MAX_BYTES: usize = 16 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_written_as_elsewhere() {
        for (text, milliseconds) in
            [("1.5s", 1500), ("300ms", 300), ("2", 2000), ("1m", 60_000), ("1000us", 1)]
        {
            assert_eq!(time(text), Ok(Duration::from_millis(milliseconds)), "{text}");
        }
        for wrong in ["0", "999us", "61s", "-1s", "1h", "x"] {
            assert!(time(wrong).is_err(), "{wrong}");
        }
    }
}
