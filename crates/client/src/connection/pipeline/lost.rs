//! What ends a call in the line, or all of them, before their responses; and which of them go out again.

use std::io;
use std::task::Context;

use super::line::{Broken, Rest};
use super::session::{Piped, Session};
use crate::call::job::{Job, Outcome, REFUSALS_MAX};
use crate::connection::session::Life;
use crate::contained::drop_caught;
use crate::pool::context::LoopContext;
use crate::{Error, Phase};

impl Session {
    /// No responses can be told from one another any more.
    pub(super) fn broken(&mut self, broken: Broken, context: &LoopContext) {
        let limits = &context.config().limits;
        match (broken, self.line.due()) {
            (Broken::Response(source), Some(due)) => {
                // What came before the fault is the caller's, however the bytes were cut on their way. One who has left
                // gets no error either.
                let _ = due.download.hand_out(&mut due.job, None, limits);
                let error = Error::Response { origin: due.job.request.origin(), source };
                self.break_off(error, context);
            }
            (Broken::Undrained, _) => {
                context.cells.undrained.add(1);
                self.displace_all(context);
            }
            (Broken::Response(_) | Broken::Stray, _) => self.displace_all(context),
        }
    }

    /// The connection ends by the fault of the response that is due.
    pub(super) fn break_off(&mut self, error: Error, context: &LoopContext) {
        let has_begun = self.line.has_begun();
        if let Some(mut due) = self.line.leave(0) {
            self.ended.push_back(due.download.fail(&mut due.job, error, has_begun));
        }
        self.displace_all(context);
    }

    /// The peer sends nothing more.
    pub(super) fn closed(&mut self, cx: &mut Context<'_>, cause: Option<io::Error>, context: &LoopContext) {
        let ended = match cause {
            None => self.line.ended(),
            Some(_) => Ok(false),
        };
        match ended {
            // Its last response lasted until here.
            Ok(true) => self.receive(cx, context),
            Ok(false) => self.lost(cause, context),
            Err(source) => match self.line.due() {
                Some(due) => {
                    let error = Error::Response { origin: due.job.request.origin(), source };
                    self.break_off(error, context);
                }
                None => self.displace_all(context),
            },
        }
        self.life = Life::Over;
    }

    /// The connection is dead, and has not said why.
    fn lost(&mut self, cause: Option<io::Error>, context: &LoopContext) {
        let cause = self.refused.take().map_or(cause, Some);
        let mut rest = self.line.take_rest(self.taken());
        let due = rest.first().is_some_and(|first| first.is_due).then(|| rest.remove(0));
        self.displace(rest, context);
        // Told last, it is the first to get a connection.
        if let Some(due) = due {
            let outcome = self.lose_due(due, cause);
            self.ended.push_back(outcome);
        }
    }

    /// The call whose response was due may be why the connection is dead: it goes out once more, on a fresh one.
    fn lose_due(&self, due: Rest<Piped>, cause: Option<io::Error>) -> Outcome {
        let Rest { call, is_sent, is_sent_whole, has_begun, .. } = due;
        let Piped { mut job, mut download, .. } = call;
        job.sent |= is_sent;
        // The first one of a connection tells of a server that is broken.
        if self.used && !has_begun && !job.needs_fresh_connection && job.may_resend() {
            return Outcome::Resubmit(Job { needs_fresh_connection: true, ..job });
        }
        let (origin, sent) = (job.request.origin(), job.sent);
        let phase = match () {
            () if job.reply.is_none() => Phase::Body,
            () if is_sent_whole => Phase::Read,
            () => Phase::Write,
        };
        let error = match cause {
            Some(source) => Error::Io { origin, phase, source, sent },
            None => Error::ClosedByPeer { origin, phase, sent },
        };
        download.fail(&mut job, error, has_begun)
    }

    /// Ends the connection. Its calls go out again.
    pub(super) fn displace_all(&mut self, context: &LoopContext) {
        let rest = self.line.take_rest(self.taken());
        self.displace(rest, context);
    }

    /// Calls of which no byte of a response has come go out again. The last one is first, because each goes before those that wait.
    fn displace(&mut self, rest: Vec<Rest<Piped>>, context: &LoopContext) {
        self.life = Life::Over;
        for Rest { mut call, is_sent, is_sent_whole, has_begun, .. } in rest.into_iter().rev() {
            if !has_begun && !call.job.is_wanted() {
                // It is over by its caller, not by the peer.
                drop_caught(call);
                continue;
            }
            call.job.sent |= is_sent;
            if !has_begun && call.job.may_resend() && call.job.refusals < REFUSALS_MAX {
                call.job.refusals += 1;
                context.cells.displaced.add(1);
                self.ended.push_back(Outcome::Resubmit(call.job));
                continue;
            }
            let (origin, sent) = (call.job.request.origin(), call.job.sent);
            let phase = if is_sent_whole { Phase::Read } else { Phase::Write };
            let error = Error::ClosedByPeer { origin, phase, sent };
            self.ended.push_back(call.download.fail(&mut call.job, error, has_begun));
        }
    }

    /// Ends all calls, because the client is closed.
    pub(super) fn cut(&mut self) {
        for Rest { mut call, is_sent, has_begun, .. } in self.line.take_rest(self.taken()) {
            let error = Error::Shutdown { sent: call.job.sent | is_sent };
            self.ended.push_back(call.download.fail(&mut call.job, error, has_begun));
        }
        self.life = Life::Over;
    }
}
