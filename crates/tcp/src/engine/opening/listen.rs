//! LISTEN, half-open connections, and cookies once there are too many of them (RFC 4987).

use std::time::Duration;

use anywire_packet::{Addresses, Flags, Offer, OptionsOut, Outgoing, Parsed, Seq};

use crate::engine::input::receive::{Arrived, ports, remote_address};
use crate::engine::opening::handshake::Agreed;
use crate::engine::output::reply::Reply;
use crate::engine::{Engine, ListenerId, Place};
use crate::half_open::{HalfOpen, Traits};
use crate::hash::secret_hash_of_syn;
use crate::settings::Ecn;
use crate::time::Tick;

impl Engine {
    /// A SYN for a listener (RFC 9293 3.10.7.2). `last` is the last number that an earlier connection of the same name sent:
    /// ours begins behind it (MAY-2).
    pub(crate) fn on_syn(
        &mut self,
        listener: ListenerId,
        local: u16,
        addresses: Addresses,
        arrived: &Arrived,
        last: Option<Seq>,
    ) {
        if self.overflows_accept_queue(listener) {
            return;
        }
        let segment = &arrived.segment;
        let Some(neighbour) = self.neighbour_for_reply(&addresses) else { return };
        let offer = segment.offer(&self.received[arrived.frame as usize]);
        let offered = self.offered(segment, &offer);
        let (iss, ts_offset) = self.starts(&addresses, segment.ports);
        let half = HalfOpen {
            remote_port: segment.remote_port(),
            local_port: segment.local_port(),
            local,
            neighbour,
            irs: segment.seq,
            iss: behind(iss, last),
            ts_offset,
            ts_recent: offer.timestamps.map_or(0, |(value, _)| value),
            sent_at: self.now.short(),
            looked_at: self.tick.after(YOUNG_MILLIS),
            window: segment.window,
            peer_mss: offer.mss.unwrap_or_else(|| default_mss(&addresses)),
            listener,
            window_scale: scale_of(&offer),
            transmissions: 1,
            traits: offered.with(Traits::USED),
            ..HalfOpen::default()
        };
        if self.half_open.used() >= self.limits.half_open || self.local.neighbours.are_short() {
            self.send_cookie(addresses, half);
            return;
        }
        let Some(place) = self.half_open.insert(half) else { return };
        if self.table.insert(arrived.hash, Place::HalfOpen(place).value()).is_err() {
            self.half_open.remove(place);
            self.counters.refused_by_limit += 1;
            return;
        }
        self.half_open[place].remote = self.local.acquire_peer(remote_address(&addresses));
        self.local.neighbours.acquire(neighbour);
        self.young.push_back((place, half.looked_at));
        self.send_syn_ack(addresses, &half);
    }

    /// What a SYN offers, as far as we take it.
    #[inline(always)]
    fn offered(&self, segment: &Parsed, offer: &Offer) -> Traits {
        let ecn = segment.flags.has(Flags::ECE.with(Flags::CWR)) && self.settings.ecn != Ecn::Off;
        Traits::TIMESTAMPS
            .when(offer.timestamps.is_some() && self.settings.timestamps)
            .with(Traits::SACK.when(offer.sack_permitted && self.settings.sack))
            .with(Traits::ECN.when(ecn))
    }

    /// The SYN of a half-open connection again. Some systems leave options out of it, for paths that drop segments with
    /// them: what one SYN does not offer is not agreed. A new offer is none, because our first SYN-ACK did not take it.
    #[cold]
    fn on_syn_again(&mut self, place: u32, arrived: &Arrived) {
        let segment = &arrived.segment;
        let offer = segment.offer(&self.received[arrived.frame as usize]);
        let offered = self.offered(segment, &offer);
        let half = &self.half_open[place];
        let default = default_mss(&self.local.addresses(half.local, half.remote));
        let half = &mut self.half_open[place];
        half.traits.keep_offers_in(offered);
        half.window_scale =
            half.window_scale.and_then(|shift| scale_of(&offer).map(|again| shift.min(again)));
        half.peer_mss = half.peer_mss.min(offer.mss.unwrap_or(default));
        // The echo is that of the latest SYN, and a SYN that was overtaken is none.
        if let Some((value, _)) = offer.timestamps
            && value.wrapping_sub(half.ts_recent) as i32 > 0
        {
            half.ts_recent = value;
        }
    }

