//! What two ends do with each other: one listens, the other one calls, and both do the same work.

use std::net::SocketAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// What is transferred, over how many connections, and how.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Transfer {
    /// How.
    pub manner: Manner,
    /// Bytes of each connection, in each direction that there is.
    pub bytes: u64,
    /// Connections, all of which are open at the same time.
    pub connections: usize,
    /// How long it may take in all, in milliseconds.
    pub patience_ms: u64,
}

/// How a connection transfers its bytes. Each byte is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Manner {
    /// The caller sends and ends its direction; the listener answers with as much after it has read that end.
    InTurns,
    /// The listener sends back what comes, while the caller still sends.
    Echo,
    /// As [`InTurns`](Self::InTurns), but each reader begins only after so many milliseconds: windows close.
    LateReaders(u64),
    /// As [`InTurns`](Self::InTurns), after so many milliseconds in which nothing is sent but probes of keep-alive, one a second; two
    /// without an answer would end the connection.
    IdleBefore(u64),
    /// The caller sends half of it and resets the connection; the listener must see a reset.
    CallerAborts,
    /// The listener reads half of it and resets the connection; the caller must see a reset.
    ListenerAborts,
    /// The caller sends for so many milliseconds, whatever the bytes.
    Upload(u64),
    /// The listener sends for so many milliseconds, whatever the bytes.
    Download(u64),
}

/// What an end has seen of a transfer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// Seconds from the first call or accepted connection until all of them had ended.
    pub seconds: f64,
    /// Bytes that were read, of all connections.
    pub read_bytes: u64,
    /// Bytes that had been read a while after the begin of a transfer by time, and the seconds in which the others came: the figures
    /// of a flow that has found its rate.
    pub steady: Option<(u64, f64)>,
    /// What the kernel says of the first connection; none from an engine.
    pub kernel: Option<KernelSaw>,
    /// What the engine has counted; none from a kernel.
    pub engine: Option<EngineSaw>,
}

/// What a kernel's `TCP_INFO` says of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelSaw {
    /// Both ends send timestamps.
    pub timestamps: bool,
    /// Both ends send selective acknowledgements.
    pub sack: bool,
    /// Shifts of the windows that its peer announces, and of its own.
    pub window_scales: Option<(u8, u8)>,
    /// Bytes of payload in its largest segments.
    pub segment_bytes_out: u32,
    /// The same of its peer's.
    pub segment_bytes_in: u32,
    /// Segments that it has sent again.
    pub retransmits: u32,
    /// Microseconds for which the peer's window was closed.
    pub window_limited_us: u64,
}

/// What an engine has counted since it began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct EngineSaw {
    /// Segments that it has sent again.
    pub retransmits: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// Recoveries without a timeout.
    pub fast_recoveries: u64,
    /// Segments that came out of order.
    pub out_of_order: u64,
    /// Segments out of order for which there was no place.
    pub held_dropped: u64,
    /// Frames that were damaged.
    pub malformed: u64,
    /// Probes of keep-alive that it has sent.
    pub keep_alives: u64,
    /// Probes of closed windows that it has sent.
    pub window_probes: u64,
}

impl Transfer {
    /// One connection with so many bytes.
    pub const fn of(manner: Manner, bytes: u64) -> Self {
        Self { manner, bytes, connections: 1, patience_ms: 120_000 }
    }

    /// The same over so many connections.
    #[must_use]
    pub const fn over(self, connections: usize) -> Self {
        Self { connections, ..self }
    }

    pub(crate) const fn patience(&self) -> Duration {
        Duration::from_millis(self.patience_ms)
    }
}

/// What an end is told to do.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Order {
    pub(crate) part: Part,
    /// Where to listen, or whom to call.
    pub(crate) address: SocketAddr,
    pub(crate) transfer: Transfer,
    /// That of the kernel's sockets; empty for its default.
    pub(crate) congestion_control: String,
}

/// Which end of a transfer.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) enum Part {
    Listen,
    Call,
}

/// What it answers.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Answer {
    Listening,
    Done(Outcome),
    Failed(String),
}
