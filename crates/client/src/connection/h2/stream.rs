//! One call on a stream: its response on the way to the caller.

use std::mem;
use std::pin::Pin;
use std::task::Context;

use anywire_http::h2::StreamId;
use anywire_http::{Headers, ResponseHead, body};
use anywire_loops::clock::{after, precise};
use anywire_mux::{Demand, Departure, Incoming};
use anywire_wire::Position;
use tokio::sync::oneshot;

use super::upload::Upload;
use crate::Limits;
use crate::call::job::Job;
use crate::connection::download::{Download, Pieces};
use crate::connection::watchdog::Watchdog;

/// A call on a stream.
pub(crate) struct Stream {
    pub(super) id: StreamId,
    pub(super) job: Job,
    pub(super) upload: Upload,
    pub(super) download: Download,
    pub(super) tunnel: Tunnel,
    /// Its body waits for a 100 of the peer.
    pub(super) awaits_continue: bool,
    incoming: Incoming,
    /// Interim responses so far.
    pub(super) interim: usize,
    /// The connection had carried a call before.
    pub(super) reused: bool,
    /// Where its bytes begin and end in all that the connection sends.
    pub(super) begins_at: Position,
    pub(super) ends_at: Position,
    pub(super) watchdog: Watchdog,
    /// What [`Schedule::sent_bytes`](anywire_mux::Schedule) was when its peer's reading was last looked at.
    pub(super) counted_bytes: u32,
}

/// Whether the stream speaks another protocol (RFC 8441).
pub(super) enum Tunnel {
    No,
    /// It does if the peer agrees. This takes what the caller sends then.
    Asked(body::Sender),
    /// It does, in both directions or in one.
    Open(Departure),
    /// It does, and its caller has left. What that has sent goes to the peer in order, whose end is waited for: a reset could
    /// overtake it.
    CallerGone,
}

/// The caller has left.
pub(super) struct CallerGone;

impl Stream {
    pub(super) fn new(id: StreamId, job: Job, upload: Upload, reused: bool, begins_at: Position) -> Self {
        Self {
            id,
            watchdog: Watchdog::new(&job.request),
            job,
            upload,
            download: Download::Awaited,
            tunnel: Tunnel::No,
            awaits_continue: false,
            incoming: Incoming::default(),
            interim: 0,
            reused,
            begins_at,
            ends_at: begins_at,
            counted_bytes: 0,
        }
    }

    /// The peer has sent a frame of it.
    fn received_frame(&mut self) {
        if !self.has_response()
            && let Some(seen) = self.job.seen()
        {
            seen.first_byte();
        }
        self.upload.settle();
        self.watchdog.peer_gave();
    }

    /// The peer took bytes. If they are what a caller of a tunnel has left behind, it has its time for the rest anew.
    pub(super) fn peer_took(&mut self) {
        self.watchdog.peer_took();
        if matches!(self.tunnel, Tunnel::CallerGone) {
            self.wait_for_rest();
            self.watchdog.count_anew();
        }
    }

    /// The caller has left a tunnel: so long may the peer take nothing, and keep its direction open.
    fn wait_for_rest(&mut self) {
        self.job.stream_until = Some(after(precise(), self.job.request.options.read_timeout));
    }

    /// Whether a frame of the response has come.
    pub(super) fn has_response(&self) -> bool {
        self.interim > 0 || !self.download.is_awaited()
    }

    pub(super) fn informed(&mut self) {
        self.received_frame();
        self.interim += 1;
    }

    pub(super) fn answered(
        &mut self,
        head: ResponseHead,
        length: Option<u64>,
        end: bool,
        limits: &Limits,
    ) -> Result<(), CallerGone> {
        self.received_frame();
        if let Some(seen) = self.job.seen() {
            seen.head(&head);
        }
        self.incoming.push(&[], end);
        let agrees = head.status().is_success();
        self.download = Download::Here { head, length, body: Pieces::default(), trailers: None };
        match mem::replace(&mut self.tunnel, Tunnel::No) {
            Tunnel::Asked(outgoing) if agrees => {
                let handed_out = self.download.hand_out(&mut self.job, Some(outgoing), limits);
                let departure = handed_out.map_err(|()| CallerGone)?;
                self.tunnel = departure.map_or(Tunnel::CallerGone, Tunnel::Open);
                Ok(())
            }
            // Its body stays open, or its request would break off.
            tunnel => {
                self.tunnel = tunnel;
                Ok(())
            }
        }
    }

