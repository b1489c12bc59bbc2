//! Frames leave: in the order of the rings, as many as there is room for.

use anywire_packet::{Addresses, Flags as Control, OptionsOut, Outgoing, SACK_MAX, Seq, emit, headers_len};

use super::Engine;
use super::reply::without_payload;
use crate::block::{Block, Flags, State};
use crate::frames::{Checksum, Filling, Frames, Meta};
use crate::pool::{Cell, Marks, SEGMENT_BYTES};
use crate::recovery::Probe;
use crate::settings::Ecn;
use crate::time::Instant;

/// What a connection sends next.
enum Next {
    /// Something that was never sent.
    New(Cell),
    /// Something that is taken for lost.
    Again(Cell),
    Nothing,
}

impl Engine {
    /// Fills `out` with frames, connection by connection in the order of the rings, until it is full or there is nothing to
    /// send. What finds no room waits, and nothing is queued inside. A frame longer than `out` was made for waits as well,
    /// and ends this batch.
    pub fn transmit(&mut self, now: Instant, out: &mut Frames) {
        self.set_now(now);
        self.local.neighbours.begin_batch();
        let before = out.len();
        self.fill(&mut out.fill());
        if self.leaving_checks.tcp != self.leaving_checks.ip {
            out.describe_from(before, Meta { checksum: Checksum::Partial, segment_bytes: 0 });
        }
        self.counters.frames_sent += (out.len() - before) as u64;
    }

    fn fill(&mut self, out: &mut Filling<'_>) {
        let share =
            if self.scheduler.waiting() == 0 { out.room() } else { (out.room() / REPLIES_SHARE).max(1) };
        self.transmit_replies(out, share);
        while out.room() > 0 {
            let Some((index, coming)) = self.scheduler.pop() else { break };
            if let Some(coming) = coming {
                self.blocks.prefetch(coming);
            }
            if self.settings.predicts && self.send_predicted(index, out) {
                self.check(index);
                continue;
            }
            let block = &mut self.blocks[index];
            if block.has(Flags::SCHEDULED) {
                block.flags.clear(Flags::SCHEDULED);
                if !self.serve(index, out) {
                    break;
                }
                self.check(index);
            }
        }
        self.transmit_replies(out, out.room());
    }

    /// The same for a device that has room for fewer frames than `out`.
    pub fn transmit_up_to(&mut self, now: Instant, out: &mut Frames, frames_max: usize) {
        out.limit_to(frames_max);
        self.transmit(now, out);
        out.limit_to(usize::MAX);
    }

    /// Whether [`transmit`](Self::transmit) would have something to do.
    pub fn wants_to_transmit(&self) -> bool {
        self.scheduler.waiting() > 0 || !self.replies.is_empty()
    }

    /// How many connections and replies wait to leave.
    pub fn waiting_to_transmit(&self) -> usize {
        self.scheduler.waiting() + self.replies.len()
    }

    /// How often a class of connections sends in a round. Class 0 is for connections being opened (default 8), class 1 for
    /// connections without a class of their own (32), and two more have 64 and 128.
    pub fn set_class_weight(&mut self, class: u8, weight: u32) {
        self.scheduler.set_weight(usize::from(class), weight);
    }

    /// Whether `out` takes the longest frame that a connection sends. Asked before anything is sent, since nothing could be
    /// taken back.
    fn has_room(&self, index: u32, out: &Filling<'_>) -> bool {
        let block = &self.blocks[index];
        let options =
            OptionsOut { timestamps: block.has(Flags::TIMESTAMPS).then_some((0, 0)), ..OptionsOut::NONE };
        let addresses = self.local.addresses(block.local, block.remote);
        // The options of a SYN, and blocks of SACK without payload, are shorter than the shortest MSS.
        let longest = match block.extension {
            Block::NO_EXTENSION => block.eff_mss,
            // A probe of the path is longer.
            place => self.extensions[place].mtu_search.map_or(0, |search| search.high()).max(block.eff_mss),
        };
        out.has_room_for(headers_len(&addresses, &options) + usize::from(longest))
    }

