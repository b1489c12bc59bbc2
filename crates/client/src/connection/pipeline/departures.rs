//! How a connection hears that callers have left, without asking for each call in each turn; and what becomes of their calls.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Wake, Waker};

use anywire_loops::clock::precise;
use tokio::sync::oneshot;

use super::line::Stands;
use super::session::{Piped, Session};
use crate::call::job::Outcome;
use crate::connection::session::Life;
use crate::contained::drop_caught;

/// Woken from any thread, once for all of them.
#[derive(Debug, Default)]
pub(super) struct Departures {
    is_any: AtomicBool,
    task: OnceLock<Waker>,
}

impl Departures {
    /// Sets the connection's task, which is always the same.
    pub(super) fn set_task(&self, task: &Waker) {
        self.task.get_or_init(|| task.clone());
    }

    /// Whether a caller has left since it was last asked.
    pub(super) fn take(&self) -> bool {
        // A load alone in most turns.
        self.is_any.load(Ordering::Acquire) && self.is_any.swap(false, Ordering::AcqRel)
    }
}

impl Wake for Departures {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.is_any.store(true, Ordering::Release);
        if let Some(task) = self.task.get() {
            task.wake_by_ref();
        }
    }
}

impl Session {
    /// Takes out the calls whose callers have left before the head of their response.
    pub(super) fn part_with_departed(&mut self) {
        let is_gone = |stands: &Stands<'_, Piped>| {
            stands.call.job.reply.as_ref().is_some_and(oneshot::Sender::is_closed)
        };
        let gone: Vec<_> = self.line.iter_mut().filter(is_gone).map(|stands| stands.at).collect();
        gone.into_iter().for_each(|at| self.leave(at));
        self.forget_unsent();
        self.close_if_unwanted();
    }

    /// Takes out a call whose caller has left.
    pub(super) fn leave(&mut self, at: usize) {
        let Some(call) = self.line.leave(at) else { return };
        if at == 0 && call.download.is_not_worth_draining() {
            self.drained_until = Some(precise());
        }
        drop_caught(call);
    }

    /// Drops abandoned requests that have not begun to leave.
    pub(super) fn forget_unsent(&mut self) {
        if let Some(position) = self.line.forget_unsent(self.output.taken())
            && self.output.truncate(position)
            && self.ended.is_empty()
        {
            // There are slots, though no call has ended.
            self.ended.push_back(Outcome::Nothing);
        }
    }

    /// Nobody waits for what the peer has yet to say.
    pub(super) fn close_if_unwanted(&mut self) {
        if self.line.calls() == 0 && !self.line.is_empty() {
            self.life = Life::Over;
        }
    }
}