    /// Takes a piece of the body. Returns how much of it needs no room any more.
    pub(super) fn received(&mut self, data: &[u8], end: bool) -> usize {
        self.received_frame();
        if let Some(seen) = self.job.seen() {
            seen.received(data.len());
        }
        if matches!(self.download, Download::Streams { .. }) {
            self.incoming.push(data, end);
            return 0;
        }
        self.incoming.push(&[], end);
        self.download.data(data);
        data.len()
    }

    pub(super) fn ended_by(&mut self, trailers: Headers) {
        self.received_frame();
        self.incoming.end(trailers);
        if !matches!(self.download, Download::Streams { .. }) {
            self.give_trailers();
        }
    }

    /// Whether all of the response is where its caller finds it.
    pub(super) fn is_complete(&self) -> bool {
        self.incoming.is_complete()
    }

    /// Whether the peer's direction of another protocol has ended, and ours goes on (RFC 8441 section 5). Its caller is told.
    pub(super) fn goes_up(&mut self) -> bool {
        let goes_up = matches!(self.tunnel, Tunnel::Open(_) | Tunnel::CallerGone) && !self.upload.is_done();
        if goes_up && self.is_complete() {
            self.download.end();
        }
        goes_up
    }

    /// Notices that the caller has dropped a stream of another protocol, whichever of its directions have ended.
    pub(super) fn look_for_caller(&mut self, cx: &mut Context<'_>) {
        let Tunnel::Open(departure) = &mut self.tunnel else { return };
        if Pin::new(departure).poll(cx).is_ready() {
            self.tunnel = Tunnel::CallerGone;
            self.wait_for_rest();
        }
    }

    /// Gives the caller the received part that it asks for. Returns the number of bytes that it has taken.
    pub(super) fn feed(&mut self, limits: &Limits, cx: &mut Context<'_>) -> Result<usize, CallerGone> {
        if self.job.reply.as_ref().is_some_and(oneshot::Sender::is_closed) {
            return Err(CallerGone);
        }
        self.download.hand_out(&mut self.job, None, limits).map_err(|()| CallerGone)?;
        let (mut taken, demand) = self.download.feed(&mut self.incoming, cx);
        if demand == Demand::Gone {
            if matches!(self.tunnel, Tunnel::No | Tunnel::Asked(_)) {
                return Err(CallerGone);
            }
            taken += self.incoming.clear();
        }
        if self.is_complete() {
            self.give_trailers();
        }
        Ok(taken)
    }

    /// Gives the caller all that has come, whether it has asked for it or not: the stream has ended, and with it the window
    /// that held the peer back. Returns whether that is all of the response.
    pub(super) fn give_all(&mut self, limits: &Limits) -> bool {
        if !self.incoming.has_ended() {
            // The head may have come in the same read as the end. An error says that the caller has left.
            let _ = self.download.hand_out(&mut self.job, None, limits);
        }
        while let Some(chunk) = self.incoming.pop() {
            self.download.pass_anyway(chunk);
        }
        self.give_trailers();
        self.incoming.has_ended()
    }

    fn give_trailers(&mut self) {
        if let Some(trailers) = self.incoming.take_trailers() {
            self.download.trailers(trailers);
        }
    }

    /// Whether the call may go out once more: the connection may have died while it was idle.
    pub(super) fn may_resend(&self) -> bool {
        self.reused && !self.has_response() && self.upload.is_repeatable() && self.job.may_resend()
    }

    /// The call, to be sent once more.
    pub(super) fn into_job(mut self) -> Job {
        if matches!(self.tunnel, Tunnel::No) {
            self.upload.give_back(&mut self.job.request);
        }
        self.job
    }
}