    /// Sends the frames of one connection. False if the next one finds no room: then the connection is in its ring again.
    fn serve(&mut self, index: u32, out: &mut Filling<'_>) -> bool {
        if self.blocks[index].state == State::Closed {
            return self.send_last_reset(index, out);
        }
        if !self.has_room(index, out) {
            self.schedule(index);
            return false;
        }
        match self.blocks[index].state {
            State::SynSent | State::SynReceived => {
                // It may be in the ring for another reason, such as waiting data.
                if self.blocks[index].has(Flags::ACK_NOW) {
                    self.send_syn(index, out);
                }
                return true;
            }
            _ => {}
        }
        for _ in 0..QUANTUM_SEGMENTS {
            if !self.has_room(index, out) {
                self.schedule(index);
                return false;
            }
            let next = if self.must_wait(index) { Next::Nothing } else { self.next(index) };
            match next {
                Next::New(cell) => self.send_cell(index, cell, Marks::NONE, out),
                Next::Again(cell) => self.send_cell(index, cell, Marks::RESENT, out),
                Next::Nothing => {
                    if self.blocks[index].has(Flags::ACK_NOW) {
                        self.send_bare(index, self.blocks[index].bare_seq(), Control::ACK, out);
                        self.send_duplicates(index, out);
                        // A duplicate may have been all that there was to report.
                        self.drop_extension_if_calm(index);
                    }
                    return true;
                }
            }
        }
        // More may follow after the others.
        if self.blocks[index].has_unsent() || self.blocks[index].has(Flags::RECOVERING.with(Flags::TIMED_OUT))
        {
            self.schedule(index);
        }
        true
    }

    fn next(&mut self, index: u32) -> Next {
        let block = &self.blocks[index];
        let mut flight = block.flight();
        if block.extension != Block::NO_EXTENSION || block.has(Flags::TIMED_OUT) {
            flight = self.pipe(index);
            if let Some(probe) = self.next_probe(index) {
                return probe;
            }
            if let Some(cell) = self.next_lost(index) {
                return self.next_again(index, cell, flight);
            }
            if self.blocks[index].extension != Block::NO_EXTENSION
                && let Some(cell) = self.next_path_probe(index, flight)
            {
                return Next::New(cell);
            }
        }
        let block = &mut self.blocks[index];
        let cell = block.send_next;
        if cell.is_none() {
            return Next::Nothing;
        }
        let kept = self.pool.segment(cell);
        let length = u32::from(kept.length);
        // The peer's window.
        if (kept.seq + length).gt(block.snd_right) {
            return self.next_beyond_window(index, cell);
        }
        // The congestion window.
        if flight + length > block.window.cwnd && flight > 0 {
            block.flags.set(Flags::CWND_LIMITED);
            return Next::Nothing;
        }
        // Nagle (RFC 9293 3.7.4): less than a segment waits while something is not acknowledged. Only the last one can still
        // become longer.
        if length < u32::from(block.eff_mss)
            && cell == block.send_tail
            && block.snd_nxt != block.snd_una
            && !block.has(Flags::NO_NAGLE.with(Flags::FIN_QUEUED))
        {
            return Next::Nothing;
        }
        if length > u32::from(block.eff_mss) {
            // The path has become narrower since it was written.
            let at = block.eff_mss;
            return if self.split(index, cell, at) { Next::New(cell) } else { Next::Nothing };
        }
        if block.flight() == 0 && block.was_idle_for_rto(self.tick) {
            block.window.after_idle(block.eff_mss);
        }
        Next::New(cell)
    }

    /// A lost segment goes again as soon as the congestion window has room for it.
    #[cold]
    fn next_again(&mut self, index: u32, cell: Cell, pipe: u32) -> Next {
        let block = &mut self.blocks[index];
        let eff_mss = block.eff_mss;
        let length = self.pool.segment(cell).length;
        if pipe > 0 && pipe + u32::from(length.min(eff_mss)) > block.window.cwnd {
            block.flags.set(Flags::CWND_LIMITED);
            return Next::Nothing;
        }
        if length > eff_mss && !self.split(index, cell, eff_mss) {
            // The path has become narrower since it was sent, and there is no memory for its rest: the timer tries again.
            return Next::Nothing;
        }
        Next::Again(cell)
    }

