//! What moves between the rings and the UMEM: frames in, frames out, and their chunks back. It makes no system call.

use std::io;
use std::ops::ControlFlow;

use rustix::net::xdp::{XdpDesc, XdpDescOptions, XdpUmemReg};

use super::ring::{Consumer, Producer};
use super::umem::Umem;
use super::{Class, Counters, FRAME_BYTES_MAX};

/// The UMEM, and what was counted on it.
pub(super) struct Chunks {
    umem: Umem,
    pub(super) counters: Counters,
}

impl Chunks {
    /// So many chunks; both numbers are above 0.
    pub(super) fn of(chunks: u32, chunk_bytes: u32) -> io::Result<Self> {
        Ok(Self { umem: Umem::of(chunks, chunk_bytes)?, counters: Counters::default() })
    }

    /// What the kernel is told of the UMEM.
    pub(super) fn registration(&self) -> XdpUmemReg {
        self.umem.registration()
    }
}

/// The way in, for one queue.
pub(super) struct Incoming {
    /// The place of the queue among those of this UMEM.
    place: u16,
    pub(super) fill: Producer<u64>,
    /// Those of [`Class::Priority`], and those of [`Class::BestEffort`].
    arrivals: [Arrivals; 2],
    /// Chunks that the kernel has to receive into: at most as many as the ring has entries.
    lent: u32,
}

/// What has arrived of one class.
struct Arrivals {
    receive: Consumer<XdpDesc>,
    /// The parts so far of a frame over several chunks.
    parts: Vec<u8>,
}

impl Incoming {
    pub(super) fn new(place: u16, fill: Producer<u64>, receive: [Consumer<XdpDesc>; 2]) -> Self {
        let arrivals = receive.map(|receive| Arrivals { receive, parts: Vec::new() });
        Self { place, fill, arrivals, lent: 0 }
    }

    /// How many frames of a class wait, or parts of frames.
    pub(super) fn available(&self, class: Class) -> u32 {
        self.arrivals[class as usize].receive.available()
    }

    /// Hands over the frames of a class that have arrived, as many as are left, or until `take` breaks off, and takes their chunks
    /// back.
    pub(super) fn receive(
        &mut self,
        class: Class,
        chunks: &mut Chunks,
        left: &mut usize,
        take: &mut impl FnMut(&[u8]) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let Chunks { umem, counters } = chunks;
        let Arrivals { receive, parts } = &mut self.arrivals[class as usize];
        let mut flow = ControlFlow::Continue(());
        // What comes meanwhile waits for the next call: an index that is wrong must not keep this one.
        for _ in 0..receive.available() {
            if *left == 0 || flow.is_break() {
                break;
            }
            let XdpDesc { addr, len, options } = receive.pop();
            let Some(bytes) = umem.received(self.place, addr, len) else {
                counters.bad_descriptors += 1;
                continue;
            };
            self.lent = self.lent.saturating_sub(1);
            let goes_on = options.contains(XdpDescOptions::XDP_PKT_CONTD);
            if !goes_on && parts.is_empty() {
                *left -= 1;
                flow = take(bytes);
                continue;
            }
            // One byte more than allowed marks a frame that is too long.
            let room = (FRAME_BYTES_MAX + 1).saturating_sub(parts.len());
            parts.extend_from_slice(&bytes[..bytes.len().min(room)]);
            if goes_on {
                continue;
            }
            if parts.len() > FRAME_BYTES_MAX {
                counters.too_long += 1;
            } else {
                counters.in_parts += 1;
                *left -= 1;
                flow = take(parts);
            }
            parts.clear();
        }
        receive.release();
        flow
    }

    /// Whether nothing will come before the driver is woken: it has found no chunk, and looks for more only then (`need_wakeup`, which
    /// drivers with zero-copy set on a fill ring).
    pub(super) fn is_stalled(&self) -> bool {
        self.arrivals.iter().all(|class| class.receive.available() == 0) && self.fill.needs_wakeup()
    }

    /// Gives the kernel chunks, until it has as many as the ring has entries.
    pub(super) fn refill(&mut self, chunks: &mut Chunks) {
        let mut is_changed = false;
        while self.lent < self.fill.size()
            && self.fill.room() > 0
            && let Some(address) = chunks.umem.lend_to_receive(self.place)
        {
            self.lent += u32::from(self.fill.push(address));
            is_changed = true;
        }
        if is_changed {
            self.fill.publish();
        }
    }
}

/// The way out.
pub(super) struct Outgoing {
    pub(super) transmit: Producer<XdpDesc>,
    completion: Consumer<u64>,
    /// Chunks on their way: at most as many as the rings have entries, so the kernel always has room to give them back.
    lent: u32,
}

impl Outgoing {
    pub(super) fn new(transmit: Producer<XdpDesc>, completion: Consumer<u64>) -> Self {
        Self { transmit, completion, lent: 0 }
    }

    /// How many frames find room.
    pub(super) fn room(&self, chunks: &Chunks) -> usize {
        ((self.transmit.size() - self.lent) as usize).min(chunks.umem.free())
    }

