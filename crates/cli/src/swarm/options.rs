//! The options of a run over a network in this process, and what is refused before it starts.

use std::path::PathBuf;
use std::time::Duration;

use anywire_sys::{cpu, memory};
use clap::{Args, ValueEnum};
use serde::Serialize;

use super::http;
use super::pattern;
use super::permutation::Permutation;
use super::tasks::grouped;
use crate::failure::{Code, Failure};
use crate::values;

/// What is run, and how.
#[derive(Debug, Clone, Args)]
pub(super) struct Options {
    /// Connections; both ends of each are in this process
    #[arg(short, long, value_name = "N", default_value_t = 1_000_000,
          value_parser = clap::value_parser!(u32).range(1..=i64::from(CONNECTIONS_MAX)))]
    pub(super) connections: u32,
    /// What they do
    #[arg(short, long, value_name = "MODE", default_value = "echo")]
    pub(super) mode: Mode,
    /// Bytes of each payload, all of which are compared
    #[arg(long, value_name = "BYTES", default_value_t = 200)]
    pub(super) payload: usize,
    /// Whose turn is when
    #[arg(long, value_name = "ORDER", default_value = "random")]
    pub(super) order: Order,
    /// 3: data is acknowledged within its batch, as RFC 9293 asks. 2: the acknowledgment rides on the next
    /// request, however long that takes
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u8).range(2..=3))]
    pub(super) segments: u8,
    /// Neither make nor verify checksums
    #[arg(long)]
    pub(super) no_checksum: bool,
    /// Part of the frames that the network loses, from 0 to 0.5
    #[arg(long, value_name = "SHARE", default_value_t = 0.0, value_parser = share)]
    pub(super) loss: f64,
    /// How long to measure
    #[arg(short, long, value_name = "TIME", default_value = "10s", value_parser = run_time)]
    pub(super) duration: Duration,
    /// How long to run before that; at least until each connection had a turn
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = values::duration)]
    pub(super) warm_up: Duration,
    /// How long TIME-WAIT lasts
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = values::duration)]
    pub(super) time_wait: Duration,
    /// Of everything that is random: the order, the losses, the engines' secrets
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(super) seed: u64,
    /// The core to run on [default: the last one]
    #[arg(long, value_name = "CORE")]
    pub(super) core: Option<usize>,
    /// Write the first 16 MiB of the clients' frames to a file that wireshark opens
    #[arg(long, value_name = "FILE")]
    pub(super) capture: Option<PathBuf>,
    /// Write the result as JSON to a file, or to stdout (-) instead of the table
    #[arg(long, value_name = "FILE")]
    pub(super) json: Option<PathBuf>,
}

/// What connections do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Mode {
    /// Each client sends a request, and the next one when it has come back
    Echo,
    /// The server sends a message to each connection in turn
    Push,
    /// Each connection is opened for one echo, and closed by FINs
    Short,
    /// Each client asks by HTTP, and again when it has the answer; connections stay
    Http,
}

/// Whose turn is when.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Order {
    /// In an order that memory knows nothing of, the same in each round
    Random,
    /// As they lie in memory, so that the processor foresees the next one
    Sequential,
}

/// The order of a run: each connection once, without a list of them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shuffle {
    permutation: Option<Permutation>,
    count: u32,
    turned_by: u64,
}

impl Options {
    /// Refuses what cannot be, whatever the memory.
    pub(super) fn check(&self) -> Result<(), Failure> {
        let most = self.payload_max();
        if !(pattern::BYTES_MIN..=most).contains(&self.payload) {
            let message = format!("a payload of {} bytes cannot be: it must make one segment", self.payload);
            let help = format!("choose from {} to {most} bytes", pattern::BYTES_MIN);
            return Err(Failure::new(Code::Usage, message).help(help));
        }
        let cores = cpu::available_cores();
        if !cores.contains(&self.core()) {
            let message = format!("core {} is none that this process may use", self.core());
            return Err(Failure::new(Code::Usage, message).help(format!("choose one of {cores:?}")));
        }
        if self.segments == 2 && self.loss > 0.0 {
            let message =
                "with 2 segments an echo nothing is acknowledged in time, so a loss is noticed too late";
            return Err(Failure::new(Code::Usage, message).help("leave out --segments or --loss"));
        }
        Ok(())
    }

    /// Refuses what does not fit into memory, before anything is started: a process that runs out of it is
    /// ended without a word.
    pub(super) fn check_memory(&self, task_bytes: usize) -> Result<(), Failure> {
        let needed = self.bytes(task_bytes);
        let Ok(available) = memory::available_bytes() else { return Ok(()) };
        if needed <= available {
            return Ok(());
        }
        let gigabytes = |bytes: u64| bytes as f64 / 1e9;
        let message = format!(
            "running {} connections: both ends need {:.1} GB of memory, and {:.1} GB are available",
            grouped(self.connections.into()),
            gigabytes(needed),
            gigabytes(available)
        );
        let each = (needed - FIXED_BYTES) as f64 / f64::from(self.connections);
        let fitting = (0.95 * available.saturating_sub(FIXED_BYTES) as f64 / each) as u64;
        let help = if fitting == 0 {
            "end other programs, or run it on a larger machine".to_owned()
        } else if self.segments == 2 {
            format!(
                "--connections {fitting} fits, or leave out --segments 2, which keeps every answer in memory"
            )
        } else {
            format!("--connections {fitting} fits")
        };
        Err(Failure::new(Code::Failed, message).help(help))
    }

