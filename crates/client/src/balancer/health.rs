//! Whether an address gets calls: it is out after some failures in a row, and comes back slowly.

use std::cell::Cell;
use std::time::{Duration, Instant};

use anywire_http::StatusCode;
use anywire_loops::clock;

use crate::balancer::balance::HealthOptions;

/// The health of one address, as one loop has seen it.
#[derive(Debug)]
pub(crate) struct Health {
    options: HealthOptions,
    /// Failures in a row.
    failures: Cell<u32>,
    /// How often it was out in a row.
    ejections: Cell<u32>,
    /// Until when it is out, or was.
    out_until: Cell<Option<Instant>>,
}

impl Health {
    pub(crate) fn new(options: HealthOptions) -> Self {
        Self { options, failures: Cell::new(0), ejections: Cell::new(0), out_until: Cell::new(None) }
    }

    pub(crate) fn is_out(&self, now: Instant) -> bool {
        self.out_until.get().is_some_and(|until| now < until)
    }

    pub(super) fn is_failure(&self, status: StatusCode) -> bool {
        self.options.statuses.contains(status)
    }

    /// Its part of the calls, of [`FULL`]: less in the time after it was out.
    pub(super) fn weight(&self, now: Instant) -> u32 {
        let Some(back) = self.out_until.get() else { return FULL };
        let (since, whole) = (now.saturating_duration_since(back), self.options.slow_start);
        if since >= whole {
            return FULL;
        }
        let part = since.as_secs_f64() / whole.as_secs_f64() * f64::from(FULL);
        (part as u32).max(FULL / 10)
    }

    pub(super) fn succeeded(&self) {
        self.failures.set(0);
        // The next failure finds it as healthy as others, once it has had its whole part for as long as it was out at most.
        if self.ejections.get() > 0
            && let Some(back) = self.out_until.get()
            && self.has_recovered(back)
        {
            self.ejections.set(0);
            self.out_until.set(None);
        }
    }

    /// Whether it is out from now on.
    pub(super) fn failed(&self, now: Instant) -> bool {
        if self.is_out(now) {
            return false;
        }
        self.failures.set(self.failures.get().saturating_add(1));
        if self.failures.get() < self.options.eject_after {
            return false;
        }
        let times = 1 << self.ejections.get().min(DOUBLED_MAX);
        self.out_until.set(Some(clock::after(now, self.options.eject_for.saturating_mul(times))));
        self.ejections.update(|ejections| ejections.saturating_add(1));
        // A single failure when it comes back is enough.
        self.failures.set(self.options.eject_after - 1);
        true
    }

    fn has_recovered(&self, back: Instant) -> bool {
        clock::now().saturating_duration_since(back) >= self.options.slow_start.max(Duration::from_secs(1))
    }
}

/// The weight of an address that has not failed.
pub(super) const FULL: u32 = 100;

/// The time that it is out is doubled so often at most.
const DOUBLED_MAX: u32 = 5;

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn health() -> (Health, Instant) {
        let options = HealthOptions {
            eject_after: 3,
            eject_for: 5 * SECOND,
            slow_start: 10 * SECOND,
            statuses: crate::balancer::balance::Statuses::default(),
        };
        (Health::new(options), clock::precise())
    }

    #[test]
    fn three_failures_in_a_row_are_too_many() {
        let (health, now) = health();
        assert!(!health.failed(now) && !health.failed(now));
        health.succeeded();
        assert!(!health.failed(now) && !health.failed(now) && !health.is_out(now));
        assert!(health.failed(now) && health.is_out(now));
        assert!(health.is_out(now + 4 * SECOND) && !health.is_out(now + 5 * SECOND));
    }

    #[test]
    fn it_is_out_for_longer_each_time() {
        let (health, mut now) = health();
        health.failed(now);
        health.failed(now);
        for seconds in [5, 10, 20, 40, 80, 160, 160] {
            assert!(health.failed(now), "one more is enough");
            assert!(!health.failed(now), "it is out already");
            now += (seconds - 1) * SECOND;
            assert!(health.is_out(now), "{seconds} s");
            now += SECOND;
            assert!(!health.is_out(now), "{seconds} s");
        }
    }

    #[test]
    fn it_comes_back_slowly() {
        let (health, now) = health();
        assert_eq!(health.weight(now), FULL);
        assert_eq!([health.failed(now), health.failed(now), health.failed(now)], [false, false, true]);
        let back = now + 5 * SECOND;
        let weights = [0, 2, 5, 10].map(|seconds| health.weight(back + seconds * SECOND));
        assert_eq!(weights, [10, 20, 50, FULL]);
    }
}
