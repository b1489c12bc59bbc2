//! Bursts: one thread makes N calls at once, then one that it waits for, again and again.

use std::cell::Cell;
use std::net::SocketAddr;
use std::sync::{Arc, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use serde::{Deserialize, Serialize};

use super::{Meter, Tally, system_us, usage_of_process, user_us};

/// What a client shall do, in one process one after the other.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Bursts {
    /// The server.
    pub address: SocketAddr,
    /// Time before counting starts.
    pub warm_up: Duration,
    /// Time that is counted, for each of the counts.
    pub duration: Duration,
    /// How many calls are made at once before the one that is waited for.
    pub counts: Vec<usize>,
}

impl Bursts {
    /// What `POST /` is answered with.
    pub const ANSWER: &str = "OK";

    /// Makes them: `call` begins a call and tells the meter of its end, the other makes one and waits for it.
    pub(super) fn run(
        &self,
        call: impl Fn(&Arc<Meter>),
        call_and_wait: impl Fn() -> Result<(u16, usize)>,
    ) -> Result<Vec<Tally>> {
        let meter = Arc::new(Meter::default());
        let begun = Cell::new(0);
        let repeat = |count: usize, duration: Duration| {
            let start = Instant::now();
            while start.elapsed() < duration {
                (0..count).for_each(|_| call(&meter));
                let start = Instant::now();
                meter.took(start, call_and_wait());
                begun.set(begun.get() + count as u64 + 1);
            }
            // What is left shall not be in the figures of what comes next.
            while meter.requests() + meter.errors() < begun.get() {
                thread::sleep(Duration::from_millis(1));
            }
        };
        repeat(WARM_UP_COUNT, self.warm_up);
        let tally = |&count: &usize| {
            meter.latencies().clear();
            let (before, usage, start) = (meter.requests(), usage_of_process()?, Instant::now());
            repeat(count, self.duration);
            let (after, usage_after, seconds) =
                (meter.requests(), usage_of_process()?, start.elapsed().as_secs_f64());
            Ok(Tally {
                requests: after - before,
                errors: meter.errors(),
                seconds,
                user_us: user_us(&usage_after) - user_us(&usage),
                system_us: system_us(&usage_after) - system_us(&usage),
                p99_us: p99(&mut meter.latencies()),
            })
        };
        self.counts.iter().map(tally).collect()
    }
}

impl Meter {
    /// One request of a burst ended.
    pub(super) fn took(&self, start: Instant, end: Result<(u16, usize)>) {
        self.count_of(end, Bursts::ANSWER.len());
        self.latencies().push(u32::try_from(start.elapsed().as_micros()).unwrap_or(u32::MAX));
    }

    fn latencies(&self) -> std::sync::MutexGuard<'_, Vec<u32>> {
        self.latencies.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn p99(latencies: &mut [u32]) -> Option<f64> {
    latencies.sort_unstable();
    let rank = (latencies.len() * 99).div_ceil(100);
    latencies.get(rank.checked_sub(1)?).map(|&micros| f64::from(micros))
}

/// The most calls that a burst may have outstanding: what the clients' queues are set to.
pub const BURST_MAX: usize = 2048;
const WARM_UP_COUNT: usize = 300;

#[cfg(test)]
mod tests {
    use super::p99;

    #[test]
    fn ninety_nine_of_a_hundred_are_not_above_it() {
        assert_eq!(p99(&mut (1..=100).rev().collect::<Vec<_>>()), Some(99.0));
        assert_eq!(p99(&mut [7]), Some(7.0));
        assert_eq!(p99(&mut []), None);
    }
}
