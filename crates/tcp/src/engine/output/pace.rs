//! A rate of its own for a connection: data beyond it waits, and the other connections go on sending.

use std::num::NonZeroU32;

use crate::engine::{ConnId, ConnIndex, Engine};
use crate::extension::ExtensionId;
use crate::pool::Marks;
use crate::tcb::{State, Tcb};
use crate::time::{Instant, Tick};

/// The rate of a connection; in its extension, which it keeps as long as it has one.
#[derive(Clone, Copy)]
pub(crate) struct Pace {
    bytes_per_second: Option<NonZeroU32>,
    /// Before then, nothing new is sent.
    next: Instant,
    /// It has something to send, and waits for `next`.
    waits: bool,
}

impl Pace {
    pub(crate) const NONE: Self =
        Self { bytes_per_second: None, next: Instant::from_micros(0), waits: false };

    pub(crate) const fn is_none(&self) -> bool {
        self.bytes_per_second.is_none()
    }
}

impl Engine {
    /// Limits what a connection sends to so many bytes of payload a second, or lifts that limit. It holds over some
    /// milliseconds, and retransmissions count too. False if the connection has ended, or if there are too many connections
    /// with such a limit or in trouble ([`Limits::extensions`](crate::Limits::extensions)): then nothing has changed.
    #[must_use = "the limit is not kept if there is no memory for it"]
    pub fn set_rate(&mut self, id: ConnId, bytes_per_second: Option<NonZeroU32>) -> bool {
        let index = id.0;
        if !self.is_held(id) || self.tcbs[index].state == State::Closed {
            return false;
        }
        let Some(place) = self.extension_of(index) else { return false };
        self.extensions[place].pace = Pace { bytes_per_second, next: self.now, waits: false };
        self.drop_extension_if_calm(index);
        self.schedule(index);
        true
    }

    /// Whether a connection has used up its rate for now; then it is put into its ring again in time.
    pub(crate) fn must_wait(&mut self, index: ConnIndex) -> bool {
        let place = self.tcbs[index].extension;
        if place == Tcb::NO_EXTENSION || self.extensions[place].pace.is_none() {
            return false;
        }
        let pace = &mut self.extensions[place].pace;
        if pace.next <= self.now {
            return false;
        }
        pace.waits = true;
        let next = pace.next;
        let at = self.first_tick(next);
        self.set_deadline(index, at);
        true
    }

    /// So many bytes have left.
    pub(crate) fn use_rate(&mut self, place: ExtensionId, bytes: u32) {
        // A late transmission catches up, within bounds.
        let least = self.now.as_micros().saturating_sub(CREDIT_MICROS);
        let pace = &mut self.extensions[place].pace;
        if let Some(rate) = pace.bytes_per_second {
            let micros = u64::from(bytes) * 1_000_000 / u64::from(rate.get());
            pace.next = Instant::from_micros(pace.next.as_micros().max(least) + micros);
        }
    }

    /// When a connection may go on, if it waits for that.
    pub(crate) fn pace_at(&self, tcb: &Tcb) -> Option<Tick> {
        if tcb.extension == Tcb::NO_EXTENSION {
            return None;
        }
        let pace = &self.extensions[tcb.extension].pace;
        pace.waits.then(|| self.first_tick(pace.next))
    }

    /// For how long a connection's rate holds back what it has to send again, if that is lost.
    pub(crate) fn waits_for_rate(&self, index: ConnIndex) -> Option<u32> {
        let tcb = &self.tcbs[index];
        if tcb.timeouts() == 0 || !tcb.state.is_synchronized() {
            return None;
        }
        let at = self.pace_at(tcb).filter(|at| !at.is_due(self.tick))?;
        let first = self.pool.front(tcb.send_tail);
        let is_lost = !first.is_none() && self.pool.segment(first).marks.has(Marks::LOST);
        is_lost.then(|| at.since(self.tick))
    }

    /// Lets a connection go on if its time has come.
    pub(crate) fn end_wait(&mut self, index: ConnIndex) -> bool {
        let is_due = self.pace_at(&self.tcbs[index]).is_some_and(|at| at.is_due(self.tick));
        if is_due {
            self.extensions[self.tcbs[index].extension].pace.waits = false;
            self.schedule(index);
        }
        is_due
    }
}

/// How far a connection may be behind its rate and still catch up.
const CREDIT_MICROS: u64 = 5_000;
