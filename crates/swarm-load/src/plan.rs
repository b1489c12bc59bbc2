//! What a run consists of, and what is refused before it starts.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use anywire_load::text::grouped;
use anywire_sys::{cpu, memory};
use serde::Serialize;

use crate::error::Error;
use crate::turns::Turns;
use crate::{http, pattern};

/// What is run, and how.
#[derive(Debug, Clone, Serialize)]
pub struct Plan {
    /// What connections do; [`Mode::Echo`] by default.
    pub mode: Mode,
    /// Whose turn is when; [`Order::Random`] by default.
    pub order: Order,
    /// Whether checksums are made and verified, as they are by default.
    #[serde(rename = "checksum")]
    pub checksums: bool,
    /// Bytes of each payload, 200 by default: at least 8, and at most what makes one segment.
    pub payload_bytes: usize,
    /// The share of frames that the network loses, 0 .. 0.5; none by default.
    pub loss: f64,
    /// The seed of everything random: the order, the losses, the engines' secrets; 1 by default.
    pub seed: u64,
    /// The core that does it all; the last one that this process may use, by default.
    pub core: usize,
    /// Connections, at most [`CONNECTIONS_MAX`]; both ends of each are in this process.
    pub connections: u32,
    /// Segments an echo. 3, the default: data is acknowledged within its batch, as RFC 9293 asks. 2: the acknowledgment
    /// is sent with the next request, however late.
    pub segments: u8,
    /// How long to measure, 10 s by default; at most an hour, because latencies are kept in 32 bits of microseconds.
    #[serde(skip)]
    pub duration: Duration,
    /// How long to run before that, at least until each connection had a turn; 1 s by default.
    #[serde(skip)]
    pub warm_up: Duration,
    /// How long TIME-WAIT lasts; 60 s by default.
    #[serde(skip)]
    pub time_wait: Duration,
    /// A file for the first 16 MiB of the clients' frames, in pcap; none by default.
    #[serde(skip)]
    pub capture: Option<PathBuf>,
}

/// What connections do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Each client sends a request, and the next one when it has come back.
    Echo,
    /// The server sends a message to each connection in turn.
    Push,
    /// Each connection is opened for one echo, and closed by FINs.
    Short,
    /// Each client asks by HTTP, and again when it has the answer; connections stay.
    Http,
}

/// Whose turn is when.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Order {
    /// In an order that is unrelated to their places in memory, the same in each round.
    Random,
    /// As they lie in memory, so that the processor foresees the next one.
    Sequential,
}

impl Plan {
    /// The defaults, for so many connections.
    pub fn new(connections: u32) -> Self {
        Self {
            mode: Mode::Echo,
            order: Order::Random,
            checksums: true,
            payload_bytes: 200,
            loss: 0.0,
            seed: 1,
            core: cpu::available_cores().last().copied().unwrap_or(0),
            connections,
            segments: 3,
            duration: Duration::from_secs(10),
            warm_up: Duration::from_secs(1),
            time_wait: Duration::from_secs(60),
            capture: None,
        }
    }

    /// Refuses what cannot be, whatever the memory.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let (bytes, min) = (self.payload_bytes, pattern::BYTES_MIN);
        let max = match self.mode {
            Mode::Http => SEGMENT_BYTES_MAX - http::HEAD_BYTES_MAX,
            _ => SEGMENT_BYTES_MAX,
        };
        if !(min..=max).contains(&bytes) {
            return Err(Error::Payload { bytes, min, max });
        }
        let (core, available) = (self.core, cpu::available_cores());
        if !available.contains(&core) {
            return Err(Error::Core { core, available });
        }
        if self.segments == 2 && self.loss > 0.0 { Err(Error::LossUnseen) } else { Ok(()) }
    }

    /// Refuses what does not fit into memory. `task_bytes` are those of the two tasks of a connection.
    pub(crate) fn check_memory(&self, task_bytes: usize) -> Result<(), Error> {
        // Two blocks, two entries of a table that is not full, the rings of turns as they double.
        let each = (2 * (128 + 10) + task_bytes + 2 * 8 + self.kept_bytes()) as u64;
        let fixed = FIXED_BYTES + self.time_waits() as u64 * 48;
        let what = format!("{} connections: both ends", grouped(self.connections.into()));
        check_memory(what, u64::from(self.connections), each, fixed)
    }

    /// What a connection keeps between two messages: the answer, unless it is acknowledged earlier.
    pub(crate) const fn kept_bytes(&self) -> usize {
        match (self.segments, self.payload_bytes) {
            (3, _) => 0,
            // With its head, in one of two sizes of cell; and its place among the ACKs that wait.
            (_, ..=232) => 256 + 16,
            _ => 2048 + 16,
        }
    }

    /// Connections that have ended and are remembered at the same time.
    pub(crate) fn time_waits(&self) -> usize {
        if self.stays() { 0 } else { SHORT_TUPLES as usize }
    }

    /// Connections that have a control block at an end. Short ones that are being closed still have theirs.
    pub(crate) fn connections_max(&self) -> usize {
        let connections = self.connections as usize;
        if self.stays() { connections } else { 2 * connections + 65_536 }
    }

    /// The order of turns.
    pub(crate) fn turns(&self) -> Turns {
        Turns::new(self.order, self.connections.into(), self.seed)
    }

    /// Whether connections take turns in a ring for the whole run.
    pub(crate) fn stays(&self) -> bool {
        self.mode != Mode::Short
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&format!("{self:?}").to_lowercase())
    }
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&format!("{self:?}").to_lowercase())
    }
}

/// Refuses `count` times `each` bytes and `fixed` ones if there are not so many.
pub(crate) fn check_memory(what: String, count: u64, each: u64, fixed: u64) -> Result<(), Error> {
    let needed = count * each + fixed;
    match memory::available_bytes() {
        Ok(available) if available < needed => {
            let fitting = (0.95 * available.saturating_sub(fixed) as f64 / each as f64) as u64;
            Err(Error::Memory { what, needed, available, fitting })
        }
        _ => Ok(()),
    }
}

/// The most connections of a run. Addresses, and the numbers of tasks, have room for more; memory has not.
pub const CONNECTIONS_MAX: u32 = 200_000_000;

/// Four-tuples of short connections. Each is used again when all others have been, or its TIME-WAIT is over.
pub(crate) const SHORT_TUPLES: u32 = 64 * 60_000;

/// What a segment carries on Ethernet, with timestamps.
const SEGMENT_BYTES_MAX: usize = 1448;

/// Batches of the switch, the program itself, histograms, and arenas' last steps.
const FIXED_BYTES: u64 = 96 << 20;
