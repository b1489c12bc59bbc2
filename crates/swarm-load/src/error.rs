//! Why a run did not take place, or failed. Each message names the attempt, the finding and a remedy.

use std::error;
use std::io;
use std::path::PathBuf;

use anywire_advice::Advice;
use anywire_load::text::grouped;
use anywire_tcp::ConnectError;

/// Why there is no outcome, or why it is none to rely on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The plan: a payload that does not make one segment.
    #[error(
        "a payload of {bytes} bytes cannot be: it must make one segment{help}",
        help = Advice(format_args!("choose from {min} to {max} bytes"))
    )]
    Payload {
        /// What the plan says.
        bytes: usize,
        /// The shortest payload.
        min: usize,
        /// The longest payload in this mode.
        max: usize,
    },
    /// The plan: a core that this process may not use.
    #[error(
        "core {core} is not available to this process{help}",
        help = Advice(format_args!("choose one of {available:?}"))
    )]
    Core {
        /// What the plan says.
        core: usize,
        /// The cores that are available.
        available: Vec<usize>,
    },
    /// The plan: an idle deadline in a mode whose server has none.
    #[error(
        "only the server of mode echo has an idle deadline{help}",
        help = Advice("use mode echo, or no idle deadline")
    )]
    NoIdleDeadline,
    /// The plan: losses, but no acknowledgment that would reveal one in time.
    #[error(
        "with 2 segments an echo nothing is acknowledged in time, so a loss is noticed too late{help}",
        help = Advice("use 3 segments, or no loss")
    )]
    LossUnseen,
    /// The plan does not fit into memory. A process that runs out of memory is ended without a word, so this is checked
    /// before anything is started.
    #[error(
        "running {} connections: both ends need {:.1} GB of memory, and {:.1} GB are available{help}",
        grouped(u64::from(*connections)), *needed as f64 / 1e9, *available as f64 / 1e9,
        help = Advice(format_args!("{fitting} would fit"))
    )]
    Memory {
        /// How many the plan asks for.
        connections: u32,
        /// Bytes that it takes.
        needed: u64,
        /// Bytes that there are.
        available: u64,
        /// How many connections would fit.
        fitting: u64,
    },
    /// The tasks do not fit into memory.
    #[error(
        "running {} tasks: they may need {:.1} GB of memory, and {:.1} GB are available{help}",
        grouped(u64::from(*tasks)), *needed as f64 / 1e9, *available as f64 / 1e9,
        help = Advice(format_args!("{fitting} would fit"))
    )]
    TaskMemory {
        /// How many the plan asks for.
        tasks: u32,
        /// Bytes that they may take.
        needed: u64,
        /// Bytes that there are.
        available: u64,
        /// How many would fit.
        fitting: u64,
    },
    /// The sums of the tasks do not agree.
    #[error(
        "polls of tasks were lost or mixed up{help}",
        help = Advice("please report it, with the options")
    )]
    Polls,
    /// The capture cannot be written.
    #[error(
        "writing the capture to {} failed{help}",
        path.display(),
        help = Advice("choose a place that this user may write to")
    )]
    Capture {
        /// Its file.
        path: PathBuf,
        /// What the system said.
        #[source]
        cause: io::Error,
    },
    /// The engines or the executors cannot be set up.
    #[error("setting up the network failed")]
    Setup(#[source] Box<dyn error::Error + Send + Sync>),
    /// The clients' engine refuses a connection.
    #[error("opening a connection failed{help}", help = Advice("please report it"))]
    Connect(#[source] ConnectError),
    /// Not all connections came about in time.
    #[error(
        "opening connections: {opened} of {all} are open, and no more come{help}",
        help = Advice("use less loss, or fewer connections")
    )]
    Unopened {
        /// Open at both ends.
        opened: u64,
        /// All.
        all: u32,
    },
    /// Tasks were not resumed.
    #[error(
        "starting: {begun} of {all} connections began{help}",
        help = Advice("the others were lost: please report it")
    )]
    Unstarted {
        /// How many began.
        begun: u32,
        /// All.
        all: u32,
    },
    /// Connections that should stay have ended.
    #[error(
        "connections that should stay have ended: {timed_out} timed out, {reset} were reset{help}",
        help = Advice("use less loss, or a later idle deadline (without any, please report it)")
    )]
    Ended {
        /// Ends that gave the other one up.
        timed_out: u64,
        /// Ends that were reset.
        reset: u64,
    },
    /// It was stopped before anything was measured.
    #[error("stopped before anything was measured")]
    Stopped,
    /// Payloads arrived that differ from the ones sent.
    #[error(
        "{} payloads were not what was sent{help}",
        grouped(*.0),
        help = Advice("please report it, with the options")
    )]
    Corrupt(u64),
    /// Not one message was completed in time.
    #[error("nothing was completed in the time that was measured{help}", help = Advice("measure for longer"))]
    Nothing,
}

impl Error {
    pub(crate) fn setup(cause: impl Into<Box<dyn error::Error + Send + Sync>>) -> Self {
        Self::Setup(cause.into())
    }
}
