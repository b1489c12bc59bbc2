//! A turn of a connection's task while calls are on it: late calls end, bytes are read, overdue calls end. The order is the same for all
//! versions of HTTP.

use std::task::Context;
use std::time::Instant;

use crate::connection::io::Io;
use crate::connection::watchdog::{Overdue, Watchdog};
use crate::pool::context::LoopContext;

/// The calls of a connection, each with a [`Watchdog`].
pub(crate) trait Calls {
    /// Whether the deadline of a call has passed, whatever the connection's timer says.
    fn are_late(&self, now: Instant) -> bool;

    /// Ends the calls that are overdue in some way.
    fn end_overdue(&mut self, now: Instant, overdue: Overdue, context: &LoopContext);

    /// Reads and writes until nothing more goes, or a call has ended. Returns whether they wait for the wire, or for a reader.
    fn carry_on(&mut self, cx: &mut Context<'_>, io: &mut Io, context: &LoopContext) -> bool;

    /// Whether no deadline counts any more.
    fn are_over(&self) -> bool;

    /// Acts on the deadlines that have passed, and sets the next one.
    fn expire(&mut self, now: Instant, io: &Io, context: &LoopContext);
}

/// Carries the calls on, which are polled now: at [`Io::polled_at`]. Returns whether they wait for the wire, or for a reader.
///
/// A response behind the deadline of the whole call is too late, whatever the timer did. But silence is looked at behind the reading: it is
/// none of the peer that the loop was blocked.
pub(crate) fn turn(calls: &mut impl Calls, cx: &mut Context<'_>, io: &mut Io, context: &LoopContext) -> bool {
    let now = io.polled_at;
    let is_late = calls.are_late(now);
    if is_late {
        calls.end_overdue(now, Watchdog::overdue_in_all, context);
    }
    let has_expired = io.timer.poll_expired(cx).is_ready();
    if has_expired {
        // A timer that has expired registers no task. Whoever waits sets it anew.
        io.timer.clear();
        let _ = io.timer.poll_expired(cx);
    }
    let waits = calls.carry_on(cx, io, context);
    if !(is_late || has_expired) || calls.are_over() {
        return waits;
    }
    calls.expire(now, io, context);
    calls.carry_on(cx, io, context)
}
