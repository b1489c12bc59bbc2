//! Payload in order, to the reader, and the FIN behind it.
//!
//! What arrives in order is not copied if nothing older is unread: the reader finds it in the frame, as long as the engine
//! keeps the batch. Bytes not read by then move into the pool.

use anywire_packet::{Flags as Control, Parsed};

use crate::engine::input::receive::Arrived;
use crate::engine::{ConnIndex, Engine};
use crate::pool::Cell;
use crate::tcb::{Flags, State, Tcb};

/// Payload that is still in its frame: what the engine keeps for each frame of the batch.
#[derive(Clone, Copy)]
pub(crate) struct InFrame {
    /// Whose it is.
    pub(crate) index: ConnIndex,
    /// Where its unread rest is in the frame.
    pub(crate) start: u16,
    pub(crate) length: u16,
}

impl InFrame {
    /// A frame without payload.
    pub(crate) const NONE: Self = Self { index: ConnIndex::NONE, start: 0, length: 0 };

    #[inline]
    pub(crate) const fn is_some(&self) -> bool {
        self.index.0 != ConnIndex::NONE.0
    }
}

/// What a TCB's `receive_tail` is while the payload is in this frame of the batch.
#[inline]
pub(crate) const fn in_frame(frame: u32) -> Cell {
    Cell(IN_FRAME | frame)
}

const IN_FRAME: u32 = 1 << 30;

/// Where the payload that waits for the reader is.
pub(crate) enum Unread {
    Nothing,
    InFrame(usize),
    Kept(Cell),
}

impl Unread {
    #[inline]
    pub(crate) const fn of(tcb: &Tcb) -> Self {
        let tail = tcb.receive_tail;
        if tail.is_none() {
            Self::Nothing
        } else if tail.0 >> 30 == 1 {
            Self::InFrame((tail.0 & !IN_FRAME) as usize)
        } else {
            Self::Kept(tail)
        }
    }
}

impl Engine {
    /// Text and FIN of a segment that is at least in part in the window.
    #[inline]
    pub(crate) fn on_text(&mut self, index: ConnIndex, arrived: &Arrived) {
        let segment = &arrived.segment;
        let tcb = &mut self.tcbs[index];
        if !tcb.state.may_receive() {
            // After the peer's FIN there is nothing more; a FIN again means that our ACK was lost.
            return self.acknowledge_now(index);
        }
        let payload_end = segment.seq + u32::from(segment.payload_len);
        if tcb.has(Flags::DETACHED) && payload_end.gt(tcb.rcv_nxt) {
            // The user will not read it (RFC 9293 3.6.1, MUST-12; RFC 2525 2.17).
            return self.reset_for_unread(index);
        }
        if tcb.has(Flags::ECN) {
            note_congestion(tcb, segment);
        }
        if segment.seq == tcb.rcv_nxt && tcb.extension == Tcb::NO_EXTENSION {
            let room = tcb.rcv_right - tcb.rcv_nxt;
            let length = u32::from(segment.payload_len);
            if length <= room {
                if length > 0 && !self.deliver_frame(index, arrived, 0, segment.payload_len) {
                    return;
                }
                if segment.flags.has(Control::FIN) {
                    self.on_fin(index);
                }
                return;
            }
        }
        self.on_text_in_trouble(index, arrived);
    }

    /// Gives the reader a part of the payload of a frame, whose first byte is RCV.NXT. False if there is no memory.
    pub(crate) fn deliver_frame(
        &mut self,
        index: ConnIndex,
        arrived: &Arrived,
        skip: u16,
        length: u16,
    ) -> bool {
        let is_full = match Unread::of(&self.tcbs[index]) {
            Unread::Nothing => self.pool.is_full_for_who_keeps_up(),
            _ => self.pool.is_full_for_receiving(),
        };
        if is_full {
            // Before it is accepted: accepted bytes must not be lost.
            self.counters.dropped_for_memory += 1;
            return false;
        }
        let tcb = &mut self.tcbs[index];
        let start = arrived.segment.payload_at + skip;
        let frame = arrived.frame as usize;
        let unread = InFrame { index, start, length };
        match Unread::of(tcb) {
            Unread::Nothing => {
                tcb.receive_tail = in_frame(arrived.frame);
                self.in_frames[frame] = unread;
            }
            before => {
                let first = if let Unread::InFrame(first) = before { Some(first) } else { None };
                let has_first = first.is_none_or(|first| self.keep(first, self.in_frames[first]));
                if !has_first || !self.keep(frame, unread) {
                    self.counters.dropped_for_memory += 1;
                    return false;
                }
            }
        }
        self.delayed_ack_candidates.push(index);
        self.advance_receive(index, u32::from(length));
        true
    }

