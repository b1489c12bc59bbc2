//! Payload: in order to the reader, out of order to its place, and the FIN behind it.
//!
//! What arrives in order is not copied if nothing older is unread: the reader finds it in the frame, as long as the engine
//! keeps the batch. Bytes not read by then move into the pool.

use super::Engine;
use super::receive::Arrived;
use crate::block::{Block, Flags, State};
use crate::extension::ExtensionId;
use crate::packet::{Flags as Control, Parsed, SACK_MAX};
use crate::pool::{Cell, Marks, Segment};
use crate::seq::Seq;

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
    fn deliver_frame(&mut self, index: u32, arrived: &Arrived, skip: u16, length: u16) -> bool {
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
        self.owing.push(index);
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
        self.take_turn(index);
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
    fn keep(&mut self, frame: usize, unread: InFrame) -> bool {
        let block = &mut self.blocks[unread.index];
        if let Unread::InFrame(_) = Unread::of(block) {
            block.receive_tail = Cell::NONE;
        }
        let (start, length) = (usize::from(unread.start), usize::from(unread.length));
        let payload = self.held.get(frame).and_then(|frame| frame.get(start..start + length));
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
        self.take_turn(index);
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

    /// Payload before or behind RCV.NXT, or a connection with gaps.
    #[cold]
    fn on_text_in_trouble(&mut self, index: u32, arrived: &Arrived) {
        let segment = &arrived.segment;
        let block = &self.blocks[index];
        // Bytes outside the window on either side are cut off.
        let skip = if segment.seq.lt(block.rcv_nxt) { block.rcv_nxt - segment.seq } else { 0 };
        let length = u32::from(segment.payload_len);
        let (seq, room) = (segment.seq + skip, block.rcv_right - (segment.seq + skip));
        let rest = length.saturating_sub(skip).min(room);
        let is_whole = skip + rest == length || length < skip;
        let has_fin = segment.flags.has(Control::FIN) && is_whole;
        self.note_duplicate(index, segment);
        if seq != self.blocks[index].rcv_nxt {
            if rest > 0 || has_fin {
                self.hold_out_of_order(index, arrived, seq, skip as u16, rest as u16, has_fin);
            }
            if let Some(extension) = self.extensions_mut(self.blocks[index].extension) {
                extension.acks_owed = extension.acks_owed.saturating_add(1);
            }
            return self.acknowledge_now(index);
        }
        if rest > 0 && !self.deliver_frame(index, arrived, skip as u16, rest as u16) {
            return;
        }
        if has_fin {
            self.on_fin(index);
        } else {
            self.join_out_of_order(index);
        }
        if self.blocks[index].state == State::Closed {
            // With the FIN it has gone over to TIME-WAIT.
            return;
        }
        // RFC 5681 4.2: what fills a gap is acknowledged at once.
        self.acknowledge_now(index);
        self.drop_extension_if_calm(index);
    }

    /// Puts payload with a gap before it into its place among the others.
    fn hold_out_of_order(
        &mut self,
        index: u32,
        arrived: &Arrived,
        seq: Seq,
        skip: u16,
        length: u16,
        has_fin: bool,
    ) {
        // First of all, since it may take the extension of this connection.
        let may_hold = self.may_hold() || self.reclaim_held() && self.may_hold();
        let Some(place) = (if may_hold { self.extension_of(index) } else { None }) else {
            self.counters.dropped_for_memory += 1;
            return;
        };
        let newest = &mut self.extensions[place].newest;
        newest.rotate_right(1);
        newest[0] = seq;
        if self.extensions[place].out_of_order_count >= self.limits.out_of_order_segments {
            self.counters.dropped_for_memory += 1;
            return;
        }
        // Cuts bytes that are there already: only the new ones between `before` and `after` stay.
        let tail = self.extensions[place].out_of_order_tail;
        let is_beyond = |held: &Segment| held.marks.has(Marks::FIN) || held.end().gt(seq + u32::from(length));
        // Not a second FIN, and none in front of data: that is a lie.
        let has_fin = has_fin && !self.pool.queue(tail).any(|cell| is_beyond(self.pool.segment(cell)));
        let (mut start, mut end) = (seq, seq + u32::from(length));
        let mut before = Cell::NONE;
        let mut is_contained = false;
        for cell in self.pool.queue(tail) {
            let held = self.pool.segment(cell);
            if held.seq.le(start) {
                if held.marks.has(Marks::FIN) {
                    // It is there already, or lies behind the end of the stream.
                    return;
                }
                before = cell;
                if held.seq + u32::from(held.length) == end && held.seq.le(start) && held.length > 0
                    || (held.seq + u32::from(held.length)).gt(start)
                {
                    start = (held.seq + u32::from(held.length)).max(start);
                }
                if start.ge(end) && (length > 0) {
                    is_contained = true;
                    break;
                }
            } else {
                // The rest behind this one will come again, if it is not there already.
                end = end.min(held.seq);
                break;
            }
        }
        if is_contained && !has_fin || start.gt(end) {
            return;
        }
        let fin_at_end = has_fin && end == seq + u32::from(length);
        if start == end && !fin_at_end {
            return;
        }
        let bytes = (end - start) as usize;
        let Some(cell) = self.pool.take(bytes) else {
            self.counters.dropped_for_memory += 1;
            return;
        };
        let from = usize::from(arrived.segment.payload_at + skip) + (start - seq) as usize;
        let frame = &self.held[arrived.frame as usize];
        self.pool.append(cell, bytes).copy_from_slice(&frame[from..from + bytes]);
        let held = self.pool.segment_mut(cell);
        held.seq = start;
        if fin_at_end {
            held.marks.set(Marks::FIN);
        }
        let extension = &mut self.extensions[place];
        if extension.out_of_order_count == 0 {
            extension.held_since = self.tick;
        }
        extension.out_of_order_count += 1;
        extension.out_of_order_tail = self.pool.insert_after(tail, before, cell);
        self.held_segments += 1;
        self.counters.out_of_order += 1;
        if let Some(until) = self.held_until(&self.blocks[index]) {
            self.set_deadline(index, until);
        }
    }

    /// Delivers the held segments that are in order now.
    fn join_out_of_order(&mut self, index: u32) {
        let place = self.blocks[index].extension;
        if place == Block::NO_EXTENSION {
            return;
        }
        loop {
            let tail = self.extensions[place].out_of_order_tail;
            let first = self.pool.front(tail);
            if first.is_none() {
                return;
            }
            let held = *self.pool.segment(first);
            let rcv_nxt = self.blocks[index].rcv_nxt;
            if held.seq.gt(rcv_nxt) {
                return;
            }
            let extension = &mut self.extensions[place];
            extension.out_of_order_count -= 1;
            extension.held_since = self.tick;
            extension.out_of_order_tail = self.pool.unlink_front(tail);
            self.held_segments -= 1;
            let overlap = (rcv_nxt - held.seq).min(u32::from(held.length));
            let has_fin = held.marks.has(Marks::FIN);
            if overlap < u32::from(held.length) {
                let kept = self.pool.segment_mut(first);
                kept.start += overlap as u16;
                kept.length -= overlap as u16;
                let length = u32::from(kept.length);
                if let Unread::InFrame(number) = Unread::of(&self.blocks[index]) {
                    self.keep(number, self.in_frames[number]);
                }
                let block = &mut self.blocks[index];
                block.receive_tail = self.pool.push_back(block.receive_tail, first);
                self.owing.push(index);
                self.advance_receive(index, length);
            } else {
                self.pool.free(first);
            }
            if has_fin {
                return self.on_fin(index);
            }
        }
    }

    /// The blocks that an ACK reports (RFC 2018, section 4; RFC 2883). A duplicate comes first, then the block with the
    /// newest segment, the blocks reported last, and the others from the left edge on. Returns how many.
    pub(super) fn sack_blocks(&mut self, place: ExtensionId, blocks: &mut [(Seq, Seq); SACK_MAX]) -> usize {
        let extension = &mut self.extensions[place];
        let mut chosen = Chosen::new(extension.newest);
        let duplicate = std::mem::replace(&mut extension.duplicate, (Seq(0), Seq(0)));
        let mut open: Option<(Seq, Seq)> = None;
        for cell in self.pool.queue(extension.out_of_order_tail) {
            let held = self.pool.segment(cell);
            match &mut open {
                Some((_, end)) if *end == held.seq => *end = held.end(),
                _ => chosen.offer(open.replace((held.seq, held.end()))),
            }
        }
        chosen.offer(open);
        let mut count = 0;
        if duplicate.0 != duplicate.1 {
            blocks[0] = duplicate;
            count = 1;
        }
        let newest = &mut self.extensions[place].newest;
        for (at, block) in chosen.in_order().take(SACK_MAX).enumerate() {
            newest[at] = block.0;
            if let Some(room) = blocks.get_mut(count) {
                *room = block;
                count += 1;
            }
        }
        count
    }

    /// Remembers a duplicate segment, to report it (RFC 2883).
    pub(super) fn note_duplicate(&mut self, index: u32, segment: &Parsed) {
        let block = &self.blocks[index];
        let length = u32::from(segment.payload_len);
        if length == 0 || !block.has(Flags::SACK) || !segment.seq.lt(block.rcv_nxt) {
            return;
        }
        let end = (segment.seq + length).min(block.rcv_nxt);
        if segment.seq.lt(end)
            && let Some(place) = self.extension_of(index)
        {
            self.extensions[place].duplicate = (segment.seq, end);
        }
    }
}

/// The blocks of an ACK, chosen from all in the order of their numbers.
struct Chosen {
    newest: [Seq; SACK_MAX],
    /// Those with the newest numbers, in that order.
    recent: [Option<(Seq, Seq)>; SACK_MAX],
    /// The first of the others.
    others: [Option<(Seq, Seq)>; SACK_MAX],
    others_count: usize,
}

impl Chosen {
    const fn new(newest: [Seq; SACK_MAX]) -> Self {
        Self { newest, recent: [None; SACK_MAX], others: [None; SACK_MAX], others_count: 0 }
    }

    fn offer(&mut self, block: Option<(Seq, Seq)>) {
        let Some((left, right)) = block else { return };
        if let Some(at) = self.newest.iter().position(|number| number.within(left, right)) {
            self.recent[at] = block;
        } else if let Some(room) = self.others.get_mut(self.others_count) {
            *room = block;
            self.others_count += 1;
        }
    }

    fn in_order(&self) -> impl Iterator<Item = (Seq, Seq)> {
        self.recent.iter().chain(&self.others).flatten().copied()
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
