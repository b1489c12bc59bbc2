//! Memory held without progress is taken back, so that a few peers cannot starve all others.
//!
//! A peer may never fill a gap, and its data behind the gap is held. Or it keeps its window closed, and our data waits.
//!
//! - Data out of order has a share of the memory, and a time limit.
//! - A connection with something queued leaves the last part of the memory to connections that have nothing queued.
//! - If that is not enough, connections without progress lose the memory they hold.

use crate::engine::{ConnIndex, End, Engine};
use crate::extension::ExtensionId;
use crate::pool::{Cell, Marks};
use crate::recovery::Tlp;
use crate::tcb::{Flags, Tcb};
use crate::time::Tick;

/// Where the last search for something to take back ended.
#[derive(Default)]
pub(crate) struct Reclaim {
    /// Among the extensions, and among the TCBs.
    extension: u32,
    tcb: ConnIndex,
    /// When the last search of each found nothing.
    pub(crate) out_of_order_at: Option<Tick>,
    extension_at: Option<Tick>,
    pub(crate) at: Option<Tick>,
}

impl Reclaim {
    /// The last search of each may find something if it is made again.
    pub(crate) const fn forget(&mut self) {
        (self.out_of_order_at, self.extension_at, self.at) = (None, None, None);
    }
}

impl Engine {
    /// Whether another segment may be held out of order.
    pub(crate) fn may_reassemble(&self) -> bool {
        let share = self.limits.segment_bytes / HELD_PART / HELD_SEGMENT_BYTES;
        self.out_of_order_segments < share.max(1)
    }

    /// When what a connection holds out of order has been there for too long without progress.
    pub(crate) fn out_of_order_until(&self, tcb: &Tcb) -> Option<Tick> {
        if tcb.extension == Tcb::NO_EXTENSION {
            return None;
        }
        let extension = &self.extensions[tcb.extension];
        let holds = !extension.out_of_order_tail.is_none();
        holds.then(|| extension.out_of_order_since.after(OUT_OF_ORDER_MILLIS))
    }

    /// Drops what a connection holds out of order. The peer keeps it until it is acknowledged, whatever SACK has reported
    /// (RFC 2018, section 8).
    #[cold]
    pub(crate) fn drop_out_of_order(&mut self, index: ConnIndex) {
        let dropped = self.free_out_of_order(self.tcbs[index].extension);
        self.counters.out_of_order_dropped += u64::from(dropped);
        self.drop_extension_if_calm(index);
    }

    /// Frees the data out of order in an extension, if it is one. Gives the number of segments.
    pub(crate) fn free_out_of_order(&mut self, id: ExtensionId) -> u16 {
        let Some(extension) = self.extensions_mut(id) else { return 0 };
        let count = std::mem::take(&mut extension.out_of_order_count);
        let tail = std::mem::replace(&mut extension.out_of_order_tail, Cell::NONE);
        self.out_of_order_segments -= usize::from(count);
        self.pool.free_all(tail);
        count
    }

    /// Frees memory for a connection that needs some and finds none. Data out of order without progress goes first. If
    /// there is no such data, a connection ends whose peer has closed its window long ago. False if there is nothing to
    /// free, or the last search in this tick found nothing.
    #[cold]
    pub(crate) fn reclaim(&mut self) -> bool {
        if self.reclaim.at == Some(self.tick) {
            return false;
        }
        if self.reclaim_out_of_order() {
            return true;
        }
        if let Some(index) = self.find_stalled() {
            self.counters.evicted_for_memory += 1;
            self.break_off(index, End::Aborted);
            return true;
        }
        self.reclaim.at = Some(self.tick);
        false
    }

    /// Frees out-of-order data of connections without progress. False if there is nothing.
    #[cold]
    pub(crate) fn reclaim_out_of_order(&mut self) -> bool {
        if self.reclaim.out_of_order_at == Some(self.tick) {
            return false;
        }
        let found = self.find_holder();
        match found {
            Some(index) => self.drop_out_of_order(index),
            None => self.reclaim.out_of_order_at = Some(self.tick),
        }
        found.is_some()
    }