    /// Most handshakes are over within a moment. Only the slower ones take a place in the wheel, where an entry stays until
    /// the SYN-ACK is due again.
    pub(crate) fn look_at_young(&mut self) {
        while let Some((place, at)) = self.young.front()
            && at.is_due(self.tick)
        {
            self.young.pop_front();
            let half = &self.half_open[place];
            // Otherwise another half-open connection has the place by now, or it is free.
            if half.traits.has(Traits::USED) && half.looked_at == at {
                self.look_at_half_open(place);
            }
        }
    }

    /// When the next young one is to be looked at.
    pub(crate) fn next_young(&self) -> Option<Tick> {
        self.young.front().map(|(_, at)| at)
    }

    /// The wheel has come to a half-open connection: perhaps for an entry that is out of date.
    pub(crate) fn on_half_open_wheel(&mut self, place: u32) {
        let half = &self.half_open[place];
        if half.traits.has(Traits::USED) && half.looked_at.is_due(self.tick) {
            self.look_at_half_open(place);
        }
    }

    fn look_at_half_open(&mut self, place: u32) {
        let half = &self.half_open[place];
        // A caller that is very late finds a clock of microseconds that has wrapped.
        let late = self.tick.since(half.looked_at);
        let passed = late.max(self.now.short().wrapping_sub(half.sent_at) / 1000);
        let left = again_after(half.transmissions).saturating_sub(passed);
        if left > 0 {
            self.time_half_open(place, left);
        } else {
            self.on_half_open_due(place);
        }
    }

    /// Looks at a half-open connection in so long.
    fn time_half_open(&mut self, place: u32, millis: u32) {
        let mut at = self.tick.after(millis);
        if self.wheel.insert(at, Place::HalfOpen(place).value()).is_err() {
            // Full of entries that are out of date: it stays among the young.
            at = self.tick.after(YOUNG_MILLIS);
            self.young.push_back((place, at));
        }
        self.half_open[place].looked_at = at;
    }

    #[inline(always)]
    fn send_syn_ack(&mut self, addresses: Addresses, half: &HalfOpen) {
        let reply = self.syn_ack(addresses, half, half.iss, self.stamp(half.ts_offset));
        self.reply(reply);
    }

    /// The ACK that a reset in the window gets (RFC 9293 3.10.7.4, RFC 5961 3.2).
    #[cold]
    fn challenge_half_open(&mut self, addresses: Addresses, half: &HalfOpen) {
        let shown = self.syn_ack(addresses, half, half.iss, self.stamp(half.ts_offset));
        // Only the window of a SYN is not scaled (RFC 7323 2.2).
        let shift = shown.options.window_scale.unwrap_or(0);
        let window = shown.segment.window >> shift;
        let segment = Outgoing { seq: half.iss + 1, flags: Flags::ACK, window, ..shown.segment };
        let options = OptionsOut { timestamps: shown.options.timestamps, ..OptionsOut::NONE };
        self.reply(Reply { segment, options, ..shown });
    }

    // Always inlined: otherwise the fields just written to `half` would be read back from memory, which stalls.
    #[inline(always)]
    fn syn_ack(&self, addresses: Addresses, half: &HalfOpen, iss: Seq, timestamp: u32) -> Reply {
        let ecn = if half.traits.has(Traits::ECN) { Flags::ECE } else { Flags::NONE };
        let segment = Outgoing {
            local_port: half.local_port,
            remote_port: half.remote_port,
            seq: iss,
            ack: half.irs + 1,
            flags: Flags::SYN | Flags::ACK | ecn,
            window: self.first_window(),
            traffic_class: self.local.listener(half.listener).map_or(0, |listener| listener.class.field()),
            ..Outgoing::default()
        };
        let options = OptionsOut {
            mss: Some(self.own_mss(&addresses)),
            window_scale: half.window_scale.map(|_| self.own_scale()),
            sack_permitted: half.traits.has(Traits::SACK),
            timestamps: half.traits.has(Traits::TIMESTAMPS).then_some((timestamp, half.ts_recent)),
            ..OptionsOut::NONE
        };
        Reply { addresses, neighbour: half.neighbour, segment, options }
    }

