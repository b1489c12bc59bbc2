//! How a connection ends: by FINs and TIME-WAIT, by a reset, or by giving up; and how its places are given back.

use anywire_packet::icmp::{ErrorKind, IcmpError};
use anywire_packet::{Addresses, Flags as Control, OptionsOut, Outgoing, Parsed, Seq};

use super::input::deliver::Unread;
use super::input::receive::{Arrived, ports, remote_address};
use super::output::reply::{Reply, without_payload};
use super::output::transmit::announce;
use super::{ConnIndex, End, Engine, ListenerId, Place};
use crate::frames::Filling;
use crate::half_open::Traits;
use crate::pool::Cell;
use crate::tcb::{Flags, State, Tcb};
use crate::time::Tick;
use crate::time_wait::TimeWait;

impl Engine {
    /// The connection has ended otherwise than by FINs: what waited to be sent is gone. Arrived bytes stay until the user
    /// reads them or lets go, unless we break off ourselves.
    pub(crate) fn break_off(&mut self, index: ConnIndex, end: End) {
        if matches!(end, End::Reset | End::Refused | End::Aborted | End::NetworkDown) {
            self.counters.reset += 1;
        }
        if self.tcbs[index].state == State::SynSent {
            *self.tcbs[index].syn_sent_at_mut() = 0;
        } else if end == End::Aborted {
            self.drop_unread(index);
        }
        self.end(index, end);
    }

    /// Frees the unread bytes.
    pub(crate) fn drop_unread(&mut self, index: ConnIndex) {
        let tcb = &mut self.tcbs[index];
        *tcb.unread_mut() = 0;
        let waiting = Unread::of(tcb);
        tcb.receive_tail = Cell::NONE;
        if let Unread::Kept(tail) = waiting {
            self.pool.free_all(tail);
        }
    }

    /// The connection has ended: its addresses and ports are free, and so is its TCB as soon as no user holds it.
    pub(crate) fn end(&mut self, index: ConnIndex, end: End) {
        self.leave_table(Place::Tcb(index));
        self.release_queues(index);
        let tcb = &mut self.tcbs[index];
        // A peer that knows of the connection must learn that we have broken it off (RFC 9293 3.10.5).
        let is_ours = matches!(end, End::Aborted | End::NetworkDown);
        let owes_reset = is_ours && !matches!(tcb.state, State::SynSent | State::TimeWait);
        tcb.set_end(end);
        self.counters.closed += u64::from(end == End::Closed);
        tcb.flags.clear(Flags::RETRANSMIT.with(Flags::ACK_OWED).with(Flags::ACK_NOW));
        if owes_reset {
            self.acknowledge_now(index);
        }
        let tcb = &self.tcbs[index];
        if tcb.has(Flags::DETACHED) {
            self.free_tcb(index);
        } else {
            self.tell(index, Flags::TELL_CLOSED);
        }
    }

    /// Gives back a TCB that is in no table.
    pub(crate) fn forget(&mut self, index: ConnIndex) {
        self.release_queues(index);
        self.free_tcb(index);
    }

    fn release_queues(&mut self, index: ConnIndex) {
        let tcb = &mut self.tcbs[index];
        let (send, extension) = (tcb.send_tail, tcb.extension);
        tcb.send_tail = Cell::NONE;
        tcb.send_next = Cell::NONE;
        tcb.queued = 0;
        tcb.extension = Tcb::NO_EXTENSION;
        self.pool.free_all(send);
        if extension != Tcb::NO_EXTENSION {
            self.free_out_of_order(extension);
            self.extensions.remove(extension.place());
        }
        if !self.user_timeouts.is_empty() {
            self.user_timeouts.remove(&index);
        }
        self.troubles.forget(index);
        self.drop_idle_timer(index);
    }

    /// Gives the place of a TCB back, and what waits for its reader. With a reset that has not left, it keeps its place: so there
    /// are no more resets to send than connections, and none is lost.
    pub(crate) fn free_tcb(&mut self, index: ConnIndex) {
        self.drop_unread(index);
        let tcb = &mut self.tcbs[index];
        if tcb.owes_reset() {
            tcb.flags.clear(Flags::TELL.with(Flags::IN_READY).with(Flags::WANTS_ROOM).with(Flags::CLAIMED));
            return tcb.flags.set(Flags::DETACHED);
        }
        let (local, remote, neighbour) = (tcb.local, tcb.remote, tcb.neighbour);
        self.local.release_peer(local, remote);
        self.local.neighbours.release(neighbour);
        self.free_place(index);
    }

