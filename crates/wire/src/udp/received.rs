//! A batch of datagrams that have arrived, in memory that each batch uses again.

use std::io::{self, IoSliceMut};
use std::net::{IpAddr, Ipv4Addr};

use anywire_advice::Advice;
use quinn_udp::{BATCH_SIZE, RecvMeta};

use super::peer::Peer;
use super::socket::Udp;
use super::source::OwnAddresses;

/// Room for what one system call receives: up to 32 messages, and in each up to 64 datagrams that the kernel has joined.
///
/// It takes 2 MiB of address space, and of memory only the pages that datagrams have reached.
pub struct Received {
    memory: Vec<u8>,
    slots: [Slot; BATCH_SIZE],
    /// Filled in by the system for each message. Reused, because clearing it takes longer than preparing the call.
    metas: [RecvMeta; BATCH_SIZE],
    /// How many slots hold a message.
    filled: usize,
    /// Datagrams that were dropped.
    forged: usize,
    /// How many messages the next call asks for. A call has to prepare a header for each, so it asks for about as many as
    /// came before.
    asked: usize,
    /// Whether the last call took as many as it had asked for.
    is_full: bool,
    largest: usize,
}

/// What one message of the system holds.
#[derive(Clone)]
pub(super) struct Slot {
    pub(super) peer: Peer,
    pub(super) local_ip: Option<IpAddr>,
    pub(super) ecn: u8,
    /// Bytes that were received.
    pub(super) len: usize,
    /// Length of each of the joined datagrams but the last.
    pub(super) stride: usize,
    /// Whether the system had no room for the rest.
    pub(super) is_cut: bool,
    /// Where its bytes are, which is behind those of dropped messages.
    pub(super) buffer: usize,
}

impl Slot {
    fn datagrams(len: usize, stride: usize) -> usize {
        // A datagram without a byte is one, too.
        len.max(1).div_ceil(stride.max(1))
    }
}

/// One datagram of a batch.
#[derive(Clone, Debug)]
pub struct Datagram<'b> {
    data: &'b [u8],
    /// Who sent it.
    pub peer: Peer,
    /// The address of this machine that it was sent to, if the socket is bound to all of them: answers shall leave from there.
    /// `None` if it was sent to a group of machines.
    pub local_ip: Option<IpAddr>,
    /// Its two ECN bits (RFC 3168): 0 not capable, 1 and 2 capable, 3 congestion was met.
    pub ecn: u8,
    cut: Option<usize>,
}

/// A datagram was longer than the limit, and its end was dropped. The peer's fault, or that of a limit that is too low.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "a datagram of {peer} is longer than the limit of {limit_bytes} bytes, and its end was dropped{help}",
    help = Advice("raise UdpOptions::datagram_bytes_max, or have the peer send less at once")
)]
pub struct Cut {
    /// Who sent it.
    pub peer: Peer,
    /// The limit.
    pub limit_bytes: usize,
}

impl<'b> Datagram<'b> {
    /// Its bytes; of a cut one, the part up to the limit.
    pub fn data(&self) -> &'b [u8] {
        self.data
    }

    /// Whether it was longer than [`UdpOptions::datagram_bytes_max`](super::UdpOptions::datagram_bytes_max).
    pub fn is_cut(&self) -> bool {
        self.cut.is_some()
    }

    /// Its bytes, all of them.
    ///
    /// # Errors
    /// [`Cut`] if the end is missing.
    pub fn whole(&self) -> Result<&'b [u8], Cut> {
        match self.cut {
            Some(limit_bytes) => Err(Cut { peer: self.peer.clone(), limit_bytes }),
            None => Ok(self.data),
        }
    }
}

