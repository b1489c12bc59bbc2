//! Memory of a fixed size that two processes share.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::{self, NonNull};

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat, ftruncate, memfd_create};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use super::positions::Direction;
use super::{RING_MAX_BYTES, RING_MIN_BYTES, bytes};

/// The memory of one connection, mapped into this process.
#[derive(Debug)]
pub(super) struct Region {
    base: NonNull<u8>,
    ring_bytes: usize,
}

/// Why memory of a peer cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// It can still shrink, and then an access would end this process. The peer's fault.
    #[error("the peer's memory is not sealed against shrinking")]
    NotSealed,
    /// It does not have the size that the peer has named. The peer's fault.
    #[error("the peer's memory has {found} bytes and should have {expected}")]
    Size {
        /// Its size.
        found: u64,
        /// The size that follows from that of the rings.
        expected: u64,
    },
    /// This process cannot map it: mostly it has too many mappings (`vm.max_map_count`) or too little address space.
    #[error("the peer's memory cannot be mapped: {0}")]
    Map(#[source] io::Error),
}

// SAFETY: no thread owns the memory: it is only accessed through atomics, and stays mapped until the drop.
#[allow(unsafe_code)]
unsafe impl Send for Region {}
// SAFETY: as above.
#[allow(unsafe_code)]
unsafe impl Sync for Region {}

impl Region {
    pub(super) fn create(ring_bytes: usize) -> io::Result<(Self, OwnedFd)> {
        let memory = memfd_create("anywire-shm", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        ftruncate(&memory, total_bytes(ring_bytes) as u64)?;
        fcntl_add_seals(&memory, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        Ok((Self::map(memory.as_fd(), ring_bytes)?, memory))
    }

    pub(super) fn open(memory: BorrowedFd<'_>, ring_bytes: usize) -> Result<Self, OpenError> {
        // Only memory of this kind has seals. The check of the size excludes huge pages, too: an access to them ends the
        // process if the system has no more.
        match fcntl_get_seals(memory) {
            Ok(seals) if seals.contains(SealFlags::SHRINK) => {}
            Ok(_) | Err(Errno::INVAL | Errno::BADF) => return Err(OpenError::NotSealed),
            Err(error) => return Err(OpenError::Map(error.into())),
        }
        let expected = total_bytes(ring_bytes) as u64;
        let found = fstat(memory).map_err(|error| OpenError::Map(error.into()))?.st_size as u64;
        if found != expected {
            return Err(OpenError::Size { found, expected });
        }
        Self::map(memory, ring_bytes).map_err(OpenError::Map)
    }

    #[allow(unsafe_code)]
    fn map(memory: BorrowedFd<'_>, ring_bytes: usize) -> io::Result<Self> {
        let (bytes, access) = (total_bytes(ring_bytes), ProtFlags::READ | ProtFlags::WRITE);
        // SAFETY: a new mapping at an address that the kernel chooses touches no other memory.
        let base = unsafe { mmap(ptr::null_mut(), bytes, access, MapFlags::SHARED, memory, 0)? };
        let base = NonNull::new(base.cast()).expect("the kernel maps nothing at address 0 by itself");
        Ok(Self { base, ring_bytes })
    }

    #[inline]
    pub(super) const fn ring_bytes(&self) -> usize {
        self.ring_bytes
    }

    /// The positions of ring 0 or 1.
    #[inline]
    #[allow(unsafe_code)]
    pub(super) fn direction(&self, ring: usize) -> &Direction {
        assert!(ring < 2);
        // SAFETY: the first page holds two of them one after the other. It is mapped as long as `self` lives, and aligned
        // for them. They are made of atomics, which may change at any time and for which any bytes are valid.
        unsafe { &*self.base.as_ptr().cast::<Direction>().add(ring) }
    }

    /// Copies bytes into ring 0 or 1 from a position on. They are no more than its size.
    #[inline]
    #[allow(unsafe_code)]
    pub(super) fn copy_in(&self, ring: usize, position: u64, bytes: &[u8]) {
        let (at, to_end) = self.place(ring, position, bytes.len());
        let (one, other) = bytes.split_at(to_end.min(bytes.len()));
        // SAFETY: both parts lie within the ring, which is mapped and accessed through atomics alone.
        unsafe {
            bytes::copy_in(at, one);
            bytes::copy_in(self.ring(ring), other);
        }
    }

    /// Copies bytes out of ring 0 or 1 from a position on. They are no more than its size.
    #[inline]
    #[allow(unsafe_code)]
    pub(super) fn copy_out(&self, ring: usize, position: u64, buffer: &mut [u8]) {
        let (at, to_end) = self.place(ring, position, buffer.len());
        let (one, other) = buffer.split_at_mut(to_end.min(buffer.len()));
        // SAFETY: as in `copy_in`.
        unsafe {
            bytes::copy_out(at, one);
            bytes::copy_out(self.ring(ring), other);
        }
    }

    /// Where a position lies, and how many bytes there are from there to the end of the ring.
    #[inline]
    #[allow(unsafe_code)]
    fn place(&self, ring: usize, position: u64, length: usize) -> (*mut u8, usize) {
        assert!(length <= self.ring_bytes, "no more than a ring at a time");
        let offset = position as usize & (self.ring_bytes - 1);
        // SAFETY: the offset is within the ring.
        (unsafe { self.ring(ring).add(offset) }, self.ring_bytes - offset)
    }

    #[inline]
    #[allow(unsafe_code)]
    fn ring(&self, ring: usize) -> *mut u8 {
        assert!(ring < 2);
        // SAFETY: the mapping is one page and two rings long.
        unsafe { self.base.as_ptr().add(HEADER_BYTES + ring * self.ring_bytes) }
    }
}

impl Drop for Region {
    #[allow(unsafe_code)]
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and nothing borrows from it any more.
        let unmapped = unsafe { munmap(self.base.as_ptr().cast(), total_bytes(self.ring_bytes)) };
        debug_assert!(unmapped.is_ok(), "{unmapped:?}");
    }
}

fn total_bytes(ring_bytes: usize) -> usize {
    assert!(
        ring_bytes.is_power_of_two() && (RING_MIN_BYTES..=RING_MAX_BYTES).contains(&ring_bytes),
        "a ring of {ring_bytes} bytes is no power of two from {RING_MIN_BYTES} to {RING_MAX_BYTES}"
    );
    HEADER_BYTES + 2 * ring_bytes
}

/// The page of positions.
const HEADER_BYTES: usize = 4096;
const _: () = assert!(2 * size_of::<Direction>() <= HEADER_BYTES);