    /// Frees the extension of a connection that hardly needs it. False if there is none, or the last search in this tick found none.
    ///
    /// - It is kept for nothing but a loss probe: whether the probe has repaired a loss is known with the next ACK of new data. After an
    ///   idle time the window begins anew in any case, so it is of no use any more.
    /// - The timer repairs the losses. Peers that acknowledge nothing could keep all extensions until the user timeout.
    #[cold]
    pub(crate) fn reclaim_extension(&mut self) -> bool {
        if self.reclaim.extension_at == Some(self.tick) {
            return false;
        }
        for _ in 0..self.extensions.places().min(LOOKED_AT_MAX) {
            let place = self.reclaim.extension;
            self.reclaim.extension = (place + 1) % self.extensions.places();
            let (owner, used) = (self.extensions[place].owner, self.extensions.used());
            let tcb = &self.tcbs[owner];
            // Not a free place, whose owner may be anybody.
            let is_there = tcb.extension != Tcb::NO_EXTENSION && tcb.extension.place() == place;
            if is_there && tcb.timeouts() > 0 && self.leave_to_timer(owner) {
                return true;
            }
            let (extension, tcb) = (&mut self.extensions[place], &self.tcbs[owner]);
            if is_there && tcb.flight() == 0 && !tcb.has_unsent() && tcb.was_idle_for_rto(self.tick) {
                extension.tlp = Tlp::NONE;
                self.drop_extension_if_calm(owner);
                if self.extensions.used() < used {
                    return true;
                }
            }
        }
        self.reclaim.extension_at = Some(self.tick);
        false
    }

    /// Takes the extension of a connection after a timeout, unless it holds what the timer does not repair. What the peer has reported since
    /// then goes again: it may have been discarded (RFC 2018, section 8). That the timeout was mistaken is found out no more.
    fn leave_to_timer(&mut self, index: ConnIndex) -> bool {
        let tcb = &self.tcbs[index];
        let extension = &self.extensions[tcb.extension];
        let is_left = tcb.has(Flags::TIMED_OUT)
            // The timer is that for retransmission soon.
            && !tcb.has(Flags::LOSS_TIMER)
            && extension.out_of_order_tail.is_none()
            && extension.pace.is_none()
            && !extension.may_be_fragmented
            && extension.mtu_search.is_none();
        if is_left {
            self.pool.walk(tcb.send_tail, tcb.send_next, |kept| {
                if kept.marks.has(Marks::SACKED) {
                    kept.marks.clear(Marks::SACKED);
                    kept.marks.set(Marks::LOST);
                }
                true
            });
            self.extensions.remove(tcb.extension.place());
            self.tcbs[index].extension = Tcb::NO_EXTENSION;
        }
        is_left
    }

    /// A connection whose data out of order made no progress for long.
    fn find_holder(&mut self) -> Option<ConnIndex> {
        for _ in 0..self.extensions.places().min(LOOKED_AT_MAX) {
            let place = self.reclaim.extension;
            self.reclaim.extension = (place + 1) % self.extensions.places();
            let extension = &self.extensions[place];
            if !extension.out_of_order_tail.is_none()
                && extension.out_of_order_since.after(NO_PROGRESS_MILLIS).is_due(self.tick)
            {
                return Some(extension.owner);
            }
        }
        None
    }

    /// A connection whose peer answers probes of its closed window and never opens it.
    fn find_stalled(&mut self) -> Option<ConnIndex> {
        for _ in 0..self.tcbs.places().min(LOOKED_AT_MAX) {
            let index = self.reclaim.tcb;
            self.reclaim.tcb = ConnIndex((index.0 + 1) % self.tcbs.places());
            let tcb = &self.tcbs[index];
            let is_stalled = tcb.state.is_synchronized()
                && tcb.has(Flags::PROBING_WINDOW)
                && tcb.timeouts() >= PROBES_WITHOUT_ROOM
                && tcb.queued > 0;
            if is_stalled {
                return Some(index);
            }
        }
        None
    }
}

/// What arrives out of order may take this part of the memory, counted in the largest segments.
const HELD_PART: usize = 4;
const HELD_SEGMENT_BYTES: usize = 2048;

/// How long data stays out of order without progress. A sender that lives has repeated by then what fills the gap.
const OUT_OF_ORDER_MILLIS: u32 = 60_000;

/// The same where others find no memory.
const NO_PROGRESS_MILLIS: u32 = 2_000;

/// After so many probes a window has been closed for at least two seconds, because each probe waits twice as long as the
/// one before.
const PROBES_WITHOUT_ROOM: u8 = 5;

/// Places that one search looks at.
const LOOKED_AT_MAX: u32 = 1024;
