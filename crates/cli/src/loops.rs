//! The event loops that make a load, as an option of the commands that load.

use anywire::loops::Loops;
use clap::Args;

use crate::failure::{Code, Failure};
use crate::values;

/// How many loops make the load.
#[derive(Debug, Args)]
pub(crate) struct LoadLoops {
    /// Event loops that make the load, each a thread [default: half of the cores]
    #[arg(long, value_name = "N", value_parser = values::loops())]
    loops: Option<usize>,
}

impl LoadLoops {
    /// Starts them. The other half of the cores is for a server on this machine.
    pub(crate) fn start(&self) -> Result<Loops, Failure> {
        let half = || (anywire_sys::cpu::available_cores().len() / 2).max(1);
        Loops::start(self.loops.unwrap_or_else(half)).map_err(|error| Failure::of(Code::Failed, &error))
    }
}
