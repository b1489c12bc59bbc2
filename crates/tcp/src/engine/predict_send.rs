//! The counterpart of header prediction: what a connection without trouble most often sends, written in one go.
//!
//! One segment that was never sent, with nothing or little in flight before it, or an ACK alone. Everything here does exactly
//! what the general way through `transmit` would do.

use anywire_packet::emit::{self, Payload};
use anywire_packet::plain::{self, V4, V4_TIMESTAMPS, V6, V6_TIMESTAMPS};
use anywire_packet::{Addresses, Flags as Control, Outgoing};

use super::Engine;
use super::predict::flags_of;
use super::timers::become_fresh;
use super::transmit::announce;
use crate::block::{Block, Flags, State};
use crate::frames::Filling;
use crate::pool::{Cell, Marks};

impl Engine {
    /// Sends the usual segment of a connection without trouble: its one unsent segment, payload or the FIN, or an ACK
    /// alone. False if it is something else or finds no room, and then nothing was changed.
    #[inline(always)]
    pub(super) fn send_predicted(&mut self, index: u32, out: &mut Filling<'_>) -> bool {
        let block = &self.blocks[index];
        let has_timestamps = block.has(Flags::TIMESTAMPS);
        if self.local.address_v4(block.local) == 0 {
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
    fn send_apart<const LEN: usize>(&mut self, index: u32, out: &mut Filling<'_>) -> bool {
        self.send_plain::<LEN>(index, out)
    }

    #[inline(always)]
    fn send_plain<const LEN: usize>(&mut self, index: u32, out: &mut Filling<'_>) -> bool {
        let checks = self.leaving_checks;
        let block = &mut self.blocks[index];
        if !matches!(block.state, State::Established | State::FinWait1 | State::LastAck)
            || block.flags.0 & DECISIVE_TO_SEND != flags_of(LEN) | Flags::SCHEDULED.0
            || block.extension != Block::NO_EXTENSION
        {
            return false;
        }
        let cell = block.send_next;
        let mut flags = block.flags;
        let (control, payload, sum) = if cell.is_none() {
            if !flags.has(Flags::ACK_NOW) {
                block.flags.clear(Flags::SCHEDULED);
                return true;
            }
            if !out.has_room_for(LEN) || block.snd_right.lt(block.snd_nxt) {
                return false;
            }
            (Control::ACK, &[][..], None)
        } else {
            let sum = self.pool.sum_of(cell);
            let (kept, payload) = self.pool.segment_and_bytes(cell);
            let length = payload.len() as u32;
            let is_fin = kept.marks == Marks::FIN && length == 0;
            let flight = block.flight();
            let is_predicted = cell == block.send_tail
                && (kept.marks == Marks::NONE || is_fin)
                && length <= u32::from(block.eff_mss)
                && (kept.seq + length).le(block.snd_right)
                && out.has_room_for(LEN + payload.len());
            if !is_predicted {
                return false;
            }
            if flight == 0 && !flags.has(Flags::RETRANSMIT) {
                // The congestion window is not asked.
                if block.was_idle_for_rto(self.tick) {
                    block.window.after_idle(block.eff_mss);
                }
                let delay_millis = block.peer_acks().delay_millis();
                let at = self.tick.after(block.rtt.rto_millis(&self.timings.rto, delay_millis, 0));
                block.time_flight(at);
                flags.set(Flags::RETRANSMIT);
                if !block.is_looked_at_by(at) {
                    self.fresh.push_back((index, become_fresh(block, self.tick)));
                    flags.set(Flags::FRESH);
                }
            } else if flight == 0
                || is_fin
                || flags.0 & DECISIVE_IN_FLIGHT != Flags::RETRANSMIT.with(Flags::NO_NAGLE).0
                || flight + length > block.window.cwnd
                // From two full segments on there may be a loss probe; until then the timer stays as it is.
                || flight + length >= 2 * u32::from(block.eff_mss)
            {
                return false;
            }
            kept.sent_at = self.now.short();
            kept.transmissions = 1;
            block.send_next = Cell::NONE;
            block.snd_nxt = kept.seq + length + u32::from(is_fin);
            (Control::ACK.with(if is_fin { Control::FIN } else { Control::PSH }), payload, sum)
        };
        flags.clear(Flags::SCHEDULED.with(Flags::ACK_OWED).with(Flags::ACK_NOW));
        block.flags = flags;
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
            local_port: block.local_port,
            remote_port: block.remote_port,
            seq: block.snd_nxt - payload.len() as u32 - u32::from(control.has(Control::FIN)),
            ack: block.rcv_nxt,
            flags: control,
            window: announce(block, self.settings.receive_window),
            traffic_class: block.class.field(),
            ..Outgoing::default()
        };
        block.last_ack_sent = block.rcv_nxt;
        let (local, remote) = (block.local, block.remote);
        let addresses = if plain::is_v6(LEN) {
            self.local.addresses(local, remote)
        } else {
            Addresses::V4 { local: self.local.address_v4(local), remote }
        };
        let link = self.local.link(block.neighbour);
        let timestamps = if plain::has_timestamps(LEN) {
            (self.tick.0.wrapping_add(block.ts_offset), block.ts_recent)
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
    | Flags::RECOVERING.0;

/// With something in flight: its timer runs, and is that of the retransmission; and small segments need not wait.
const DECISIVE_IN_FLIGHT: u32 = Flags::RETRANSMIT.0 | Flags::NO_NAGLE.0 | Flags::LOSS_TIMER.0;
