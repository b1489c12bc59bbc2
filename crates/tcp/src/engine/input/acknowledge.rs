//! The effects of an ACK: room, a measure of the round trip, a wider window, or the discovery of a loss.

use anywire_packet::{Flags as Control, Parsed};

use crate::congestion::Acked;
use crate::engine::input::receive::Arrived;
use crate::engine::{ConnIndex, End, Engine};
use crate::pool::Marks;
use crate::tcb::{Flags, State, Tcb};
use crate::time::Instant;

/// What an ACK newly covered.
#[derive(Clone, Copy, Default)]
pub(crate) struct Covered {
    /// Bytes, without SYN and FIN.
    pub(crate) bytes: u32,
    /// The round trip that was measured with it.
    pub(crate) rtt_micros: Option<u32>,
}

impl Engine {
    /// The fifth check of RFC 9293 3.10.7.4. False if nothing more of the segment counts.
    #[inline]
    pub(crate) fn on_ack(&mut self, index: ConnIndex, arrived: &Arrived) -> bool {
        let segment = &arrived.segment;
        let tcb = &mut self.tcbs[index];
        if tcb.state == State::SynReceived {
            if !(tcb.snd_una.lt(segment.ack) && segment.ack.le(tcb.snd_nxt)) {
                let addresses = self.local.addresses(tcb.local, tcb.remote);
                self.refuse(addresses, segment);
                return false;
            }
            tcb.state = State::Established;
            tcb.snd_una += 1;
            tcb.snd_right = segment.ack + (u32::from(segment.window) << tcb.send_scale());
            self.opened(index);
            if !self.deliver_text_of_syn(index) {
                return false;
            }
        }
        let tcb = &mut self.tcbs[index];
        // RFC 5961 5.2: an ACK may be at most the largest window old, and never acknowledges data that we have not sent.
        if segment.ack != tcb.snd_una {
            let oldest = tcb.snd_una - (u32::from(tcb.max_snd_wnd) << 6);
            if segment.ack.gt(tcb.snd_nxt) || segment.ack.lt(oldest) {
                self.challenge(index);
                return false;
            }
        }
        let was = (tcb.snd_una, tcb.snd_right);
        self.update_window(index, segment);
        let tcb = &self.tcbs[index];
        let has_sack = segment.has_other_options && tcb.has(Flags::SACK);
        let is_progress = segment.ack.gt(tcb.snd_una);
        if has_sack
            || tcb.extension != Tcb::NO_EXTENSION
            || tcb.has(Flags::TIMED_OUT)
            || !is_progress && self.is_duplicate(index, segment, was)
        {
            return self.on_ack_in_trouble(index, arrived, was);
        }
        if is_progress {
            let covered = self.cover(index, segment);
            self.grow_window(index, covered);
            return self.after_progress(index, segment, covered.bytes);
        }
        true
    }

    /// RFC 5681, section 2: what counts as a duplicate ACK.
    pub(crate) fn is_duplicate(
        &self,
        index: ConnIndex,
        segment: &Parsed,
        was: (anywire_packet::Seq, anywire_packet::Seq),
    ) -> bool {
        let tcb = &self.tcbs[index];
        segment.ack == was.0 && tcb.flight() > 0 && segment.sequence_len() == 0 && tcb.snd_right == was.1
    }

    /// SND.WND. An older segment does not change it; without SND.WL2, since SND.UNA never goes back.
    #[inline]
    fn update_window(&mut self, index: ConnIndex, segment: &Parsed) {
        let tcb = &mut self.tcbs[index];
        if segment.seq.lt(tcb.snd_wl1) || segment.ack.lt(tcb.snd_una) {
            return;
        }
        if tcb.has(Flags::PROBING_WINDOW) && !tcb.has(Flags::DETACHED) {
            // It answers, so it is not given up (RFC 9293 MUST-37).
            tcb.set_stalled_at(self.tick);
        }
        let window = u32::from(segment.window) << tcb.send_scale();
        let right = segment.ack + window;
        if tcb.timeouts() > 0 && window == 0 && tcb.flight() > 0 && !tcb.has(Flags::DETACHED) {
            // It has taken back the window of segments in flight, and answers: so it is not given up either (SHLD-17).
            // Retransmissions probe the window.
            tcb.set_stalled_at(self.tick);
        }
        tcb.snd_wl1 = segment.seq;
        let units = (window >> 6).min(u32::from(u16::MAX)) as u16;
        if units > tcb.max_snd_wnd {
            tcb.max_snd_wnd = units;
        }
        if right == tcb.snd_right {
            return;
        }
        let is_wider = right.gt(tcb.snd_right);
        if is_wider && tcb.timeouts() > 0 && tcb.snd_right.le(segment.ack) && tcb.flight() > 0 {
            // Segments in flight found it closed: they go again now, and not when the timer has grown to a minute.
            tcb.end_backoff();
            tcb.set_retransmit_at(self.tick);
            self.set_deadline(index, self.tick);
        }
        let tcb = &mut self.tcbs[index];
        // A peer should not shrink its window; we must cope if it does (RFC 9293 MUST-34, SHLD-15).
        tcb.snd_right = right;
        if is_wider && (tcb.has_unsent() || tcb.has(Flags::PROBING_WINDOW)) {
            if tcb.has(Flags::PROBING_WINDOW) {
                self.end_probing(index);
            }
            self.schedule(index);
        }
    }