    /// The loss probe, if it is due: new data if the peer's window has room, else the segment sent last. The congestion
    /// window does not limit it (RFC 8985 7.3).
    #[cold]
    fn next_probe(&mut self, index: u32) -> Option<Next> {
        let place = self.blocks[index].extension;
        let extension = self.extensions_mut(place)?;
        if !std::mem::take(&mut extension.probe_due) {
            return None;
        }
        let block = &self.blocks[index];
        let (cell, eff_mss) = (block.send_next, block.eff_mss);
        if !cell.is_none() {
            let kept = self.pool.segment(cell);
            let length = kept.length.min(eff_mss);
            if (kept.seq + u32::from(length)).le(block.snd_right)
                && (kept.length == length || self.split(index, cell, length))
            {
                let nxt = self.pool.segment(cell).end();
                self.note_probe(index, Probe::NewData, nxt);
                return Some(Next::New(cell));
            }
        }
        let nxt = self.blocks[index].snd_nxt;
        let last = self.last_sent(index)?;
        if self.pool.segment(last).length > eff_mss && !self.split(index, last, eff_mss) {
            // Once there is memory.
            self.extensions[place].probe_due = true;
            return None;
        }
        self.note_probe(index, Probe::Retransmission, nxt);
        Some(Next::Again(last))
    }

    /// The next segment does not fit into the peer's window: a part of it goes if that is worth it (RFC 9293 3.8.6.2.1),
    /// and a closed window is probed (3.8.6.1).
    #[cold]
    fn next_beyond_window(&mut self, index: u32, cell: Cell) -> Next {
        let block = &self.blocks[index];
        let seq = self.pool.segment(cell).seq;
        let room = if block.snd_right.gt(seq) { block.snd_right - seq } else { 0 };
        let half = u32::from(block.max_snd_wnd) << 5;
        // A segment shorter than both half of the peer's largest window and the MSS waits until the timer has fired once.
        let is_worth_it = room >= half.max(1) || room >= u32::from(block.eff_mss);
        let is_overdue = block.flight() == 0 && block.has(Flags::PROBING_WINDOW) && block.backoff() > 0;
        if room > 0 && (is_worth_it || is_overdue) {
            let at = room.min(u32::from(block.eff_mss)) as u16;
            return if self.split(index, cell, at) { Next::New(cell) } else { Next::Nothing };
        }
        if block.flight() == 0 {
            self.begin_probing(index);
        }
        Next::Nothing
    }

    /// Cuts a segment in two. False if there is no memory for the second: then the connection has a turn once there is some. The
    /// limit does not apply, since the bytes are in memory already.
    pub(super) fn split(&mut self, index: u32, cell: Cell, at: u16) -> bool {
        let kept = *self.pool.segment(cell);
        let rest = usize::from(kept.length - at);
        let Some(second) = self.pool.take_beyond_limit(rest) else {
            self.waiting_to_split.insert(index);
            return false;
        };
        let mut bytes = [0; SEGMENT_BYTES];
        bytes[..rest].copy_from_slice(&self.pool.bytes_of(cell)[usize::from(at)..]);
        self.pool.append(second, rest).copy_from_slice(&bytes[..rest]);
        let tail = self.pool.segment_mut(second);
        tail.seq = kept.seq + u32::from(at);
        tail.marks = kept.marks;
        tail.sent_at = kept.sent_at;
        tail.transmissions = kept.transmissions;
        let head = self.pool.segment_mut(cell);
        head.length = at;
        head.marks.clear(Marks::FIN.with(Marks::PUSH));
        let block = &mut self.blocks[index];
        block.send_tail = self.pool.insert_after(block.send_tail, cell, second);
        block.queued += 1;
        true
    }

