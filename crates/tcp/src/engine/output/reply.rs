//! Segments that belong to no TCB: SYN-ACKs, answers to strangers, what TIME-WAIT answers. They wait in a bounded queue. What
//! finds no room there is not lost for good: whoever it is for asks again, or a timer is still due.

use anywire_packet::emit::{Payload, emit_headers};
use anywire_packet::{Addresses, Flags, OptionsOut, Outgoing, Parsed, Seq, headers_len};

use crate::engine::input::receive::{local_address, remote_address};
use crate::engine::{ConnectError, Engine};
use crate::frames::Filling;
use crate::hash::secret_hash_of_tuple;
use crate::tcb::Tcb;

/// A segment without payload that needs nothing but itself to be sent.
#[derive(Clone, Copy)]
pub(crate) struct Reply {
    pub(crate) addresses: Addresses,
    pub(crate) neighbour: u16,
    pub(crate) segment: Outgoing,
    pub(crate) options: OptionsOut<'static>,
}

impl Engine {
    #[inline]
    pub(crate) fn reply(&mut self, reply: Reply) {
        if self.replies.len() >= self.limits.replies {
            self.counters.replies_dropped += 1;
            return;
        }
        self.local.neighbours.acquire(reply.neighbour);
        self.replies.push_back(reply);
    }

    /// Writes queued replies into frames, at most so many.
    pub(crate) fn transmit_replies(&mut self, out: &mut Filling<'_>, replies_max: usize) {
        let mut taken = 0;
        for reply in self.replies.iter().take(replies_max) {
            if !self.write_reply(reply, out) {
                break;
            }
            taken += 1;
        }
        for reply in self.replies.drain(..taken) {
            self.local.neighbours.release(reply.neighbour);
        }
    }

    /// Writes one into a frame. False if there is no room.
    #[inline(always)]
    pub(crate) fn write_reply(&self, reply: &Reply, out: &mut Filling<'_>) -> bool {
        let Reply { addresses, neighbour, segment, options } = reply;
        let (link, checks) = (self.local.link(*neighbour), self.leaving_checks);
        out.push_with(headers_len(addresses, options), |room| {
            emit_headers(room, link, addresses, segment, options, Payload::NONE, checks)
        })
    }

    /// Answers a segment of no connection with a reset (RFC 9293 3.5.2, group 1). Never called for a RST.
    pub(crate) fn refuse(&mut self, addresses: Addresses, segment: &Parsed) {
        let (seq, ack, flags) = if segment.flags.has(Flags::ACK) {
            (segment.ack, Seq(0), Flags::RST)
        } else {
            (Seq(0), segment.seq + segment.sequence_len(), Flags::RST.with(Flags::ACK))
        };
        let (local_port, remote_port) = (segment.local_port(), segment.remote_port());
        let reset = Outgoing { local_port, remote_port, seq, ack, flags, ..Outgoing::default() };
        self.send_reset(addresses, reset, None);
    }

    /// The neighbour that takes an answer; none if there is no way back.
    #[inline]
    pub(crate) fn neighbour_for_reply(&mut self, addresses: &Addresses) -> Option<u16> {
        match self.local.neighbour_to(remote_address(addresses)) {
            Ok(neighbour) => Some(neighbour),
            Err(error) => {
                match error {
                    ConnectError::NoNeighbour => self.counters.neighbours_refused += 1,
                    ConnectError::NoRoute => self.note_unroutable(addresses),
                    _ => self.counters.frames_ignored += 1,
                }
                None
            }
        }
    }

    #[cold]
    fn note_unroutable(&mut self, addresses: &Addresses) {
        if self.counters.unroutable == 0 {
            self.unroutable = Some((remote_address(addresses), local_address(addresses)));
        }
        self.counters.unroutable += 1;
    }

    pub(crate) fn send_reset(
        &mut self,
        addresses: Addresses,
        reset: Outgoing,
        timestamps: Option<(u32, u32)>,
    ) {
        let Some(neighbour) = self.neighbour_for_reply(&addresses) else { return };
        self.counters.resets_sent += 1;
        let options = OptionsOut { timestamps, ..OptionsOut::NONE };
        self.reply(Reply { addresses, neighbour, segment: reset, options });
    }

    /// Where a connection of these addresses and ports starts: its initial sequence number, a keyed hash of them and a clock
    /// of 4 us (RFC 6528), and the start of its timestamps' clock, known only to us (RFC 7323 7.1). Of the two halves of
    /// one hash neither tells anything of the other. The timestamps of successive connections of the same name go on, so
    /// that TIME-WAIT can tell old from new (RFC 6191).
    pub(crate) fn starts(&self, addresses: &Addresses, ports: u32) -> (Seq, u32) {
        let hash = secret_hash_of_tuple(self.keys.starts, addresses, ports);
        let clock = (self.now.as_micros() / 4) as u32;
        (Seq((hash as u32).wrapping_add(clock)), (hash >> 32) as u32)
    }

    /// The current timestamp of a connection: milliseconds since a start that only we know.
    #[inline(always)]
    pub(crate) const fn stamp(&self, offset: u32) -> u32 {
        self.tick.0.wrapping_add(offset)
    }
}

/// A segment of a connection without payload, and without a window: the caller adds one.
pub(crate) fn without_payload(tcb: &Tcb, seq: Seq, flags: Flags) -> Outgoing {
    Outgoing {
        local_port: tcb.local_port,
        remote_port: tcb.remote_port,
        seq,
        ack: tcb.rcv_nxt,
        flags,
        traffic_class: tcb.class.field(),
        ..Outgoing::default()
    }
}