    /// So many bytes more are in order and unread.
    pub(crate) fn advance_receive(&mut self, index: ConnIndex, length: u32) {
        let tcb = &mut self.tcbs[index];
        tcb.rcv_nxt += length;
        *tcb.unread_mut() += length;
        tcb.flags.set(Flags::ACK_OWED);
        if tcb.owes_ack_now(length) {
            self.acknowledge_now(index);
        }
        self.tell(index, Flags::TELL_READABLE);
    }

    /// Sends an ACK at the next transmission: one, however many segments ask for it.
    pub(crate) fn acknowledge_now(&mut self, index: ConnIndex) {
        self.tcbs[index].flags.set(Flags::ACK_NOW);
        self.schedule(index);
    }

    /// At the end of a batch: an ACK that nothing has carried yet leaves now, or waits for company.
    #[inline]
    pub(crate) fn settle_ack(&mut self, index: ConnIndex) {
        let tcb = &mut self.tcbs[index];
        if !tcb.owes_unseen_ack() {
            return;
        }
        if self.timings.delayed_ack == 0 {
            self.acknowledge_now(index);
        } else {
            tcb.flags.set(Flags::ACK_QUEUED);
            self.delayed_acks.push_back((index, self.tick.after(self.timings.delayed_ack)));
        }
    }

    /// Moves the unread payload of the batch into the pool, and sends or delays the ACKs owed for it.
    #[inline]
    pub(crate) fn settle_frames(&mut self) {
        let mut in_frames = std::mem::take(&mut self.in_frames);
        for (frame, unread) in in_frames.iter().enumerate().filter(|(_, unread)| unread.is_some()) {
            let tcb = &self.tcbs[unread.index];
            let is_unread = tcb.receive_tail == in_frame(frame as u32);
            if !is_unread && !tcb.owes_unseen_ack() {
                continue;
            }
            // It was accepted, so it must not be lost: the pool's limit bends by at most one batch.
            if is_unread && !self.keep(frame, *unread) {
                // Not even the reserve of addresses is left. Losing acknowledged bytes ends the connection.
                self.reset_for_unread(unread.index);
            }
            self.settle_ack(unread.index);
        }
        in_frames.clear();
        self.in_frames = in_frames;
    }

    /// Moves payload from its frame to the end of the receive queue. False if there is no memory.
    pub(crate) fn keep(&mut self, frame: usize, unread: InFrame) -> bool {
        let tcb = &mut self.tcbs[unread.index];
        if let Unread::InFrame(_) = Unread::of(tcb) {
            tcb.receive_tail = Cell::NONE;
        }
        let (start, length) = (usize::from(unread.start), usize::from(unread.length));
        let payload = self.received.get(frame).and_then(|frame| frame.get(start..start + length));
        let Some(mut bytes) = payload else { return false };
        // Small ones share a cell.
        if let tail = tcb.receive_tail
            && !tail.is_none()
        {
            let room = self.pool.room_of(tail).min(bytes.len());
            self.pool.append(tail, room).copy_from_slice(&bytes[..room]);
            bytes = &bytes[room..];
        }
        while !bytes.is_empty() {
            let length = bytes.len().min(crate::pool::SEGMENT_BYTES);
            let Some(cell) = self.pool.take_beyond_limit(length) else { return false };
            self.pool.append(cell, length).copy_from_slice(&bytes[..length]);
            tcb.receive_tail = self.pool.push_back(tcb.receive_tail, cell);
            bytes = &bytes[length..];
        }
        true
    }

    /// The peer has ended its direction, and all before that has arrived.
    #[cold]
    pub(crate) fn on_fin(&mut self, index: ConnIndex) {
        // All held bytes are old, or lie behind the FIN, where there are none.
        self.free_out_of_order(self.tcbs[index].extension);
        let tcb = &mut self.tcbs[index];
        tcb.rcv_nxt += 1;
        tcb.rcv_right = tcb.rcv_right.max(tcb.rcv_nxt);
        tcb.flags.set(Flags::FIN_RECEIVED.with(Flags::ACK_NOW));
        self.schedule(index);
        let tcb = &mut self.tcbs[index];
        match tcb.state {
            State::Established => tcb.state = State::CloseWait,
            // Had our FIN been acknowledged, it would be FIN-WAIT-2.
            State::FinWait1 => tcb.state = State::Closing,
            State::FinWait2 => {
                self.tell(index, Flags::TELL_READABLE);
                return self.enter_time_wait(index);
            }
            _ => {}
        }
        self.tell(index, Flags::TELL_READABLE);
    }
}

/// RFC 3168 6.1.3: a mark is echoed until the peer says that it has slowed down.
fn note_congestion(tcb: &mut Tcb, segment: &Parsed) {
    if segment.flags.has(Control::CWR) {
        tcb.flags.clear(Flags::ECHO_CONGESTION);
    }
    if segment.traffic_class & 3 == CONGESTION_EXPERIENCED {
        tcb.flags.set(Flags::ECHO_CONGESTION);
    }
}

/// Of the two bits of ECN in the IP header (RFC 3168 5).
const CONGESTION_EXPERIENCED: u8 = 3;
