//! Memory for very many values of one type: reserved once, never moved, grown as it is needed, in huge pages.
//!
//! A table of millions of connections needs three things that a `Vec` does not give. It must not be copied when it
//! grows, because that would stop everything for a second: the whole range of addresses is reserved at the start, and
//! [`Arena::grow`] adds memory. It should lie in pages of 2 MiB, since a lookup in 2 GB of 4 KiB pages misses the
//! address translation as well as the cache. And a place that will be needed soon can be prefetched:
//! [`Arena::prefetch`].
//!
//! The pages come from the system's pool of huge pages (`vm.nr_hugepages`), if the whole reservation fits into its free
//! part. Else they are transparent huge pages, if the system allows them on request (`madvise`), else small ones.
//! [`Arena::pages`] is the choice, [`crate::memory::huge_page_bytes`] the result.
//!
//! Limits: a place has at least one byte and an alignment of at most 4096; memory is given back only when the arena is
//! dropped. The reservation itself costs no memory, except from the pool of huge pages. If the system has no memory
//! left when an arena grows, the kernel ends a process, as it does for any other memory: see
//! [`crate::memory::available_bytes`].

#![allow(unsafe_code)]

use std::ffi::c_void;
use std::fmt;
use std::fs;
use std::io;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::ptr::{self, NonNull};
use std::slice;

use anywire_advice::Message;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

use crate::prefetch::prefetch_at;

/// A growing array of `T` that never moves. Derefs to the slice of the places in use.
///
/// ```
/// use anywire_sys::arena::Arena;
///
/// let mut squares = Arena::reserve(10_000_000, 0_u64)?; // addresses for 80 MB, no memory yet
/// assert!(squares.is_empty());
/// squares.grow(); // 2 MiB
/// assert_eq!(squares.len(), 262_144);
/// for (index, place) in squares.iter_mut().enumerate() {
///     *place = (index * index) as u64;
/// }
/// squares.prefetch(777);
/// assert_eq!(squares[777], 603_729);
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct Arena<T: Copy> {
    first: NonNull<T>,
    /// Places that hold a value: the first ones.
    len: usize,
    capacity: usize,
    /// What a new place holds.
    fill: T,
    step_bytes: usize,
    mapping: Mapping,
    owned: PhantomData<T>,
}

impl<T: Copy> Arena<T> {
    /// Reserves addresses for `capacity` values, and no memory; `fill` is what a new place holds.
    ///
    /// # Errors
    ///
    /// `InvalidInput` if there is nothing to reserve (no places, or places of no bytes), if the alignment of `T` is
    /// above 4096, or if the size exceeds all addresses. Else the error of `mmap(2)`: `OutOfMemory` if the process may
    /// not have so many addresses.
    pub fn reserve(capacity: usize, fill: T) -> io::Result<Self> {
        let refused = |why: &str, help: &str| {
            let found = format!(
                "cannot reserve an arena of {capacity} places of {} bytes (alignment {}): {why}",
                size_of::<T>(),
                align_of::<T>()
            );
            io::Error::new(io::ErrorKind::InvalidInput, Message::new(found).with_help(help))
        };
        if capacity == 0 || size_of::<T>() == 0 {
            return Err(refused("there is nothing to hold", "ask for one place of one byte at least"));
        }
        if align_of::<T>() > SMALL_PAGE_BYTES {
            return Err(refused("memory comes in pages aligned to 4096", "align its type to less"));
        }
        let bytes = capacity
            .checked_mul(size_of::<T>())
            .filter(|&bytes| bytes <= isize::MAX as usize - 2 * STEP_BYTES)
            .ok_or_else(|| refused("that is more than all addresses", "ask for fewer places"))?;
        let mapping = Mapping::of(bytes)?;
        Ok(Self {
            first: mapping.start.cast(),
            len: 0,
            capacity,
            fill,
            step_bytes: if bytes < STEP_BYTES { SMALL_STEP_BYTES } else { STEP_BYTES },
            mapping,
            owned: PhantomData,
        })
    }