    /// Frees a place for the next connection, whose id is another.
    pub(crate) fn free_place(&mut self, index: ConnIndex) {
        let generation = self.tcbs[index].generation;
        self.tcbs.remove(index);
        self.tcbs[index].generation = generation.wrapping_add(1);
    }

    /// Data has come that the user will not read: the peer must learn that it was lost.
    #[cold]
    pub(crate) fn reset_for_unread(&mut self, index: ConnIndex) {
        if self.tcbs[index].state == State::Closed {
            // The peer has reset it meanwhile.
            return self.drop_unread(index);
        }
        self.break_off(index, End::Aborted);
    }

    /// Tells the peer of a connection that we have broken off, if it was not told: then nothing keeps its place. False if there is
    /// no room: then it is in its ring again.
    #[cold]
    pub(crate) fn send_last_reset(&mut self, index: ConnIndex, out: &mut Filling<'_>) -> bool {
        let tcb = self.tcbs[index];
        if !tcb.owes_reset() {
            return true;
        }
        let addresses = self.local.addresses(tcb.local, tcb.remote);
        // A reset should carry them as well (RFC 7323 3.2).
        let timestamps = tcb.has(Flags::TIMESTAMPS).then(|| (self.stamp(tcb.ts_offset), tcb.ts_recent));
        let segment = without_payload(&tcb, tcb.bare_seq(), Control::RST | Control::ACK);
        let options = OptionsOut { timestamps, ..OptionsOut::NONE };
        if !self.write_reply(&Reply { addresses, neighbour: tcb.neighbour, segment, options }, out) {
            self.schedule(index);
            return false;
        }
        self.counters.resets_sent += 1;
        self.tcbs[index].flags.clear(Flags::ACK_NOW);
        if tcb.has(Flags::DETACHED) {
            self.free_tcb(index);
        }
        true
    }

    /// Both FINs are acknowledged, and ours was first (RFC 9293 3.6.1).
    pub(crate) fn enter_time_wait(&mut self, index: ConnIndex) {
        let (now, tcb) = (self.tick, &mut self.tcbs[index]);
        if !tcb.has(Flags::DETACHED) {
            // Its user may have something left to read.
            tcb.state = State::TimeWait;
            return self.time_last_state(index);
        }
        let wait = TimeWait {
            remote: tcb.remote,
            remote_port: tcb.remote_port,
            local_port: tcb.local_port,
            local: tcb.local,
            neighbour: tcb.neighbour,
            rcv_nxt: tcb.rcv_nxt,
            snd_nxt: tcb.snd_nxt,
            ts_recent: tcb.ts_recent,
            expires: now.after(self.timings.time_wait),
            window: announce(tcb, self.settings.receive_window),
            traits: Traits::USED.with(Traits::TIMESTAMPS.when(tcb.has(Flags::TIMESTAMPS))),
        };
        let (owes_ack, dscp) = (tcb.has(Flags::ACK_OWED.with(Flags::ACK_NOW)), tcb.class.field());
        let addresses = self.local.addresses(wait.local, wait.remote);
        if owes_ack {
            self.acknowledge_for(&wait, addresses, dscp);
        }
        if self.timings.time_wait == 0 {
            return self.end(index, End::Closed);
        }
        while self.time_wait.used() >= self.limits.time_wait {
            let Some((oldest, at)) = self.time_wait_queue.pop_front() else { break };
            if self.is_time_wait(oldest, at) {
                self.counters.time_wait_evicted += 1;
                self.drop_time_wait(oldest);
            }
        }
        let Some(place) = self.time_wait.insert(wait) else {
            return self.end(index, End::Closed);
        };
        self.counters.closed += 1;
        let hash = self.hash_of(&addresses, ports(wait.remote_port, wait.local_port));
        self.table.replace(hash, Place::Tcb(index).value(), Place::TimeWait(place).value());
        self.queue_time_wait(place, wait.expires);
        self.release_queues(index);
        // The numbers of the peer and of the neighbour go over to the TIME-WAIT, so they are not released here.
        self.free_place(index);
    }

