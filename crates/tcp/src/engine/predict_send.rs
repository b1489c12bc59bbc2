//! The counterpart of header prediction: what a connection without trouble most often sends, written in one go.
//!
//! One segment that was never sent, with nothing in flight before it, or an ACK alone. Everything here does exactly what the
//! general way through `transmit` would do.

use super::Engine;
use super::reply::HOP_LIMIT;
use super::timers::FRESH_MILLIS;
use super::transmit::announce;
use crate::block::{Block, Flags, State};
use crate::frames::Frames;
use crate::packet::plain::PLAIN;
use crate::packet::{Addresses, Flags as Control, OptionsOut, Outgoing, emit};
use crate::pool::{Cell, Marks};

impl Engine {
    /// Sends what a connection without trouble most often has to send: its one unsent segment, or an ACK alone. False if
    /// it is something else, and then nothing was changed. `out` has room for a frame.
    #[inline(always)]
    pub(super) fn send_predicted(&mut self, index: u32, out: &mut Frames) -> bool {
        let block = &mut self.blocks[index];
        let local = self.local.address_v4(block.local);
        if block.state != State::Established
            || block.flags.0 & DECISIVE_TO_SEND != Flags::TIMESTAMPS.0
            || block.extension != Block::NO_EXTENSION
            || local == 0
        {
            return false;
        }
        let cell = block.send_next;
        let mut segment = Outgoing {
            local_port: block.local_port,
            remote_port: block.remote_port,
            seq: block.snd_nxt,
            ack: block.rcv_nxt,
            flags: Control::ACK,
            hop_limit: HOP_LIMIT,
            ..Outgoing::default()
        };
        let payload = if cell.is_none() {
            if !block.has(Flags::ACK_NOW) {
                return true;
            }
            &[]
        } else {
            let kept = self.pool.segment_mut(cell);
            let length = u32::from(kept.length);
            let is_predicted = cell == block.send_tail
                && kept.marks == Marks::NONE
                && block.snd_una == block.snd_nxt
                && length <= u32::from(block.eff_mss)
                && (kept.seq + length).le(block.snd_right)
                && length <= block.window.cwnd
                && !block.has(Flags::RETRANSMIT);
            if !is_predicted {
                return false;
            }
            if block.retransmit_at.is_due(self.tick) {
                block.window.after_idle(block.eff_mss);
            }
            segment.flags = Control::ACK.with(Control::PSH);
            kept.sent_at = self.now.short();
            kept.transmissions = 1;
            block.send_next = Cell::NONE;
            block.snd_nxt = kept.seq + length;
            let rto = block.rtt.rto_millis(&self.timings.rto, 0);
            block.retransmit_at = self.tick.after(rto);
            block.flags.set(Flags::RETRANSMIT);
            if !block.has(Flags::FRESH)
                && (!block.has(Flags::IN_WHEEL) || block.retransmit_at.is_before(block.wheel_at))
            {
                block.flags.set(Flags::FRESH);
                self.fresh.push_back((index, self.tick.after(FRESH_MILLIS)));
            }
            self.pool.bytes_of(cell)
        };
        segment.window = announce(block, self.settings.receive_window);
        block.flags.clear(Flags::ACK_OWED.with(Flags::ACK_NOW));
        block.last_ack_sent = block.rcv_nxt;
        let addresses = Addresses::V4 { local, remote: block.remote };
        let recent = block.ts_recent;
        let link = self.local.link(block.route);
        let options = OptionsOut::timestamps(self.timestamp(&addresses), recent);
        let checks = self.checks();
        let written = out.push_with(PLAIN + payload.len(), |room| {
            emit(room, &link, &addresses, &segment, &options, payload, checks)
        });
        self.counters.frames_sent += u64::from(written);
        true
    }
}

/// The flags that decide: with timestamps, and with none of the others.
const DECISIVE_TO_SEND: u32 = Flags::TIMESTAMPS.0
    | Flags::ECN.0
    | Flags::ECHO_CONGESTION.0
    | Flags::PROBING_WINDOW.0
    | Flags::TIMED_OUT.0
    | Flags::RECOVERING.0;
