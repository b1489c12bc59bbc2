//! The rings of an AF_XDP socket: each has one producer and one consumer, and one of the two is the kernel.
//!
//! Both ends share two indices, which only grow and wrap around at 2^32, and a table of entries. An end changes its own index
//! alone. All that the kernel writes is checked before it is used: a wrong index gives at most as many entries as the ring has,
//! and entries are numbers, which the [ledger](super::umem::Umem) checks.

use std::io;
use std::os::fd::AsFd;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use rustix::net::xdp::{XdpDesc, XdpRingFlags, XdpRingOffset};

/// Types of entries: any bits are a value of theirs, because the kernel writes them.
pub(super) trait Entry: Copy {}

impl Entry for u64 {}

// Three numbers.
impl Entry for XdpDesc {}

/// A ring that we fill: chunks to receive into, or frames to send.
pub(super) struct Producer<E> {
    ring: Ring<E>,
    /// Our index, with what was pushed since the last [`publish`](Self::publish).
    written: u32,
    /// Room that is known of, without a look at the kernel's index.
    known_room: u32,
}

impl<E: Entry> Producer<E> {
    pub(super) fn new(memory: Memory, offsets: XdpRingOffset, size: u32) -> io::Result<Self> {
        let ring = Ring::new(memory, offsets, size)?;
        let written = ring.producer().load(Ordering::Relaxed);
        Ok(Self { ring, written, known_room: 0 })
    }

    /// How many entries it has in all.
    #[inline]
    pub(super) fn size(&self) -> u32 {
        self.ring.size
    }

    /// How many entries find room.
    pub(super) fn room(&mut self) -> u32 {
        self.known_room = self.ring.size - self.unconsumed();
        self.known_room
    }

    /// Entries that the kernel has not taken yet.
    pub(super) fn unconsumed(&self) -> u32 {
        // The entries that the kernel has read may be written again.
        let consumed = self.ring.consumer().load(Ordering::Acquire);
        self.written.wrapping_sub(consumed).min(self.ring.size)
    }

    /// Adds an entry, which the kernel sees after the next [`publish`](Self::publish). False if there is no room.
    #[inline]
    #[must_use]
    pub(super) fn push(&mut self, entry: E) -> bool {
        if self.known_room == 0 && self.room() == 0 {
            return false;
        }
        self.ring.write(self.written, entry);
        self.written = self.written.wrapping_add(1);
        self.known_room -= 1;
        true
    }

    /// Shows the kernel what was pushed.
    #[inline]
    pub(super) fn publish(&self) {
        // The entries are written before the index is.
        self.ring.producer().store(self.written, Ordering::Release);
    }

    /// Whether the kernel looks at this ring only after a system call.
    #[inline]
    pub(super) fn needs_wakeup(&self) -> bool {
        // What was published is seen before the flag is read. Otherwise both ends could take the other one to be awake.
        std::sync::atomic::fence(Ordering::SeqCst);
        self.ring.flags().is_some_and(|flags| {
            flags.load(Ordering::Relaxed) & XdpRingFlags::XDP_RING_NEED_WAKEUP.bits() != 0
        })
    }
}

/// A ring that the kernel fills: frames that were received, or chunks that were sent.
pub(super) struct Consumer<E> {
    ring: Ring<E>,
    /// Our index, with what was popped since the last [`release`](Self::release).
    read: u32,
}

impl<E: Entry> Consumer<E> {
    pub(super) fn new(memory: Memory, offsets: XdpRingOffset, size: u32) -> io::Result<Self> {
        let ring = Ring::new(memory, offsets, size)?;
        let read = ring.consumer().load(Ordering::Relaxed);
        Ok(Self { ring, read })
    }

    /// How many entries there are.
    pub(super) fn available(&self) -> u32 {
        // The entries were written before the index was.
        let produced = self.ring.producer().load(Ordering::Acquire);
        produced.wrapping_sub(self.read).min(self.ring.size)
    }

    /// Takes the next entry, of which there is one. The kernel may write its place again after the next
    /// [`release`](Self::release).
    #[inline]
    pub(super) fn pop(&mut self) -> E {
        let entry = self.ring.read(self.read);
        self.read = self.read.wrapping_add(1);
        entry
    }

    /// Gives the kernel the places of what was popped.
    #[inline]
    pub(super) fn release(&self) {
        // The entries were read before their places are given back.
        self.ring.consumer().store(self.read, Ordering::Release);
    }
}

