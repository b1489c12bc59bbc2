//! What a loop costs beside its CPU time: how often its thread left its core, and its system calls by name.

use std::collections::BTreeMap;

use anywire_sys::cpu::{self, ContextSwitches};
use anywire_sys::syscalls::CallsByName;

/// Meters the thread that makes it.
pub(crate) struct LoopMeter {
    thread: i32,
    switches: Option<ContextSwitches>,
    calls: Option<CallsByName>,
}

/// What was metered; `None` where the system does not say.
#[derive(Debug, Clone, Default)]
pub(crate) struct LoopCost {
    pub(crate) switches: Option<ContextSwitches>,
    pub(crate) calls: Option<BTreeMap<&'static str, u64>>,
}

impl LoopMeter {
    /// Starts. System calls are counted only on demand, because each then costs time: about twenty filters look at it.
    pub(crate) fn start(with_calls: bool) -> Self {
        let thread = cpu::thread_id();
        let counter = || {
            let opened = CallsByName::for_thread(thread);
            let mut counter =
                opened.inspect_err(|error| tracing::warn!("system calls cannot be counted: {error}")).ok()?;
            counter.enable().ok().map(|()| counter)
        };
        let calls = if with_calls { counter() } else { None };
        Self { thread, switches: cpu::context_switches(thread).ok(), calls }
    }

    /// Ends, and gives what was used since the start.
    pub(crate) fn end(self) -> LoopCost {
        let counted = |counter: CallsByName| counter.disable().and_then(|()| counter.read()).ok();
        let calls = self.calls.and_then(counted);
        let now = cpu::context_switches(self.thread).ok();
        LoopCost { switches: now.zip(self.switches).map(|(now, before)| now - before), calls }
    }
}

impl LoopCost {
    /// Adds the cost of another loop. If one is unknown, the sum is.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.switches = self.switches.zip(other.switches).map(|(one, another)| one + another);
        self.calls = match (self.calls.take(), &other.calls) {
            (Some(mut all), Some(others)) => {
                for (name, count) in others {
                    *all.entry(name).or_default() += count;
                }
                Some(all)
            }
            _ => None,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loop_that_cannot_tell_makes_the_sum_unknown() {
        let known = || LoopCost {
            switches: Some(ContextSwitches { voluntary: 2, involuntary: 1 }),
            calls: Some([("read", 5)].into()),
        };
        let mut sum = known();
        sum.merge(&known());
        assert_eq!(sum.switches, Some(ContextSwitches { voluntary: 4, involuntary: 2 }));
        assert_eq!(sum.calls, Some([("read", 10)].into()));
        sum.merge(&LoopCost::default());
        assert_eq!((sum.switches, sum.calls), (None, None));
    }
}
