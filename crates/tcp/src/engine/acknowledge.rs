//! The effects of an ACK: room, a measure of the round trip, a wider window, or the discovery of a loss.

use anywire_packet::{Flags as Control, Parsed};

use super::receive::Arrived;
use super::{End, Engine};
use crate::block::{Block, Flags, State};
use crate::congestion::Acked;
use crate::pool::Marks;

/// What an ACK newly covered.
#[derive(Clone, Copy, Default)]
pub(super) struct Covered {
    /// Bytes, without SYN and FIN.
    pub(super) bytes: u32,
    /// The round trip that was measured with it.
    pub(super) rtt_micros: Option<u32>,
}

impl Engine {
    /// The fifth check of RFC 9293 3.10.7.4. False if nothing more of the segment counts.
    #[inline]
    pub(super) fn on_ack(&mut self, index: u32, arrived: &Arrived) -> bool {
        let segment = &arrived.segment;
        let block = &mut self.blocks[index];
        if block.state == State::SynReceived {
            if !(block.snd_una.lt(segment.ack) && segment.ack.le(block.snd_nxt)) {
                let addresses = self.local.addresses(block.local, block.remote);
                self.refuse(addresses, segment);
                return false;
            }
            block.state = State::Established;
            block.snd_una += 1;
            block.snd_right = segment.ack + (u32::from(segment.window) << block.send_scale());
            self.opened(index);
            if !self.deliver_text_of_syn(index) {
                return false;
            }
        }
        let block = &mut self.blocks[index];
        // RFC 5961 5.2: an ACK may be at most the largest window old, and never acknowledges data that we have not sent.
        if segment.ack != block.snd_una {
            let oldest = block.snd_una - (u32::from(block.max_snd_wnd) << 6);
            if segment.ack.gt(block.snd_nxt) || segment.ack.lt(oldest) {
                self.challenge(index);
                return false;
            }
        }
        let was = (block.snd_una, block.snd_right);
        self.update_window(index, segment);
        let block = &self.blocks[index];
        let has_sack = segment.has_other_options && block.has(Flags::SACK);
        let is_progress = segment.ack.gt(block.snd_una);
        if has_sack
            || block.extension != Block::NO_EXTENSION
            || block.has(Flags::TIMED_OUT)
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
    pub(super) fn is_duplicate(
        &self,
        index: u32,
        segment: &Parsed,
        was: (anywire_packet::Seq, anywire_packet::Seq),
    ) -> bool {
        let block = &self.blocks[index];
        segment.ack == was.0 && block.flight() > 0 && segment.sequence_len() == 0 && block.snd_right == was.1
    }

    /// SND.WND. An older segment does not change it; without SND.WL2, since SND.UNA never goes back.
    #[inline]
    fn update_window(&mut self, index: u32, segment: &Parsed) {
        let block = &mut self.blocks[index];
        if segment.seq.lt(block.snd_wl1) || segment.ack.lt(block.snd_una) {
            return;
        }
        if block.has(Flags::PROBING_WINDOW) && !block.has(Flags::DETACHED) {
            // It answers, so it is not given up (RFC 9293 MUST-37).
            block.set_stalled_at(self.tick);
        }
        let window = u32::from(segment.window) << block.send_scale();
        let right = segment.ack + window;
        if block.backoff() > 0 && window == 0 && block.flight() > 0 && !block.has(Flags::DETACHED) {
            // It has taken back the window of segments in flight, and answers: so it is not given up either (SHLD-17).
            // Retransmissions probe the window.
            block.set_stalled_at(self.tick);
        }
        block.snd_wl1 = segment.seq;
        let units = (window >> 6).min(u32::from(u16::MAX)) as u16;
        if units > block.max_snd_wnd {
            block.max_snd_wnd = units;
        }
        if right == block.snd_right {
            return;
        }
        let is_wider = right.gt(block.snd_right);
        if is_wider && block.backoff() > 0 && block.snd_right.le(segment.ack) && block.flight() > 0 {
            // Segments in flight found it closed: they go again now, and not when the timer has grown to a minute.
            block.set_backoff(0);
            block.set_retransmit_at(self.tick);
            self.set_deadline(index, self.tick);
        }
        let block = &mut self.blocks[index];
        // A peer should not shrink its window; we must cope if it does (RFC 9293 MUST-34, SHLD-15).
        block.snd_right = right;
        if is_wider && (block.has_unsent() || block.has(Flags::PROBING_WINDOW)) {
            if block.has(Flags::PROBING_WINDOW) {
                self.end_probing(index);
            }
            self.schedule(index);
        }
    }

    /// Frees acknowledged segments and measures the round trip. The ACK is for something new.
    #[inline]
    pub(super) fn cover(&mut self, index: u32, segment: &Parsed) -> Covered {
        let block = &mut self.blocks[index];
        let mut covered = Covered::default();
        let (mut rtt, mut any_resent, mut segments) = (None, false, 0);
        while !block.send_tail.is_none() {
            let first = self.pool.segment(block.send_tail).next;
            let kept = self.pool.segment_mut(first);
            if !kept.seq.lt(segment.ack) || first == block.send_next {
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
                any_resent = true;
            } else if !kept.marks.has(Marks::SACKED) {
                rtt = Some(self.now.short().wrapping_sub(kept.sent_at));
            }
            block.send_tail = self.pool.pop_front(block.send_tail);
            block.queued -= 1;
            segments += 1;
        }
        block.snd_una = segment.ack;
        block.window.keep_recover_near(segment.ack);
        block.set_backoff(0);
        // A peer acknowledges every second segment at once.
        let is_lone = segments == 1 && block.snd_nxt == segment.ack;
        covered.rtt_micros = rtt.filter(|_| !any_resent);
        match covered.rtt_micros {
            Some(rtt) if is_lone => block.measure_lone(rtt),
            Some(rtt) => block.rtt.sample(rtt),
            // Nothing tells whether the timeout was spurious.
            None if is_lone && any_resent && !block.has(Flags::TIMESTAMPS.with(Flags::SACK)) => {
                block.peer_acks_mut().assume_longer_delay();
            }
            None => {}
        }
        covered
    }

    /// The congestion window, where it was what held us back.
    #[inline]
    pub(super) fn grow_window(&mut self, index: u32, covered: Covered) {
        let block = &mut self.blocks[index];
        if !block.has(Flags::CWND_LIMITED) {
            return;
        }
        let acked = Acked {
            bytes: covered.bytes,
            una: block.snd_una,
            snd_nxt: block.snd_nxt,
            eff_mss: block.eff_mss,
            srtt_micros: block.rtt.srtt_micros(),
            rtt_micros: covered.rtt_micros,
        };
        block.window.on_ack(self.tick, block.algorithm(), acked);
        if block.flight() == 0 {
            block.flags.clear(Flags::CWND_LIMITED);
            block.window.on_limit_elsewhere(self.tick, block.algorithm());
        }
    }

    /// Timers, states and events after SND.UNA has moved by `acked`. False if the connection is gone.
    #[inline]
    pub(super) fn after_progress(&mut self, index: u32, segment: &Parsed, acked: u32) -> bool {
        let block = &mut self.blocks[index];
        block.peer_acks_mut().set_duplicates(0);
        let all = block.snd_una == block.snd_nxt;
        if all {
            block.flags.clear(Flags::TIMES_A_FLIGHT);
            if let Some(extension) = self.extensions_mut(self.blocks[index].extension) {
                extension.rack.on_all_acked();
            }
        } else if !self.waits_for_reordering(&self.blocks[index]) {
            // RFC 6298 (5.3).
            self.restart_retransmission(index);
        }
        let block = &mut self.blocks[index];
        if block.has(Flags::ECN) {
            self.on_ecn_echo(index, segment, acked);
        }
        let block = &mut self.blocks[index];
        if block.has_unsent() {
            self.schedule(index);
        }
        let block = &self.blocks[index];
        if block.has(Flags::WANTS_ROOM) && self.room_of(block) > 0 {
            self.blocks[index].flags.clear(Flags::WANTS_ROOM);
            self.tell(index, Flags::TELL_WRITABLE);
        }
        let block = &self.blocks[index];
        if all && block.has_sent_fin() {
            return self.on_fin_acknowledged(index);
        }
        true
    }

    /// Our FIN has arrived.
    #[cold]
    fn on_fin_acknowledged(&mut self, index: u32) -> bool {
        let block = &mut self.blocks[index];
        match block.state {
            State::FinWait1 => {
                block.state = State::FinWait2;
                if block.has(Flags::DETACHED) {
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
    fn on_ecn_echo(&mut self, index: u32, segment: &Parsed, acked: u32) {
        let block = &mut self.blocks[index];
        if segment.flags.has(Control::ECE)
            && block.snd_una.gt(block.window.recover + 1)
            && !block.has(Flags::RECOVERING.with(Flags::TIMED_OUT))
        {
            block.window.on_ecn(block.algorithm(), block.flight() + acked, block.eff_mss);
            // The last number of this window. Duplicates right behind it are of a loss, since nothing was sent again.
            block.window.recover = block.snd_nxt - 1;
            block.flags.set(Flags::REDUCED);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ConnectOptions, Frames, Instant, Limits, Mac, Route, Settings, Via};
    use anywire_packet::Seq;

    /// Two engines with an open connection, and the places of its ends.
    fn pair() -> ([Engine; 2], [u32; 2]) {
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
            let una = engines[0].blocks[index].snd_una;
            engines[0].blocks[index].window.recover = Seq(una.0.wrapping_sub(0x7fff_0000));
            for _ in 0..messages {
                assert_eq!(engines[0].send(engines[0].at(index).unwrap(), &[1; 1448]), 1448);
            }
            exchange(&mut engines, 2000);
            assert_eq!(engines[1].readable(engines[1].at(other).unwrap()), messages * 1448);
            let block = &engines[0].blocks[index];
            assert_eq!(block.flight(), 0, "all has arrived");
            assert!(block.snd_una.gt(una) && block.window.recover.le(block.snd_una), "{messages} messages");
        }
    }
}