    /// Frees acknowledged segments and measures the round trip. The ACK is for something new.
    #[inline]
    pub(crate) fn cover(&mut self, index: ConnIndex, segment: &Parsed) -> Covered {
        let tcb = &mut self.tcbs[index];
        let mut covered = Covered::default();
        let (mut rtt, mut resent_at, mut segments) = (None, None, 0);
        while !tcb.send_tail.is_none() {
            let first = self.pool.segment(tcb.send_tail).next;
            let kept = self.pool.segment_mut(first);
            if !kept.seq.lt(segment.ack) || first == tcb.send_next {
                break;
            }
            if kept.end().gt(segment.ack) {
                let part = segment.ack - kept.seq;
                kept.seq = segment.ack;
                kept.start += part as u16;
                kept.length -= part as u16;
                covered.bytes += part;
                break;
            }
            covered.bytes += u32::from(kept.length);
            // Karn's rule: it is unknown which of two sendings was answered. Segments behind such a one have waited for it
            // at the peer, so they measure nothing either.
            // One that is taken for lost has met the timer, and its clock of microseconds may have wrapped.
            if kept.marks.has(Marks::RESENT.with(Marks::LOST)) {
                resent_at.get_or_insert(kept.sent_at);
            } else if !kept.marks.has(Marks::SACKED) {
                rtt = Some(self.now.short().wrapping_sub(kept.sent_at));
            }
            tcb.send_tail = self.pool.pop_front(tcb.send_tail);
            tcb.queued -= 1;
            segments += 1;
        }
        tcb.snd_una = segment.ack;
        tcb.window.keep_recover_near(segment.ack);
        // A peer acknowledges every second segment at once.
        let is_lone = segments == 1 && tcb.snd_nxt == segment.ack;
        covered.rtt_micros = rtt.filter(|_| resent_at.is_none());
        let echoed = resent_at.and_then(|sent_at| self.echoed_rtt(index, segment, sent_at));
        let tcb = &mut self.tcbs[index];
        let Some(measured) = covered.rtt_micros.or(echoed) else {
            tcb.end_timeouts();
            // Nothing tells whether the timeout was spurious.
            if is_lone && resent_at.is_some() && !tcb.has(Flags::TIMESTAMPS.with(Flags::SACK)) {
                tcb.peer_acks_mut().assume_longer_delay();
            }
            return covered;
        };
        tcb.end_backoff();
        if is_lone {
            tcb.measure_lone(measured);
        } else {
            tcb.rtt.sample(measured);
        }
        covered
    }

    /// The round trip of a segment that was sent again, last at `sent_at`: if the timestamp that its ACK echoes is that of the last
    /// transmission, this is the one that was answered (RFC 7323, section 4). An earlier one may have been answered before, and
    /// the answer lost.
    #[cold]
    fn echoed_rtt(&self, index: ConnIndex, segment: &Parsed, sent_at: u32) -> Option<u32> {
        let tcb = &self.tcbs[index];
        let (_, echo) = segment.timestamps().filter(|_| tcb.has(Flags::TIMESTAMPS))?;
        let micros = self.now.short().wrapping_sub(sent_at);
        let sent = Instant::from_micros(self.now.as_micros().saturating_sub(micros.into()));
        (echo.wrapping_sub(tcb.ts_offset) == self.aging.tick_of(sent).0).then_some(micros)
    }

    /// The congestion window, where it was what held us back.
    #[inline]
    pub(crate) fn grow_window(&mut self, index: ConnIndex, covered: Covered) {
        let tcb = &mut self.tcbs[index];
        if !tcb.has(Flags::CWND_LIMITED) {
            return;
        }
        let acked = Acked {
            bytes: covered.bytes,
            una: tcb.snd_una,
            snd_nxt: tcb.snd_nxt,
            eff_mss: tcb.eff_mss,
            srtt_micros: tcb.rtt.srtt_micros(),
            rtt_micros: covered.rtt_micros,
        };
        tcb.window.on_ack(self.tick, tcb.algorithm(), acked);
        // If more waits, the next transmission asks how much of the window it fills.
        if tcb.flight() == 0 && !tcb.has_unsent() {
            tcb.flags.clear(Flags::CWND_LIMITED);
            tcb.window.on_limit_elsewhere(self.tick, tcb.algorithm());
        }
    }

