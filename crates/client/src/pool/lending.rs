//! Connections beyond the share of a loop: it has those that other loops do not use, and gives them back.

use std::ops::ControlFlow;

use super::Pool;
use crate::connection::Conn;
use crate::pool::quota::Permit;

impl Pool {
    /// The right to dial, if there is one more.
    pub(super) fn permit(&self) -> Option<Permit> {
        if self.is_outdated() {
            return None;
        }
        let permit = Permit::take(&self.quota, &self.context, self.waiting.may_borrow());
        // Another thread may have raised the cap since the look above. It sets the options before the cap: with a place of the
        // new cap, the new options are seen.
        if permit.is_some() && self.is_outdated() {
            return None;
        }
        self.wants.set(permit.is_none());
        permit
    }

    /// Its origin has other options by now, and its waiting calls are about to go to a new pool.
    fn is_outdated(&self) -> bool {
        !self.retired.get() && !self.context.is_current(&self.origin)
    }

    /// Once no call waits any more, other loops may have the connection that this pool has asked for in vain.
    #[inline]
    pub(super) fn want_no_more(&self) {
        if self.wants.get() && self.waiting.len() == 0 {
            self.wants.set(false);
            self.quota.is_satisfied(&self.context);
        }
    }

    /// Whether one more call would be too many. While the quota has connections left, only a try to dial tells.
    pub(super) fn is_full(&self) -> bool {
        let (waiting, dialing) = self.waiting_and_dialing();
        waiting >= dialing.saturating_add(self.context.queue) && self.quota.is_spent()
    }

    /// Whether the latest call is one too many. Each connection that may still be dialled serves one waiting call; the queue holds the
    /// calls beyond.
    pub(super) fn is_overfull(&self) -> bool {
        let (waiting, dialing) = self.waiting_and_dialing();
        let room = dialing.saturating_add(self.context.queue);
        waiting > room && waiting - room > self.quota.left_of_share(self.context.index)
    }

    /// `Break` if a connection that takes no more calls has none.
    pub(super) fn ends_if_idle(&self, conn: &Conn) -> ControlFlow<()> {
        if (self.retired.get() || conn.is_leaving()) && conn.is_idle() {
            conn.go_away();
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    }
}
