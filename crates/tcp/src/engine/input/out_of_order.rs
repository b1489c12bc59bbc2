//! Payload out of order: to its place among what is held, to the reader once the gap before it is filled, and what an ACK reports
//! of it (RFC 2018, RFC 2883).

use anywire_packet::{Flags as Control, Parsed, SACK_MAX, Seq};

use crate::engine::input::deliver::Unread;
use crate::engine::input::receive::Arrived;
use crate::engine::{ConnIndex, Engine};
use crate::extension::ExtensionId;
use crate::pool::{Cell, Marks, SEGMENT_BYTES, Segment};
use crate::tcb::{Flags, State, Tcb};

impl Engine {
    /// Payload before or behind RCV.NXT, or a connection with gaps.
    #[cold]
    pub(crate) fn on_text_in_trouble(&mut self, index: ConnIndex, arrived: &Arrived) {
        let segment = &arrived.segment;
        let tcb = &self.tcbs[index];
        // Bytes outside the window on either side are cut off.
        let skip = if segment.seq.lt(tcb.rcv_nxt) { tcb.rcv_nxt - segment.seq } else { 0 };
        let length = u32::from(segment.payload_len);
        let (seq, room) = (segment.seq + skip, tcb.rcv_right - (segment.seq + skip));
        let rest = length.saturating_sub(skip).min(room);
        let is_whole = skip + rest == length || length < skip;
        let has_fin = segment.flags.has(Control::FIN) && is_whole;
        let text = self.before_known_end(index, Text { seq, length: rest, skip: skip as u16, has_fin });
        self.note_duplicate(index, segment);
        if seq != self.tcbs[index].rcv_nxt {
            self.queue_out_of_order(index, arrived, text);
            if let Some(extension) = self.extensions_mut(self.tcbs[index].extension) {
                extension.acks_owed = extension.acks_owed.saturating_add(1);
            }
            return self.acknowledge_now(index);
        }
        if text.length > 0 && !self.deliver_frame(index, arrived, text.skip, text.length as u16) {
            return;
        }
        if text.has_fin {
            self.on_fin(index);
        } else {
            self.join_out_of_order(index);
        }
        if self.tcbs[index].state == State::Closed {
            // With the FIN it has gone over to TIME-WAIT.
            return;
        }
        // RFC 5681 4.2: what fills a gap is acknowledged at once.
        self.acknowledge_now(index);
        self.drop_extension_if_calm(index);
    }

    /// Text as far as it does not contradict what is held: nothing is behind a FIN, and none is in front of data.
    pub(crate) fn before_known_end(&self, index: ConnIndex, text: Text) -> Text {
        let Some(last) = self.last_out_of_order(index) else { return text };
        if !last.marks.has(Marks::FIN) {
            return Text { has_fin: text.has_fin && last.end().le(text.seq + text.length), ..text };
        }
        let end = last.end() - 1;
        let length = if text.seq.lt(end) { text.length.min(end - text.seq) } else { 0 };
        Text { length, has_fin: false, ..text }
    }

    /// The last of the segments that a connection holds out of order.
    fn last_out_of_order(&self, index: ConnIndex) -> Option<Segment> {
        let place = self.tcbs[index].extension;
        let tail = (place != Tcb::NO_EXTENSION).then(|| self.extensions[place].out_of_order_tail)?;
        (!tail.is_none()).then(|| *self.pool.segment(tail))
    }

    /// Puts text with a gap before it into its place among the others: all of it that is not there yet (RFC 9293 SHLD-31).
    pub(crate) fn queue_out_of_order(&mut self, index: ConnIndex, arrived: &Arrived, text: Text) {
        if text.length == 0 && !text.has_fin {
            return;
        }
        // First of all, since it may take the extension of this connection.
        let may_reassemble = self.may_reassemble() || self.reclaim_out_of_order() && self.may_reassemble();
        let Some(place) = (if may_reassemble { self.extension_of(index) } else { None }) else {
            self.counters.dropped_for_memory += 1;
            return;
        };
        let extension = &mut self.extensions[place];
        extension.newest.rotate_right(1);
        // The block with the duplicate is reported right behind it (RFC 2883 4).
        let (left, right) = extension.duplicate;
        extension.newest[0] = if left == right { text.seq } else { left };
        let tail = extension.out_of_order_tail;
        let end = text.seq + text.length;
        let (mut from, mut before, mut next) = (text.seq, Cell::NONE, self.pool.front(tail));
        while !next.is_none() && from.lt(end) {
            let held = *self.pool.segment(next);
            if from.lt(held.seq) {
                let gap = Text { has_fin: false, ..text.part(from, held.seq.min(end)) };
                if !self.queue_piece(place, arrived, gap, before) {
                    return;
                }
            }
            from = from.max(held.end());
            (before, next) = (next, if next == tail { Cell::NONE } else { held.next });
        }
        if from.lt(end) || text.has_fin {
            // Behind all others, and so is a FIN.
            self.queue_piece(place, arrived, text.part(from.min(end), end), tail);
        }
        if let Some(until) = self.out_of_order_until(&self.tcbs[index]) {
            self.set_deadline(index, until);
        }
    }

