//! The pool of buffers that the kernel receives into, and the ring by which they are given to it.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::io;
use std::ptr::NonNull;
use std::slice;
use std::sync::atomic::{AtomicU16, Ordering};

use io_uring::IoUring;
use io_uring::types::BufRingEntry;

/// Memory that the kernel writes to: so it is reached by raw pointers alone, except for the bytes of a buffer that the kernel
/// has given to us.
pub(super) struct Buffers {
    /// The ring: an entry for each buffer that the kernel may use.
    entries: NonNull<BufRingEntry>,
    bytes: NonNull<u8>,
    /// Entries that were ever written; the ring's tail.
    tail: u16,
}

impl Buffers {
    /// All buffers, in the ring.
    pub(super) fn new() -> Self {
        let mut buffers = Self { entries: allocate(ENTRIES), bytes: allocate(BYTES), tail: 0 };
        (0..BUFFERS).for_each(|id| buffers.give_back(id));
        buffers
    }

    /// Tells the kernel where the ring is.
    pub(super) fn register(&self, ring: &IoUring) -> io::Result<()> {
        // SAFETY: the ring of entries is page-aligned, has so many entries, and lives until `unregister` has succeeded.
        unsafe {
            ring.submitter().register_buf_ring_with_flags(self.entries.as_ptr() as u64, BUFFERS, GROUP, 0)
        }
    }

    /// The kernel forgets where the ring is.
    pub(super) fn unregister(ring: &IoUring) -> io::Result<()> {
        ring.submitter().unregister_buf_ring(GROUP)
    }

    /// The first `count` bytes of a buffer that a completion has named.
    pub(super) fn bytes(&self, id: u16, count: usize) -> &[u8] {
        assert!(id < BUFFERS && count <= BUFFER_BYTES, "the kernel names only buffers that it was given");
        // SAFETY: within the allocation, by the line above. The kernel has taken this buffer out of the ring and writes to it
        // no more until `give_back`, which needs `&mut self`. All bytes were zeroed at first.
        unsafe { slice::from_raw_parts(self.bytes.as_ptr().add(usize::from(id) * BUFFER_BYTES), count) }
    }

    /// Puts a buffer into the ring for the kernel to use.
    pub(super) fn give_back(&mut self, id: u16) {
        assert!(id < BUFFERS, "the kernel names only buffers that it was given");
        let place = usize::from(self.tail % BUFFERS);
        // SAFETY: within the two allocations. The kernel reads an entry only below the published tail. There are as many
        // entries as buffers, so it has finished with this one. The ring's tail lies in the part of the first entry that
        // `set_*` leave alone.
        unsafe {
            let entry = &mut *self.entries.as_ptr().add(place);
            entry.set_addr(self.bytes.as_ptr().add(usize::from(id) * BUFFER_BYTES) as u64);
            entry.set_len(BUFFER_BYTES as u32);
            entry.set_bid(id);
            self.tail = self.tail.wrapping_add(1);
            let tail = BufRingEntry::tail(self.entries.as_ptr()).cast::<AtomicU16>();
            // Release: the kernel sees the entry before the tail that includes it.
            (*tail).store(self.tail, Ordering::Release);
        }
    }
}

impl Drop for Buffers {
    fn drop(&mut self) {
        // SAFETY: both were allocated with these layouts, and the owner drops them when the kernel knows them no more.
        unsafe {
            dealloc(self.entries.as_ptr().cast(), ENTRIES);
            dealloc(self.bytes.as_ptr(), BYTES);
        }
    }
}

fn allocate<T>(layout: Layout) -> NonNull<T> {
    // SAFETY: neither layout is empty.
    let memory = unsafe { alloc_zeroed(layout) };
    NonNull::new(memory.cast()).unwrap_or_else(|| handle_alloc_error(layout))
}

/// The number of buffers. A buffer is in use only from a receive until its completion is worked off.
pub const BUFFERS: u16 = 512;
/// The size of a buffer in bytes; more than that arrives in several.
pub const BUFFER_BYTES: usize = 4096;
/// The number by which requests name the pool.
pub(super) const GROUP: u16 = 0;

/// The largest page of any machine.
const PAGE_BYTES: usize = 64 << 10;
const ENTRIES: Layout = layout(BUFFERS as usize * size_of::<BufRingEntry>());
const BYTES: Layout = layout(BUFFERS as usize * BUFFER_BYTES);

const fn layout(bytes: usize) -> Layout {
    match Layout::from_size_align(bytes, PAGE_BYTES) {
        Ok(layout) => layout,
        Err(_) => panic!("both sizes fit"),
    }
}

const _: () = assert!(BUFFERS.is_power_of_two());