    /// A segment for a half-open connection (RFC 9293 3.10.7.4, as far as it concerns SYN-RECEIVED).
    #[inline(never)]
    pub(crate) fn on_half_open(&mut self, place: u32, arrived: &Arrived) {
        let (mut half, segment) = (self.half_open[place], &arrived.segment);
        let Some(listener) = self.local.listener(half.listener).copied() else {
            // It ended with its listener (RFC 9293 3.10.4).
            self.drop_half_open(place);
            return self.on_stranger(arrived);
        };
        let addresses = self.local.addresses(half.local, half.remote);
        let rcv_nxt = half.irs + 1;
        let in_window = segment.seq.within(rcv_nxt, rcv_nxt + u32::from(self.first_window()));
        if segment.flags.has(Flags::RST) {
            if segment.seq == rcv_nxt {
                self.drop_half_open(place);
            } else if in_window && self.may_answer(Place::HalfOpen(place)) {
                self.counters.challenges += 1;
                self.challenge_half_open(addresses, &half);
            }
            return;
        }
        if segment.flags.has(Flags::SYN) {
            // The same SYN again: our answer may be lost. Another one may be forged: same answer.
            let is_same = segment.seq == half.irs && !segment.flags.has(Flags::ACK);
            if is_same {
                self.on_syn_again(place, arrived);
                half = self.half_open[place];
            }
            if self.may_answer(Place::HalfOpen(place)) {
                self.counters.challenges += u64::from(!is_same);
                self.send_syn_ack(addresses, &half);
            }
            return;
        }
        if !segment.flags.has(Flags::ACK) {
            return;
        }
        let has_timestamps = half.traits.has(Traits::TIMESTAMPS);
        if has_timestamps && segment.timestamps().is_none() {
            // RFC 7323 3.2.
            return;
        }
        let is_old = has_timestamps
            && segment.timestamps().is_some_and(|(value, _)| (value.wrapping_sub(half.ts_recent) as i32) < 0);
        if is_old || !in_window {
            let refused =
                if is_old { &mut self.counters.refused_by_paws } else { &mut self.counters.out_of_window };
            *refused += 1;
            // As an open connection does (RFC 9293 3.10.7.4, first; RFC 7323 5.3, R1).
            if self.may_answer(Place::HalfOpen(place)) {
                self.challenge_half_open(addresses, &half);
            }
            return;
        }
        if segment.ack != half.iss + 1 {
            self.refuse(addresses, segment);
            return;
        }
        if self.overflows_accept_queue(half.listener) {
            return;
        }
        let agreed = Agreed::from_half_open(&half, self.settings.timestamps);
        // Its timer may have expired and not have run yet. After minutes it has, so the clock of microseconds has not wrapped.
        let passed = self.now.short().wrapping_sub(half.sent_at);
        let is_late = passed / 1000 >= again_after(half.transmissions);
        half.transmissions += u8::from(is_late);
        let rtt = (half.transmissions == 1).then_some(passed);
        let Some(index) = self.open_passive(&half, &listener, agreed, rtt) else {
            self.counters.refused_by_limit += 1;
            return;
        };
        self.table.replace(arrived.hash, Place::HalfOpen(place).value(), Place::Tcb(index).value());
        self.half_open.remove(place);
        // The first request, most of the time.
        if !self.predict(index, arrived.form, arrived.frame) {
            self.on_segment(index, arrived);
        }
    }

    /// Forgets a half-open connection.
    pub(crate) fn drop_half_open(&mut self, place: u32) {
        self.leave_table(Place::HalfOpen(place));
        let half = self.half_open[place];
        self.local.release_peer(half.local, half.remote);
        self.local.neighbours.release(half.neighbour);
        self.half_open.remove(place);
    }

