//! The plan of a run, and the checks before it starts.

use std::path::PathBuf;
use std::time::Duration;

use anywire_load::text;
use anywire_sys::{cpu, memory};
use clap::{ArgAction, Args, ValueEnum};
use serde::{Serialize, Serializer};

use crate::error::Error;
use crate::permutation::Permutation;
use crate::{group, http, pattern};

/// The plan of a run: as options of a command line, and as its part of the JSON.
#[derive(Debug, Clone, Args, Serialize)]
pub struct Plan {
    /// Connections; both ends of each are in this process
    #[arg(short, long, value_name = "N", default_value_t = 1_000_000,
          value_parser = clap::value_parser!(u32).range(1..=i64::from(CONNECTIONS_MAX)))]
    pub connections: u32,
    /// The exchange on each connection
    #[arg(short, long, value_name = "MODE", default_value = "echo")]
    pub mode: Mode,
    /// Bytes of each payload; every byte is compared
    #[arg(long = "payload", value_name = "BYTES", default_value_t = 200)]
    pub payload_bytes: usize,
    /// The order in which connections send
    #[arg(long, value_name = "ORDER", default_value = "random")]
    pub order: Order,
    /// 3: data is acknowledged within its batch, as RFC 9293 asks. 2: the acknowledgment is sent with the next
    /// request, however long that takes
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u8).range(2..=3))]
    pub segments: u8,
    /// Neither make nor verify checksums
    #[arg(long = "no-checksum", action = ArgAction::SetFalse)]
    #[serde(rename = "checksum")]
    pub checksums: bool,
    /// Connections without timestamps (RFC 7323)
    #[arg(long = "no-timestamps", action = ArgAction::SetFalse)]
    pub timestamps: bool,
    /// Keep-alive at both ends: probe a peer that has been silent for so long (whole seconds, rounded up)
    #[arg(long, value_name = "TIME", value_parser = run_time)]
    #[serde(rename = "keep_alive_seconds", serialize_with = "seconds")]
    pub keep_alive: Option<Duration>,
    /// An idle deadline for each connection of the server, in mode echo: every message moves it
    #[arg(long, value_name = "TIME", value_parser = run_time)]
    #[serde(rename = "idle_deadline_seconds", serialize_with = "seconds")]
    pub idle_deadline: Option<Duration>,
    /// The share of frames that the network loses, from 0 to 0.5
    #[arg(long, value_name = "SHARE", default_value_t = 0.0, value_parser = share)]
    pub loss: f64,
    // At most an hour, because latencies are 32 bits of microseconds.
    /// How long to measure
    #[arg(short, long, value_name = "TIME", default_value = "10s", value_parser = run_time)]
    #[serde(skip)]
    pub duration: Duration,
    /// How long to run before that; at least one message for each connection
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = text::duration)]
    #[serde(skip)]
    pub warm_up: Duration,
    /// How long TIME-WAIT lasts
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = text::duration)]
    #[serde(skip)]
    pub time_wait: Duration,
    /// The seed of everything random: the order, the losses, the engines' secrets
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// The core to run on [default: the last one]
    #[arg(long, value_name = "CORE", default_value_t = last_core(), hide_default_value = true)]
    pub core: usize,
    /// Write the first 16 MiB of the clients' frames to a file that wireshark opens
    #[arg(long, value_name = "FILE")]
    #[serde(skip)]
    pub capture: Option<PathBuf>,
}

/// The exchange on each connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Each client sends a request, and the next one when it has come back
    Echo,
    /// The server sends messages to all connections, one after the other
    Push,
    /// Another thread posts messages to a group of all connections; the server sends each message to all of them
    Group,
    /// Each connection is opened for one echo, and closed by FINs
    Short,
    /// Each client asks by HTTP, and again when it has the answer; connections stay
    Http,
}

/// The order in which connections send.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Order {
    /// An order unrelated to their places in memory, the same in each round
    Random,
    /// The order of memory, so that the processor prefetches the next one
    Sequential,
}