struct Ring<E> {
    producer: NonNull<AtomicU32>,
    consumer: NonNull<AtomicU32>,
    /// Kernels before 5.4 have none.
    flags: Option<NonNull<AtomicU32>>,
    entries: NonNull<E>,
    /// A power of two.
    size: u32,
    /// What the pointers point into.
    _memory: Memory,
}

impl<E: Entry> Ring<E> {
    /// Checks that all of the ring lies in the memory.
    fn new(memory: Memory, offsets: XdpRingOffset, size: u32) -> io::Result<Self> {
        assert!(size.is_power_of_two(), "the kernel takes no other size");
        let index = |offset| memory.place::<AtomicU32>(offset, 1);
        let places = (index(offsets.producer), index(offsets.consumer), memory.place(offsets.desc, size));
        let (Some(producer), Some(consumer), Some(entries)) = places else {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "the kernel's ring does not fit its memory",
            ));
        };
        let flags = offsets.flags.and_then(index);
        Ok(Self { producer, consumer, flags, entries, size, _memory: memory })
    }

    #[allow(unsafe_code)]
    fn producer(&self) -> &AtomicU32 {
        // SAFETY: `new` found the place aligned and within the memory, which lives as long as `self`. All access is atomic.
        unsafe { self.producer.as_ref() }
    }

    #[allow(unsafe_code)]
    fn consumer(&self) -> &AtomicU32 {
        // SAFETY: as for `producer`.
        unsafe { self.consumer.as_ref() }
    }

    #[allow(unsafe_code)]
    fn flags(&self) -> Option<&AtomicU32> {
        // SAFETY: as for `producer`.
        self.flags.map(|flags| unsafe { flags.as_ref() })
    }

    #[inline]
    #[allow(unsafe_code)]
    fn read(&self, index: u32) -> E {
        // SAFETY: the masked index is below `size`, and `new` found that many aligned entries within the memory. The kernel
        // may write them at any time: the read is volatile, so it happens once, and any bits are an `E`.
        unsafe { self.entries.add((index & (self.size - 1)) as usize).read_volatile() }
    }

    #[inline]
    #[allow(unsafe_code)]
    fn write(&mut self, index: u32, entry: E) {
        // SAFETY: as for `read`; the kernel only reads entries of a ring that we fill.
        unsafe { self.entries.add((index & (self.size - 1)) as usize).write_volatile(entry) }
    }
}

/// Memory that is shared with the kernel; unmapped when dropped.
pub(super) struct Memory {
    start: NonNull<u8>,
    bytes: usize,
}

impl Memory {
    /// The ring of a socket that is mapped at this offset.
    #[allow(unsafe_code)]
    pub(super) fn of<E: Entry>(
        socket: impl AsFd,
        ring: u64,
        offsets: &XdpRingOffset,
        size: u32,
    ) -> io::Result<Self> {
        let entries = u64::from(size) * size_of::<E>() as u64;
        let bytes = usize::try_from(offsets.desc.saturating_add(entries)).unwrap_or(usize::MAX);
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::SHARED | MapFlags::POPULATE;
        // SAFETY: no address is given, so the mapping is new memory and replaces nothing.
        let start = unsafe { mmap(ptr::null_mut(), bytes, protection, flags, socket, ring) }?;
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { start, bytes })
    }

    /// Memory of zeroes, to play the kernel in tests.
    #[cfg(test)]
    #[allow(unsafe_code)]
    pub(super) fn anonymous(bytes: usize) -> Self {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: no address is given, so the mapping is new memory and replaces nothing.
        let start =
            unsafe { rustix::mm::mmap_anonymous(ptr::null_mut(), bytes, protection, MapFlags::PRIVATE) };
        let start = start.expect("a page").cast();
        Self { start: NonNull::new(start).expect("not at 0"), bytes }
    }

    /// The place of so many values, if they lie in the memory and are aligned.
    #[allow(unsafe_code)]
    fn place<T>(&self, offset: u64, count: u32) -> Option<NonNull<T>> {
        let offset = usize::try_from(offset).ok()?;
        let end = (count as usize).checked_mul(size_of::<T>())?.checked_add(offset)?;
        if end > self.bytes || !(self.start.as_ptr().addr() + offset).is_multiple_of(align_of::<T>()) {
            return None;
        }
        // SAFETY: the offset is within the mapping.
        Some(unsafe { self.start.add(offset) }.cast())
    }
}

impl Drop for Memory {
    #[allow(unsafe_code)]
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, whole, and only the ring that owns it has pointers into it. It cannot fail for a
        // mapping that exists, and if it did, the memory would be leaked.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

/// Plays the kernel's end of a ring.
#[cfg(test)]
pub(super) mod kernel {
    use super::*;