    /// Keeps a piece of a segment behind the held one `before`. False if there is no memory for all of it.
    fn queue_piece(&mut self, place: ExtensionId, arrived: &Arrived, piece: Text, mut before: Cell) -> bool {
        let (mut from, end) = (piece.seq, piece.seq + piece.length);
        loop {
            let to = end.min(from + SEGMENT_BYTES as u32);
            let part = Text { has_fin: piece.has_fin && to == end, ..piece.part(from, to) };
            let Some(cell) = self.queue_part(place, arrived, part, before) else { return false };
            (before, from) = (cell, to);
            if from == end {
                return true;
            }
        }
    }

    /// The same for as much as a cell holds.
    fn queue_part(
        &mut self,
        place: ExtensionId,
        arrived: &Arrived,
        piece: Text,
        before: Cell,
    ) -> Option<Cell> {
        let bytes = piece.length as usize;
        let has_room = self.extensions[place].out_of_order_count < self.limits.out_of_order_segments;
        let cell = if has_room && self.may_reassemble() { self.pool.take(bytes) } else { None };
        let Some(cell) = cell else {
            self.counters.dropped_for_memory += 1;
            return None;
        };
        let from = usize::from(arrived.segment.payload_at + piece.skip);
        let frame = &self.received[arrived.frame as usize];
        self.pool.append(cell, bytes).copy_from_slice(&frame[from..from + bytes]);
        let held = self.pool.segment_mut(cell);
        held.seq = piece.seq;
        if piece.has_fin {
            held.marks.set(Marks::FIN);
        }
        let extension = &mut self.extensions[place];
        if extension.out_of_order_count == 0 {
            extension.out_of_order_since = self.tick;
        }
        extension.out_of_order_count += 1;
        extension.out_of_order_tail = self.pool.insert_after(extension.out_of_order_tail, before, cell);
        self.out_of_order_segments += 1;
        self.counters.out_of_order += 1;
        Some(cell)
    }

    /// Delivers the held segments that are in order now.
    pub(crate) fn join_out_of_order(&mut self, index: ConnIndex) {
        let place = self.tcbs[index].extension;
        if place == Tcb::NO_EXTENSION {
            return;
        }
        loop {
            let tail = self.extensions[place].out_of_order_tail;
            let first = self.pool.front(tail);
            if first.is_none() {
                return;
            }
            let held = *self.pool.segment(first);
            let rcv_nxt = self.tcbs[index].rcv_nxt;
            if held.seq.gt(rcv_nxt) {
                return;
            }
            let extension = &mut self.extensions[place];
            extension.out_of_order_count -= 1;
            extension.out_of_order_since = self.tick;
            extension.out_of_order_tail = self.pool.unlink_front(tail);
            self.out_of_order_segments -= 1;
            let overlap = (rcv_nxt - held.seq).min(u32::from(held.length));
            let has_fin = held.marks.has(Marks::FIN);
            if overlap < u32::from(held.length) {
                let kept = self.pool.segment_mut(first);
                kept.start += overlap as u16;
                kept.length -= overlap as u16;
                let length = u32::from(kept.length);
                if let Unread::InFrame(number) = Unread::of(&self.tcbs[index]) {
                    self.keep(number, self.in_frames[number]);
                }
                let tcb = &mut self.tcbs[index];
                tcb.receive_tail = self.pool.push_back(tcb.receive_tail, first);
                self.delayed_ack_candidates.push(index);
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
    pub(crate) fn sack_blocks(&mut self, place: ExtensionId, blocks: &mut [(Seq, Seq); SACK_MAX]) -> usize {
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

    /// Remembers what of a segment has arrived before, to report it: its first part without a gap (RFC 2883 4).
    pub(crate) fn note_duplicate(&mut self, index: ConnIndex, segment: &Parsed) {
        let tcb = &self.tcbs[index];
        let (seq, end) = (segment.seq, segment.seq + u32::from(segment.payload_len));
        if seq == end || !tcb.has(Flags::SACK) {
            return;
        }
        let duplicate = if seq.lt(tcb.rcv_nxt) {
            (seq, end.min(tcb.rcv_nxt))
        } else {
            match self.first_out_of_order_within(tcb.extension, seq, end) {
                Some(held) => held,
                None => return,
            }
        };
        if let Some(place) = self.extension_of(index) {
            self.extensions[place].duplicate = duplicate;
        }
    }

    /// The first bytes from `seq` up to `end` that are held out of order, up to the first gap.
    fn first_out_of_order_within(&self, place: ExtensionId, seq: Seq, end: Seq) -> Option<(Seq, Seq)> {
        let tail = (place != Tcb::NO_EXTENSION).then(|| self.extensions[place].out_of_order_tail)?;
        let mut found: Option<(Seq, Seq)> = None;
        for cell in self.pool.queue(tail) {
            let held = self.pool.segment(cell);
            let (left, right) = (held.seq.max(seq), (held.seq + u32::from(held.length)).min(end));
            match &mut found {
                None if left.lt(right) => found = Some((left, right)),
                Some((_, known)) if *known == left && left.lt(right) => *known = right,
                Some(_) => break,
                None => {}
            }
        }
        found
    }
}

/// Text of a segment, or a part of it.
#[derive(Clone, Copy)]
pub(crate) struct Text {
    pub(crate) seq: Seq,
    pub(crate) length: u32,
    /// Bytes of the segment before it.
    pub(crate) skip: u16,
    /// A FIN is behind it.
    pub(crate) has_fin: bool,
}

impl Text {
    fn part(self, from: Seq, to: Seq) -> Self {
        Self { seq: from, length: to - from, skip: self.skip + (from - self.seq) as u16, ..self }
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
