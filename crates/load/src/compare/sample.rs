//! What the threads of a server have used, and the difference between two moments.

use std::collections::HashMap;
use std::io;
use std::time::Duration;

use anywire_sys::cpu::{self, ContextSwitches};

use crate::compare::candidate::RunningServer;

/// The threads of a server at one moment.
pub(crate) struct Sample(HashMap<i32, (Duration, ContextSwitches)>);

/// What was used between two moments.
pub(crate) struct Used {
    pub(crate) cpu: Duration,
    pub(crate) switches: ContextSwitches,
    /// Threads at the later one.
    pub(crate) threads: usize,
}

impl Sample {
    pub(crate) fn take(server: &RunningServer) -> io::Result<Self> {
        let mut threads = HashMap::new();
        for thread in (server.threads)() {
            match (cpu::thread_run_time(thread), cpu::context_switches(thread)) {
                (Ok(time), Ok(switches)) => drop(threads.insert(thread, (time, switches))),
                // The thread of a connection that has just ended.
                (Err(error), _) | (_, Err(error)) if error.kind() == io::ErrorKind::NotFound => {}
                (Err(error), _) | (_, Err(error)) => return Err(error),
            }
        }
        if threads.is_empty() {
            return Err(io::Error::new(io::ErrorKind::NotFound, "it has no thread (any more)"));
        }
        Ok(Self(threads))
    }

    /// What the threads of this moment have used since `earlier`; one that was started later, since its start.
    pub(crate) fn since(&self, earlier: &Self) -> io::Result<Used> {
        let mut used =
            Used { cpu: Duration::ZERO, switches: ContextSwitches::default(), threads: self.0.len() };
        for (thread, &(time, switches)) in &self.0 {
            let (time_before, switches_before) = earlier.0.get(thread).copied().unwrap_or_default();
            used.cpu += time.saturating_sub(time_before);
            used.switches = used.switches + (switches - switches_before);
        }
        Ok(used)
    }
}
