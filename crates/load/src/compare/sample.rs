//! What the threads of a server have used, and the difference between two moments.

use std::collections::HashMap;
use std::io;
use std::time::Duration;

use anywire_sys::cpu::{self, ContextSwitches, CpuTime};

use crate::compare::candidate::RunningServer;

/// The threads of a server at one moment.
pub(crate) struct Sample {
    threads: HashMap<i32, (Duration, ContextSwitches)>,
    /// All threads of this process, the client's too.
    process: CpuTime,
}

/// What was used between two moments.
pub(crate) struct Used {
    pub(crate) cpu: Duration,
    process: CpuTime,
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
        Ok(Self { threads, process: cpu::process_cpu()? })
    }

    /// What the threads of this moment have used since `earlier`; one that was started later, since its start.
    pub(crate) fn since(&self, earlier: &Self) -> io::Result<Used> {
        let mut used = Used {
            cpu: Duration::ZERO,
            process: self.process - earlier.process,
            switches: ContextSwitches::default(),
            threads: self.threads.len(),
        };
        for (thread, &(time, switches)) in &self.threads {
            let (time_before, switches_before) = earlier.threads.get(thread).copied().unwrap_or_default();
            used.cpu += time.saturating_sub(time_before);
            used.switches = used.switches + (switches - switches_before);
        }
        Ok(used)
    }
}

impl Used {
    /// The CPU time of the server in two parts: what of the process the client has not used says in which proportion. The
    /// kernel tells the parts of another thread only in steps of 10 ms, which many threads never reach.
    pub(crate) fn split(&self, client: CpuTime) -> Option<CpuTime> {
        let rest = self.process - client;
        (!rest.total().is_zero()).then(|| {
            let user = self.cpu.mul_f64(rest.user.as_secs_f64() / rest.total().as_secs_f64());
            CpuTime { user, system: self.cpu.saturating_sub(user) }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(user_ms: u64, system_ms: u64) -> CpuTime {
        CpuTime { user: Duration::from_millis(user_ms), system: Duration::from_millis(system_ms) }
    }

    #[test]
    fn both_parts_make_up_the_exact_sum() {
        let (cpu, process) = (Duration::from_millis(1005), time(350, 950));
        let used = Used { cpu, process, switches: ContextSwitches::default(), threads: 1 };
        let split = used.split(time(100, 200)).expect("the server has used something");
        assert_eq!((split.user.as_micros(), split.total().as_millis()), (251_250, 1005));
        assert_eq!(used.split(process), None);
    }
}