    /// A pure ACK of all received data. It is the last one of a TCB that is about to be freed, or answers later segments.
    fn acknowledge_for(&mut self, wait: &TimeWait, addresses: Addresses, dscp: u8) {
        let segment = Outgoing {
            local_port: wait.local_port,
            remote_port: wait.remote_port,
            seq: wait.snd_nxt,
            ack: wait.rcv_nxt,
            flags: Control::ACK,
            window: wait.window,
            traffic_class: dscp,
            ..Outgoing::default()
        };
        let both = ports(wait.remote_port, wait.local_port);
        let timestamps = wait
            .traits
            .has(Traits::TIMESTAMPS)
            .then(|| (self.stamp(self.starts(&addresses, both).1), wait.ts_recent));
        let options = OptionsOut { timestamps, ..OptionsOut::NONE };
        self.reply(Reply { addresses, neighbour: wait.neighbour, segment, options });
    }

    /// A segment for a connection in TIME-WAIT (RFC 9293 3.10.7.4, RFC 1337, RFC 6191).
    #[cold]
    pub(crate) fn on_time_wait(&mut self, place: u32, arrived: &Arrived) {
        let (wait, segment) = (self.time_wait[place], &arrived.segment);
        if segment.flags.has(Control::RST) {
            return;
        }
        let addresses = self.local.addresses(wait.local, wait.remote);
        let recent = wait.traits.has(Traits::TIMESTAMPS).then_some(wait.ts_recent);
        if let Some(listener) =
            self.listener_after(recent, wait.rcv_nxt, (wait.local, wait.local_port), segment)
        {
            let opens = self.opens_at_once(listener, &addresses);
            if opens {
                self.end_former(Place::TimeWait(place));
            }
            let last = opens.then_some(wait.snd_nxt);
            return self.on_syn(listener, wait.local, addresses, arrived, last);
        }
        if self.has_brought_cookie(Place::TimeWait(place), (wait.local, wait.local_port), addresses, arrived)
        {
            return;
        }
        if segment.sequence_len() == 0 && segment.seq == wait.rcv_nxt {
            return;
        }
        if is_fin_again(segment, wait.rcv_nxt) && self.may_answer(Place::TimeWait(place)) {
            // The ACK of the FIN was lost, and its next one may be as late (RFC 9293 3.10.7.4, eighth).
            let expires = self.tick.after(self.timings.time_wait);
            self.time_wait[place].expires = expires;
            self.queue_time_wait(place, expires);
        }
        if self.may_answer_unacceptable(Place::TimeWait(place), segment) {
            self.acknowledge_for(&wait, addresses, 0);
        }
    }

    /// Whether a connection in TIME-WAIT, which its user still holds, has given way to the one that this SYN opens. What has
    /// arrived stays to be read.
    pub(crate) fn gives_way(&mut self, index: ConnIndex, arrived: &Arrived) -> bool {
        let tcb = &self.tcbs[index];
        let recent = tcb.has(Flags::TIMESTAMPS).then_some(tcb.ts_recent);
        let here = (tcb.local, tcb.local_port);
        let (local, addresses) = (tcb.local, self.local.addresses(tcb.local, tcb.remote));
        let Some(listener) = self.listener_after(recent, tcb.rcv_nxt, here, &arrived.segment) else {
            return self.has_brought_cookie(Place::Tcb(index), here, addresses, arrived);
        };
        let last = self.opens_at_once(listener, &addresses).then(|| self.give_way(index));
        self.on_syn(listener, local, addresses, arrived, last);
        true
    }

    /// Whether a SYN becomes a half-open connection. Otherwise it gets a cookie or nothing, and the connection in TIME-WAIT stays:
    /// what was forged ends none.
    fn opens_at_once(&self, listener: ListenerId, addresses: &Addresses) -> bool {
        !self.is_accept_queue_full(listener)
            && self.half_open.used() < self.limits.half_open
            && !self.local.neighbours.are_short()
            && self.local.route_to(remote_address(addresses)).is_ok()
    }