impl Plan {
    /// Refuses a plan that contradicts itself.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let (bytes, min) = (self.payload_bytes, pattern::BYTES_MIN);
        let segment = if self.timestamps { SEGMENT_BYTES_MAX - TIMESTAMPS_BYTES } else { SEGMENT_BYTES_MAX };
        let max = if self.mode == Mode::Http { segment - http::HEAD_BYTES_MAX } else { segment };
        if !(min..=max).contains(&bytes) {
            return Err(Error::Payload { bytes, min, max });
        }
        if self.idle_deadline.is_some() && self.mode != Mode::Echo {
            return Err(Error::NoIdleDeadline);
        }
        if self.segments == 2 && self.loss > 0.0 { Err(Error::LossUnseen) } else { Ok(()) }
    }

    /// Refuses a plan that does not fit into memory. `task_bytes` is the size of both tasks of a connection.
    pub(crate) fn check_memory(&self, task_bytes: usize) -> Result<(), Error> {
        // Two blocks, two table entries at their usual load, the rings at their largest.
        let each = (2 * (128 + 10) + task_bytes + 2 * 8 + self.kept_bytes() + self.idle_bytes()) as u64;
        let fixed = FIXED_BYTES + self.time_waits() as u64 * 48;
        let needed = u64::from(self.connections) * each + fixed;
        match memory::available_bytes() {
            Ok(available) if available < needed => {
                let fitting = (0.95 * available.saturating_sub(fixed) as f64 / each as f64) as u64;
                Err(Error::Memory { connections: self.connections, needed, available, fitting })
            }
            _ => Ok(()),
        }
    }

    /// Bytes of a connection between two messages: the answer, unless it is acknowledged earlier.
    pub(crate) const fn kept_bytes(&self) -> usize {
        match (self.segments, self.payload_bytes) {
            (3, _) => 0,
            // With its head, in one of two sizes of cell; and its place among the ACKs that wait.
            (_, ..=232) => 256 + 16,
            _ => 2048 + 16,
        }
    }

    /// Bytes of what an idle connection has besides.
    fn idle_bytes(&self) -> usize {
        // Beside both blocks, and an entry in the timers of both.
        let watched =
            if self.keep_alive.is_some() || self.idle_deadline.is_some() { 2 * (16 + 10) } else { 0 };
        let mailbox = if self.mode == Mode::Group { group::MAILBOX_BYTES } else { 0 };
        watched + mailbox
    }

    /// Connections that have ended and are remembered at the same time.
    pub(crate) fn time_waits(&self) -> usize {
        if self.stays() { 0 } else { SHORT_TUPLES as usize }
    }

    /// Control blocks of an end. A short connection that is being closed still has its block.
    pub(crate) fn connections_max(&self) -> usize {
        let connections = self.connections as usize;
        if self.stays() { connections } else { 2 * connections + 65_536 }
    }

    /// The order in which connections send.
    pub(crate) fn order_of_tasks(&self) -> Permutation {
        Permutation::new(self.order, self.connections, self.seed)
    }

    /// Whether connections stay open for the whole run.
    pub(crate) fn stays(&self) -> bool {
        self.mode != Mode::Short
    }
}

pub(crate) fn last_core() -> usize {
    cpu::available_cores().last().copied().unwrap_or(0)
}

fn share(text: &str) -> Result<f64, String> {
    let share = text.parse().ok().filter(|share| (0.0..=0.5).contains(share));
    share.ok_or_else(|| {
        format!("{text:?} is no share from 0 to 0.5; write it such as 0.001 for one in a thousand")
    })
}

fn run_time(text: &str) -> Result<Duration, String> {
    let time = text::positive_duration(text)?;
    if time > Duration::from_secs(3600) { Err("an hour is the longest".to_owned()) } else { Ok(time) }
}

/// As a number of seconds.
fn seconds<S: Serializer>(time: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
    time.map(|time| time.as_secs_f64()).serialize(serializer)
}

/// The most connections of a run. Addresses, and the numbers of tasks, have room for more; memory has not.
const CONNECTIONS_MAX: u32 = 200_000_000;

/// Four-tuples of short connections. Each is used again when all others have been, or its TIME-WAIT is over.
pub(crate) const SHORT_TUPLES: u32 = 64 * 60_000;

/// What a segment carries on Ethernet, and what timestamps take of it.
const SEGMENT_BYTES_MAX: usize = 1460;
const TIMESTAMPS_BYTES: usize = 12;

/// Batches between the engines, the program itself, histograms, and arenas' last steps.
const FIXED_BYTES: u64 = 96 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_shares() {
        assert_eq!((share("0.001"), share("0")), (Ok(0.001), Ok(0.0)));
        for wrong in ["", "1", "-0.1", "NaN", "1%"] {
            assert!(share(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn times_of_a_run_are_an_hour_at_most() {
        assert_eq!(run_time("1h"), Ok(Duration::from_secs(3600)));
        for wrong in ["0s", "61m", "-1s"] {
            assert!(run_time(wrong).is_err(), "{wrong}");
        }
    }
}
