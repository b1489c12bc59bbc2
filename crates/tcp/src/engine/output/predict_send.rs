//! The counterpart of header prediction: what a connection without trouble most often sends, written in one go.
//!
//! One segment that was never sent, with nothing or little in flight before it, or an ACK alone. Everything here does exactly
//! what the general way through `transmit` would do.

use anywire_packet::emit::{self, Payload};
use anywire_packet::plain::{self, V4, V4_TIMESTAMPS, V6, V6_TIMESTAMPS};
use anywire_packet::{Addresses, Flags as Control, Outgoing};

use crate::engine::input::predict::flags_of;
use crate::engine::output::transmit::announce;
use crate::engine::timers::deadlines::become_fresh;
use crate::engine::{ConnIndex, Engine};
use crate::frames::Filling;
use crate::pool::{Cell, Marks};
use crate::tcb::{Flags, State, Tcb};

impl Engine {
    /// Sends the usual segment of a connection without trouble: its one unsent segment, payload or the FIN, or an ACK
    /// alone. False if it is something else or finds no room, and then nothing was changed.
    #[inline(always)]
    pub(crate) fn send_predicted(&mut self, index: ConnIndex, out: &mut Filling<'_>) -> bool {
        let tcb = &self.tcbs[index];
        let has_timestamps = tcb.has(Flags::TIMESTAMPS);
        if self.local.address_v4(tcb.local) == 0 {
            return match has_timestamps {
                true => self.send_apart::<V6_TIMESTAMPS>(index, out),
                false => self.send_apart::<V6>(index, out),
            };
        }
        if has_timestamps {
            self.send_plain::<V4_TIMESTAMPS>(index, out)
        } else {
            self.send_apart::<V4>(index, out)
        }
    }

    // Apart, so that the loop over all connections keeps its registers.
    #[inline(never)]
    fn send_apart<const LEN: usize>(&mut self, index: ConnIndex, out: &mut Filling<'_>) -> bool {
        self.send_plain::<LEN>(index, out)
    }

    #[inline(always)]
    fn send_plain<const LEN: usize>(&mut self, index: ConnIndex, out: &mut Filling<'_>) -> bool {
        let checks = self.leaving_checks;
        let tcb = &mut self.tcbs[index];
        if !matches!(tcb.state, State::Established | State::FinWait1 | State::LastAck)
            || tcb.flags.0 & DECISIVE_TO_SEND != flags_of(LEN) | Flags::SCHEDULED.0
            || tcb.extension != Tcb::NO_EXTENSION
        {
            return false;
        }
        let cell = tcb.send_next;
        let mut flags = tcb.flags;
        let (control, payload, sum) = if cell.is_none() {
            if !flags.has(Flags::ACK_NOW) {
                tcb.flags.clear(Flags::SCHEDULED);
                return true;
            }
            if !out.has_room_for(LEN) || tcb.snd_right.lt(tcb.snd_nxt) {
                return false;
            }
            (Control::ACK, &[][..], None)
        } else {
            let sum = self.pool.sum_of(cell);
            let (kept, payload) = self.pool.segment_and_bytes(cell);
            let length = payload.len() as u32;
            let is_fin = kept.marks == Marks::FIN && length == 0;
            let flight = tcb.flight();
            let is_predicted = cell == tcb.send_tail
                && (kept.marks == Marks::NONE || is_fin)
                && length <= u32::from(tcb.eff_mss)
                && (kept.seq + length).le(tcb.snd_right)
                && out.has_room_for(LEN + payload.len());
            if !is_predicted {
                return false;
            }
            if flight == 0 && !flags.has(Flags::RETRANSMIT) {
                // The congestion window is not asked.
                if tcb.was_idle_for_rto(self.tick) {
                    tcb.window.after_idle(tcb.eff_mss);
                }
                let (delay_millis, backoff) = (tcb.peer_acks().delay_millis(), tcb.backoff().into());
                let at = self.tick.after(tcb.rtt.rto_millis(&self.timings.rto, delay_millis, backoff));
                tcb.time_flight(at);
                flags.set(Flags::RETRANSMIT);
                if !tcb.is_looked_at_by(at) {
                    self.fresh.push_back((index, become_fresh(tcb, self.tick)));
                    flags.set(Flags::FRESH);
                }
            } else if flight == 0
                || is_fin
                || flags.0 & DECISIVE_IN_FLIGHT != Flags::RETRANSMIT.with(Flags::NO_NAGLE).0
                || flight + length > tcb.window.cwnd
                // From two full segments on there may be a loss probe; until then the timer stays as it is.
                || flight + length >= 2 * u32::from(tcb.eff_mss)
            {
                return false;
            }
            kept.sent_at = self.now.short();
            kept.transmissions = 1;
            tcb.send_next = Cell::NONE;
            tcb.snd_nxt = kept.seq + length + u32::from(is_fin);
            (Control::ACK.with(if is_fin { Control::FIN } else { Control::PSH }), payload, sum)
        };
        flags.clear(Flags::SCHEDULED.with(Flags::ACK_OWED).with(Flags::ACK_NOW));
        tcb.flags = flags;
        // No closure: there would be two, one for each length, and the compiler would inline neither.
        let length = LEN + payload.len();
        let Some((head, room)) = out.next(length).and_then(|room| room.split_first_chunk_mut()) else {
            debug_assert!(false, "there was room for it");
            return true;
        };
        // Summed before the headers are built: the registers that the headers need would evict the sum.
        let summed = match sum {
            Some(sum) => Payload::put_summed(room, payload, sum),
            None => Payload::put(room, payload, checks),
        };
        let segment = Outgoing {
            local_port: tcb.local_port,
            remote_port: tcb.remote_port,
            seq: tcb.snd_nxt - payload.len() as u32 - u32::from(control.has(Control::FIN)),
            ack: tcb.rcv_nxt,
            flags: control,
            window: announce(tcb, self.settings.receive_window),
            traffic_class: tcb.class.field(),
            ..Outgoing::default()
        };
        tcb.last_ack_sent = tcb.rcv_nxt;
        let (local, remote) = (tcb.local, tcb.remote);
        let addresses = if plain::is_v6(LEN) {
            self.local.addresses(local, remote)
        } else {
            Addresses::V4 { local: self.local.address_v4(local), remote }
        };
        let link = self.local.link(tcb.neighbour);
        let timestamps = if plain::has_timestamps(LEN) {
            (self.tick.0.wrapping_add(tcb.ts_offset), tcb.ts_recent)
        } else {
            (0, 0)
        };
        emit::plain::<LEN>(head, link, &addresses, &segment, timestamps, summed, checks);
        out.add(length);
        true
    }
}

/// The deciding flags: it must be in a ring, timestamps must match the headers, and all others must be clear.
const DECISIVE_TO_SEND: u32 = Flags::TIMESTAMPS.0
    | Flags::SCHEDULED.0
    | Flags::ECN.0
    | Flags::ECHO_CONGESTION.0
    | Flags::PROBING_WINDOW.0
    | Flags::TIMED_OUT.0
    | Flags::RECOVERING.0
    | Flags::CWND_LIMITED.0;

/// With something in flight: its timer runs, and is that of the retransmission; and small segments need not wait.
const DECISIVE_IN_FLIGHT: u32 = Flags::RETRANSMIT.0 | Flags::NO_NAGLE.0 | Flags::LOSS_TIMER.0;
