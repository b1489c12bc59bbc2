//! The deadline of a call on a connection: a limit on silence, or on the whole call.
//!
//! HTTP/1 sets the connection's timer to it. With HTTP/2 the timer follows the earliest of all calls.

use std::time::Instant;

use anywire_loops::clock::after;
use anywire_loops::deadline::Deadline;

use crate::call::job::Job;
use crate::call::request::CallRequest;
use crate::connection::download::Download;
use crate::pool::context::LoopContext;
use crate::{Error, Phase};

/// What an exchange waits for, and so which deadline holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitsFor {
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
    /// Callers of other responses take more of theirs, which have used up the connection's window.
    OthersTake,
}

impl WaitsFor {
    /// `is_unsent`: the request has bytes that the peer has yet to take; `uploads`: the caller has yet to give some.
    #[inline]
    pub(crate) fn of(is_unsent: bool, download: &Download, uploads: bool) -> Self {
        match download {
            _ if is_unsent => Self::PeerTakes,
            Download::Streams { reader_is_slow: true, .. } | Download::Drains { .. } => Self::CallerTakes,
            Download::Streams { .. } if uploads => Self::Either,
            Download::Streams { .. } => Self::Body,
            _ if uploads => Self::CallerGives,
            _ => Self::Head,
        }
    }

    /// What it waits for while our own window lets the peer send no body.
    pub(crate) fn without_window(self) -> Self {
        match self {
            Self::Body | Self::Either => Self::OthersTake,
            others => others,
        }
    }
}

/// Knows when a call is over time, and in which phase.
#[derive(Debug)]
pub(crate) struct Watchdog {
    /// What the silence counts for. None if it has to be counted anew.
    waits_for: Option<WaitsFor>,
    /// When the wait will have lasted too long.
    silent_until: Option<(Instant, Phase)>,
    /// When the whole call will have, if that counts.
    total_until: Option<Instant>,
    /// Until when the body waits for a 100 of the peer. It is sent then anyway.
    continue_until: Option<Instant>,
    /// Any byte of the peer ends its silence. Of a forwarded call, which nothing else would end if its head comes byte by byte, only parts
    /// of the response do.
    counts_bytes: bool,
}

impl Watchdog {
    pub(crate) fn new(request: &CallRequest) -> Self {
        Self {
            waits_for: None,
            silent_until: None,
            total_until: None,
            continue_until: None,
            counts_bytes: !request.options.is_forwarded,
        }
    }

    /// When the call is over time, or its body waits for a 100 no longer.
    pub(crate) fn until(&self) -> Option<Instant> {
        let until = self.first().map(|(until, _)| until);
        match self.continue_until {
            None => until,
            Some(unasked) => Some(until.map_or(unasked, |until| until.min(unasked))),
        }
    }

    /// The body of the request waits for a 100 of the peer, until then.
    pub(crate) fn await_continue(&mut self, until: Instant) {
        self.continue_until = Some(until);
    }

    /// The peer has asked for the body, or wants none.
    pub(crate) fn stop_awaiting_continue(&mut self) {
        self.continue_until = None;
    }

    /// Whether the peer has sent no 100 for so long that the body is sent without.
    pub(crate) fn is_continue_late(&self, now: Instant) -> bool {
        self.continue_until.is_some_and(|until| until <= now)
    }

    /// The deadline that comes first. A wait that has progressed is not over time, though it is yet to be counted anew.
    fn first(&self) -> Option<(Instant, Phase)> {
        let silence = self.silent_until.filter(|_| self.waits_for.is_some());
        match (silence, self.total_until) {
            (Some((until, phase)), Some(total)) if until <= total => Some((until, phase)),
            (_, Some(total)) => Some((total, Phase::Total)),
            (silence, None) => silence,
        }
    }

    /// Whether the peer has taken nothing for too long.
    pub(crate) fn is_write_late(&self, now: Instant) -> bool {
        matches!(self.first(), Some((until, Phase::Write)) if until <= now)
    }

    /// The peer took bytes. A peer that takes and never answers makes no progress in answering.
    pub(crate) fn peer_took(&mut self) {
        self.waits_for.take_if(|waits_for| matches!(waits_for, WaitsFor::PeerTakes | WaitsFor::Either));
    }

    /// The peer gave bytes, which may be no whole part of the response yet.
    pub(crate) fn peer_gave_bytes(&mut self) {
        if self.counts_bytes {
            self.peer_gave();
        }
    }

