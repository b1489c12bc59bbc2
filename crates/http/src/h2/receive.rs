//! Frames in, events out (RFC 9113 section 6).

mod control;
mod heads;

use std::time::Instant;

use super::engine::{Closing, Incoming};
use super::frame::{FrameHead, HEAD_BYTES, PREFACE, flag, kind};
use super::settings::{FRAME_BYTES_MIN, Settings};
use super::stream::Half;
use super::{Abuse, Code, Engine, Error, Event, FrameFault, MessageError, MessageFault, StreamId};
use crate::Buffer;

/// What one step has led to.
enum Step {
    /// Something was taken. There may be more.
    Again,
    /// More bytes are needed.
    Wait,
    Event(Event<'static>),
    /// The next bytes of the input are data of this stream.
    Data {
        id: StreamId,
        length: usize,
        end: bool,
    },
}

impl Engine {
    /// Takes the next event out of `input`; `None` means that more bytes are needed. Appends to `out` what the peer has to
    /// know at once.
    ///
    /// # Errors
    ///
    /// The connection has ended, and the same error comes on each later call. `out` holds the `GOAWAY` that says why.
    pub fn receive<'b>(
        &mut self,
        now: Instant,
        input: &'b mut Buffer,
        out: &mut Vec<u8>,
    ) -> Result<Option<Event<'b>>, Error> {
        if input.len() > self.left_in_input as usize {
            self.received_at = now;
        }
        self.leave_in_input(input.len());
        loop {
            self.check();
            if let Some(resets) = &mut self.resets
                && let Some((id, code)) = resets.events.pop_front()
            {
                return Ok(Some(Event::Reset { id, code, by_peer: true, why: None }));
            }
            let step = self.step(now, input, out);
            self.leave_in_input(input.len());
            match step {
                Ok(Step::Again) => {}
                Ok(Step::Wait) => return Ok(None),
                Ok(Step::Event(event)) => return Ok(Some(event)),
                Ok(Step::Data { id, length, end }) => {
                    self.leave_in_input(input.len() - length);
                    return Ok(Some(Event::Data { id, data: input.take(length), end }));
                }
                Err(error) => return Err(self.fail(error, out)),
            }
        }
    }

    /// Notes how much of the input is left. In four bytes, because most connections are idle.
    fn leave_in_input(&mut self, bytes: usize) {
        self.left_in_input = u32::try_from(bytes).unwrap_or(u32::MAX);
    }

    fn step(&mut self, now: Instant, input: &mut Buffer, out: &mut Vec<u8>) -> Result<Step, Error> {
        match &mut self.incoming {
            Incoming::Failed(error) => Err(*error),
            Incoming::Preface(seen) => {
                let data = input.data();
                let length = data.len().min(PREFACE.len() - *seen);
                if data[..length] != PREFACE[*seen..*seen + length] {
                    return Err(Error::Preface);
                }
                *seen += length;
                let is_whole = *seen == PREFACE.len();
                input.consume(length);
                if !is_whole {
                    return Ok(Step::Wait);
                }
                self.incoming = Incoming::First;
                Ok(Step::Again)
            }
            Incoming::Data { .. } => Ok(self.data(input, out)),
            Incoming::Skip(left) => {
                let length = input.len().min(*left);
                input.consume(length);
                *left -= length;
                if *left > 0 {
                    return Ok(Step::Wait);
                }
                self.incoming = Incoming::Frame;
                Ok(Step::Again)
            }
            Incoming::First | Incoming::Frame | Incoming::Block { .. } => self.frame(now, input, out),
        }
    }

    /// Takes a frame. Of one with data, or without a meaning, only the head.
    fn frame(&mut self, now: Instant, input: &mut Buffer, out: &mut Vec<u8>) -> Result<Step, Error> {
        let is_start = matches!(self.incoming, Incoming::First) && !self.is_server;
        // A frame that begins so would be too long.
        if is_start && input.data().starts_with(b"HTTP/1") {
            return Err(Error::SpeaksHttp1);
        }
        let Some(head) = FrameHead::parse(input.data()) else { return Ok(Step::Wait) };
        if head.length > FRAME_BYTES_MIN {
            return refuse(FrameFault::TooLong);
        }
        match &self.incoming {
            Incoming::Block { id, .. } if head.kind != kind::CONTINUATION || head.stream != id.0 => {
                return refuse(FrameFault::WithinHeaderBlock);
            }
            Incoming::First if head.kind != kind::SETTINGS || head.has(flag::ACK) => {
                return refuse(FrameFault::NoSettings);
            }
            _ => {}
        }
        if head.kind == kind::DATA {
            return self.data_begins(now, head, input, out);
        }
        if !is_known(head.kind) {
            self.spend_idle(now)?;
            input.consume(HEAD_BYTES);
            self.incoming = Incoming::Skip(head.length);
            return Ok(Step::Again);
        }
        if input.len() < HEAD_BYTES + head.length {
            return Ok(Step::Wait);
        }
        if matches!(self.incoming, Incoming::First) {
            self.incoming = Incoming::Frame;
            self.peer.streams = Settings::INITIAL.streams;
        }
        let payload = &input.data()[HEAD_BYTES..HEAD_BYTES + head.length];
        let step = match head.kind {
            kind::HEADERS => self.headers(now, head, payload, out),
            kind::CONTINUATION => self.continuation(now, head, payload, out),
            kind::RST_STREAM => self.rst_stream(now, head, payload, out),
            kind::SETTINGS => self.settings(now, head, payload, out),
            kind::PING => self.ping(now, head, payload, out),
            kind::GOAWAY => self.receive_go_away(now, head, payload, out),
            kind::WINDOW_UPDATE => self.window_update(now, head, payload, out),
            kind::PRIORITY => self.old_priority(now, head, out),
            kind::PRIORITY_UPDATE => self.priority_update(now, head, payload),
            _ => refuse(FrameFault::PushPromise),
        }?;
        input.consume(HEAD_BYTES + head.length);
        Ok(step)
    }

    /// RFC 9113 section 6.1.
    fn data_begins(
        &mut self,
        now: Instant,
        head: FrameHead,
        input: &mut Buffer,
        out: &mut Vec<u8>,
    ) -> Result<Step, Error> {
        let id = self.id_of(head)?;
        let padded = usize::from(head.has(flag::PADDED));
        let padding = match input.data().get(HEAD_BYTES) {
            _ if padded == 0 => 0,
            // The next byte is that of another frame.
            _ if head.length == 0 => {
                return refuse(FrameFault::DataTooShort);
            }
            None => return Ok(Step::Wait),
            Some(&padding) => usize::from(padding),
        };
        let Some(length) = head.length.checked_sub(padded + padding) else {
            return refuse(FrameFault::Padding);
        };
        let end = head.has(flag::END_STREAM);
        if length == 0 && !end {
            self.spend_idle(now)?;
        }
        if !self.in_window.spend(head.length) {
            return refuse(FrameFault::WindowExceeded);
        }
        input.consume(HEAD_BYTES + padded);
        let Some(stream) = self.streams.get_mut(&id).filter(|stream| stream.incoming == Half::Body) else {
            // Bytes without a reader are returned at once.
            self.in_window.free(head.length as u32);
            self.return_window(out);
            self.incoming = Incoming::Skip(length + padding);
            return match self.streams.get(&id).map(|stream| stream.incoming) {
                None => self.closed(id, FrameFault::DataOnClosed).map(|()| Step::Again),
                Some(Half::Head) => self.malformed(now, id, MessageFault::DataBeforeHead, out),
                Some(_) => self.malformed(now, id, MessageFault::DataBehindEnd, out),
            };
        };
        let too_much = !stream.in_window.spend(head.length);
        let overhead = (padded + padding) as u32;
        stream.in_window.free(overhead);
        stream.unread += length as u32;
        self.in_window.free(overhead);
        let keeps_length = stream.keeps_its_length(length, end);
        let broken = if too_much { Err(MessageFault::WindowExceeded) } else { keeps_length };
        if let Err(fault) = broken {
            self.incoming = Incoming::Skip(length + padding);
            return self.malformed(now, id, fault, out);
        }
        // No reader takes padding. And what was not worth a frame is, once the peer may send no more than that.
        if !end {
            stream.return_window(id, out);
        }
        self.return_window(out);
        self.incoming = Incoming::Data { id, left: length, padding, end };
        Ok(Step::Again)
    }

    /// Gives as much of a DATA frame as there is.
    fn data(&mut self, input: &Buffer, out: &mut Vec<u8>) -> Step {
        let Incoming::Data { id, left, padding, end } = &mut self.incoming else { return Step::Again };
        let (id, length) = (*id, input.len().min(*left));
        if length == 0 && *left > 0 {
            return Step::Wait;
        }
        *left -= length;
        let is_last = *left == 0;
        let ends = is_last && *end;
        if is_last {
            self.incoming = Incoming::Skip(*padding);
        }
        if ends {
            self.end_half(id, |stream| &mut stream.incoming, out);
        }
        if length == 0 && !ends { Step::Again } else { Step::Data { id, length, end: ends } }
    }

    /// The stream of a frame, which must not be idle.
    fn id_of(&self, head: FrameHead) -> Result<StreamId, Error> {
        let id = head.stream;
        let is_peers = id % 2 == u32::from(self.is_server);
        let newest = if is_peers { self.newest_of_peer } else { self.next_of_ours.saturating_sub(2) };
        let opens = head.kind == kind::HEADERS && self.is_server && is_peers;
        if id == 0 || (id > newest && !opens) {
            return refuse(FrameFault::NoStream);
        }
        Ok(StreamId(id))
    }

    /// A frame for a stream that is gone. It is no fault if we have reset the stream, or told the peer not to open it.
    fn closed(&self, id: StreamId, fault: FrameFault) -> Result<(), Error> {
        let was_refused = matches!(self.closing, Closing::After(last) if id.0 > last);
        if was_refused || self.resets.as_ref().is_some_and(|resets| resets.may_have(id)) {
            return Ok(());
        }
        refuse(fault)
    }

    /// Ends a stream for what is wrong with its message, or its frames.
    #[cold]
    fn malformed(
        &mut self,
        now: Instant,
        id: StreamId,
        fault: MessageFault,
        out: &mut Vec<u8>,
    ) -> Result<Step, Error> {
        self.fault(now, id, fault.code(), Some(fault.into()), out)
    }

    /// Ends a stream for a fault of the peer, which counts as a reset (CVE-2025-8671).
    #[cold]
    fn fault(
        &mut self,
        now: Instant,
        id: StreamId,
        code: Code,
        why: Option<MessageError>,
        out: &mut Vec<u8>,
    ) -> Result<Step, Error> {
        self.spend_reset(now)?;
        self.reset_stream(id, code, out);
        Ok(Step::Event(Event::Reset { id, code, by_peer: false, why }))
    }

    fn spend_reset(&mut self, now: Instant) -> Result<(), Error> {
        let rate = self.limits.connection.resets;
        if self.reset_budget.spend(rate, now) {
            return Ok(());
        }
        Err(Error::Excess { what: Abuse::Resets, limit: rate.burst as usize })
    }

    fn spend_idle(&mut self, now: Instant) -> Result<(), Error> {
        let rate = self.limits.connection.idle_frames;
        if self.idle_budget.spend(rate, now) {
            return Ok(());
        }
        Err(Error::Excess { what: Abuse::IdleFrames, limit: rate.burst as usize })
    }
}

fn refuse<T>(fault: FrameFault) -> Result<T, Error> {
    Err(Error::Frame(fault))
}

fn on_connection(head: FrameHead, fault: FrameFault) -> Result<(), Error> {
    if head.stream == 0 { Ok(()) } else { refuse(fault) }
}

fn is_known(kind: u8) -> bool {
    kind <= kind::CONTINUATION || kind == kind::PRIORITY_UPDATE
}
