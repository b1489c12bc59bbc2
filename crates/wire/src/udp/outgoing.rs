//! Datagrams that wait to be sent: a bounded queue.

use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, SocketAddr};

use anywire_advice::Advice;

use super::peer::Peer;
use super::received::MESSAGE_BYTES_MAX;
use super::socket::Udp;

/// Datagrams in the order in which they are to leave. Consecutive ones of one length to one peer are joined: one system call
/// sends up to 64 of them (GSO). Those to several peers leave up to 32 a call, unless they have an ECN mark or a local address.
///
/// It holds at most [`Outgoing::BYTES_MAX`] bytes; beyond that [`push`](Self::push) refuses.
pub struct Outgoing {
    bytes: Vec<u8>,
    runs: VecDeque<Run>,
    /// How many datagrams wait.
    waiting: usize,
    segments_max: usize,
    /// 0: no mark.
    ecn: u8,
}

/// Datagrams that one system call sends.
pub(super) struct Run {
    pub(super) peer: Option<Peer>,
    pub(super) local_ip: Option<IpAddr>,
    pub(super) ecn: u8,
    /// Length of each datagram but the last, which may be shorter.
    pub(super) segment: usize,
    pub(super) start: usize,
    pub(super) end: usize,
    /// The system has not refused to take them in one call.
    pub(super) may_be_joined: bool,
}

/// The queue has no room for the datagram: the peer, or the way to it, takes less than is sent. The caller sends what waits
/// ([`Udp::flush`]), or drops the datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "{waiting} datagrams wait to be sent, which is the limit{help}",
    help = Advice("send them first, or drop some")
)]
pub struct Full {
    /// How many wait.
    pub waiting: usize,
}

impl From<Full> for io::Error {
    fn from(full: Full) -> Self {
        Self::new(io::ErrorKind::WouldBlock, full)
    }
}

/// What became of datagrams that were to be sent.
#[derive(Debug, Default)]
pub struct Sent {
    /// How many the system took.
    pub datagrams: u64,
    /// System calls that it took them in.
    pub calls: u64,
    /// How often the system had no room, and a call sent nothing or only a part. Linux counts each of them among the errors of
    /// send buffers (`SndbufErrors`), though nothing is lost.
    pub no_room: u64,
    /// How many the system refused; they are dropped.
    pub failed: u64,
    /// Why it refused the first of them.
    pub error: Option<io::Error>,
}

impl Sent {
    pub(super) fn fail(&mut self, error: io::Error) {
        self.failed += 1;
        self.error.get_or_insert(error);
    }
}

impl Outgoing {
    /// The most bytes that wait: 1 MiB, or 16 of the largest datagrams. A batch of 32 messages seldom needs more.
    pub const BYTES_MAX: usize = 1 << 20;

    /// A queue for this socket.
    pub fn new(socket: &Udp) -> Self {
        let segments_max = socket.segments_max();
        Self { bytes: Vec::new(), runs: VecDeque::new(), waiting: 0, segments_max, ecn: 0 }
    }

    /// Adds a datagram to a peer. `from` is the address of this machine that it leaves from, for sockets that are bound to
    /// all of them ([`Datagram::local_ip`](super::Datagram::local_ip)).
    ///
    /// # Errors
    /// [`Full`] if there is no room; then nothing was added.
    pub fn push(&mut self, to: &Peer, from: Option<IpAddr>, data: &[u8]) -> Result<(), Full> {
        self.add(Some(to), from, data)
    }

    /// Adds a datagram to the peer that the socket is connected to.
    ///
    /// # Errors
    /// [`Full`] if there is no room; then nothing was added.
    pub fn push_to_peer(&mut self, data: &[u8]) -> Result<(), Full> {
        self.add(None, None, data)
    }