    /// The peer gave a part of the response. A peer that talks and does not read makes no progress in reading.
    pub(crate) fn peer_gave(&mut self) {
        self.waits_for.take_if(|waits_for| *waits_for != WaitsFor::PeerTakes);
    }

    /// Counts anew if the wait is a new one or has progressed, and says whether it is. `now` is the true time: the loop's
    /// clock stands still while a task blocks the loop, and a deadline would be early.
    #[inline]
    pub(crate) fn watch(
        &mut self,
        now: Instant,
        waits_for: WaitsFor,
        download: &Download,
        job: &Job,
        context: &LoopContext,
    ) -> bool {
        if self.waits_for == Some(waits_for) {
            return false;
        }
        self.waits_for = Some(waits_for);
        self.silent_until = match waits_for {
            WaitsFor::PeerTakes => Some((after(now, context.config().timeouts.write), Phase::Write)),
            WaitsFor::Head => Some((after(now, job.request.options.head_timeout()), Phase::Read)),
            WaitsFor::Body | WaitsFor::Either => Some((after(now, download.silence_max(job)), Phase::Body)),
            WaitsFor::CallerGives | WaitsFor::CallerTakes | WaitsFor::OthersTake => None,
        };
        self.total_until = match download {
            Download::Streams { state, .. } if waits_for == WaitsFor::CallerTakes || state.is_expired() => {
                job.stream_until
            }
            Download::Streams { .. } => job.stream_until.into_iter().chain([job.total_until]).min(),
            // No wildcard: whether a new state has this deadline has to be said here. A download that is over may be of a tunnel that goes on, whose
            // job has none.
            Download::Awaited
            | Download::Here { .. }
            | Download::Drains { .. }
            | Download::Upgrades(_)
            | Download::Over => Some(job.total_until),
        };
        true
    }

    /// Why the call ends, if the time for the whole call is over: whatever has come meanwhile has come too late, and whether
    /// a timer has said so does not matter. A body that is handed out as a stream goes on after that, up to the deadline of the
    /// whole stream.
    pub(crate) fn overdue_in_all(
        &mut self,
        now: Instant,
        download: &Download,
        job: &Job,
        context: &LoopContext,
    ) -> Option<Error> {
        self.total_until.filter(|until| *until <= now)?;
        if let Download::Streams { state, .. } = download {
            if job.stream_until.is_some_and(|until| until <= now) {
                state.end();
            } else if !state.expire() {
                self.total_until = job.stream_until;
                return None;
            }
        }
        Some(late(Phase::Total, download, job, context))
    }

    /// Why the call ends, if it is over time in any way. Asked once what has come was taken: it is no silence of the peer that
    /// the loop was blocked.
    pub(crate) fn overdue(
        &mut self,
        now: Instant,
        download: &Download,
        job: &Job,
        context: &LoopContext,
    ) -> Option<Error> {
        let is_late = |&(until, _): &(Instant, Phase)| until <= now;
        if let Some((_, Phase::Total)) = self.first().filter(is_late)
            && let Some(error) = self.overdue_in_all(now, download, job, context)
        {
            return Some(error);
        }
        let (_, phase) = self.first().filter(is_late)?;
        if phase == Phase::Body {
            // Time in which the caller asks for nothing is no silence of the peer.
            let rest = download.silence_max(job).saturating_sub(download.awaited_for(now));
            if !rest.is_zero() {
                self.silent_until = Some((after(now, rest), phase));
                return None;
            }
        }
        Some(late(phase, download, job, context))
    }

    /// Its deadlines are others from here.
    pub(crate) fn count_anew(&mut self) {
        self.waits_for = None;
    }

    /// Sets a timer to the deadline.
    pub(crate) fn arm(&self, timer: &Deadline) {
        match self.until() {
            Some(until) => timer.set_at(until),
            None => timer.clear(),
        }
    }
}

/// A way to be over time: [`Watchdog::overdue`], or in all alone.
pub(crate) type Overdue = fn(&mut Watchdog, Instant, &Download, &Job, &LoopContext) -> Option<Error>;

#[cold]
fn late(phase: Phase, download: &Download, job: &Job, context: &LoopContext) -> Error {
    // Of one that is drained, nobody waits for the rest.
    match download.is_drained() {
        true => context.cells.undrained.add(1),
        false => context.cells.count_timeout(phase),
    }
    let limit = match phase {
        Phase::Write => context.config().timeouts.write,
        Phase::Read => job.request.options.head_timeout(),
        Phase::Total => job.request.options.total_timeout,
        _ => download.silence_max(job),
    };
    Error::Timeout { origin: job.request.origin(), phase, limit, sent: job.sent }
}
