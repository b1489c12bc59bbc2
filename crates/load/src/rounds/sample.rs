//! What the threads of a server have used, and the difference between two moments.

use std::collections::HashMap;
use std::io;
use std::time::Duration;

use anywire_sys::cpu::{self, ContextSwitches, CpuTime};
use anywire_sys::process;

/// The threads that serve: their CPU time, system calls and context switches are counted.
pub enum ServerThreads {
    /// Those of this process that the function names at this moment (`gettid`). The first has started all others, if there
    /// are any.
    Here(Box<dyn Fn() -> Vec<i32>>),
    /// Those of another process of this machine and of its child processes, by its number.
    Of(i32),
    /// Nobody knows: the server is elsewhere, or its process was not named.
    Unknown,
}

/// The threads of a server at one moment.
pub(crate) struct Sample {
    threads: HashMap<i32, (Duration, ContextSwitches)>,
    parts: Parts,
}

/// What tells the time in a server's own code from that in the kernel.
#[derive(Clone, Copy)]
struct Parts {
    time: CpuTime,
    /// Whether they are those of all threads of this process, the client's too. The kernel tells the parts of a single thread
    /// only in steps of 10 ms, which many threads never reach.
    with_client: bool,
}

/// What was used between two moments.
pub(crate) struct Used {
    pub(crate) cpu: Duration,
    parts: Parts,
    pub(crate) switches: ContextSwitches,
    /// Threads at the later one.
    pub(crate) threads: usize,
}

impl Sample {
    /// `None` if nobody knows the threads.
    pub(crate) fn take(server: &ServerThreads) -> io::Result<Option<Self>> {
        let sample = match server {
            ServerThreads::Here(threads) => Self::of_threads(&threads())?,
            ServerThreads::Of(pid) => Self::of_process(*pid)?,
            ServerThreads::Unknown => return Ok(None),
        };
        if sample.threads.is_empty() {
            return Err(io::Error::new(io::ErrorKind::NotFound, "it has no thread (any more)"));
        }
        Ok(Some(sample))
    }

    fn of_threads(numbers: &[i32]) -> io::Result<Self> {
        let mut threads = HashMap::new();
        for &thread in numbers {
            match (cpu::thread_run_time(thread), cpu::context_switches(thread)) {
                (Ok(time), Ok(switches)) => drop(threads.insert(thread, (time, switches))),
                // The thread of a connection that has just ended.
                (Err(error), _) | (_, Err(error)) if error.kind() == io::ErrorKind::NotFound => {}
                (Err(error), _) | (_, Err(error)) => return Err(error),
            }
        }
        Ok(Self { threads, parts: Parts { time: cpu::process_cpu()?, with_client: true } })
    }

    fn of_process(pid: i32) -> io::Result<Self> {
        let mut threads = HashMap::new();
        let mut ticks = CpuTime::default();
        for thread in process::threads_of(pid)? {
            // Without nanoseconds the ticks are all there is.
            let time = thread.run_time.unwrap_or(thread.user + thread.system);
            threads.insert(thread.tid, (time, thread.switches.unwrap_or_default()));
            ticks = CpuTime { user: ticks.user + thread.user, system: ticks.system + thread.system };
        }
        Ok(Self { threads, parts: Parts { time: ticks, with_client: false } })
    }

    /// What the threads of this moment have used since `earlier`; one that was started later, since its start.
    pub(crate) fn since(&self, earlier: &Self) -> Used {
        let mut used = Used {
            cpu: Duration::ZERO,
            parts: Parts { time: self.parts.time - earlier.parts.time, ..self.parts },
            switches: ContextSwitches::default(),
            threads: self.threads.len(),
        };
        for (thread, &(time, switches)) in &self.threads {
            let (time_before, switches_before) = earlier.threads.get(thread).copied().unwrap_or_default();
            used.cpu += time.saturating_sub(time_before);
            used.switches = used.switches + (switches - switches_before);
        }
        used
    }
}

impl Used {
    /// The CPU time of the server in two parts, in the proportion that the kernel tells; of a process that holds the client
    /// too, without what the client has used.
    pub(crate) fn split(&self, client: CpuTime) -> Option<CpuTime> {
        let parts = if self.parts.with_client { self.parts.time - client } else { self.parts.time };
        (!parts.total().is_zero()).then(|| {
            let user = self.cpu.mul_f64(parts.user.as_secs_f64() / parts.total().as_secs_f64());
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
        let used = |with_client| Used {
            cpu: Duration::from_millis(1005),
            parts: Parts { time: time(350, 950), with_client },
            switches: ContextSwitches::default(),
            threads: 1,
        };
        let split = used(true).split(time(100, 200)).expect("the server has used something");
        assert_eq!((split.user.as_micros(), split.total().as_millis()), (251_250, 1005));
        assert_eq!(used(true).split(time(350, 950)), None);
        let split = used(false).split(time(350, 950)).expect("the client is in another process");
        assert_eq!((split.user.as_micros(), split.total().as_millis()), (270_576, 1005));
    }
}
