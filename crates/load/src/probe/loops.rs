//! What the server's event loops do while single requests are under way.
//!
//! An event loop is a descriptor that threads wait on (`epoll`, `io_uring`), and not a thread: of several threads that share one, as Go's
//! and tokio's do, any may wait. While none does, no event of that loop is taken, so that each of its connections waits.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use anywire_sys::process::{Doing, Wait, doing_of, run_time_of};
use serde::{Deserialize, Serialize};

use super::watch::Watch;

/// What was seen of one event loop while single requests were under way, one after the other.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoopFacts {
    /// The process.
    pub pid: i32,
    /// The descriptor that its threads wait on.
    pub descriptor: i32,
    /// The thread that waited on it last.
    pub tid: i32,
    /// How often it was looked at.
    pub looks: u64,
    /// In how many of these a thread waited on it, so that it was there for each connection.
    pub waited: u64,
    /// In how many no thread did, and the last one that had slept in another call: in a read, for a time, for a child process.
    pub slept: u64,
    /// In how many no thread did, and the last one that had was running, or had been for most of the time since the look before.
    pub ran: u64,
}

/// Looks at event loops until it is dropped.
pub(super) type LoopWatch = Watch<Seen>;

/// Watches the loops of these processes. `None` if the system has no thread for it.
pub(super) fn watch(pids: BTreeSet<i32>) -> Option<LoopWatch> {
    let (mut run_times, mut looked_at) = (BTreeMap::new(), None::<Instant>);
    let look = move || {
        let now = Instant::now();
        let since = looked_at.replace(now).map(|before| now - before);
        let mut threads = Vec::new();
        for &pid in &pids {
            for (tid, doing) in doing_of(pid) {
                let run_time = run_time_of(pid, tid);
                let before = run_times.insert((pid, tid), run_time).flatten();
                let ran = run_time.zip(before).map(|(now, before)| now.saturating_sub(before));
                // A look may have to wait for the very core that a thread computes on, and then finds the thread at rest.
                let has_run = ran.zip(since).is_some_and(|(ran, since)| ran * 2 > since);
                threads.push((pid, tid, if has_run { Doing::Runs } else { doing }));
            }
        }
        Some(threads)
    };
    Watch::start("event-loops", look, |seen: &mut Seen, threads| seen.note(&threads))
}

/// What was seen so far.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Seen {
    /// By process and descriptor.
    loops: BTreeMap<(i32, i32), LoopFacts>,
}

impl Seen {
    fn note(&mut self, threads: &[(i32, i32, Doing)]) {
        let mut waited = BTreeMap::new();
        for &(pid, tid, doing) in threads {
            if let Doing::Sleeps { wait: Wait::Events, descriptor: Some(descriptor) } = doing {
                waited.insert((pid, descriptor), tid);
            }
        }
        // The first look at which somebody waits on it shows that there is such a loop.
        for (&(pid, descriptor), &tid) in &waited {
            let new = LoopFacts { pid, descriptor, tid, looks: 0, waited: 0, slept: 0, ran: 0 };
            self.loops.entry((pid, descriptor)).or_insert(new).tid = tid;
        }
        for (key, seen) in &mut self.loops {
            seen.looks += 1;
            let last = threads.iter().find(|(_, tid, _)| *tid == seen.tid).map(|(.., doing)| *doing);
            match last {
                _ if waited.contains_key(key) => seen.waited += 1,
                Some(Doing::Sleeps { wait: Wait::Descriptor | Wait::Time | Wait::Child, .. }) => {
                    seen.slept += 1
                }
                Some(Doing::Runs) => seen.ran += 1,
                // A lock, or a thread that has ended: it may wait for work, and another one be about to wait here.
                _ => {}
            }
        }
    }

    /// All loops, the one that was there least often first.
    pub(super) fn loops(self) -> Vec<LoopFacts> {
        let mut loops: Vec<_> = self.loops.into_values().collect();
        loops.sort_by_key(|one| std::cmp::Reverse(one.slept + one.ran));
        loops.truncate(LOOPS_MAX);
        loops
    }
}

/// A page of loops.
const LOOPS_MAX: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    const RUNS: Doing = Doing::Runs;

    fn sleeps(wait: Wait, descriptor: Option<i32>) -> Doing {
        Doing::Sleeps { wait, descriptor }
    }

    fn events(descriptor: i32) -> Doing {
        sleeps(Wait::Events, Some(descriptor))
    }

    #[test]
    fn a_loop_is_there_while_any_thread_waits_on_it() {
        let mut seen = Seen::default();
        // As Go: another thread waits on the same descriptor while the first one runs a handler.
        seen.note(&[(1, 11, events(5)), (1, 12, sleeps(Wait::Other, None))]);
        seen.note(&[(1, 11, RUNS), (1, 12, events(5))]);
        seen.note(&[(1, 11, RUNS), (1, 12, sleeps(Wait::Other, None))]);
        let loops = seen.loops();
        assert_eq!((loops.len(), loops[0].looks, loops[0].waited), (1, 3, 2));
        assert_eq!((loops[0].tid, loops[0].slept, loops[0].ran), (12, 0, 0));
    }

    #[test]
    fn a_loop_whose_thread_does_something_else_is_held_up() {
        let mut seen = Seen::default();
        seen.note(&[(1, 11, events(5)), (1, 12, events(7)), (2, 21, events(5))]);
        seen.note(&[(1, 11, sleeps(Wait::Time, None)), (1, 12, events(7)), (2, 21, RUNS)]);
        seen.note(&[(1, 11, sleeps(Wait::Descriptor, Some(9))), (1, 12, events(7))]);
        let loops = seen.loops();
        let of = |pid, descriptor| {
            let found = loops.iter().find(|one| (one.pid, one.descriptor) == (pid, descriptor));
            found.map(|one| (one.looks, one.waited, one.slept, one.ran)).expect("it was waited on")
        };
        assert_eq!((of(1, 5), of(1, 7), of(2, 5)), ((3, 1, 2, 0), (3, 3, 0, 0), (3, 1, 0, 1)));
        assert_eq!(loops[0].slept, 2, "the worst first");
    }
}
