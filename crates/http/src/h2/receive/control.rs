//! Frames that carry no message: resets, settings, pings, windows, priorities, and the last one.

use std::time::Instant;

use super::{Step, on_connection, refuse};
use crate::h2::frame::{self, FrameHead, WINDOW_MAX, flag};
use crate::h2::priority::Priority;
use crate::h2::stream::Turn;
use crate::h2::{Code, Engine, Error, Event, FrameFault, GoAway, MessageFault, StreamId};

impl Engine {
    /// RFC 9113 section 6.4.
    pub(super) fn rst_stream(
        &mut self,
        now: Instant,
        head: FrameHead,
        payload: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Step, Error> {
        let id = self.id_of(head)?;
        let [c3, c2, c1, c0] = *payload else {
            return refuse(FrameFault::ResetLength);
        };
        let code = Code(u32::from_be_bytes([c3, c2, c1, c0]));
        if !self.streams.contains_key(&id) {
            self.spend_idle(now)?;
            return Ok(Step::Again);
        }
        // A client that asks and takes back again costs more work than it does (CVE-2023-44487).
        if self.is_server {
            self.spend_reset(now)?;
        }
        self.remove(id, out);
        Ok(Step::Event(Event::Reset { id, code, by_peer: true, why: None }))
    }

    /// RFC 9113 section 6.5.
    pub(super) fn settings(
        &mut self,
        now: Instant,
        head: FrameHead,
        payload: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Step, Error> {
        on_connection(head, FrameFault::SettingsOnStream)?;
        self.spend_idle(now)?;
        if head.has(flag::ACK) {
            if !payload.is_empty() {
                return refuse(FrameFault::SettingsAckLength);
            }
            self.settings_acknowledged(out);
            return Ok(Step::Again);
        }
        let before = self.peer.window;
        let smallest_table_bytes = self.peer.update(payload, !self.is_server)?;
        // The peer has dropped what did not fit then (RFC 7541 section 4.2).
        self.encoder.set_limit(smallest_table_bytes);
        self.encoder.set_limit(self.peer.table_bytes);
        let change = i64::from(self.peer.window) - i64::from(before);
        if change != 0 {
            let mut ids = Vec::with_capacity(self.streams.len());
            for (id, stream) in self.streams.iter_mut() {
                stream.out_window += change;
                if stream.out_window > i64::from(WINDOW_MAX) {
                    return refuse(FrameFault::SettingsOverflow);
                }
                ids.push(id);
            }
            ids.sort_unstable();
            ids.into_iter().for_each(|id| self.queue(id));
        }
        frame::settings_ack(out);
        Ok(Step::Again)
    }

    /// RFC 9113 section 6.7.
    pub(super) fn ping(
        &mut self,
        now: Instant,
        head: FrameHead,
        payload: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Step, Error> {
        on_connection(head, FrameFault::PingOnStream)?;
        let Ok(opaque) = payload.try_into() else {
            return refuse(FrameFault::PingLength);
        };
        self.spend_idle(now)?;
        if head.has(flag::ACK) {
            self.pong(opaque, out);
        } else {
            frame::ping(out, flag::ACK, opaque);
        }
        Ok(Step::Again)
    }

    /// RFC 9113 section 6.8.
    pub(super) fn receive_go_away(
        &mut self,
        now: Instant,
        head: FrameHead,
        payload: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Step, Error> {
        on_connection(head, FrameFault::GoAwayOnStream)?;
        let (Some(last), Some(code)) = (frame::number(payload), payload.get(4..).and_then(frame::number))
        else {
            return refuse(FrameFault::GoAwayLength);
        };
        // A peer needs two of them. Each becomes an event, and looks at all streams.
        self.spend_idle(now)?;
        let last = last & frame::STREAM_ID_MAX;
        if self.last_of_peer.is_some_and(|before| last > before) {
            return refuse(FrameFault::GoAwayRaised);
        }
        self.last_of_peer = Some(last);
        if !self.is_server {
            let mut refused: Vec<_> =
                self.streams.iter().map(|(id, _)| id).filter(|id| id.0 > last).collect();
            refused.sort_unstable();
            for id in refused {
                self.remove(id, out);
                self.resets.get_or_insert_default().events.push_back((id, Code::REFUSED_STREAM));
            }
        }
        let text = payload.get(8..).unwrap_or_default();
        Ok(Step::Event(Event::GoAway(GoAway::new(StreamId(last), Code(code), text))))
    }

    /// RFC 9113 section 6.9.
    pub(super) fn window_update(
        &mut self,
        now: Instant,
        head: FrameHead,
        payload: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Step, Error> {
        let [i3, i2, i1, i0] = *payload else {
            return refuse(FrameFault::WindowUpdateLength);
        };
        self.spend_idle(now)?;
        let increment = i64::from(u32::from_be_bytes([i3, i2, i1, i0]) & WINDOW_MAX);
        if head.stream == 0 {
            self.out_window += increment;
            return match increment {
                0 => refuse(FrameFault::NoIncrement),
                _ if self.out_window > i64::from(WINDOW_MAX) => refuse(FrameFault::WindowOverflow),
                _ => Ok(Step::Again),
            };
        }
        let id = self.id_of(head)?;
        let Some(stream) = self.streams.get_mut(&id) else { return Ok(Step::Again) };
        stream.out_window += increment;
        if increment == 0 {
            return self.malformed(now, id, MessageFault::NoIncrement, out);
        }
        if stream.out_window > i64::from(WINDOW_MAX) {
            return self.malformed(now, id, MessageFault::WindowOverflow, out);
        }
        self.queue(id);
        Ok(Step::Again)
    }

    /// Weights and dependencies, which were withdrawn (RFC 9113 section 5.3.2).
    pub(super) fn old_priority(
        &mut self,
        now: Instant,
        head: FrameHead,
        out: &mut Vec<u8>,
    ) -> Result<Step, Error> {
        self.spend_idle(now)?;
        if head.stream == 0 {
            return refuse(FrameFault::PriorityOnConnection);
        }
        let id = StreamId(head.stream);
        if head.length == 5 {
            return Ok(Step::Again);
        }
        if self.streams.contains_key(&id) {
            return self.malformed(now, id, MessageFault::PriorityLength, out);
        }
        refuse(FrameFault::PriorityLength)
    }

    /// RFC 9218 section 7.1.
    pub(super) fn priority_update(
        &mut self,
        now: Instant,
        head: FrameHead,
        payload: &[u8],
    ) -> Result<Step, Error> {
        on_connection(head, FrameFault::PriorityUpdateOnStream)?;
        self.spend_idle(now)?;
        let Some((id, field)) = payload.split_first_chunk::<4>().filter(|_| self.is_server) else {
            return refuse(FrameFault::PriorityUpdate);
        };
        let id = StreamId(u32::from_be_bytes(*id) & frame::STREAM_ID_MAX);
        if id.0.is_multiple_of(2) {
            return refuse(FrameFault::PriorityUpdateStream);
        }
        // For a stream that is still to come it is dropped: the request can say it itself.
        if let Some(stream) = self.streams.get_mut(&id) {
            let priority = Priority::parse(field);
            let before = std::mem::replace(&mut stream.priority, priority);
            if stream.turn == Turn::Queued {
                self.ready.remove(id, before);
                self.ready.push(id, priority);
            }
        }
        Ok(Step::Again)
    }
}