    /// Copies a frame to the ring. False if there is no room, or if it is longer than a chunk.
    #[inline]
    pub(super) fn transmit(&mut self, chunks: &mut Chunks, frame: &[u8]) -> bool {
        if self.lent == self.transmit.size() {
            return false;
        }
        let Some(address) = chunks.umem.lend_to_send(frame) else { return false };
        let entry = XdpDesc { addr: address, len: frame.len() as u32, options: XdpDescOptions::empty() };
        if !self.transmit.push(entry) {
            // Only if the kernel's index is wrong: what is in the ring was lent.
            chunks.umem.sent(address);
            return false;
        }
        self.lent += 1;
        true
    }

    /// Takes back the chunks whose frames have left.
    pub(super) fn reap(&mut self, chunks: &mut Chunks) {
        for _ in 0..self.completion.available() {
            let address = self.completion.pop();
            if chunks.umem.sent(address) {
                self.lent = self.lent.saturating_sub(1);
            } else {
                chunks.counters.bad_descriptors += 1;
            }
        }
        self.completion.release();
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    /// The rings of one queue and of the sender, and both ends of them.
    struct World {
        incoming: Incoming,
        outgoing: Outgoing,
        chunks: Chunks,
        received: Vec<Vec<u8>>,
    }

    const DEPTH: u32 = 4;
    const CHUNK: u64 = 2048;

    impl World {
        fn new() -> Self {
            let receive = [Consumer::alone(DEPTH), Consumer::alone(DEPTH)];
            let incoming = Incoming::new(0, Producer::alone(DEPTH), receive);
            let outgoing = Outgoing::new(Producer::alone(DEPTH), Consumer::alone(DEPTH));
            let chunks = Chunks::of(2 * DEPTH, CHUNK as u32).expect("16 KiB");
            let mut world = Self { incoming, outgoing, chunks, received: Vec::new() };
            world.incoming.refill(&mut world.chunks);
            world
        }

        fn receive(&mut self, frames_max: usize) -> usize {
            let Self { incoming, chunks, received, .. } = self;
            let (mut taken, mut left) = (0, usize::MAX);
            for class in [Class::Priority, Class::BestEffort] {
                let flow = incoming.receive(class, chunks, &mut left, &mut |frame| {
                    received.push(frame.to_vec());
                    taken += 1;
                    if taken < frames_max { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
                });
                if flow.is_break() {
                    break;
                }
            }
            incoming.refill(chunks);
            taken
        }

        /// The kernel receives part of a frame into the next chunk of the fill ring.
        fn arrives(&mut self, len: u32, goes_on: bool) {
            self.arrives_of(Class::Priority, len, goes_on);
        }

        fn arrives_of(&mut self, class: Class, len: u32, goes_on: bool) {
            let chunk = self.incoming.fill.kernel_takes().expect("the fill ring has a chunk");
            let options = if goes_on { XdpDescOptions::XDP_PKT_CONTD } else { XdpDescOptions::empty() };
            let receive = &mut self.incoming.arrivals[class as usize].receive;
            receive.kernel_adds(XdpDesc { addr: chunk + 256, len, options });
        }
    }

    #[test]
    fn chunks_return_to_the_fill_ring_at_once() {
        let mut world = World::new();
        for round in 0..100 {
            for len in 0..DEPTH {
                world.arrives(len, false);
            }
            assert_eq!(world.receive(3), 3, "round {round}");
            assert_eq!(world.receive(3), 1, "round {round}");
        }
        assert_eq!(world.received.len(), 400);
        assert_eq!(world.chunks.umem.free(), DEPTH as usize, "half of the chunks are for sending");
    }

    /// A driver that has found no chunk is asked to look again once there are some, by an owner that never sleeps as well.
    #[test]
    fn a_driver_without_chunks_is_to_be_woken() {
        let mut world = World::new();
        assert!(!world.incoming.is_stalled());
        for len in 0..DEPTH {
            world.arrives(len, false);
        }
        assert_eq!(world.incoming.fill.kernel_takes(), None);
        world.incoming.fill.kernel_asks_to_be_woken(true);
        assert!(!world.incoming.is_stalled(), "what has arrived comes first");
        assert_eq!(world.receive(DEPTH as usize), DEPTH as usize);
        assert!(world.incoming.is_stalled(), "there are chunks, of which it does not know");
        world.incoming.fill.kernel_asks_to_be_woken(false);
        assert!(!world.incoming.is_stalled());
    }

    #[test]
    fn no_more_of_a_class_is_handed_over_than_is_asked_for() {
        let mut world = World::new();
        world.arrives_of(Class::BestEffort, 60, false);
        world.arrives_of(Class::BestEffort, 61, false);
        world.arrives_of(Class::Priority, 62, false);
        let World { incoming, chunks, received, .. } = &mut world;
        let mut receive = |class, mut left| {
            let flow = incoming.receive(class, chunks, &mut left, &mut |frame| {
                received.push(frame.to_vec());
                ControlFlow::Continue(())
            });
            assert!(flow.is_continue());
            (left, incoming.available(class))
        };
        assert_eq!(receive(Class::BestEffort, 1), (0, 1));
        assert_eq!(receive(Class::Priority, 0), (0, 1));
        assert_eq!(receive(Class::Priority, 9), (8, 0));
        assert_eq!(receive(Class::BestEffort, 9), (8, 0));
        assert_eq!(received.iter().map(Vec::len).collect::<Vec<_>>(), [60, 62, 61]);
    }

    #[test]
    fn a_sender_has_room_again_when_its_frames_have_left() {
        let mut world = World::new();
        let World { outgoing, chunks, .. } = &mut world;
        for _ in 0..100 {
            assert_eq!(outgoing.room(chunks), DEPTH as usize);
            for byte in 0..DEPTH as u8 {
                assert!(outgoing.transmit(chunks, &[byte; 60]));
            }
            assert!(!outgoing.transmit(chunks, &[9; 60]));
            outgoing.transmit.publish();
            while let Some(entry) = outgoing.transmit.kernel_takes() {
                assert_eq!((entry.addr % CHUNK, entry.len), (0, 60));
                assert_eq!(outgoing.room(chunks), 0, "taken is not yet sent");
                outgoing.completion.kernel_adds(entry.addr);
            }
            outgoing.reap(chunks);
        }
        assert_eq!(chunks.counters, Counters::default());
    }

    #[test]
    fn a_frame_over_several_chunks_is_joined() {
        let mut world = World::new();
        for (len, goes_on) in [(1000, true), (1792, true), (8, false), (60, false)] {
            world.arrives(len, goes_on);
        }
        assert_eq!(world.receive(64), 2);
        assert_eq!(world.received.iter().map(Vec::len).collect::<Vec<_>>(), [2800, 60]);
        assert_eq!(world.chunks.counters.in_parts, 1);
    }

    #[test]
    fn a_frame_that_never_ends_is_dropped() {
        let mut world = World::new();
        for part in 0..1000 {
            world.arrives(1792, part < 999);
            world.receive(64);
            assert!(world.incoming.arrivals[0].parts.len() <= FRAME_BYTES_MAX + 1);
        }
        assert!(world.received.is_empty());
        assert_eq!((world.chunks.counters.too_long, world.chunks.counters.in_parts), (1, 0));
        world.arrives(60, false);
        assert_eq!(world.receive(64), 1, "the next one is whole again");
    }

    proptest! {
        /// Whatever the kernel writes, no chunk is in two rings, and bytes come from chunks alone.
        #[test]
        fn a_kernel_that_writes_anything_harms_nothing(
            steps in proptest::collection::vec((0_u8..7, any::<u64>(), any::<u32>(), any::<u32>()), 0..200),
        ) {
            let mut world = World::new();
            for (step, address, length, options) in steps {
                // Half of the addresses are within the UMEM.
                let address = if length % 2 == 0 { address % (2 * u64::from(DEPTH) * CHUNK) } else { address };
                match step {
                    0 => {
                        let options = XdpDescOptions::from_bits_retain(options);
                        world.incoming.arrivals[length as usize / 2 % 2].receive.kernel_adds(XdpDesc { addr: address, len: length % 4096, options });
                    }
                    1 => world.incoming.arrivals[length as usize / 2 % 2].receive.kernel_says(options),
                    2 => world.outgoing.completion.kernel_adds(address),
                    3 => world.outgoing.completion.kernel_says(options),
                    4 => {
                        world.receive(64);
                    }
                    5 => {
                        world.outgoing.reap(&mut world.chunks);
                        let _ = world.outgoing.transmit(&mut world.chunks, &[1; 60]);
                        world.outgoing.transmit.publish();
                    }
                    _ => {
                        world.incoming.fill.kernel_says(options);
                        world.outgoing.transmit.kernel_says(length);
                    }
                }
                prop_assert!(world.chunks.umem.free() <= 2 * DEPTH as usize);
                prop_assert!(world.outgoing.room(&world.chunks) <= DEPTH as usize);
            }
            prop_assert!(world.received.iter().all(|frame| frame.len() <= FRAME_BYTES_MAX));
        }
    }

    /// The kernel takes chunks in another order than they come back.
    #[test]
    fn no_chunk_is_given_twice() {
        let mut world = World::new();
        let mut with_the_kernel = HashSet::new();
        while let Some(chunk) = world.incoming.fill.kernel_takes() {
            assert!(with_the_kernel.insert(chunk));
        }
        assert_eq!(with_the_kernel.len(), DEPTH as usize);
        let World { outgoing, chunks, .. } = &mut world;
        while outgoing.transmit(chunks, &[1; 60]) {}
        outgoing.transmit.publish();
        while let Some(entry) = outgoing.transmit.kernel_takes() {
            assert!(with_the_kernel.insert(entry.addr));
        }
        assert_eq!(with_the_kernel.len(), 2 * DEPTH as usize);
        // The kernel says twice that one was sent: the second time it is no longer on its way.
        let once = *with_the_kernel.iter().max().expect("there are eight");
        outgoing.completion.kernel_adds(once);
        outgoing.completion.kernel_adds(once);
        outgoing.reap(chunks);
        assert_eq!(chunks.umem.free() as u64 + chunks.counters.bad_descriptors, 2);
    }
}
