//! The deadline of a call on a connection: a limit on silence, or on the whole call.

use std::time::Instant;

use anywire_loops::deadline::Deadline;

use crate::job::Job;
use crate::{Phase, Timeouts};

/// What an exchange waits for, and so which deadline holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WaitsFor {
    /// The peer takes the request.
    PeerTakes,
    /// The caller gives more of the request's body.
    CallerGives,
    /// The peer sends the response's head.
    Head,
    /// The peer sends more of the response's body.
    Body,
    /// The caller gives more of the request's body, or the peer more of the response's.
    Either,
    /// The caller takes more of the response's body.
    CallerTakes,
}

/// Sets the connection's timer, and knows the phase that is over time if the timer expires.
#[derive(Debug)]
pub(super) struct Watchdog {
    /// What the silence counts for. None if it has to be counted anew.
    waits_for: Option<WaitsFor>,
    /// When the wait will have lasted too long.
    silent_until: Option<(Instant, Phase)>,
    expires_as: Phase,
}

impl Watchdog {
    pub(super) fn new() -> Self {
        Self { waits_for: None, silent_until: None, expires_as: Phase::Total }
    }

    /// The phase whose deadline has passed if the timer has expired.
    pub(super) fn expires_as(&self) -> Phase {
        self.expires_as
    }

    /// The peer took bytes. A peer that takes and never answers makes no progress in answering.
    pub(super) fn peer_took(&mut self) {
        self.waits_for.take_if(|waits_for| matches!(waits_for, WaitsFor::PeerTakes | WaitsFor::Either));
    }

    /// The peer gave bytes. A peer that talks and does not read makes no progress in reading.
    pub(super) fn peer_gave(&mut self) {
        self.waits_for.take_if(|waits_for| *waits_for != WaitsFor::PeerTakes);
    }

    /// Sets the timer if the wait is a new one or has progressed. Whether the deadline has passed already: a timer that
    /// is set again and again, each time for as long as is left, would never expire.
    pub(super) fn watch(
        &mut self,
        waits_for: WaitsFor,
        total_holds: bool,
        job: &Job,
        timeouts: &Timeouts,
        timer: &Deadline,
    ) -> bool {
        if self.waits_for == Some(waits_for) {
            return false;
        }
        // The true time: the loop's clock stands still while a task blocks the loop, and a deadline would be early.
        let now = Instant::now();
        self.waits_for = Some(waits_for);
        self.silent_until = match waits_for {
            WaitsFor::PeerTakes => Some((now + timeouts.write, Phase::Write)),
            WaitsFor::Head => Some((now + job.draft.read_timeout, Phase::Read)),
            WaitsFor::Body | WaitsFor::Either => Some((now + job.draft.read_timeout, Phase::Body)),
            WaitsFor::CallerGives | WaitsFor::CallerTakes => None,
        };
        let total = total_holds.then_some((job.total_until, Phase::Total));
        self.set(now, total, timer)
    }

    /// Sets the timer without the total deadline. Whether the deadline that is left has passed already.
    pub(super) fn drop_total(&mut self, timer: &Deadline) -> bool {
        self.set(Instant::now(), None, timer)
    }

    fn set(&mut self, now: Instant, total: Option<(Instant, Phase)>, timer: &Deadline) -> bool {
        let Some((until, phase)) = self.silent_until.into_iter().chain(total).min_by_key(|(until, _)| *until)
        else {
            timer.clear();
            return false;
        };
        self.expires_as = phase;
        timer.set(until.saturating_duration_since(now));
        until <= now
    }
}