    /// Places in use: the first ones of the reservation.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether no place is in use: it has not grown yet.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Places reserved.
    #[inline]
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Brings the next 2 MiB worth of places into use, filled; in an arena smaller than that, the next 64 KiB worth.
    /// Returns how many came: 0 once all are in use.
    pub fn grow(&mut self) -> usize {
        let used_bytes = self.len * size_of::<T>();
        // The end of a step that at least one more place fits before; places need not divide a step.
        let until_bytes = (used_bytes + size_of::<T>()).next_multiple_of(self.step_bytes);
        let len = (until_bytes / size_of::<T>()).min(self.capacity);
        let new = len - self.len;
        // SAFETY: `len` is at most `capacity`, so these places lie in the mapping, which is readable, writable, ours
        // alone and at least `capacity` places long. `MaybeUninit` allows any content.
        let places = unsafe {
            slice::from_raw_parts_mut(
                self.first.add(self.len).cast::<std::mem::MaybeUninit<T>>().as_ptr(),
                new,
            )
        };
        for place in places {
            place.write(self.fill);
        }
        self.len = len;
        new
    }

    /// Grows until at least `len` places are in use. `false`, and nothing done, if `len` is above the capacity.
    pub fn grow_to(&mut self, len: usize) -> bool {
        if len > self.capacity {
            return false;
        }
        while self.len < len {
            self.grow();
        }
        true
    }

    /// Asks for the cache lines of a place, the first four at most. Never a fault, even if the place is not in use.
    #[inline(always)]
    pub fn prefetch(&self, index: usize) {
        // No look at the length: any address will do.
        prefetch_at(self.first.as_ptr().wrapping_add(index));
    }

    /// Bytes in use: the memory that this arena has taken, to within a page.
    pub fn bytes(&self) -> usize {
        self.len * size_of::<T>()
    }

    /// Which pages the system was asked for, and agreed to.
    pub fn pages(&self) -> Pages {
        self.mapping.pages
    }

    /// The places in use.
    #[inline(always)]
    pub fn as_slice(&self) -> &[T] {
        // SAFETY: the first `len` places lie in the mapping, were all written by `grow`, and the mapping lives as long
        // as `self`. It starts at a page, so they are aligned. Only `self` has its address, so `&self` shares them.
        unsafe { slice::from_raw_parts(self.first.as_ptr(), self.len) }
    }

    /// The places in use, to be changed.
    #[inline(always)]
    pub fn as_mut_slice(&mut self) -> &mut [T] {
        // SAFETY: as in `as_slice`; `&mut self` makes the access exclusive.
        unsafe { slice::from_raw_parts_mut(self.first.as_ptr(), self.len) }
    }
}

// SAFETY: the arena owns its mapping as a `Vec` owns its buffer, and gives out places only by its own borrows.
unsafe impl<T: Copy + Send> Send for Arena<T> {}
// SAFETY: as above; `&Arena` gives `&T` alone.
unsafe impl<T: Copy + Sync> Sync for Arena<T> {}

impl<T: Copy> Deref for Arena<T> {
    type Target = [T];

    #[inline(always)]
    fn deref(&self) -> &[T] {
        self.as_slice()
    }
}

impl<T: Copy> DerefMut for Arena<T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [T] {
        self.as_mut_slice()
    }
}

impl<T: Copy> fmt::Debug for Arena<T> {
    /// Not the places: there are millions.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Arena")
            .field("len", &self.len)
            .field("capacity", &self.capacity)
            .field("pages", &self.pages())
            .finish_non_exhaustive()
    }
}

/// Which pages the memory of an arena lies in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pages {
    /// Of 2 MiB, from the pool set aside for them (`MAP_HUGETLB`): certain.
    Huge,
    /// Of 2 MiB where the kernel finds them (`MADV_HUGEPAGE`): likely, as long as memory is not in shreds.
    Transparent,
    /// Of 4 KiB: the arena is small, or the system allows no others.
    Small,
}

impl fmt::Display for Pages {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(match self {
            Self::Huge => "huge",
            Self::Transparent => "transparent huge",
            Self::Small => "small",
        })
    }
}

/// A piece of anonymous memory; unmapped when dropped.
pub(crate) struct Mapping {
    pub(crate) start: NonNull<u8>,
    bytes: usize,
    pages: Pages,
}

impl Mapping {
    /// At least so many bytes (which is not 0, and leaves room to be rounded up), from the best pages to be had.
    pub(crate) fn of(bytes: usize) -> io::Result<Self> {
        if bytes < STEP_BYTES {
            // One huge page would cost more memory than all of this.
            let bytes = bytes.next_multiple_of(SMALL_PAGE_BYTES);
            return Ok(Self { start: map(bytes, MapFlags::NORESERVE)?, bytes, pages: Pages::Small });
        }
        let bytes = bytes.next_multiple_of(STEP_BYTES);
        // Without NORESERVE: the pool then promises the pages here, or refuses; with it, a pool that runs dry would
        // end the process at the first touch.
        if pool_has_pages()
            && let Ok(start) = map(bytes, MapFlags::HUGETLB | MapFlags::HUGE_2MB)
        {
            return Ok(Self { start, bytes, pages: Pages::Huge });
        }
        let mut mapping = Self::aligned(bytes)?;
        // SAFETY: the range is the mapping that was just made; this advice changes nothing that it holds.
        if unsafe { madvise(mapping.as_ptr(), bytes, Advice::LinuxHugepage) }.is_ok() && transparent_allowed()
        {
            mapping.pages = Pages::Transparent;
        }
        Ok(mapping)
    }

