//! A pool whose address is one of several: how busy it is, how it fails, and where its calls go then.

use std::rc::Rc;

use anywire_http::StatusCode;
use anywire_loops::clock::{self, precise};

use super::Pool;
use crate::balancer::Member;
use crate::call::job::{Job, Outcome};

impl Pool {
    /// Its address is one of several.
    pub(crate) fn join(&self, member: &Rc<Member>) {
        // The pool may have been made before, for a call that has named this address by `via`.
        self.member.get_or_init(|| Rc::clone(member));
    }

    /// Calls on its connections, and those that wait.
    pub(crate) fn load(&self) -> usize {
        let connections = self.connections.borrow();
        let on_connections = match self.calls_per_connection.get() {
            // Each is idle, and listed, or has one call.
            Some(1) if self.pipelining.is_none() => {
                connections.all.len().saturating_sub(connections.free.len())
            }
            _ => connections.all.iter().map(|(_, conn)| conn.calls()).sum(),
        };
        on_connections + self.waiting.len()
    }

    /// Takes a call whose dial to another address has failed.
    pub(crate) fn submit_moved(self: &Rc<Self>, mut job: Job) {
        // From here it asks for another connection.
        job.at = precise();
        job.acquire_until = clock::after(job.at, self.context.config().timeouts.acquire);
        self.context.cells.moved.add(1);
        // It has counted before.
        self.budget.forget(1);
        job.begin_anew(&self.context);
        self.submit(job);
    }

    /// A dial has failed. Its call goes to another address, if there are several. Those behind it, too, if this address `is_out` now. A call
    /// that names its wire shares this pool, and stays.
    pub(super) fn move_on(&self, job: Job, is_out: bool) -> Option<Job> {
        let Some(member) = self.member.get() else { return Some(job) };
        let left = member.move_on(job, self, precise());
        let mut stay = Vec::new();
        while is_out && let Some(job) = self.waiting.remove_first() {
            let is_of_wire = job.request.options.via.is_some();
            if let Some(job) = member.move_on(job, self, precise()) {
                stay.push(job);
                // What no other address takes waits for a dial here, and so do those behind it.
                if !is_of_wire {
                    break;
                }
            }
        }
        stay.into_iter().rev().for_each(|job| self.waiting.push_first(job));
        left
    }

    /// Whether the address is out from now on.
    #[cold]
    pub(super) fn count_failure(&self, member: &Member) -> bool {
        let is_out = member.failed(precise());
        if is_out {
            self.context.cells.ejected.add(1);
        }
        is_out
    }

    /// Notes how a call has ended, for the health of an address that is one of several.
    #[inline]
    pub(super) fn note(&self, outcome: &Outcome) {
        if let Outcome::BodyBreaks(_, error) = outcome {
            self.context.inner().past().broke_off(&self.origin, error);
        }
        if let Some(member) = self.member.get() {
            self.note_for(member, outcome);
        }
    }

    #[inline(never)]
    fn note_for(&self, member: &Member, outcome: &Outcome) {
        match outcome {
            Outcome::Reply(_, Err(unanswered)) if unanswered.error.is_of_address() => {
                self.count_failure(member);
            }
            Outcome::BodyBreaks(_, error) if error.is_of_address() => {
                self.count_failure(member);
            }
            Outcome::Reply(_, Ok(response)) => self.note_status(member, response.status()),
            Outcome::BodyEnds(_, status) => self.note_status(member, *status),
            _ => {}
        }
    }

    fn note_status(&self, member: &Member, status: StatusCode) {
        if member.is_failure(status) {
            self.count_failure(member);
        } else {
            member.succeeded();
        }
    }
}