    /// The SYN-ACK was not answered for its time: once more, or no more.
    fn on_half_open_due(&mut self, place: u32) {
        let retries = self.settings.syn_ack_retries;
        let half = &mut self.half_open[place];
        half.sent_at = self.now.short();
        if self.local.listener(half.listener).is_none() {
            // It ended with its listener. The peer may take it for open, and wait for us to speak.
            if self.replies.len() < self.limits.replies {
                return self.reset_half_open(place);
            }
            half.transmissions = 1;
            return self.time_half_open(place, INITIAL_RTO_MILLIS);
        }
        if half.transmissions > retries {
            self.counters.timed_out += 1;
            self.drop_half_open(place);
            return;
        }
        half.transmissions += 1;
        let half = *half;
        self.time_half_open(place, again_after(half.transmissions));
        self.counters.retransmits += 1;
        let addresses = self.local.addresses(half.local, half.remote);
        self.send_syn_ack(addresses, &half);
    }

    /// Ends a half-open connection, and tells the peer, whether that has had our SYN-ACK or not.
    #[cold]
    pub(crate) fn reset_half_open(&mut self, place: u32) {
        let half = self.half_open[place];
        let addresses = self.local.addresses(half.local, half.remote);
        let reset = Outgoing {
            local_port: half.local_port,
            remote_port: half.remote_port,
            seq: half.iss + 1,
            ack: half.irs + 1,
            flags: Flags::RST | Flags::ACK,
            ..Outgoing::default()
        };
        let timestamps =
            half.traits.has(Traits::TIMESTAMPS).then(|| (self.stamp(half.ts_offset), half.ts_recent));
        self.drop_half_open(place);
        self.send_reset(addresses, reset, timestamps);
    }

    /// Answers a SYN without keeping anything: the answer itself carries what the ACK must bring back.
    #[cold]
    fn send_cookie(&mut self, addresses: Addresses, half: HalfOpen) {
        self.counters.cookies_sent += 1;
        self.cookie_sent_at = Some(self.now);
        let mss = COOKIE_MSS.iter().rposition(|mss| *mss <= half.peer_mss).unwrap_or(0);
        let both = ports(half.remote_port, half.local_port);
        let iss = self.cookie(&addresses, both, half.irs, self.cookie_period(), mss as u32);
        // What a cookie has no bits for goes into the low ones of the timestamp; below them it stays in the past.
        let scale = u32::from(half.window_scale.unwrap_or(NO_SCALE));
        let bits = scale
            | u32::from(half.traits.has(Traits::SACK)) << 4
            | u32::from(half.traits.has(Traits::ECN)) << 5;
        let timestamp = (self.stamp(half.ts_offset).wrapping_sub(64) & !63) | bits;
        let plain = HalfOpen { window_scale: None, traits: Traits::NONE, ..half };
        let shown = if half.traits.has(Traits::TIMESTAMPS) { half } else { plain };
        let reply = self.syn_ack(addresses, &shown, iss, timestamp);
        self.reply(reply);
    }

