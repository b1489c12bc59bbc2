//! Payload in order, to the reader, and the FIN behind it.
//!
//! What arrives in order is not copied if nothing older is unread: the reader finds it in the frame, as long as the engine
//! keeps the batch. Bytes not read by then move into the pool.

use anywire_packet::{Flags as Control, Parsed};

use super::Engine;
use super::receive::Arrived;
use crate::block::{Block, Flags, State};
use crate::pool::Cell;

/// Payload that is still in its frame: what the engine keeps for each frame of the batch.
#[derive(Clone, Copy)]
pub(super) struct InFrame {
    /// Whose it is.
    pub(super) index: u32,
    /// Where its unread rest is in the frame.
    pub(super) start: u16,
    pub(super) length: u16,
}

impl InFrame {
    /// A frame without payload.
    pub(super) const NONE: Self = Self { index: u32::MAX, start: 0, length: 0 };

    #[inline]
    pub(super) const fn is_some(&self) -> bool {
        self.index != u32::MAX
    }
}

/// What a block's `receive_tail` is while the payload is in this frame of the batch.
#[inline]
pub(super) const fn in_frame(frame: u32) -> Cell {
    Cell(IN_FRAME | frame)
}

const IN_FRAME: u32 = 1 << 30;

/// Where the payload that waits for the reader is.
pub(super) enum Unread {
    Nothing,
    InFrame(usize),
    Kept(Cell),
}

impl Unread {
    #[inline]
    pub(super) const fn of(block: &Block) -> Self {
        let tail = block.receive_tail;
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
    pub(super) fn on_text(&mut self, index: u32, arrived: &Arrived) {
        let segment = &arrived.segment;
        let block = &mut self.blocks[index];
        if !block.state.may_receive() {
            // After the peer's FIN there is nothing more; a FIN again means that our ACK was lost.
            return self.acknowledge_now(index);
        }
        let payload_end = segment.seq + u32::from(segment.payload_len);
        if block.has(Flags::DETACHED) && payload_end.gt(block.rcv_nxt) {
            // The user will not read it (RFC 9293 3.6.1, MUST-12; RFC 2525 2.17).
            return self.reset_for_unread(index);
        }
        if block.has(Flags::ECN) {
            note_congestion(block, segment);
        }
        if segment.seq == block.rcv_nxt && block.extension == Block::NO_EXTENSION {
            let room = block.rcv_right - block.rcv_nxt;
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
    pub(super) fn deliver_frame(&mut self, index: u32, arrived: &Arrived, skip: u16, length: u16) -> bool {
        let is_full = match Unread::of(&self.blocks[index]) {
            Unread::Nothing => self.pool.is_full_for_who_keeps_up(),
            _ => self.pool.is_full_for_receiving(),
        };
        if is_full {
            // Before it is accepted: accepted bytes must not be lost.
            self.counters.dropped_for_memory += 1;
            return false;
        }
        let block = &mut self.blocks[index];
        let start = arrived.segment.payload_at + skip;
        let frame = arrived.frame as usize;
        let unread = InFrame { index, start, length };
        match Unread::of(block) {
            Unread::Nothing => {
                block.receive_tail = in_frame(arrived.frame);
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
    pub(super) fn advance_receive(&mut self, index: u32, length: u32) {
        let block = &mut self.blocks[index];
        block.rcv_nxt += length;
        *block.unread_mut() += length;
        block.flags.set(Flags::ACK_OWED);
        if block.owes_ack_now(length) {
            self.acknowledge_now(index);
        }
        self.tell(index, Flags::TELL_READABLE);
    }

    /// Sends an ACK at the next transmission: one, however many segments ask for it.
    pub(super) fn acknowledge_now(&mut self, index: u32) {
        self.blocks[index].flags.set(Flags::ACK_NOW);
        self.schedule(index);
    }

    /// At the end of a batch: an ACK that nothing has carried yet leaves now, or waits for company.
    #[inline]
    pub(super) fn settle_ack(&mut self, index: u32) {
        let block = &mut self.blocks[index];
        if !block.owes_unseen_ack() {
            return;
        }
        if self.timings.delayed_ack == 0 {
            self.acknowledge_now(index);
        } else {
            block.flags.set(Flags::ACK_QUEUED);
            self.delayed_acks.push_back((index, self.tick.after(self.timings.delayed_ack)));
        }
    }

    /// Moves the unread payload of the batch into the pool, and sends or delays the ACKs owed for it.
    #[inline]
    pub(super) fn settle_frames(&mut self) {
        let mut in_frames = std::mem::take(&mut self.in_frames);
        for (frame, unread) in in_frames.iter().enumerate().filter(|(_, unread)| unread.is_some()) {
            let block = &self.blocks[unread.index];
            let is_unread = block.receive_tail == in_frame(frame as u32);
            if !is_unread && !block.owes_unseen_ack() {
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
    pub(super) fn keep(&mut self, frame: usize, unread: InFrame) -> bool {
        let block = &mut self.blocks[unread.index];
        if let Unread::InFrame(_) = Unread::of(block) {
            block.receive_tail = Cell::NONE;
        }
        let (start, length) = (usize::from(unread.start), usize::from(unread.length));
        let payload = self.received.get(frame).and_then(|frame| frame.get(start..start + length));
        let Some(mut bytes) = payload else { return false };
        // Small ones share a cell.
        if let tail = block.receive_tail
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
            block.receive_tail = self.pool.push_back(block.receive_tail, cell);
            bytes = &bytes[length..];
        }
        true
    }

    /// The peer has ended its direction, and all before that has arrived.
    #[cold]
    pub(super) fn on_fin(&mut self, index: u32) {
        // All held bytes are old, or lie behind the FIN, where there are none.
        self.free_held(self.blocks[index].extension);
        let block = &mut self.blocks[index];
        block.rcv_nxt += 1;
        block.rcv_right = block.rcv_right.max(block.rcv_nxt);
        block.flags.set(Flags::FIN_RECEIVED.with(Flags::ACK_NOW));
        self.schedule(index);
        let block = &mut self.blocks[index];
        match block.state {
            State::Established => block.state = State::CloseWait,
            // Had our FIN been acknowledged, it would be FIN-WAIT-2.
            State::FinWait1 => block.state = State::Closing,
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
fn note_congestion(block: &mut Block, segment: &Parsed) {
    if segment.flags.has(Control::CWR) {
        block.flags.clear(Flags::ECHO_CONGESTION);
    }
    if segment.traffic_class & 3 == CONGESTION_EXPERIENCED {
        block.flags.set(Flags::ECHO_CONGESTION);
    }
}

/// Of the two bits of ECN in the IP header (RFC 3168 5).
const CONGESTION_EXPERIENCED: u8 = 3;