    pub(in super::super) const OFFSETS: XdpRingOffset =
        XdpRingOffset { producer: 0, consumer: 64, desc: 192, flags: Some(128) };

    /// Memory for a ring of so many entries.
    pub(in super::super) fn memory<E: Entry>(size: u32) -> Memory {
        Memory::anonymous(OFFSETS.desc as usize + size as usize * size_of::<E>())
    }

    impl<E: Entry> Consumer<E> {
        /// A ring in memory of its own.
        pub(in super::super) fn alone(size: u32) -> Self {
            Self::new(memory::<E>(size), OFFSETS, size).expect("it fits")
        }

        /// The kernel adds an entry, without a look at the room.
        pub(in super::super) fn kernel_adds(&mut self, entry: E) {
            let index = self.ring.producer().load(Ordering::Relaxed);
            self.ring.write(index, entry);
            self.kernel_says(index.wrapping_add(1));
        }

        /// The kernel says that so many entries were written in all.
        pub(in super::super) fn kernel_says(&self, produced: u32) {
            self.ring.producer().store(produced, Ordering::Release);
        }
    }

    impl<E: Entry> Producer<E> {
        /// A ring in memory of its own.
        pub(in super::super) fn alone(size: u32) -> Self {
            Self::new(memory::<E>(size), OFFSETS, size).expect("it fits")
        }

        /// The kernel takes an entry that was published.
        pub(in super::super) fn kernel_takes(&self) -> Option<E> {
            let index = self.ring.consumer().load(Ordering::Relaxed);
            if index == self.ring.producer().load(Ordering::Acquire) {
                return None;
            }
            let entry = self.ring.read(index);
            self.kernel_says(index.wrapping_add(1));
            Some(entry)
        }

        /// The driver looks at the ring only after a system call, or by itself.
        pub(in super::super) fn kernel_asks_to_be_woken(&self, asks: bool) {
            let flags = self.ring.flags().expect("this ring has flags");
            let bits = if asks { XdpRingFlags::XDP_RING_NEED_WAKEUP.bits() } else { 0 };
            flags.store(bits, Ordering::Relaxed);
        }

        /// The kernel says that so many entries were read in all.
        pub(in super::super) fn kernel_says(&self, consumed: u32) {
            self.ring.consumer().store(consumed, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_is_filled_and_drained_in_order_across_its_end() {
        let mut filled = Producer::<u64>::alone(4);
        let mut expected = 0;
        for value in 0..100 {
            assert!(filled.push(value));
            if value % 4 == 3 {
                assert!(!filled.push(1000), "four fit");
                assert_eq!(filled.kernel_takes(), None, "nothing is seen before it is published");
                filled.publish();
                while let Some(taken) = filled.kernel_takes() {
                    assert_eq!(taken, expected);
                    expected += 1;
                }
            }
        }
        assert_eq!(expected, 100);

        let mut drained = Consumer::<u64>::alone(4);
        for value in 0..100 {
            assert_eq!(drained.available(), 0);
            drained.kernel_adds(value);
            assert_eq!((drained.available(), drained.pop()), (1, value));
            drained.release();
        }
    }

    /// Indices that no kernel should write give numbers, never an access outside.
    #[test]
    fn an_index_that_is_wrong_is_bounded() {
        for index in [1, 4, 5, 1000, u32::MAX, 1 << 31] {
            let mut filled = Producer::<u64>::alone(4);
            filled.kernel_says(index);
            assert!(filled.room() <= 4 && filled.unconsumed() <= 4);
            for _ in 0..10 {
                let _ = filled.push(7);
            }
            let mut drained = Consumer::<u64>::alone(4);
            drained.kernel_says(index);
            assert!(drained.available() <= 4);
            for _ in 0..10 {
                drained.pop();
            }
        }
    }

    #[test]
    fn a_ring_outside_its_memory_is_refused() {
        for offsets in [
            XdpRingOffset { desc: 200, ..kernel::OFFSETS },
            XdpRingOffset { desc: u64::MAX, ..kernel::OFFSETS },
            XdpRingOffset { producer: 1 << 20, ..kernel::OFFSETS },
            XdpRingOffset { consumer: 63, ..kernel::OFFSETS },
        ] {
            assert!(Producer::<u64>::new(kernel::memory::<u64>(4), offsets, 4).is_err(), "{offsets:?}");
        }
    }
}