    /// The ACK of a SYN that was answered with a cookie. False if it is none. A former connection, in TIME-WAIT, ends with it.
    pub(crate) fn accept_cookie(
        &mut self,
        id: ListenerId,
        local: u16,
        addresses: Addresses,
        arrived: &Arrived,
        former: Option<Place>,
    ) -> bool {
        let segment = &arrived.segment;
        let is_recent = self.cookie_sent_at.is_some_and(|sent| self.now.since(sent) < COOKIES_LIVE);
        if !is_recent || segment.flags.has_any(Flags::SYN | Flags::RST) {
            return false;
        }
        let (iss, irs) = (segment.ack - 1, segment.seq - 1);
        let (now, mss) = (self.cookie_period(), iss.0 >> 24 & 7);
        let periods = u64::from((now as u32).wrapping_sub(iss.0 >> 27) & 31);
        let Some(period) = now.checked_sub(periods).filter(|_| periods <= 1) else { return false };
        if self.cookie(&addresses, segment.ports, irs, period, mss) != iss {
            return false;
        }
        let Some(listener) = self.local.listener(id).copied() else { return false };
        if self.overflows_accept_queue(id) {
            return true;
        }
        let Some(neighbour) = self.neighbour_for_reply(&addresses) else { return true };
        self.local.neighbours.acquire(neighbour);
        let bits = segment.timestamps().map(|(_, echo)| echo & 63);
        let half = HalfOpen {
            remote: self.local.acquire_peer(remote_address(&addresses)),
            remote_port: segment.remote_port(),
            local_port: segment.local_port(),
            local,
            neighbour,
            irs,
            iss,
            ts_recent: segment.timestamps().map_or(0, |(value, _)| value),
            ts_offset: self.starts(&addresses, segment.ports).1,
            window: segment.window,
            peer_mss: COOKIE_MSS[mss as usize],
            listener: id,
            window_scale: bits.map(|bits| bits as u8 & 15).filter(|scale| *scale <= SCALE_MAX),
            traits: Traits::TIMESTAMPS
                .when(bits.is_some())
                .with(Traits::SACK.when(bits.is_some_and(|bits| bits & 16 != 0)))
                .with(Traits::ECN.when(bits.is_some_and(|bits| bits & 32 != 0))),
            ..HalfOpen::default()
        };
        let agreed = Agreed::from_half_open(&half, self.settings.timestamps);
        let opened = self.open_passive(&half, &listener, agreed, None);
        let Some(index) = opened else {
            self.local.release_peer(local, half.remote);
            self.local.neighbours.release(neighbour);
            self.counters.refused_by_limit += 1;
            return true;
        };
        if let Some(former) = former {
            self.end_former(former);
        }
        if self.table.insert(arrived.hash, Place::Tcb(index).value()).is_err() {
            self.forget(index);
            self.counters.refused_by_limit += 1;
            return true;
        }
        self.counters.cookies_accepted += 1;
        self.on_segment(index, arrived);
        true
    }

    /// Five bits of the period, three of MSS, and 24 that only we can make. The bits of a period return after 34 minutes,
    /// and the hash of the whole number does not.
    fn cookie(&self, addresses: &Addresses, ports: u32, irs: Seq, period: u64, mss: u32) -> Seq {
        let hash =
            secret_hash_of_syn(self.keys.cookies, addresses, ports, irs.0, period << 3 | u64::from(mss));
        Seq((period as u32) << 27 | mss << 24 | hash as u32 & 0x00ff_ffff)
    }

    /// Cookies are valid in the period of their making and in the next one.
    const fn cookie_period(&self) -> u64 {
        self.now.as_micros() / COOKIE_MICROS
    }
}

/// An initial number that is not before what an earlier connection has used.
pub(crate) const fn behind(iss: Seq, last: Option<Seq>) -> Seq {
    match last {
        Some(last) if iss.le(last) => Seq(last.0.wrapping_add(1 << 16)),
        _ => iss,
    }
}

/// What a peer takes that says nothing: 536 bytes over IPv4, 1220 over IPv6 (RFC 9293 MUST-15).
pub(crate) const fn default_mss(addresses: &Addresses) -> u16 {
    if matches!(addresses, Addresses::V4 { .. }) { 536 } else { 1220 }
}

/// The shift that a SYN offers.
fn scale_of(offer: &Offer) -> Option<u8> {
    offer.window_scale.map(|shift| shift.min(SCALE_MAX))
}

/// How long a SYN-ACK waits for its answer that was sent so often (RFC 6298 5.5); in ticks.
const fn again_after(transmissions: u8) -> u32 {
    let doublings = transmissions.saturating_sub(1);
    INITIAL_RTO_MILLIS << if doublings < 6 { doublings } else { 6 }
}

/// How long a half-open connection is young: longer than a round trip within a site, and short enough that the queue of
/// them stays in the cache.
const YOUNG_MILLIS: u32 = 16;

/// A period of cookies: 64 s.
const COOKIE_MICROS: u64 = 64_000_000;

/// No cookie is valid for longer.
const COOKIES_LIVE: Duration = Duration::from_micros(2 * COOKIE_MICROS);

/// The MSS that three bits can say.
const COOKIE_MSS: [u16; 8] = [64, 536, 1024, 1220, 1360, 1440, 1460, 8960];

/// RFC 6298 (2.1); in ticks.
pub(crate) const INITIAL_RTO_MILLIS: u32 = 1000;

/// RFC 7323 2.3.
pub(crate) const SCALE_MAX: u8 = 14;

/// Stands for no scale in the four bits of a cookie.
const NO_SCALE: u8 = 15;