impl Received {
    /// Room for the datagrams of this socket.
    pub fn new(socket: &Udp) -> Self {
        let slot =
            Slot { peer: Peer::Unnamed, local_ip: None, ecn: 0, len: 0, stride: 0, is_cut: false, buffer: 0 };
        Self {
            memory: vec![0; BATCH_SIZE * STEP],
            slots: std::array::from_fn(|_| slot.clone()),
            metas: [RecvMeta::default(); BATCH_SIZE],
            filled: 0,
            forged: 0,
            asked: ASKED_MIN,
            is_full: false,
            largest: socket.datagram_bytes_max().min(MESSAGE_BYTES_MAX),
        }
    }

    /// The datagrams in the order in which they arrived.
    pub fn iter(&self) -> impl Iterator<Item = Datagram<'_>> {
        self.slots[..self.filled].iter().flat_map(move |slot| {
            let (memory, stride) = (&self.memory[slot.buffer * STEP..], slot.stride.max(1));
            // A datagram without a byte is one, too.
            (0..slot.len.max(1)).step_by(stride).map(move |start| {
                let end = slot.len.min(start.saturating_add(stride));
                let data = &memory[start..end];
                let shown = &data[..data.len().min(self.largest)];
                let is_cut = slot.is_cut || shown.len() < data.len();
                Datagram {
                    data: shown,
                    peer: slot.peer.clone(),
                    local_ip: slot.local_ip,
                    ecn: slot.ecn,
                    cut: is_cut.then_some(self.largest),
                }
            })
        })
    }

    /// How many datagrams there are.
    pub fn len(&self) -> usize {
        self.slots[..self.filled].iter().map(|slot| Slot::datagrams(slot.len, slot.stride)).sum()
    }

    /// How many more there were, and were dropped because their source is forged: no datagram comes from the addresses 0.0.0.0 and `::`,
    /// from port 0, from a group of machines, or from the receiving service itself (RFC 1122 section 3.2.1.3). Answers to them
    /// would go to somebody who has not asked, or to the service itself without end.
    pub fn forged(&self) -> usize {
        self.forged
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.filled == 0
    }

    /// Whether the batch took as much as it could, so that more may be waiting.
    pub(super) fn is_full(&self) -> bool {
        self.is_full
    }

    /// How many messages of the system they came in.
    pub fn messages(&self) -> usize {
        self.filled
    }

    /// Empties it, and fills it anew by a call that takes a buffer and a place for the message's facts for each message, and
    /// returns how many came.
    pub(super) fn refill_by(
        &mut self,
        own: &OwnAddresses,
        keeps_local_ip: bool,
        receive: impl FnOnce(&mut [IoSliceMut<'_>], &mut [RecvMeta]) -> io::Result<usize>,
    ) -> io::Result<()> {
        let asked = self.empty();
        let mut rest = self.memory.chunks_exact_mut(STEP);
        let mut buffers: [_; BATCH_SIZE] = std::array::from_fn(|_| {
            let buffer = rest.next().expect("the memory has a step for each message");
            IoSliceMut::new(&mut buffer[..MESSAGE_BYTES_MAX])
        });
        let came = receive(&mut buffers[..asked], &mut self.metas[..asked])?;
        for (buffer, meta) in self.metas[..came].iter().enumerate() {
            if !own.hear(meta.addr, meta.dst_ip) {
                self.forged += Slot::datagrams(meta.len, meta.stride);
                continue;
            }
            let slot = &mut self.slots[self.filled];
            slot.peer = Peer::Ip(meta.addr);
            slot.local_ip = meta.dst_ip.filter(|ip| keeps_local_ip && can_be_sent_from(*ip));
            slot.ecn = meta.ecn.map_or(0, |ecn| ecn as u8);
            slot.len = meta.len;
            slot.stride = meta.stride;
            slot.is_cut = false;
            slot.buffer = buffer;
            self.filled += 1;
        }
        self.filled_with(came);
        Ok(())
    }

    /// Adds the message that is in this buffer; `None` if its source is forged.
    pub(super) fn add(&mut self, buffer: usize, slot: Option<Slot>) {
        match slot {
            Some(slot) => {
                self.slots[self.filled] = Slot { buffer, ..slot };
                self.filled += 1;
            }
            None => self.forged += 1,
        }
    }

    /// Empties it; how many messages to ask for.
    pub(super) fn empty(&mut self) -> usize {
        (self.filled, self.forged) = (0, 0);
        self.asked
    }

    /// Says how many messages came, which decides how many are asked for next.
    pub(super) fn filled_with(&mut self, came: usize) {
        self.is_full = came == self.asked;
        if self.is_full {
            self.asked = BATCH_SIZE.min(self.asked * 2);
        } else if came < self.asked / 4 {
            self.asked = ASKED_MIN.max(self.asked / 2);
        }
    }

    /// The buffer of one message.
    pub(super) fn buffer(&mut self, number: usize) -> &mut [u8] {
        &mut self.memory[number * STEP..][..MESSAGE_BYTES_MAX]
    }
}

/// Nothing leaves from the address of a group. Trying it would cost a call that the system refuses.
fn can_be_sent_from(ip: IpAddr) -> bool {
    let ip = ip.to_canonical();
    !ip.is_multicast() && ip != IpAddr::V4(Ipv4Addr::BROADCAST)
}

/// The least that a call asks for.
const ASKED_MIN: usize = 4;
/// The longest payload of UDP, and as much as the kernel joins.
pub(super) const MESSAGE_BYTES_MAX: usize = 65_535;
/// From buffer to buffer. Five cache lines more than a power of two: else all buffers would begin in the same set of the
/// cache and drive each other out.
const STEP: usize = 65_536 + 5 * 64;

#[cfg(test)]
mod tests {
    use super::*;

    fn received(len: usize, stride: usize, largest: usize) -> Received {
        let slot =
            Slot { peer: Peer::Unnamed, local_ip: None, ecn: 0, len, stride, is_cut: false, buffer: 0 };
        let slots = std::array::from_fn(|_| slot.clone());
        Received {
            memory: vec![7; BATCH_SIZE * STEP],
            slots,
            metas: [RecvMeta::default(); BATCH_SIZE],
            filled: 1,
            forged: 0,
            asked: ASKED_MIN,
            is_full: false,
            largest,
        }
    }

    #[test]
    fn as_many_are_asked_for_as_come() {
        let mut received = received(0, 0, 65_535);
        let mut ask = |come: usize| {
            let asked = received.empty();
            received.filled_with(come.min(asked));
            (asked, received.is_full())
        };
        let asked: Vec<_> = [100, 100, 100, 100, 100, 9, 7, 1, 1, 1, 0].into_iter().map(&mut ask).collect();
        let full = [(4, true), (8, true), (16, true), (32, true), (32, true)];
        let fewer = [(32, false), (32, false), (16, false), (8, false), (4, false), (4, false)];
        assert_eq!(asked, [&full[..], &fewer[..]].concat());
    }

    fn lengths(received: &Received) -> Vec<usize> {
        let lengths: Vec<_> = received.iter().map(|datagram| datagram.data().len()).collect();
        assert_eq!(lengths.len(), received.len());
        lengths
    }

    #[test]
    fn joined_datagrams_are_told_apart() {
        assert_eq!(lengths(&received(250, 100, 65_535)), [100, 100, 50]);
        assert_eq!(lengths(&received(200, 100, 65_535)), [100, 100]);
        assert_eq!(lengths(&received(200, 200, 65_535)), [200]);
    }

    #[test]
    fn a_datagram_without_a_byte_is_one() {
        assert_eq!(lengths(&received(0, 0, 65_535)), [0]);
    }

    #[test]
    fn what_is_beyond_the_limit_is_cut_and_said() {
        let received = received(250, 100, 60);
        let whole: Vec<_> = received.iter().map(|datagram| datagram.whole().map(<[u8]>::len)).collect();
        let cut = Cut { peer: Peer::Unnamed, limit_bytes: 60 };
        assert_eq!(whole, [Err(cut.clone()), Err(cut), Ok(50)]);
        assert_eq!(lengths(&received), [60, 60, 50]);
    }
}