    /// A mapping that starts at a multiple of [`STEP_BYTES`]; otherwise the kernel could use no huge page for its ends.
    /// It maps one step more, and unmaps the excess on both sides.
    fn aligned(bytes: usize) -> io::Result<Self> {
        let start = map(bytes + STEP_BYTES, MapFlags::NORESERVE)?;
        let before = start.as_ptr().align_offset(STEP_BYTES);
        let after = STEP_BYTES - before;
        // SAFETY: `before` is less than the step by which the mapping is longer than `bytes`.
        let aligned = unsafe { start.add(before) };
        unmap(start, before);
        // SAFETY: `before + bytes + after` is the length of the mapping.
        unmap(unsafe { aligned.add(bytes) }, after);
        Ok(Self { start: aligned, bytes, pages: Pages::Small })
    }

    fn as_ptr(&self) -> *mut c_void {
        self.start.as_ptr().cast()
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        unmap(self.start, self.bytes);
    }
}

/// A new mapping of zeroes, readable and writable, at an address that the kernel chooses.
fn map(bytes: usize, flags: MapFlags) -> io::Result<NonNull<u8>> {
    // Miri knows no other flag, and none changes what the memory holds.
    let flags = if cfg!(miri) { MapFlags::empty() } else { flags };
    // SAFETY: no address is given, so the mapping is new memory and replaces nothing.
    let start = unsafe {
        mmap_anonymous(ptr::null_mut(), bytes, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE | flags)
    }?;
    NonNull::new(start.cast()).ok_or_else(|| io::ErrorKind::OutOfMemory.into())
}

/// Unmaps pages of [`map`]. Callers pass each page once, and no reference to it may be left.
fn unmap(start: NonNull<u8>, bytes: usize) {
    if bytes > 0 {
        // SAFETY: a whole number of pages of a mapping that is ours and that nothing refers to any more. The call
        // fails only for arguments that are not that (or for want of kernel memory, and then the pages stay ours).
        let _ = unsafe { munmap(start.as_ptr().cast(), bytes) };
    }
}

/// Whether an administrator has set huge pages aside; if so, asking for them is worth the try.
fn pool_has_pages() -> bool {
    fs::read_to_string("/proc/sys/vm/nr_hugepages").is_ok_and(|count| count.trim() != "0")
}

/// Whether the advice has an effect: `madvise(2)` accepts it even if the system is set to `never`.
fn transparent_allowed() -> bool {
    fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled")
        .is_ok_and(|modes| !modes.contains("[never]"))
}

