//! How fast a peer sends or takes bytes while the connection waits for it.

use std::time::Duration;

use crate::limits::Limits;

/// What a peer is allowed: so much silence, and no less than a rate.
pub(super) struct Allowance {
    /// The longest silence.
    pub(super) silence: Duration,
    /// The time from its first byte on in which the rate does not count.
    pub(super) grace: Duration,
    pub(super) min_bytes_per_second: u64,
}

impl Allowance {
    pub(super) fn of_body(limits: &Limits) -> Self {
        Self {
            silence: limits.body_timeout,
            grace: limits.min_rate_grace,
            min_bytes_per_second: limits.min_bytes_per_second,
        }
    }
}

/// How a peer does in one direction.
#[derive(Debug, Default)]
pub(super) struct Pace {
    /// Time waited since the peer last moved a byte.
    silent: Duration,
    /// Time left before the peer is slower than the least rate; `None` before the first byte that was waited for.
    credit: Option<Duration>,
    /// Bytes before that one. They count with it, so that a body which stops at once is silent rather than slow.
    early: u64,
}

impl Pace {
    pub(super) fn waited(&mut self, passed: Duration) {
        self.silent = self.silent.saturating_add(passed);
        self.credit = self.credit.map(|credit| credit.saturating_sub(passed));
    }

    /// Records bytes that the peer moved. Each byte earns time, up to the longest silence.
    pub(super) fn moved(&mut self, bytes: u64, allowance: &Allowance) {
        if bytes == 0 {
            return;
        }
        self.silent = Duration::ZERO;
        let early = std::mem::take(&mut self.early);
        self.earn(bytes.saturating_add(early), allowance);
    }

    /// Records bytes that the peer moved without being waited for.
    pub(super) fn moved_early(&mut self, bytes: u64, allowance: &Allowance) {
        match self.credit {
            None => self.early = self.early.saturating_add(bytes),
            Some(_) => self.earn(bytes, allowance),
        }
    }

    fn earn(&mut self, bytes: u64, allowance: &Allowance) {
        let Some(earned_ns) = bytes.saturating_mul(1_000_000_000).checked_div(allowance.min_bytes_per_second)
        else {
            return;
        };
        let credit = self.credit.unwrap_or(allowance.grace);
        let credit = credit.saturating_add(Duration::from_nanos(earned_ns));
        self.credit = Some(credit.min(allowance.silence.max(allowance.grace)));
    }

    /// The time that the peer has left.
    pub(super) fn left(&self, silence_max: Duration) -> Duration {
        let silence_left = silence_max.saturating_sub(self.silent);
        self.credit.map_or(silence_left, |credit| credit.min(silence_left))
    }

    pub(super) fn is_silent(&self, silence_max: Duration) -> bool {
        self.silent >= silence_max
    }
}