    /// Whether a segment for a connection in TIME-WAIT brings the cookie of the next one, which has opened with it.
    fn has_brought_cookie(
        &mut self,
        former: Place,
        (local, port): (u16, u16),
        addresses: Addresses,
        arrived: &Arrived,
    ) -> bool {
        arrived.segment.flags.has(Control::ACK)
            && self
                .local
                .listener_for(local, port)
                .is_some_and(|listener| self.accept_cookie(listener, local, addresses, arrived, Some(former)))
    }

    /// Ends a connection in TIME-WAIT for one with the same addresses and ports.
    pub(crate) fn end_former(&mut self, former: Place) {
        match former {
            Place::TimeWait(place) => {
                self.counters.time_wait_reused += 1;
                self.drop_time_wait(place);
            }
            Place::Tcb(index) => {
                self.give_way(index);
            }
            Place::HalfOpen(_) => {}
        }
    }

    /// Ends a connection in TIME-WAIT, whose user still holds it, for a new one. Gives its last number.
    pub(crate) fn give_way(&mut self, index: ConnIndex) -> Seq {
        self.counters.time_wait_reused += 1;
        let last = self.tcbs[index].snd_nxt;
        self.end(index, End::Closed);
        last
    }

    /// The listener that takes a SYN for a connection in TIME-WAIT, with this TS.Recent and RCV.NXT, if the SYN is newer (RFC
    /// 6191, section 2; RFC 9293 MAY-2).
    fn listener_after(
        &self,
        recent: Option<u32>,
        rcv_nxt: Seq,
        (local, port): (u16, u16),
        segment: &Parsed,
    ) -> Option<ListenerId> {
        if !segment.flags.has(Control::SYN) || segment.flags.has_any(Control::ACK | Control::RST) {
            return None;
        }
        // The clock decides, and where it has not moved on the number does.
        let is_newer = match (segment.timestamps(), recent) {
            (Some((value, _)), Some(recent)) => {
                let ahead = value.wrapping_sub(recent) as i32;
                ahead > 0 || ahead == 0 && segment.seq.gt(rcv_nxt)
            }
            // The earlier one had none: a SYN with a timestamp is new. If we agree on none, its own SYN had one as well.
            (Some(_), None) if self.settings.timestamps => true,
            _ => segment.seq.gt(rcv_nxt),
        };
        // A cookie has no room for a number of our choice.
        let may_choose = self.half_open.used() < self.limits.half_open || recent.is_some();
        if is_newer && may_choose { self.local.listener_for(local, port) } else { None }
    }

    /// Queues a TIME-WAIT by the end of its time, which comes after those of all others. Entries of TIME-WAITs that have ended early or got
    /// more time stay behind; before they are more than the others, all of them are taken out.
    fn queue_time_wait(&mut self, place: u32, expires: Tick) {
        self.time_wait_queue.push_back((place, expires));
        if self.time_wait_queue.len() <= 2 * self.time_wait.used() + STALE_TIME_WAITS {
            return;
        }
        for _ in 0..self.time_wait_queue.len() {
            let Some((place, at)) = self.time_wait_queue.pop_front() else { return };
            if let Some((coming, _)) = self.time_wait_queue.peek(AHEAD) {
                self.time_wait.prefetch(coming);
            }
            if self.is_time_wait(place, at) {
                self.time_wait_queue.push_back((place, at));
            }
        }
    }

    /// Whether an entry of the queue is that of a TIME-WAIT, and not of an earlier one or of less time.
    fn is_time_wait(&self, place: u32, at: Tick) -> bool {
        let wait = &self.time_wait[place];
        wait.traits.has(Traits::USED) && wait.expires == at
    }

    /// Forgets a TIME-WAIT; its place in the queue of them expires by itself.
    pub(crate) fn drop_time_wait(&mut self, place: u32) {
        self.leave_table(Place::TimeWait(place));
        let wait = self.time_wait[place];
        self.local.release_peer(wait.local, wait.remote);
        self.local.neighbours.release(wait.neighbour);
        self.time_wait.remove(place);
    }

    /// Lets go of the TIME-WAITs whose time is over.
    pub(crate) fn expire_time_waits(&mut self) {
        while let Some((place, at)) = self.time_wait_queue.front() {
            let is_over = self.is_time_wait(place, at);
            if is_over && !at.is_due(self.tick) {
                return;
            }
            self.time_wait_queue.pop_front();
            if let Some((coming, _)) = self.time_wait_queue.peek(AHEAD) {
                self.time_wait.prefetch(coming);
            }
            if is_over {
                self.drop_time_wait(place);
            }
        }
    }