    /// Marks the datagrams that are added from now on with these two ECN bits (RFC 3168; 0, the default: not capable). Over
    /// Unix sockets it means nothing.
    pub fn set_ecn(&mut self, bits: u8) {
        self.ecn = bits & 0b11;
    }

    /// How many datagrams wait.
    pub fn len(&self) -> usize {
        self.waiting
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.waiting == 0
    }

    fn add(&mut self, to: Option<&Peer>, from: Option<IpAddr>, data: &[u8]) -> Result<(), Full> {
        if self.bytes.len() + data.len() > Self::BYTES_MAX || self.waiting >= DATAGRAMS_MAX {
            return Err(Full { waiting: self.waiting });
        }
        let start = self.bytes.len();
        self.bytes.extend_from_slice(data);
        self.waiting += 1;
        let end = self.bytes.len();
        let (segments_max, ecn) = (self.segments_max, self.ecn);
        if let Some(last) = self.runs.back_mut()
            && last.ecn == ecn
            && last.takes(to, from, data.len(), segments_max)
        {
            last.end = end;
            return Ok(());
        }
        let (peer, segment) = (to.cloned(), data.len());
        self.runs.push_back(Run { peer, local_ip: from, ecn, segment, start, end, may_be_joined: true });
        Ok(())
    }

    pub(super) fn first(&self) -> Option<(&Run, &[u8])> {
        self.runs.front().map(|run| (run, &self.bytes[run.start..run.end]))
    }

    /// The first datagrams, each with its peer, that leave alone and without control messages.
    pub(super) fn leading(&self) -> impl Iterator<Item = (SocketAddr, &[u8])> {
        self.runs.iter().map_while(|run| match run.peer {
            Some(Peer::Ip(to)) if run.is_plain() && !run.is_to_nobody() => {
                Some((to, &self.bytes[run.start..run.end]))
            }
            _ => None,
        })
    }

    /// The datagrams of the first run have to leave one by one.
    pub(super) fn part_first(&mut self) {
        if let Some(run) = self.runs.front_mut() {
            run.may_be_joined = false;
        }
    }

    /// Drops the first so many datagrams of the first run, which were sent.
    pub(super) fn pop(&mut self, datagrams: usize) {
        let Some(run) = self.runs.front_mut() else { return };
        self.waiting -= datagrams;
        if datagrams == run.datagrams() {
            self.runs.pop_front();
        } else {
            run.start += datagrams * run.segment;
        }
        self.give_back();
    }

    /// Frees the memory of datagrams that have left, once none waits or half of the limit has left. So few bytes are moved.
    fn give_back(&mut self) {
        let Some(first) = self.runs.front() else { return self.bytes.clear() };
        let sent = first.start;
        if sent >= Self::BYTES_MAX / 2 {
            self.bytes.drain(..sent);
            for run in &mut self.runs {
                run.start -= sent;
                run.end -= sent;
            }
        }
    }
}

impl Run {
    /// Whether a datagram of this length can leave in the same call.
    fn takes(&self, to: Option<&Peer>, from: Option<IpAddr>, len: usize, segments_max: usize) -> bool {
        let bytes = self.end - self.start;
        len > 0
            && len <= self.segment
            // A shorter one is always the last.
            && bytes.is_multiple_of(self.segment)
            && bytes / self.segment < segments_max
            && bytes + len <= RUN_BYTES_MAX
            && self.local_ip == from
            && self.peer.as_ref() == to
    }

    /// Whether it is one datagram whose only fact is its peer.
    fn is_plain(&self) -> bool {
        self.datagrams() == 1 && self.local_ip.is_none() && self.ecn == 0
    }

    /// Whether its peer is an address that a sender has forged. Linux would send to 0.0.0.0 and `::` as to this machine.
    pub(super) fn is_to_nobody(&self) -> bool {
        matches!(self.peer, Some(Peer::Ip(to)) if to.port() == 0 || to.ip().to_canonical().is_unspecified())
    }