/// What an arena grows by: one huge page.
const STEP_BYTES: usize = 2 << 20;
/// What an arena smaller than one huge page grows by.
const SMALL_STEP_BYTES: usize = 64 << 10;
/// The smallest page of any system this runs on, and the largest alignment of a place.
const SMALL_PAGE_BYTES: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grows_by_two_mebibytes_up_to_its_capacity() {
        let mut arena = Arena::reserve(600_000, 7_u64).expect("5 MB of addresses");
        assert_eq!((arena.len(), arena.capacity(), arena.bytes()), (0, 600_000, 0));
        assert!(arena.is_empty() && arena.as_slice().is_empty());
        assert_eq!(arena.grow(), 262_144);
        assert_eq!(arena.bytes(), 2 << 20);
        assert_eq!(arena.grow(), 262_144);
        assert_eq!(arena.grow(), 600_000 - 2 * 262_144);
        assert_eq!(arena.grow(), 0);
        assert_eq!(arena.len(), 600_000);
        assert!(arena.iter().all(|&value| value == 7));
    }

    #[test]
    fn places_stay_where_they_are_and_keep_what_they_hold() {
        let mut arena = Arena::reserve(1_000_000, 0_u32).expect("4 MB of addresses");
        arena.grow();
        arena[5] = 55;
        let address = &raw const arena[5];
        assert!(arena.grow_to(1_000_000));
        assert_eq!(address, &raw const arena[5]);
        assert_eq!((arena[5], arena[999_999]), (55, 0));
        arena.as_mut_slice()[999_999] = 1;
        assert_eq!(arena[999_999], 1);
    }

    #[test]
    fn places_that_do_not_divide_a_step_fill_it_all_the_same() {
        let mut arena = Arena::reserve(usize::MAX >> 24, [1_u8, 2, 3]).expect("addresses are free");
        assert_eq!(arena.grow(), (2 << 20) / 3);
        assert_eq!(arena.grow(), (4 << 20) / 3 - (2 << 20) / 3);
        let mut large = Arena::reserve(3, [1_u64; 20_000]).expect("480 KB of addresses");
        assert_eq!([large.grow(), large.grow(), large.grow(), large.grow()], [1, 1, 1, 0]);
        assert_eq!(large[2][19_999], 1);
    }

    #[test]
    fn a_small_arena_takes_small_steps_and_small_pages() {
        let mut arena = Arena::reserve(10_000, 1_u64).expect("80 KB of addresses");
        assert_eq!(arena.pages(), Pages::Small);
        assert_eq!([arena.grow(), arena.grow(), arena.grow()], [8192, 1808, 0]);
        let mut one = Arena::reserve(1, 1_u8).expect("one page");
        assert_eq!([one.grow(), one.grow()], [1, 0]);
    }

    #[test]
    fn grow_to_reaches_what_it_is_asked_for_or_refuses() {
        let mut arena = Arena::reserve(300_000, 0_u64).expect("2 MB of addresses");
        assert!(arena.grow_to(1));
        assert_eq!(arena.len(), 262_144);
        assert!(arena.grow_to(1));
        assert_eq!(arena.len(), 262_144);
        assert!(!arena.grow_to(300_001));
        assert_eq!(arena.len(), 262_144);
        assert!(arena.grow_to(300_000));
        assert_eq!(arena.len(), 300_000);
    }

    #[test]
    fn a_large_arena_starts_at_a_huge_page_and_a_small_one_at_a_page() {
        for _ in 0..20 {
            let mut large = Arena::reserve(1 << 19, 0_u64).expect("4 MB of addresses");
            large.grow();
            assert_eq!(large.as_slice().as_ptr().addr() % STEP_BYTES, 0);
            let mut small = Arena::reserve(100, Line([0; 64])).expect("two pages");
            small.grow();
            assert_eq!(small.as_slice().as_ptr().addr() % SMALL_PAGE_BYTES, 0);
        }
    }

    #[test]
    fn what_cannot_be_held_is_refused() {
        #[derive(Clone, Copy)]
        #[repr(align(8192))]
        struct Coarse;

        let kind = |result: io::Result<()>| result.expect_err("this cannot be reserved").kind();
        let nothing = Arena::reserve(10, ()).map(drop);
        assert!(nothing.as_ref().is_err_and(|error| error.to_string().contains("10 places of 0 bytes")));
        assert_eq!(kind(nothing), io::ErrorKind::InvalidInput);
        assert_eq!(kind(Arena::reserve(0, 1_u8).map(drop)), io::ErrorKind::InvalidInput);
        assert_eq!(kind(Arena::reserve(10, Coarse).map(drop)), io::ErrorKind::InvalidInput);
        assert_eq!(kind(Arena::reserve(usize::MAX, 1_u8).map(drop)), io::ErrorKind::InvalidInput);
        assert_eq!(kind(Arena::reserve(usize::MAX / 2, 1_u64).map(drop)), io::ErrorKind::InvalidInput);
        assert_eq!(kind(Arena::reserve(1 << 60, 1_u8).map(drop)), io::ErrorKind::OutOfMemory);
    }

    #[test]
    fn prefetch_takes_any_index() {
        let mut arena = Arena::reserve(1 << 20, Line([3; 64])).expect("64 MB of addresses");
        arena.prefetch(0);
        arena.grow();
        for index in [0, 1, arena.len() - 1, arena.len(), arena.capacity(), usize::MAX / 64, usize::MAX] {
            arena.prefetch(index);
        }
        assert!(arena.iter().all(|line| line.0 == [3; 64]));
    }

    #[test]
    fn an_arena_moves_between_threads() {
        let mut arena = Arena::reserve(1000, 1_u64).expect("two pages");
        arena.grow();
        let sum = std::thread::spawn(move || arena.iter().sum::<u64>()).join().expect("a sum does not panic");
        assert_eq!(sum, 1000);
    }

    #[derive(Clone, Copy)]
    #[repr(align(64))]
    struct Line([u8; 64]);
}
