//! Segments that belong to no block: SYN-ACKs, answers to strangers, what TIME-WAIT answers. They wait in a bounded queue. What
//! finds no room there is not lost for good: whoever it is for asks again, or a timer is still due.

use super::Engine;
use super::receive::{fold, remote_address};
use crate::block::Block;
use crate::frames::Filling;
use crate::hash::{Key, secret_hash, secret_hash_of_tuple};
use crate::packet::emit::{Payload, emit_headers};
use crate::packet::{Addresses, Flags, OptionsOut, Outgoing, Parsed, headers_len};
use crate::seq::Seq;
use crate::time::Tick;

/// A segment without payload that needs nothing but itself to be sent.
#[derive(Clone, Copy)]
pub(super) struct Reply {
    pub(super) addresses: Addresses,
    pub(super) route: u16,
    pub(super) segment: Outgoing,
    pub(super) options: OptionsOut<'static>,
}

impl Engine {
    #[inline]
    pub(super) fn reply(&mut self, reply: Reply) {
        if self.replies.len() >= self.limits.replies {
            self.counters.replies_dropped += 1;
            return;
        }
        self.replies.push_back(reply);
    }

    /// Writes queued replies into frames, at most so many.
    pub(super) fn transmit_replies(&mut self, out: &mut Filling<'_>, replies_max: usize) {
        let mut taken = 0;
        for reply in self.replies.iter().take(replies_max) {
            if !self.write_reply(reply, out) {
                break;
            }
            taken += 1;
        }
        self.replies.drain(..taken);
    }

    /// Writes one into a frame. False if there is no room.
    #[inline(always)]
    pub(super) fn write_reply(&self, reply: &Reply, out: &mut Filling<'_>) -> bool {
        let Reply { addresses, route, segment, options } = reply;
        let (link, checks) = (self.local.link(*route), self.checks());
        out.push_with(headers_len(addresses, options), |room| {
            emit_headers(room, link, addresses, segment, options, Payload::NONE, checks)
        })
    }

    /// Answers a segment of no connection with a reset (RFC 9293 3.5.2, group 1). Never called for a RST.
    pub(super) fn refuse(&mut self, addresses: Addresses, segment: &Parsed) {
        let (seq, ack, flags) = if segment.flags.has(Flags::ACK) {
            (segment.ack, Seq(0), Flags::RST)
        } else {
            (Seq(0), segment.seq + segment.sequence_len(), Flags::RST.with(Flags::ACK))
        };
        let (local_port, remote_port) = (segment.local_port(), segment.remote_port());
        let reset = Outgoing { local_port, remote_port, seq, ack, flags, ..Outgoing::default() };
        self.send_reset(addresses, reset, None);
    }

    pub(super) fn send_reset(
        &mut self,
        addresses: Addresses,
        reset: Outgoing,
        timestamps: Option<(u32, u32)>,
    ) {
        let Some(route) = self.local.route_to(remote_address(&addresses)) else { return };
        self.counters.resets_sent += 1;
        let options = OptionsOut { timestamps, ..OptionsOut::NONE };
        self.reply(Reply { addresses, route, segment: reset, options });
    }

    /// The current timestamp for a peer: milliseconds since a start that only we know. The start differs for each pair of
    /// addresses. All connections of a pair share it, so that TIME-WAIT can tell old from new (RFC 7323 5.4, RFC 6191).
    #[inline]
    pub(super) fn timestamp(&self, addresses: &Addresses) -> u32 {
        let (local, remote) = fold(self.secret_key, addresses);
        timestamp(self.tick, self.secret_key, local, remote)
    }

    /// An initial sequence number: a clock of 4 us and a keyed hash of the connection (RFC 6528).
    pub(super) fn initial_seq(&self, addresses: &Addresses, ports: u32) -> Seq {
        let (local, remote) = fold(self.secret_key, addresses);
        let hash = secret_hash_of_tuple(self.secret_key, local << 32 | remote, ports);
        Seq((hash as u32).wrapping_add((self.now.as_micros() / 4) as u32))
    }

    /// Whether one more challenge ACK may be sent in this second (RFC 5961, section 7). The limit itself must not tell an
    /// observer anything, so the share of each second varies with the secret (CVE-2016-5696).
    pub(super) fn may_challenge(&mut self) -> bool {
        let second = self.tick.0 / 1000;
        if second != self.challenge_second {
            self.challenge_second = second;
            let limit = self.limits.challenges_per_second;
            let share = secret_hash(self.secret_key, u64::from(second), 0) as u32 % limit.max(1);
            self.challenges_left = limit / 2 + share;
        }
        if self.challenges_left == 0 {
            self.counters.challenges_withheld += 1;
            return false;
        }
        self.challenges_left -= 1;
        self.counters.challenges += 1;
        true
    }
}

/// The same for two addresses in the form that [`fold`] gives. IPv4 addresses stay as they are.
#[inline(always)]
pub(super) const fn timestamp(tick: Tick, secret_key: Key, local: u64, remote: u64) -> u32 {
    let [a, b] = secret_key.0;
    let offset = ((local << 32 | remote) ^ a).wrapping_mul(b | 1) >> 32;
    tick.0.wrapping_add(offset as u32)
}

/// A segment of a connection without payload, and without a window: the caller adds one.
pub(super) fn without_payload(block: &Block, seq: Seq, flags: Flags) -> Outgoing {
    Outgoing {
        local_port: block.local_port,
        remote_port: block.remote_port,
        seq,
        ack: block.rcv_nxt,
        flags,
        traffic_class: block.class.field(),
        ..Outgoing::default()
    }
}
