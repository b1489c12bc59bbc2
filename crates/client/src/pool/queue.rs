//! The calls of a pool that wait for a connection, oldest first.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::task::Context;
use std::time::Instant;

use anywire_loops::clock::{self, precise};

use crate::call::job::Job;
use crate::connection::budget::poll_truly;
use crate::pool::context::LoopContext;
use crate::{Error, Phase};

/// The connection that waiting calls are offered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Offer {
    /// A connection that was just dialled.
    Fresh,
    /// A connection that has carried calls before.
    Used,
}

impl Offer {
    /// Whether a call takes it: one whose reused connection turned out dead takes a fresh one only.
    fn suits(self, job: &Job) -> bool {
        self == Self::Fresh || !job.needs_fresh_connection
    }
}

/// Waiting calls. The gauge [`Counters::waiting`](crate::Counters::waiting) follows each change.
pub(crate) struct Queue {
    context: Rc<LoopContext>,
    jobs: RefCell<VecDeque<Job>>,
    /// How many of them need a connection to themselves, where other calls share one.
    needing_own_connection: Cell<usize>,
    /// The client's count of abandoned calls when the queue was last purged.
    purged_at: Cell<u64>,
}

impl Queue {
    pub(crate) fn new(context: &Rc<LoopContext>) -> Self {
        Self {
            context: Rc::clone(context),
            jobs: RefCell::default(),
            needing_own_connection: Cell::new(0),
            purged_at: Cell::new(0),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.jobs.borrow().len()
    }

    /// Calls that wait for a connection of their own where others share.
    pub(crate) fn needing_own_connection(&self) -> usize {
        self.needing_own_connection.get()
    }

    /// Calls have gone.
    fn forget<'j>(&self, gone: impl IntoIterator<Item = &'j Job>) {
        let (count, own) = gone
            .into_iter()
            .fold((0, 0), |(count, own), job| (count + 1, own + usize::from(job.needs_own_connection)));
        self.needing_own_connection.update(|before| before - own);
        self.context.cells.waiting.subtract(count);
    }

    /// A call has come.
    fn count(&self, job: &Job) {
        self.needing_own_connection.update(|own| own + usize::from(job.needs_own_connection));
        self.context.cells.waiting.add(1);
    }

    pub(crate) fn push(&self, mut job: Job) {
        self.watch(&mut job);
        self.count(&job);
        self.jobs.borrow_mut().push_back(job);
    }

    pub(crate) fn push_first(&self, mut job: Job) {
        self.watch(&mut job);
        self.count(&job);
        self.jobs.borrow_mut().push_front(job);
    }

    /// Has the queue purged once the caller leaves.
    fn watch(&self, job: &mut Job) {
        let caller_left = self.context.caller_left();
        let cx = &mut Context::from_waker(caller_left);
        if let Some(reply) = &mut job.reply
            && poll_truly(cx, |cx| reply.poll_closed(cx)).is_ready()
        {
            caller_left.wake_by_ref();
        }
    }

    /// The oldest call whose caller still waits, and that takes such a connection.
    pub(crate) fn pop(&self, offer: Offer) -> Option<Job> {
        self.pop_by(|jobs| jobs.iter().position(|job| offer.suits(job)))
    }

    /// The oldest call that can share a connection. `passes`: it may overtake calls that cannot share.
    pub(crate) fn pop_sharing(&self, offer: Offer, passes: bool) -> Option<Job> {
        self.pop_by(|jobs| {
            let mut able = jobs.iter().enumerate().filter(|(_, job)| offer.suits(job));
            let (at, _) = able.find(|(_, job)| !job.needs_own_connection || !passes)?;
            Some(at).filter(|at| !jobs[*at].needs_own_connection)
        })
    }

    /// The oldest call whose caller still waits. It may go back by [`push_first`](Self::push_first): it has waited since it came.
    pub(crate) fn remove_first(&self) -> Option<Job> {
        self.remove_by(|jobs| (!jobs.is_empty()).then_some(0))
    }