    pub(crate) fn next_time_wait(&self) -> Option<Tick> {
        self.time_wait_queue.front().map(|(_, at)| at)
    }

    /// ICMP (RFC 9293 3.9.2.2, RFC 5927): only errors about segments in flight count, and none ends an open connection.
    #[cold]
    pub(crate) fn on_icmp(&mut self, error: IcmpError) {
        let both = ports(error.remote_port, error.local_port);
        let hash = self.hash_of(&error.addresses, both);
        let Some(Place::Tcb(index)) = self.find(hash, &error.addresses, both) else { return };
        let tcb = &self.tcbs[index];
        if !error.seq.within(tcb.snd_una, tcb.snd_nxt) {
            self.counters.frames_ignored += 1;
            return;
        }
        match error.kind {
            ErrorKind::Refused if tcb.state == State::SynSent => self.break_off(index, End::Refused),
            ErrorKind::Undelivered if tcb.state == State::SynSent => self.break_off(index, End::Unreachable),
            kind => {
                self.troubles.note_error(index, kind);
                if let ErrorKind::TooBig { mtu } = kind {
                    self.on_narrow_path(index, mtu);
                }
            }
        }
    }

    /// RFC 1191, RFC 8201: the path takes less than its first link.
    pub(crate) fn on_narrow_path(&mut self, index: ConnIndex, mtu: u32) {
        let tcb = &self.tcbs[index];
        if !tcb.state.is_synchronized() {
            return;
        }
        let is_v4 = self.local.is_v4(tcb.local);
        let (least, headers) = if is_v4 { (LEAST_MTU_V4, 40) } else { (1280, 60) };
        let options = if tcb.has(Flags::TIMESTAMPS) { 12 } else { 0 };
        let mss = mtu.max(least).min(u32::from(u16::MAX)) as u16 - headers - options;
        let is_narrower = mss < tcb.eff_mss;
        // A forged message must not make segments tiny (RFC 5927 7.2). They pass all the same: in fragments. The extension stays
        // with the connection, so half of all are left for losses.
        let has_room =
            tcb.extension != Tcb::NO_EXTENSION || self.extensions.used() < self.limits.extensions / 2;
        let mut may_be_fragmented = false;
        if is_v4
            && mtu < least
            && has_room
            && let Some(place) = self.extension_of(index)
        {
            may_be_fragmented = !core::mem::replace(&mut self.extensions[place].may_be_fragmented, true);
        }
        if is_narrower {
            self.tcbs[index].eff_mss = mss;
            if let Some(extension) = self.extensions_mut(self.tcbs[index].extension) {
                // A router knows.
                extension.mtu_search = None;
            }
            let remote = self.local.peer(self.tcbs[index].local, self.tcbs[index].remote);
            let known = mss + options + headers;
            // What the route says nobody has to remember of each peer.
            if known < self.local.mtu_to(remote) {
                let is_evicted = self.path_mtus.learn(remote, known, self.now, self.limits.path_mtus);
                self.counters.path_mtus_evicted += u64::from(is_evicted);
            }
        }
        if is_narrower || may_be_fragmented {
            let passed = if may_be_fragmented { mtu as u16 } else { mss + options + headers };
            self.resend_longer_than(index, passed.saturating_sub(headers + options));
        }
    }
}

/// Whether a segment is the peer's FIN once more, before this RCV.NXT.
pub(crate) const fn is_fin_again(segment: &Parsed, rcv_nxt: Seq) -> bool {
    let end = segment.seq.0.wrapping_add(segment.sequence_len());
    segment.flags.has(Control::FIN) && segment.flags.has(Control::ACK) && end == rcv_nxt.0
}

/// A path of IPv4 is not taken for narrower than this, as in Linux; longer packets are fragmented.
pub(crate) const LEAST_MTU_V4: u32 = 552;

/// Entries that may stay behind even if there are hardly any TIME-WAITs.
const STALE_TIME_WAITS: usize = 1024;

/// How many entries ahead a place is fetched into the cache.
const AHEAD: usize = 8;
