//! What a connection waits for, and until when: each of its streams, the engine, or the end of its idleness.

use std::mem;
use std::time::{Duration, Instant};

use anywire_http::h2::StreamMap;
use anywire_loops::clock::{self, precise};
use anywire_loops::deadline::Deadline;
use anywire_mux::Streams;
use anywire_wire::Output;
use slab::Slab;

use super::session::Session;
use super::stream::Tunnel;
use crate::context::LoopContext;
use crate::watchdog::WaitsFor;

impl Session {
    /// Sets what each stream waits for.
    pub(super) fn watch(&mut self, context: &LoopContext) {
        let keeps_waiting = self.link.keeps_peer_waiting();
        let is_closed = self.link.is_window_closed();
        // Both are replaced.
        let changed = (mem::replace(&mut self.schedule.keeps_peer_waiting, keeps_waiting) != keeps_waiting)
            | (mem::replace(&mut self.schedule.is_window_closed, is_closed) != is_closed);
        if changed {
            // Each stream waits for something else now.
            self.schedule.dirty.extend(self.streams.iter().map(|(place, _)| place));
        }
        if self.schedule.dirty.is_empty() {
            return;
        }
        // The true time, since callers' bodies may have run for long.
        let now = precise();
        while let Some(place) = self.schedule.dirty.pop() {
            let Some(stream) = self.streams.get_mut(place) else { continue };
            let is_unsent = stream.ends_at > self.link.output.taken()
                || (stream.upload.is_waiting() && !stream.is_held)
                || self.link.is_blocked(stream.id);
            let uploads = match stream.is_held {
                true => stream.download.is_awaited(),
                false => stream.upload.is_streaming() && matches!(stream.tunnel, Tunnel::No),
            };
            let waits_for = match stream.tunnel {
                // The deadlines of HTTP have ended with it.
                Tunnel::Open => WaitsFor::CallerTakes,
                Tunnel::CallerGone => WaitsFor::Body,
                Tunnel::No | Tunnel::Asked(_) => WaitsFor::of(is_unsent, &stream.download, uploads),
            };
            let waits_for = if keeps_waiting { waits_for.without_window() } else { waits_for };
            if stream.watchdog.watch(now, waits_for, &stream.download, &stream.job, context) {
                stream.counted_bytes = self.schedule.sent_bytes;
            }
            self.schedule.set_deadline(stream.watchdog.until());
        }
    }

    /// Sets what it waits for.
    pub(super) fn wait(&mut self, now: Instant, timer: &Deadline, context: &LoopContext, until: Instant) {
        self.watch(context);
        if self.is_empty() && self.idle_until.is_none() {
            self.go_idle(now, context, until);
        }
        let deadlines =
            [self.schedule.deadline, self.link.engine.next_deadline(), self.idle_until, self.trims_at];
        let next = deadlines.into_iter().flatten().min();
        if let Some(next) = next
            && self.timer_at.is_none_or(|at| next < at)
        {
            self.timer_at = Some(next);
            timer.set_at(next);
        }
    }

    /// Begins to be idle.
    fn go_idle(&mut self, now: Instant, context: &LoopContext, until: Instant) {
        self.idle_until = Some(clock::after(now, context.config().timeouts.idle).min(until));
        self.schedule.deadline = None;
        self.timer_at = None;
        self.trims_at =
            (self.streams.capacity() > PLACES_KEPT).then(|| clock::after(now, TRIM_AFTER).min(until));
        if self.link.output.is_empty() {
            context.keep_output(mem::replace(&mut self.link.output, Output::new()));
        }
    }

    /// Frees what only a busy connection needs.
    pub(super) fn trim(&mut self) {
        self.trims_at = None;
        self.streams = Slab::new();
        self.places = StreamMap::default();
        self.wakers = Vec::new();
        self.schedule.clear();
        self.unflushed = Vec::new();
        self.ended.shrink_to_fit();
    }
}

/// Streams for which an idle connection keeps memory.
const PLACES_KEPT: usize = 8;

/// How long it keeps memory for as many as it has had. Between the calls of a caller who makes many at a time, and waits for all of
/// them, it would be given back and taken again: 900 instructions a call.
const TRIM_AFTER: Duration = Duration::from_secs(1);