    /// Sends one segment of the queue.
    fn send_cell(&mut self, index: u32, cell: Cell, again: Marks, out: &mut Filling<'_>) {
        let window = announce(&mut self.blocks[index], self.settings.receive_window);
        let block = &mut self.blocks[index];
        let kept = self.pool.segment_mut(cell);
        let is_new = again == Marks::NONE;
        let is_last = cell == block.send_tail;
        let mut flags = Control::ACK;
        if (is_last || kept.marks.has(Marks::PUSH)) && kept.length > 0 {
            flags |= Control::PSH;
        }
        if kept.marks.has(Marks::FIN) {
            flags |= Control::FIN;
        }
        let (seq, end) = (kept.seq, kept.end());
        kept.sent_at = self.now.short();
        kept.transmissions = kept.transmissions.saturating_add(1);
        if is_new {
            block.send_next = if is_last { Cell::NONE } else { kept.next };
            block.snd_nxt = block.snd_nxt.max(end);
        } else {
            kept.marks.set(Marks::RESENT);
        }
        let was_lost = kept.marks.has(Marks::LOST);
        kept.marks.clear(Marks::LOST);
        if block.extension != Block::NO_EXTENSION {
            let extension = &mut self.extensions[block.extension];
            if was_lost {
                extension.lost_bytes -= end - seq;
            }
            let length = u32::from(kept.length);
            extension.prr.on_sent(length);
            if !is_new {
                extension.resent_at.get_or_insert(self.tick);
                extension.resent_count = extension.resent_count.saturating_add(1);
            }
            let place = block.extension;
            self.use_rate(place, length);
        }
        let block = &mut self.blocks[index];
        if !is_new {
            self.counters.retransmits += 1;
            self.retransmissions.count(index);
        }
        let is_marked = block.has(Flags::ECN) && is_new;
        if is_marked && block.has(Flags::REDUCED) {
            flags |= Control::CWR;
            block.flags.clear(Flags::REDUCED);
        }
        self.write(index, seq, flags, window, Some(cell), if is_marked { ECT_0 } else { 0 }, out);
        self.arm_retransmission(index);
    }

    /// One ACK for each segment out of order (RFC 5681 4.2). With SACK the one that has just left says it all.
    fn send_duplicates(&mut self, index: u32, out: &mut Filling<'_>) {
        let has_sack = self.blocks[index].has(Flags::SACK);
        let Some(extension) = self.extensions_mut(self.blocks[index].extension) else { return };
        let more = std::mem::take(&mut extension.acks_owed).saturating_sub(1);
        for left in (1..=if has_sack { 0 } else { more }).rev() {
            if !self.has_room(index, out) {
                // The others with the next batch.
                self.extensions[self.blocks[index].extension].acks_owed = left;
                return self.acknowledge_now(index);
            }
            self.send_bare(index, self.blocks[index].bare_seq(), Control::ACK, out);
        }
    }

    /// Sends a segment without payload.
    pub(super) fn send_bare(&mut self, index: u32, seq: Seq, flags: Control, out: &mut Filling<'_>) {
        let window = announce(&mut self.blocks[index], self.settings.receive_window);
        self.write(index, seq, flags, window, None, 0, out);
    }

    #[expect(clippy::too_many_arguments, reason = "the fields of one segment")]
    fn write(
        &mut self,
        index: u32,
        seq: Seq,
        mut flags: Control,
        window: u16,
        cell: Option<Cell>,
        ecn: u8,
        out: &mut Filling<'_>,
    ) {
        let block = &mut self.blocks[index];
        block.flags.clear(Flags::ACK_OWED.with(Flags::ACK_NOW));
        block.last_ack_sent = block.rcv_nxt;
        if block.has(Flags::ECHO_CONGESTION) {
            flags |= Control::ECE;
        }
        let extension = block.extension;
        let may_be_fragmented =
            extension != Block::NO_EXTENSION && self.extensions[extension].may_be_fragmented;
        let mut segment = Outgoing {
            local_port: block.local_port,
            remote_port: block.remote_port,
            seq,
            ack: block.rcv_nxt,
            flags,
            window,
            traffic_class: block.class.field() | ecn,
            fragment_id: None,
        };
        let stamp = self.tick.0.wrapping_add(block.ts_offset);
        let timestamps = block.has(Flags::TIMESTAMPS).then_some((stamp, block.ts_recent));
        let has_sack = block.has(Flags::SACK);
        let eff_mss = usize::from(block.eff_mss);
        let addresses = self.local.addresses(block.local, block.remote);
        let neighbour = block.neighbour;
        if may_be_fragmented && let Addresses::V4 { local, remote } = addresses {
            segment.fragment_id = Some(self.fragment_ids.next(self.keys.fragments, local, remote));
        }
        let checks = self.leaving_checks;
        let mut options = OptionsOut { timestamps, ..OptionsOut::NONE };
        let mut blocks = [(Seq(0), Seq(0)); SACK_MAX];
        if extension != Block::NO_EXTENSION && has_sack {
            let length = cell.map_or(0, |cell| usize::from(self.pool.segment(cell).length));
            // Four bytes and eight a block, if the payload leaves them.
            let fit = eff_mss.saturating_sub(length + 4) / 8;
            let count = if fit == 0 { 0 } else { self.sack_blocks(extension, &mut blocks).min(fit) };
            options.sack = &blocks[..count];
        }
        let payload = cell.map_or(&[][..], |cell| self.pool.bytes_of(cell));
        let link = self.local.link(neighbour);
        let is_written = out.push_with(headers_len(&addresses, &options) + payload.len(), |room| {
            emit(room, link, &addresses, &segment, &options, payload, checks)
        });
        debug_assert!(is_written, "there was room for it");
    }

