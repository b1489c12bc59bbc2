//! The outcome of a run.

use anywire_load::{Host, LatencySummary};
use serde::Serialize;

use crate::plan::{Pattern, Way};

/// The form of the JSON; its number grows if a key changes its meaning.
pub const SCHEMA: &str = "anywire.ipc/1";

/// The rows of one run, and where it ran.
#[derive(Debug, Clone, Serialize)]
pub struct Outcome {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// The machine.
    pub host: Host,
    /// The cores of both ends; `None` if the system chose them.
    pub cores: Option<[usize; 2]>,
    /// How long each row was measured.
    pub seconds_per_row: f64,
    /// A row for each pattern, way and size.
    pub rows: Vec<Row>,
    /// Whether it was ended early: the rows are those until then, and the last one may be of a part of its time.
    pub interrupted: bool,
}

/// One way, at one size and pattern.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// The pattern.
    pub pattern: Pattern,
    /// The way.
    pub way: Way,
    /// How its ends wait: `blocks`, `parks` or `spins`.
    pub waits: &'static str,
    /// Bytes of a message.
    pub size_bytes: usize,
    /// What was found; `None` if the way cannot carry messages of this size.
    pub found: Option<Found>,
    /// Why not, if so.
    pub why_not: Option<String>,
}

/// What a row has found.
#[derive(Debug, Clone, Serialize)]
pub struct Found {
    /// Messages that arrived. A round trip has two.
    pub messages: u64,
    /// How long it took, in seconds.
    pub seconds: f64,
    /// Messages a second.
    pub messages_per_second: f64,
    /// Bytes a second, of messages alone.
    pub bytes_per_second: f64,
    /// Of the whole round trip, in microseconds; `None` for a stream.
    pub round_trip_us: Option<LatencySummary>,
    /// CPU time for a message at the end that sends first, in microseconds, user and system together.
    pub here_cpu_us: f64,
    /// The same of the other end.
    pub there_cpu_us: f64,
}

impl Outcome {
    /// The row for these.
    pub fn row(&self, pattern: Pattern, way: Way, size_bytes: usize) -> Option<&Found> {
        let is_it = |row: &&Row| (row.pattern, row.way, row.size_bytes) == (pattern, way, size_bytes);
        self.rows.iter().find(is_it)?.found.as_ref()
    }
}