    /// What a run takes, of which `task_bytes` are the two tasks of a connection.
    fn bytes(&self, task_bytes: usize) -> u64 {
        // Two blocks, two entries of a table that is not full, the rings of turns as they double.
        let each = 2 * (128 + 10) + task_bytes + 2 * 8 + self.kept_bytes();
        u64::from(self.connections) * each as u64 + self.time_waits() as u64 * 48 + FIXED_BYTES
    }

    /// What a connection keeps between two messages: the answer, if nothing acknowledges it earlier.
    pub(super) const fn kept_bytes(&self) -> usize {
        match (self.segments, self.payload) {
            (3, _) => 0,
            // With its head, in one of two sizes of cell; and its place among the ACKs that wait.
            (_, ..=232) => 256 + 16,
            _ => 2048 + 16,
        }
    }

    /// Connections that have ended and are remembered at the same time.
    pub(super) const fn time_waits(&self) -> usize {
        match self.mode {
            Mode::Short => SHORT_TUPLES as usize,
            _ => 0,
        }
    }

    fn payload_max(&self) -> usize {
        match self.mode {
            Mode::Http => SEGMENT_BYTES_MAX - http::HEAD_BYTES_MAX,
            _ => SEGMENT_BYTES_MAX,
        }
    }

    /// The core that does it all.
    pub(super) fn core(&self) -> usize {
        self.core.or_else(|| cpu::available_cores().last().copied()).unwrap_or(0)
    }

    /// The order of turns.
    pub(super) fn shuffle(&self) -> Shuffle {
        let count = u64::from(self.connections);
        let permutation = (self.order == Order::Random).then(|| Permutation::new(count));
        Shuffle {
            permutation,
            count: self.connections,
            turned_by: self.seed.wrapping_mul(0x9e37_79b9) % count,
        }
    }

    /// Whether connections take turns in a ring for the whole run.
    pub(super) fn stays(&self) -> bool {
        self.mode != Mode::Short
    }
}

impl Shuffle {
    /// How many there are.
    pub(super) const fn count(&self) -> u32 {
        self.count
    }

    /// Whose turn it is at a place of the order, below the count.
    pub(super) fn at(&self, place: u32) -> u32 {
        let Some(permutation) = &self.permutation else { return place };
        // Twice, turned in between by the seed: another seed is another order, and not the same one from
        // elsewhere.
        let once = permutation.at(place.into());
        permutation.at((once + self.turned_by) % u64::from(self.count)) as u32
    }
}

fn share(text: &str) -> Result<f64, String> {
    let share = text.parse().ok().filter(|share| (0.0..=0.5).contains(share));
    share.ok_or_else(|| {
        format!("{text:?} is no share from 0 to 0.5; write it such as 0.001 for one in a thousand")
    })
}

/// Latencies are kept in 32 bits of microseconds.
fn run_time(text: &str) -> Result<Duration, String> {
    let time = values::positive_duration(text)?;
    if time > Duration::from_secs(3600) { Err("an hour is the longest".to_owned()) } else { Ok(time) }
}

/// Addresses, and the numbers of tasks, have room for more; memory has not.
const CONNECTIONS_MAX: u32 = 200_000_000;

/// Four-tuples that short connections go round by, each in TIME-WAIT until it comes again or its time is
/// over.
pub(super) const SHORT_TUPLES: u32 = 64 * 60_000;

/// What a segment carries on Ethernet, with timestamps.
const SEGMENT_BYTES_MAX: usize = 1448;

/// Batches of the switch, the program itself, histograms, and arenas' last steps.
const FIXED_BYTES: u64 = 96 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_its_turn_in_an_order_of_the_seed() {
        let shuffle = |order, seed| {
            let permutation = (order == Order::Random).then(|| Permutation::new(1000));
            Shuffle { permutation, count: 1000, turned_by: seed }
        };
        let order = |shuffle: Shuffle| (0..1000).map(|place| shuffle.at(place)).collect::<Vec<_>>();
        let (one, other) = (order(shuffle(Order::Random, 1)), order(shuffle(Order::Random, 2)));
        assert!(one.iter().zip(&other).filter(|(a, b)| a == b).count() < 20);
        for mut order in [one, other, order(shuffle(Order::Sequential, 1))] {
            order.sort_unstable();
            assert!(order.into_iter().eq(0..1000));
        }
    }

    #[test]
    fn shares_are_shares() {
        assert_eq!((share("0.001"), share("0")), (Ok(0.001), Ok(0.0)));
        for wrong in ["", "1", "-0.1", "NaN", "1%"] {
            assert!(share(wrong).is_err(), "{wrong}");
        }
    }
}