    pub(super) fn datagrams(&self) -> usize {
        (self.end - self.start).max(1).div_ceil(self.segment.max(1))
    }
}

/// Datagrams without a byte take no room among the bytes.
const DATAGRAMS_MAX: usize = 64 * 1024;
/// What the kernel takes in one call, less the longest headers.
const RUN_BYTES_MAX: usize = MESSAGE_BYTES_MAX - 128;

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(segments_max: usize) -> Outgoing {
        Outgoing { bytes: Vec::new(), runs: VecDeque::new(), waiting: 0, segments_max, ecn: 0 }
    }

    fn peer(port: u16) -> Peer {
        Peer::Ip(([127, 0, 0, 1], port).into())
    }

    fn runs(queue: &Outgoing) -> Vec<(usize, usize)> {
        queue.runs.iter().map(|run| (run.datagrams(), run.end - run.start)).collect()
    }

    #[test]
    fn equal_datagrams_to_one_peer_leave_together() {
        let mut queue = queue(3);
        for (port, len) in [(1, 10), (1, 10), (1, 10), (1, 10), (1, 4), (1, 4), (2, 4), (1, 4)] {
            queue.push(&peer(port), None, &vec![0; len]).expect("there is room");
        }
        assert_eq!(runs(&queue), [(3, 30), (2, 14), (1, 4), (1, 4), (1, 4)]);
        assert_eq!(queue.len(), 8);
    }

    #[test]
    fn empty_and_longer_datagrams_leave_alone() {
        let mut queue = queue(64);
        for len in [0, 0, 5, 6, 0] {
            queue.push_to_peer(&vec![0; len]).expect("there is room");
        }
        assert_eq!(runs(&queue), [(1, 0), (1, 0), (1, 5), (1, 6), (1, 0)]);
        while queue.first().is_some() {
            queue.pop(1);
        }
        assert!(queue.is_empty() && queue.bytes.is_empty());
    }

    #[test]
    fn a_run_can_leave_in_parts() {
        let mut queue = queue(64);
        for byte in 1..=4 {
            queue.push_to_peer(&[byte; 10]).expect("there is room");
        }
        queue.push_to_peer(&[5; 3]).expect("there is room");
        assert_eq!(runs(&queue), [(5, 43)]);
        queue.pop(2);
        assert_eq!((runs(&queue), queue.len()), (vec![(3, 23)], 3));
        let (_, data) = queue.first().expect("three wait");
        assert_eq!(data, [&[3; 10][..], &[4; 10], &[5; 3]].concat());
        queue.pop(3);
        assert!(queue.is_empty() && queue.bytes.is_empty());
    }

    #[test]
    fn a_full_queue_has_room_again_once_half_of_it_has_left() {
        let mut queue = queue(1);
        let data = |number: usize| vec![number as u8; 1 << 16];
        let mut pushed = 0;
        for sent in 0..100 {
            while queue.push_to_peer(&data(pushed)).is_ok() {
                pushed += 1;
            }
            assert!((9..=16).contains(&queue.len()), "{} wait", queue.len());
            assert!(queue.bytes.len() <= Outgoing::BYTES_MAX);
            assert_eq!(queue.first().expect("some wait").1, data(sent));
            queue.pop(1);
        }
    }

    #[test]
    fn what_has_no_room_is_refused() {
        let mut queue = queue(1);
        let large = vec![0; 1 << 16];
        let taken = (0..100).take_while(|_| queue.push_to_peer(&large).is_ok()).count();
        assert_eq!((taken, queue.len()), (16, 16));
        let mut queue = queue_of_empty();
        assert_eq!(queue.push_to_peer(&[]), Err(Full { waiting: DATAGRAMS_MAX }));
    }

    fn queue_of_empty() -> Outgoing {
        let mut queue = queue(1);
        (0..DATAGRAMS_MAX).for_each(|_| queue.push_to_peer(&[]).expect("there is room"));
        queue
    }
}