    /// SYN of an active open, or SYN-ACK of a simultaneous one.
    #[cold]
    fn send_syn(&mut self, index: u32, out: &mut Filling<'_>) {
        let block = &mut self.blocks[index];
        let is_answer = block.state == State::SynReceived;
        block.snd_nxt = block.snd_una + 1;
        if block.backoff() == 0 && !is_answer {
            *block.syn_sent_at_mut() = self.now.short();
        }
        block.flags.clear(Flags::ACK_OWED.with(Flags::ACK_NOW));
        let block = &self.blocks[index];
        let addresses = self.local.addresses(block.local, block.remote);
        let mut flags = Control::SYN;
        if is_answer {
            flags |= Control::ACK;
            if block.has(Flags::ECN) {
                flags |= Control::ECE;
            }
        } else if self.settings.ecn == Ecn::Ask && block.backoff() == 0 {
            // Not on a retry: some path may drop what asks for it (RFC 3168 6.1.1.1).
            flags |= Control::ECE | Control::CWR;
        }
        let ack = if is_answer { block.rcv_nxt } else { Seq(0) };
        let window = self.first_window();
        let segment = Outgoing { ack, window, ..without_payload(block, block.snd_una, flags) };
        let has_timestamps = if is_answer { block.has(Flags::TIMESTAMPS) } else { self.settings.timestamps };
        let options = OptionsOut {
            mss: Some(self.own_mss(&addresses)),
            window_scale: (!is_answer || block.scales != 0).then(|| self.own_scale()),
            sack_permitted: if is_answer { block.has(Flags::SACK) } else { self.settings.sack },
            timestamps: has_timestamps
                .then(|| (self.stamp(block.ts_offset), if is_answer { block.ts_recent } else { 0 })),
            ..OptionsOut::NONE
        };
        let (link, checks) = (self.local.link(block.neighbour), self.leaving_checks);
        let is_written = out.push_with(headers_len(&addresses, &options), |room| {
            emit(room, link, &addresses, &segment, &options, &[], checks)
        });
        debug_assert!(is_written, "there was room for it");
        self.arm_retransmission(index);
    }
}

/// What the buffer has room for, and the window field can say. The right edge has kept the unread bytes below the limit.
#[inline(always)]
pub(super) fn receive_room(block: &Block, limit: u32) -> u32 {
    (limit - block.unread()).min(u32::from(u16::MAX) << block.receive_scale())
}

/// The window field, and with it the right edge that the peer may now use (RFC 9293 3.8.6). It never goes back, never goes beyond
/// the buffer, and moves on in steps that are worth it (3.8.6.2.2).
#[inline(always)]
pub(super) fn announce(block: &mut Block, limit: u32) -> u16 {
    let shift = block.receive_scale();
    let room = receive_room(block, limit);
    let left = block.rcv_right - block.rcv_nxt;
    // What would go back is a step below zero.
    let step = room.wrapping_sub(left).cast_signed();
    let is_worth_it = step >= u32::from(block.eff_mss).min(limit / 2).cast_signed();
    let window = if is_worth_it { room } else { left };
    // Rounded up, so that the edge does not seem to go back when RCV.NXT moves by less than a unit.
    let below_unit = (1 << shift) - 1;
    let rounded = (window + below_unit) & !below_unit;
    if rounded <= room {
        block.rcv_right = block.rcv_nxt + rounded;
        return (rounded >> shift) as u16;
    }
    // Each ACK would move the edge a little beyond the buffer, and the window would never close. It seems to go back by
    // less than a unit instead (RFC 7323 2.4), and what was in the window before is still taken.
    let field = window >> shift;
    block.rcv_right = block.rcv_right.max(block.rcv_nxt + (field << shift));
    field as u16
}

/// Segments that a connection may send before the next one of its ring.
const QUANTUM_SEGMENTS: usize = 2;

/// Replies get this part of the room while connections wait for theirs.
const REPLIES_SHARE: usize = 4;

/// ECN-capable (RFC 3168, section 5).
const ECT_0: u8 = 2;
