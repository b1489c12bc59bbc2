//! Calls that have no stream yet: one that asks for another protocol waits until the server has said whether it takes an extended
//! CONNECT (RFC 8441 section 3). A server that says nothing keeps neither it nor other calls: its deadlines hold, and its caller may leave.

use std::mem;
use std::task::Context;
use std::time::Instant;

use anywire_loops::clock::precise;

use super::session::Session;
use crate::Error;
use crate::call::job::{Job, Outcome};
use crate::connection::budget::poll_truly;
use crate::connection::download::Download;
use crate::connection::watchdog::{Overdue, WaitsFor, Watchdog};
use crate::contained::drop_caught;
use crate::pool::context::LoopContext;

/// A call that waits for the server's settings.
pub(super) struct Unopened {
    pub(super) job: Job,
    host: Box<str>,
    pub(super) watchdog: Watchdog,
}

impl Session {
    /// Keeps a call until the server's settings are there.
    pub(super) fn wait_for_settings(&mut self, job: Job, host: &str, context: &LoopContext) {
        let mut watchdog = Watchdog::new(&job.request);
        watchdog.watch(precise(), WaitsFor::Head, &Download::Awaited, &job, context);
        self.schedule.set_deadline(watchdog.until());
        self.unopened.push(Unopened { job, host: host.into(), watchdog });
    }

    /// Opens a stream for each, if the server's settings are there.
    pub(super) fn open_waiting(&mut self, context: &LoopContext) {
        if !self.unopened.is_empty() && self.link.engine.is_greeted() {
            for Unopened { job, host, .. } in mem::take(&mut self.unopened) {
                self.start(job, &host, context);
            }
        }
    }

    /// Drops those whose callers have left, and has the task woken when another one does.
    pub(super) fn drop_unwanted(&mut self, cx: &mut Context<'_>) {
        let gone = self.unopened.extract_if(.., |Unopened { job, .. }| {
            job.reply.as_mut().is_none_or(|reply| poll_truly(cx, |cx| reply.poll_closed(cx)).is_ready())
        });
        for unopened in gone {
            drop_caught(unopened);
            self.ended.push_back(Outcome::Nothing);
        }
    }

    /// Takes out those that are overdue in some way.
    pub(super) fn overdue_unopened(
        &mut self,
        now: Instant,
        overdue: Overdue,
        context: &LoopContext,
    ) -> Vec<(Job, Error)> {
        let mut late = Vec::new();
        for mut unopened in mem::take(&mut self.unopened) {
            match overdue(&mut unopened.watchdog, now, &Download::Awaited, &unopened.job, context) {
                Some(error) => late.push((unopened.job, error)),
                None => self.unopened.push(unopened),
            }
        }
        late
    }

    /// Ends them all. Nothing of them was sent on this connection.
    pub(super) fn fail_unopened(&mut self, why: impl Fn(&Job) -> Error) {
        for Unopened { job, .. } in mem::take(&mut self.unopened) {
            let error = why(&job);
            self.ended.push_back(job.into_failure(error));
        }
    }
}