    /// Timers, states and events after SND.UNA has moved by `acked`. False if the connection is gone.
    #[inline]
    pub(crate) fn after_progress(&mut self, index: ConnIndex, segment: &Parsed, acked: u32) -> bool {
        let tcb = &mut self.tcbs[index];
        tcb.peer_acks_mut().set_duplicates(0);
        let all = tcb.snd_una == tcb.snd_nxt;
        if all {
            tcb.flags.clear(Flags::TIMES_A_FLIGHT);
            if let Some(extension) = self.extensions_mut(self.tcbs[index].extension) {
                extension.rack.on_all_acked();
            }
        } else if !self.waits_for_reordering(&self.tcbs[index]) {
            // RFC 6298 (5.3).
            self.restart_retransmission(index);
        }
        let tcb = &mut self.tcbs[index];
        if tcb.has(Flags::ECN) {
            self.on_ecn_echo(index, segment, acked);
        }
        let tcb = &mut self.tcbs[index];
        if tcb.has_unsent() {
            self.schedule(index);
        }
        let tcb = &self.tcbs[index];
        if tcb.has(Flags::WANTS_ROOM) && self.room_of(tcb) > 0 {
            self.tcbs[index].flags.clear(Flags::WANTS_ROOM);
            self.tell(index, Flags::TELL_WRITABLE);
        }
        let tcb = &self.tcbs[index];
        if all && tcb.has_sent_fin() {
            return self.on_fin_acknowledged(index);
        }
        true
    }

    /// Our FIN has arrived.
    #[cold]
    fn on_fin_acknowledged(&mut self, index: ConnIndex) -> bool {
        let tcb = &mut self.tcbs[index];
        match tcb.state {
            State::FinWait1 => {
                tcb.state = State::FinWait2;
                if tcb.has(Flags::DETACHED) {
                    self.time_last_state(index);
                }
                true
            }
            State::Closing => {
                self.enter_time_wait(index);
                false
            }
            State::LastAck => {
                self.end(index, End::Closed);
                false
            }
            _ => true,
        }
    }

    /// RFC 3168 6.1.2: the peer saw a mark on what we sent; once a window of data. What the ACK itself covers was in flight
    /// when the mark was made.
    fn on_ecn_echo(&mut self, index: ConnIndex, segment: &Parsed, acked: u32) {
        let tcb = &mut self.tcbs[index];
        if segment.flags.has(Control::ECE)
            && tcb.snd_una.gt(tcb.window.recover + 1)
            && !tcb.has(Flags::RECOVERING.with(Flags::TIMED_OUT))
        {
            tcb.window.on_ecn(tcb.algorithm(), tcb.flight() + acked, tcb.eff_mss);
            // The last number of this window. Duplicates right behind it are of a loss, since nothing was sent again.
            tcb.window.recover = tcb.snd_nxt - 1;
            tcb.flags.set(Flags::REDUCED);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ConnectOptions, Frames, Limits, Mac, Route, Settings, Via};
    use anywire_packet::Seq;

    /// Two engines with an open connection, and the places of its ends.
    fn pair() -> ([Engine; 2], [ConnIndex; 2]) {
        let mut engines = [1, 2].map(|own: u8| {
            let mut engine = Engine::new(Settings::new([1, 2, 3, 4]), Limits::default()).unwrap();
            engine.add_address([10, 0, 0, own].into()).unwrap();
            let mac = |last| Mac::new([2, 0, 0, 0, 0, last]);
            let network = "10.0.0.0/8".parse().unwrap();
            engine.set_mac(mac(own));
            engine.add_route(Route { network, via: Via::OnLink, mtu: 1500, source: None }).unwrap();
            engine.add_neighbour([10, 0, 0, 3 - own].into(), mac(3 - own)).unwrap();
            engine
        });
        engines[1].listen("10.0.0.2:80".parse().unwrap(), ConnectOptions::default()).unwrap();
        let id = engines[0].connect("10.0.0.2:80".parse().unwrap(), ConnectOptions::default()).unwrap();
        exchange(&mut engines, 1000);
        let incoming = engines[1].next_ready().unwrap().id;
        (engines, [id.0, incoming.0])
    }

    /// A tenth of a second passes.
    fn exchange(engines: &mut [Engine; 2], start_millis: u64) {
        let mut frames = Frames::new();
        for step in 0..100 {
            let now = Instant::from_micros(1000 * (start_millis + step));
            for from in [0, 1] {
                engines[from].advance(now);
                engines[from].transmit(now, &mut frames);
                engines[1 - from].receive(now, &mut frames);
            }
        }
    }

    /// A connection that the window never holds back never moves it, and sends 2^31 bytes in a second or in a year.
    #[test]
    fn the_recovery_mark_follows_what_is_acknowledged() {
        for messages in [1, 2] {
            let (mut engines, [index, other]) = pair();
            let una = engines[0].tcbs[index].snd_una;
            engines[0].tcbs[index].window.recover = Seq(una.0.wrapping_sub(0x7fff_0000));
            for _ in 0..messages {
                assert_eq!(engines[0].send(engines[0].at(index.0).unwrap(), &[1; 1448]), 1448);
            }
            exchange(&mut engines, 2000);
            assert_eq!(engines[1].readable(engines[1].at(other.0).unwrap()), messages * 1448);
            let tcb = &engines[0].tcbs[index];
            assert_eq!(tcb.flight(), 0, "all has arrived");
            assert!(tcb.snd_una.gt(una) && tcb.window.recover.le(tcb.snd_una), "{messages} messages");
        }
    }
}