    fn pop_by(&self, find: impl Fn(&VecDeque<Job>) -> Option<usize>) -> Option<Job> {
        self.remove_by(find).map(|job| Job { at: precise(), ..job })
    }

    fn remove_by(&self, find: impl Fn(&VecDeque<Job>) -> Option<usize>) -> Option<Job> {
        loop {
            let job = {
                let mut jobs = self.jobs.borrow_mut();
                let at = find(&jobs)?;
                jobs.remove(at)?
            };
            self.forget([&job]);
            if job.is_wanted() {
                return Some(job);
            }
        }
    }

    /// All calls, which are to wait elsewhere.
    pub(crate) fn take(&self) -> VecDeque<Job> {
        let jobs = self.jobs.take();
        self.forget(&jobs);
        jobs
    }

    /// Whether the oldest call may have a connection beyond the share of this loop.
    pub(crate) fn may_borrow(&self) -> bool {
        self.jobs.borrow().front().is_some_and(|job| job.may_borrow)
    }

    /// Since when the oldest call waits.
    pub(crate) fn since(&self) -> Option<Instant> {
        self.jobs.borrow().front().map(|job| job.at)
    }

    /// The call that came last.
    pub(crate) fn pop_last(&self) -> Option<Job> {
        let job = self.jobs.borrow_mut().pop_back()?;
        self.forget([&job]);
        Some(job)
    }

    /// Drops calls whose callers are gone; of a long queue if enough callers of the client have gone since the last time.
    pub(crate) fn purge(&self) {
        let abandoned = self.context.abandoned();
        // In a long queue not for each of them: that would look through the queue for each call that comes or leaves.
        let is_long = self.len() >= LONG;
        if self.len() == 0 || is_long && abandoned - self.purged_at.get() <= (self.len() / LONG) as u64 {
            return;
        }
        self.purged_at.set(abandoned);
        // Outside the borrow: a caller's body may be dropped, and its destructor may make a call.
        let (mut wanted, gone): (VecDeque<_>, VecDeque<_>) =
            self.jobs.take().into_iter().partition(Job::is_wanted);
        self.forget(&gone);
        drop(gone);
        let mut jobs = self.jobs.borrow_mut();
        wanted.append(&mut jobs);
        *jobs = wanted;
    }

    /// Ends every wait: how many there were. `why` is told whether any byte of the request was sent.
    pub(crate) fn fail(&self, why: impl Fn(bool) -> Error) -> usize {
        let jobs = self.jobs.take();
        let count = jobs.len();
        self.forget(&jobs);
        for job in jobs {
            let error = why(job.sent);
            job.fail(error);
        }
        count
    }

    /// Ends overdue waits. `dialing` calls, the first ones, have a dial under way, whose own deadline holds them. When
    /// to look again.
    pub(crate) fn sweep(&self, now: Instant, dialing: usize) -> Option<Instant> {
        let timeouts = &self.context.config().timeouts;
        let (mut overdue, mut next) = (Vec::new(), None);
        {
            let mut jobs = self.jobs.borrow_mut();
            let mut at = 0;
            while let Some(job) = jobs.get(at) {
                let acquire_until = match at < dialing {
                    true => job.acquire_until.max(clock::after(now, timeouts.connect)),
                    false => job.acquire_until,
                };
                let until = acquire_until.min(job.total_until);
                if until > now {
                    next = Some(next.map_or(until, |next: Instant| next.min(until)));
                    at += 1;
                    continue;
                }
                overdue.extend(jobs.remove(at));
            }
        }
        self.forget(&overdue);
        // A caller who is gone has no deadline to miss.
        for job in overdue.into_iter().filter(Job::is_wanted) {
            let (phase, limit) = match job.total_until <= now {
                true => (Phase::Total, job.request.options.total_timeout),
                false => (Phase::Acquire, timeouts.acquire),
            };
            self.context.cells.count_timeout(phase);
            let error = Error::Timeout { origin: job.request.origin(), phase, limit, sent: job.sent };
            job.fail(error);
        }
        next
    }
}

/// Calls of a queue that is looked through as a whole only now and then.
const LONG: usize = 64;
