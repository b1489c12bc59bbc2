//! Frames leave: in the order of the rings, as many as there is room for.

use anywire_packet::ip::set_hop_limit;
use anywire_packet::{Addresses, Flags as Control, OptionsOut, Outgoing, SACK_MAX, Seq, emit, headers_len};

use crate::engine::output::reply::without_payload;
use crate::engine::{ConnIndex, Engine};
use crate::frames::{Checksum, Filling, Frames, Meta};
use crate::pool::{Cell, Marks, SEGMENT_BYTES};
use crate::recovery::Probe;
use crate::settings::{Ecn, Settings};
use crate::tcb::{Flags, State, Tcb};
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
            out.describe_from(
                before,
                Meta { checksum: Checksum::Partial, segment_bytes: 0, ..Meta::default() },
            );
        }
        let hop_limit = self.settings.hop_limit;
        if hop_limit != Settings::HOP_LIMIT {
            // Apart from the emitters, which nearly nobody should pay for.
            out.change_from(before, |frame| set_hop_limit(frame, hop_limit));
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
                self.tcbs.prefetch(coming);
            }
            if self.settings.predicts && self.send_predicted(index, out) {
                self.check(index);
                continue;
            }
            let tcb = &mut self.tcbs[index];
            if tcb.has(Flags::SCHEDULED) {
                tcb.flags.clear(Flags::SCHEDULED);
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
    fn has_room(&self, index: ConnIndex, out: &Filling<'_>) -> bool {
        let tcb = &self.tcbs[index];
        let options =
            OptionsOut { timestamps: tcb.has(Flags::TIMESTAMPS).then_some((0, 0)), ..OptionsOut::NONE };
        let addresses = self.local.addresses(tcb.local, tcb.remote);
        // The options of a SYN, and blocks of SACK without payload, are shorter than the shortest MSS.
        let longest = match tcb.extension {
            Tcb::NO_EXTENSION => tcb.eff_mss,
            // A probe of the path is longer.
            place => self.extensions[place].mtu_search.map_or(0, |search| search.high()).max(tcb.eff_mss),
        };
        out.has_room_for(headers_len(&addresses, &options) + usize::from(longest))
    }

    /// Sends the frames of one connection. False if the next one finds no room: then the connection is in its ring again.
    fn serve(&mut self, index: ConnIndex, out: &mut Filling<'_>) -> bool {
        if self.tcbs[index].state == State::Closed {
            return self.send_last_reset(index, out);
        }
        if !self.has_room(index, out) {
            self.schedule(index);
            return false;
        }
        match self.tcbs[index].state {
            State::SynSent | State::SynReceived => {
                // It may be in the ring for another reason, such as waiting data.
                if self.tcbs[index].has(Flags::ACK_NOW) {
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
                    if self.tcbs[index].has(Flags::ACK_NOW) {
                        self.send_bare(index, self.tcbs[index].bare_seq(), Control::ACK, out);
                        self.send_duplicates(index, out);
                        // A duplicate may have been all that there was to report.
                        self.drop_extension_if_calm(index);
                    }
                    self.note_unfilled_window(index);
                    return true;
                }
            }
        }
        if self.tcbs[index].has_unsent() || self.tcbs[index].has(Flags::RECOVERING.with(Flags::TIMED_OUT)) {
            // More may follow after the others, and fill the window.
            self.schedule(index);
        } else {
            self.note_unfilled_window(index);
        }
        true
    }

    fn next(&mut self, index: ConnIndex) -> Next {
        let tcb = &self.tcbs[index];
        let mut flight = tcb.flight();
        if tcb.extension != Tcb::NO_EXTENSION || tcb.has(Flags::TIMED_OUT) {
            flight = self.pipe(index);
            if let Some(probe) = self.next_probe(index) {
                return probe;
            }
            if let Some(cell) = self.next_lost(index) {
                return self.next_again(index, cell, flight);
            }
            if self.tcbs[index].extension != Tcb::NO_EXTENSION
                && let Some(cell) = self.next_path_probe(index, flight)
            {
                return Next::New(cell);
            }
        }
        let tcb = &mut self.tcbs[index];
        let cell = tcb.send_next;
        if cell.is_none() {
            return Next::Nothing;
        }
        let kept = self.pool.segment(cell);
        let length = u32::from(kept.length);
        // The peer's window.
        if (kept.seq + length).gt(tcb.snd_right) {
            return self.next_beyond_window(index, cell);
        }
        // The congestion window.
        if flight + length > tcb.window.cwnd && flight > 0 {
            tcb.flags.set(Flags::CWND_LIMITED);
            return Next::Nothing;
        }
        // Nagle (RFC 9293 3.7.4): less than a segment waits while something is not acknowledged. Only the last one can still
        // become longer.
        if length < u32::from(tcb.eff_mss)
            && cell == tcb.send_tail
            && tcb.snd_nxt != tcb.snd_una
            && !tcb.has(Flags::NO_NAGLE.with(Flags::FIN_QUEUED))
        {
            return Next::Nothing;
        }
        if length > u32::from(tcb.eff_mss) {
            // The path has become narrower since it was written.
            let at = tcb.eff_mss;
            return if self.split(index, cell, at) { Next::New(cell) } else { Next::Nothing };
        }
        if tcb.flight() == 0 && tcb.was_idle_for_rto(self.tick) {
            tcb.window.after_idle(tcb.eff_mss);
        }
        Next::New(cell)
    }

    /// If the congestion window no longer holds it back, it does not grow until it does again (RFC 9438 5.8). To be asked when nothing
    /// more can leave: not after a turn that others follow, since the clock of CUBIC would stop at each ACK for more than a turn.
    fn note_unfilled_window(&mut self, index: ConnIndex) {
        let tcb = &mut self.tcbs[index];
        let repairs = Flags::RECOVERING.with(Flags::TIMED_OUT);
        if tcb.has(Flags::CWND_LIMITED)
            && !tcb.has(repairs)
            && !tcb.window.is_filled_by(tcb.flight(), tcb.eff_mss)
        {
            tcb.flags.clear(Flags::CWND_LIMITED);
            tcb.window.on_limit_elsewhere(self.tick, tcb.algorithm());
        }
    }

    /// A lost segment goes again as soon as the congestion window has room for it.
    #[cold]
    fn next_again(&mut self, index: ConnIndex, cell: Cell, pipe: u32) -> Next {
        let tcb = &mut self.tcbs[index];
        let eff_mss = tcb.eff_mss;
        let length = self.pool.segment(cell).length;
        if pipe > 0 && pipe + u32::from(length.min(eff_mss)) > tcb.window.cwnd {
            tcb.flags.set(Flags::CWND_LIMITED);
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
    fn next_probe(&mut self, index: ConnIndex) -> Option<Next> {
        let place = self.tcbs[index].extension;
        let extension = self.extensions_mut(place)?;
        if !std::mem::take(&mut extension.probe_due) {
            return None;
        }
        let tcb = &self.tcbs[index];
        let (cell, eff_mss) = (tcb.send_next, tcb.eff_mss);
        if !cell.is_none() {
            let kept = self.pool.segment(cell);
            let length = kept.length.min(eff_mss);
            if (kept.seq + u32::from(length)).le(tcb.snd_right)
                && (kept.length == length || self.split(index, cell, length))
            {
                let nxt = self.pool.segment(cell).end();
                self.note_probe(index, Probe::NewData, nxt);
                return Some(Next::New(cell));
            }
        }
        let nxt = self.tcbs[index].snd_nxt;
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
    fn next_beyond_window(&mut self, index: ConnIndex, cell: Cell) -> Next {
        let tcb = &self.tcbs[index];
        let seq = self.pool.segment(cell).seq;
        let room = if tcb.snd_right.gt(seq) { tcb.snd_right - seq } else { 0 };
        let half = u32::from(tcb.max_snd_wnd) << 5;
        // A segment shorter than both half of the peer's largest window and the MSS waits until the timer has fired once.
        let is_worth_it = room >= half.max(1) || room >= u32::from(tcb.eff_mss);
        let is_overdue = tcb.flight() == 0 && tcb.has(Flags::PROBING_WINDOW) && tcb.timeouts() > 0;
        if room > 0 && (is_worth_it || is_overdue) {
            let at = room.min(u32::from(tcb.eff_mss)) as u16;
            return if self.split(index, cell, at) { Next::New(cell) } else { Next::Nothing };
        }
        if tcb.flight() == 0 {
            self.begin_probing(index);
        }
        Next::Nothing
    }

    /// Cuts a segment in two. False if there is no memory for the second: then the connection has a turn once there is some. The
    /// limit does not apply, since the bytes are in memory already.
    pub(crate) fn split(&mut self, index: ConnIndex, cell: Cell, at: u16) -> bool {
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
        let tcb = &mut self.tcbs[index];
        tcb.send_tail = self.pool.insert_after(tcb.send_tail, cell, second);
        tcb.queued += 1;
        true
    }

    /// Sends one segment of the queue.
    fn send_cell(&mut self, index: ConnIndex, cell: Cell, again: Marks, out: &mut Filling<'_>) {
        let window = announce(&mut self.tcbs[index], self.settings.receive_window);
        let tcb = &mut self.tcbs[index];
        let kept = self.pool.segment_mut(cell);
        let is_new = again == Marks::NONE;
        let is_last = cell == tcb.send_tail;
        let mut flags = Control::ACK;
        if (is_last || kept.marks.has(Marks::PUSH)) && kept.length > 0 {
            flags |= Control::PSH;
        }
        if kept.marks.has(Marks::FIN) {
            flags |= Control::FIN;
        }
        let (seq, end, length) = (kept.seq, kept.end(), u32::from(kept.length));
        kept.sent_at = self.now.short();
        kept.transmissions = kept.transmissions.saturating_add(1);
        if is_new {
            tcb.send_next = if is_last { Cell::NONE } else { kept.next };
            tcb.snd_nxt = tcb.snd_nxt.max(end);
        } else {
            kept.marks.set(Marks::RESENT);
        }
        let was_lost = kept.marks.has(Marks::LOST);
        kept.marks.clear(Marks::LOST);
        if tcb.extension != Tcb::NO_EXTENSION {
            let extension = &mut self.extensions[tcb.extension];
            if was_lost {
                extension.lost_bytes -= end - seq;
            }
            extension.prr.on_sent(length);
            if !is_new {
                extension.resent_at.get_or_insert(self.tick);
                extension.resent_count = extension.resent_count.saturating_add(1);
            }
            let place = tcb.extension;
            self.use_rate(place, length);
        }
        let tcb = &mut self.tcbs[index];
        if !is_new {
            self.counters.retransmits += 1;
            self.troubles.count_again(index, length);
        }
        let is_marked = tcb.has(Flags::ECN) && is_new;
        if is_marked && tcb.has(Flags::REDUCED) {
            flags |= Control::CWR;
            tcb.flags.clear(Flags::REDUCED);
        }
        self.write(index, seq, flags, window, Some(cell), if is_marked { ECT_0 } else { 0 }, out);
        self.arm_retransmission(index);
    }

    /// One ACK for each segment out of order (RFC 5681 4.2). With SACK the one that has just left says it all.
    fn send_duplicates(&mut self, index: ConnIndex, out: &mut Filling<'_>) {
        let has_sack = self.tcbs[index].has(Flags::SACK);
        let Some(extension) = self.extensions_mut(self.tcbs[index].extension) else { return };
        let more = std::mem::take(&mut extension.acks_owed).saturating_sub(1);
        for left in (1..=if has_sack { 0 } else { more }).rev() {
            if !self.has_room(index, out) {
                // The others with the next batch.
                self.extensions[self.tcbs[index].extension].acks_owed = left;
                return self.acknowledge_now(index);
            }
            self.send_bare(index, self.tcbs[index].bare_seq(), Control::ACK, out);
        }
    }

    /// Sends a segment without payload.
    pub(crate) fn send_bare(&mut self, index: ConnIndex, seq: Seq, flags: Control, out: &mut Filling<'_>) {
        let window = announce(&mut self.tcbs[index], self.settings.receive_window);
        self.write(index, seq, flags, window, None, 0, out);
    }

    #[expect(clippy::too_many_arguments, reason = "the fields of one segment")]
    fn write(
        &mut self,
        index: ConnIndex,
        seq: Seq,
        mut flags: Control,
        window: u16,
        cell: Option<Cell>,
        ecn: u8,
        out: &mut Filling<'_>,
    ) {
        let tcb = &mut self.tcbs[index];
        tcb.flags.clear(Flags::ACK_OWED.with(Flags::ACK_NOW));
        tcb.last_ack_sent = tcb.rcv_nxt;
        if tcb.has(Flags::ECHO_CONGESTION) {
            flags |= Control::ECE;
        }
        let extension = tcb.extension;
        let may_be_fragmented =
            extension != Tcb::NO_EXTENSION && self.extensions[extension].may_be_fragmented;
        let mut segment = Outgoing {
            local_port: tcb.local_port,
            remote_port: tcb.remote_port,
            seq,
            ack: tcb.rcv_nxt,
            flags,
            window,
            traffic_class: tcb.class.field() | ecn,
            fragment_id: None,
        };
        let stamp = self.tick.0.wrapping_add(tcb.ts_offset);
        let timestamps = tcb.has(Flags::TIMESTAMPS).then_some((stamp, tcb.ts_recent));
        let has_sack = tcb.has(Flags::SACK);
        let eff_mss = usize::from(tcb.eff_mss);
        let addresses = self.local.addresses(tcb.local, tcb.remote);
        let neighbour = tcb.neighbour;
        if may_be_fragmented && let Addresses::V4 { local, remote } = addresses {
            segment.fragment_id = Some(self.fragment_ids.next(self.keys.fragments, local, remote));
        }
        let checks = self.leaving_checks;
        let mut options = OptionsOut { timestamps, ..OptionsOut::NONE };
        let mut blocks = [(Seq(0), Seq(0)); SACK_MAX];
        if extension != Tcb::NO_EXTENSION && has_sack {
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
    fn send_syn(&mut self, index: ConnIndex, out: &mut Filling<'_>) {
        let tcb = &mut self.tcbs[index];
        let is_answer = tcb.state == State::SynReceived;
        tcb.snd_nxt = tcb.snd_una + 1;
        if tcb.backoff() == 0 && !is_answer {
            *tcb.syn_sent_at_mut() = self.now.short();
        }
        tcb.flags.clear(Flags::ACK_OWED.with(Flags::ACK_NOW));
        let tcb = &self.tcbs[index];
        let addresses = self.local.addresses(tcb.local, tcb.remote);
        let mut flags = Control::SYN;
        if is_answer {
            flags |= Control::ACK;
            if tcb.has(Flags::ECN) {
                flags |= Control::ECE;
            }
        } else if self.settings.ecn == Ecn::Ask && tcb.backoff() == 0 {
            // Not on a retry: some path may drop what asks for it (RFC 3168 6.1.1.1).
            flags |= Control::ECE | Control::CWR;
        }
        let ack = if is_answer { tcb.rcv_nxt } else { Seq(0) };
        let window = self.first_window();
        let segment = Outgoing { ack, window, ..without_payload(tcb, tcb.snd_una, flags) };
        let has_timestamps = if is_answer { tcb.has(Flags::TIMESTAMPS) } else { self.settings.timestamps };
        let options = OptionsOut {
            mss: Some(self.own_mss(&addresses)),
            window_scale: (!is_answer || tcb.scales != 0).then(|| self.own_scale()),
            sack_permitted: if is_answer { tcb.has(Flags::SACK) } else { self.settings.sack },
            timestamps: has_timestamps
                .then(|| (self.stamp(tcb.ts_offset), if is_answer { tcb.ts_recent } else { 0 })),
            ..OptionsOut::NONE
        };
        let (link, checks) = (self.local.link(tcb.neighbour), self.leaving_checks);
        let is_written = out.push_with(headers_len(&addresses, &options), |room| {
            emit(room, link, &addresses, &segment, &options, &[], checks)
        });
        debug_assert!(is_written, "there was room for it");
        self.arm_retransmission(index);
    }
}

/// What the buffer has room for, and the window field can say. The right edge has kept the unread bytes below the limit.
#[inline(always)]
pub(crate) fn receive_room(tcb: &Tcb, limit: u32) -> u32 {
    (limit - tcb.unread()).min(u32::from(u16::MAX) << tcb.receive_scale())
}

/// The window field, and with it the right edge that the peer may now use (RFC 9293 3.8.6). It never goes back, never goes beyond
/// the buffer, and moves on in steps that are worth it (3.8.6.2.2).
#[inline(always)]
pub(crate) fn announce(tcb: &mut Tcb, limit: u32) -> u16 {
    let shift = tcb.receive_scale();
    let room = receive_room(tcb, limit);
    let left = tcb.rcv_right - tcb.rcv_nxt;
    // What would go back is a step below zero.
    let step = room.wrapping_sub(left).cast_signed();
    let is_worth_it = step >= u32::from(tcb.eff_mss).min(limit / 2).cast_signed();
    let window = if is_worth_it { room } else { left };
    // Rounded up, so that the edge does not seem to go back when RCV.NXT moves by less than a unit.
    let below_unit = (1 << shift) - 1;
    let rounded = (window + below_unit) & !below_unit;
    if rounded <= room {
        tcb.rcv_right = tcb.rcv_nxt + rounded;
        return (rounded >> shift) as u16;
    }
    // Each ACK would move the edge a little beyond the buffer, and the window would never close. It seems to go back by
    // less than a unit instead (RFC 7323 2.4), and what was in the window before is still taken.
    let field = window >> shift;
    tcb.rcv_right = tcb.rcv_right.max(tcb.rcv_nxt + (field << shift));
    field as u16
}

/// Segments that a connection may send before the next one of its ring.
const QUANTUM_SEGMENTS: usize = 2;

/// Replies get this part of the room while connections wait for theirs.
const REPLIES_SHARE: usize = 4;

/// ECN-capable (RFC 3168, section 5).
const ECT_0: u8 = 2;
