//! A batch of frames, packed into one piece of memory that is handed over whole or in parts without copying.
//!
//! A frame is an Ethernet II frame without its check sequence. Frames lie one behind the other, each starting on a cache
//! line of its own. Sixty-four small frames leave room in the first-level cache. Slots of two kilobytes each would compete
//! for a few of its sets.

use std::ops::{Index, Range};
use std::rc::Rc;

use anywire_sys::zeroed::shared_bytes;

/// A batch of frames.
///
/// ```
/// use anywire_tcp::Frames;
///
/// let mut frames = Frames::new();
/// assert!(frames.push(&[1; 60]) && frames.push(&[2; 90]));
/// let second = frames.select([1]);
/// frames.clear();
/// assert_eq!(&second[0], [2; 90]);
/// ```
#[derive(Debug)]
pub struct Frames {
    /// Shared by the batches that were selected from one.
    store: Rc<[u8]>,
    entries: Vec<Entry>,
    /// By the number of the frame. Shorter than `entries` if the last frames have none; empty for devices of this process, which
    /// pay nothing for it.
    metas: Vec<Meta>,
    frames_max: usize,
    /// How many it takes until it is cleared.
    limit: usize,
    /// Where the next frame begins.
    tail: usize,
}

/// What a device knows of a frame beside its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Meta {
    /// What is known of the checksum of TCP or UDP.
    pub checksum: Checksum,
    /// The frame is a super-frame: its payload is that of several segments of TCP, each of so many bytes, and the last one of at
    /// most as many. The header is that of the first one, with the length of all. 0 for a frame of one segment.
    pub segment_bytes: u16,
    /// A copy of what another loop of the device has received, which that loop or a third one answers if it is a question of a neighbour.
    pub is_answered: bool,
}

/// What is known of the checksum of TCP or UDP in a frame. The header of IPv4 has its own, which is always whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Checksum {
    /// It is whole, and nobody has looked at it.
    #[default]
    Unchecked,
    /// It was found to be right.
    Verified,
    /// It was never finished, since the frame has not left this machine: its field has only the sum of the pseudo header, or nothing.
    /// Whoever sends the frame on has to finish it.
    Partial,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    offset: u32,
    length: u32,
}

impl Entry {
    #[inline(always)]
    const fn range(self) -> Range<usize> {
        let start = self.offset as usize;
        start..start + self.length as usize
    }
}

impl Frames {
    /// As many frames a batch holds by default: more gains nothing, since the misses of this many overlap already.
    pub const BATCH: usize = 64;
    /// Default room for each frame: the longest segment that a connection sends, with all of its headers.
    pub const FRAME_BYTES: usize = 2176;

    /// An empty batch for 64 frames of up to 2176 bytes.
    pub fn new() -> Self {
        Self::with_room(Self::BATCH, Self::FRAME_BYTES)
    }

    /// An empty batch for a number of frames, and a number of bytes in each.
    pub fn with_room(frames_max: usize, bytes_each: usize) -> Self {
        Self::with_bytes(frames_max, frames_max * bytes_each.next_multiple_of(LINE))
    }

    /// An empty batch for a number of frames, and a number of bytes in all of them together: for frames of very different lengths.
    /// [`room`](Self::room) then counts frames without asking for their bytes; [`has_room_for`](Self::has_room_for) asks for both.
    pub fn with_bytes(frames_max: usize, bytes: usize) -> Self {
        assert!(
            u32::try_from(bytes).is_ok(),
            "a batch of {frames_max} frames and {bytes} bytes is over 4 GiB"
        );
        Self {
            store: shared_bytes(bytes),
            entries: Vec::with_capacity(frames_max),
            metas: Vec::new(),
            frames_max,
            limit: frames_max,
            tail: 0,
        }
    }

    /// An empty batch with as much room as this one has when it is empty.
    pub(crate) fn empty_like(&self) -> Self {
        Self {
            store: shared_bytes(self.store.len()),
            entries: Vec::new(),
            metas: Vec::new(),
            frames_max: self.frames_max,
            limit: self.frames_max,
            tail: 0,
        }
    }

    /// Bytes of memory that it holds, alone or with others.
    pub(crate) fn bytes(&self) -> usize {
        self.store.len()
            + self.entries.capacity() * size_of::<Entry>()
            + self.metas.capacity() * size_of::<Meta>()
    }

    /// How many frames are in it.
    #[inline]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// How many more frames fit, if each is at most as long as the batch was made for.
    #[inline]
    pub fn room(&self) -> usize {
        self.limit.saturating_sub(self.entries.len())
    }

    /// Whether a frame of so many bytes finds room.
    #[inline]
    pub fn has_room_for(&self, bytes: usize) -> bool {
        self.room() > 0 && self.tail + bytes <= self.store.len()
    }

    /// Makes it take at most so many frames until it is cleared.
    #[inline]
    pub(crate) fn limit_to(&mut self, frames: usize) {
        self.limit = self.frames_max.min(frames);
    }

    /// Copies a frame in; false if there is no room.
    #[must_use = "a frame that found no room is lost"]
    pub fn push(&mut self, bytes: &[u8]) -> bool {
        self.push_with(bytes.len(), |room| {
            room.copy_from_slice(bytes);
            bytes.len()
        })
    }

    /// Lets a frame of at most `bytes_max` bytes be written in place. `write` gets exactly that many bytes, with any
    /// contents, and returns how many it wrote. If it wrote none, no frame is added. False if there is no room, or nothing
    /// was written.
    #[must_use = "a frame that found no room is lost"]
    #[inline]
    pub fn push_with(&mut self, bytes_max: usize, write: impl FnOnce(&mut [u8]) -> usize) -> bool {
        self.fill().push_with(bytes_max, write)
    }

    /// To be filled: whether the memory is shared is asked only once.
    #[inline]
    pub(crate) fn fill(&mut self) -> Filling<'_> {
        Filling {
            // Nothing has room in none.
            store: Rc::get_mut(&mut self.store).unwrap_or_default(),
            entries: &mut self.entries,
            tail: &mut self.tail,
            limit: self.limit,
        }
    }

    /// Keeps the frames for which this holds, in their order. It is told what is known of each. If none is left, the batch is
    /// [clear](Self::clear); otherwise the bytes of the others are free again when it is cleared.
    pub fn retain(&mut self, mut keeps: impl FnMut(&[u8], Meta) -> bool) {
        let (mut kept, has_metas) = (0, self.has_metas());
        for index in 0..self.entries.len() {
            let (entry, meta) = (self.entries[index], self.meta(index));
            if !keeps(&self.store[entry.range()], meta) {
                continue;
            }
            self.entries[kept] = entry;
            if has_metas && let Some(place) = self.metas.get_mut(kept) {
                *place = meta;
            }
            kept += 1;
        }
        if kept == 0 {
            // Otherwise a batch without frames would take none, and its owner would have nothing to send that clears it.
            return self.clear();
        }
        self.entries.truncate(kept);
        self.metas.truncate(kept);
    }

    /// Some bytes of a frame, which must have them.
    #[inline(always)]
    pub(crate) fn part(&self, index: usize, start: usize, length: usize) -> &[u8] {
        let start = self.entries[index].offset as usize + start;
        &self.store[start..start + length]
    }

    /// A frame, if there is one of this number.
    #[inline]
    pub fn get(&self, index: usize) -> Option<&[u8]> {
        self.entries.get(index).map(|entry| &self.store[entry.range()])
    }

    /// The frames, in the order in which they came in.
    #[inline]
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.entries.iter().map(|entry| &self.store[entry.range()])
    }

    /// What is known of a frame beside its bytes. The default if nobody has said anything, or if there is no frame of this number.
    #[inline]
    pub fn meta(&self, index: usize) -> Meta {
        self.metas.get(index).copied().unwrap_or_default()
    }

    /// Whether something is known of any frame beside its bytes.
    #[inline]
    pub fn has_metas(&self) -> bool {
        !self.metas.is_empty()
    }

    /// Says what is known of the last frame. Without a frame it says nothing.
    pub fn describe_last(&mut self, meta: Meta) {
        self.describe_from(self.entries.len().saturating_sub(1), meta);
    }

    /// Says this of all frames from the one of this number on.
    pub(crate) fn describe_from(&mut self, first: usize, meta: Meta) {
        // The default needs no place, unless others have one behind it.
        if first < self.entries.len() && (meta != Meta::default() || first < self.metas.len()) {
            self.metas.resize(first, Meta::default());
            self.metas.resize(self.entries.len(), meta);
        }
    }

    /// Changes the bytes of the frames from the one of this number on. To be called before others share them.
    pub(crate) fn change_from(&mut self, first: usize, mut change: impl FnMut(&mut [u8])) {
        let store = Rc::get_mut(&mut self.store).unwrap_or_default();
        for entry in self.entries.iter().skip(first) {
            store.get_mut(entry.range()).map(&mut change);
        }
    }

    /// Takes the first frames out; the others move up. Their memory can be used again once no frame is left.
    pub fn remove_first(&mut self, count: usize) {
        if count >= self.entries.len() {
            return self.clear();
        }
        self.entries.drain(..count);
        self.metas.drain(..count.min(self.metas.len()));
        // No more frames than there is memory left for.
        self.limit = self.limit.saturating_sub(count);
    }

    /// Another batch with some of these frames, over the same memory. Both take no more frames until they are
    /// cleared. Numbers of no frame are passed over.
    pub fn select(&self, indices: impl IntoIterator<Item = usize>) -> Self {
        let known = indices.into_iter().filter(|index| *index < self.entries.len());
        let (entries, mut metas): (Vec<_>, Vec<_>) =
            known.map(|index| (self.entries[index], self.meta(index))).unzip();
        if !self.has_metas() {
            metas = Vec::new();
        }
        Self {
            store: Rc::clone(&self.store),
            entries,
            metas,
            frames_max: self.frames_max,
            limit: self.frames_max,
            tail: self.store.len(),
        }
    }

    /// Takes all frames out. If another batch still shows some of them, this one gets memory of its own again.
    #[inline]
    pub fn clear(&mut self) {
        self.entries.clear();
        self.metas.clear();
        self.limit = self.frames_max;
        self.tail = 0;
        if Rc::get_mut(&mut self.store).is_none() {
            self.store = shared_bytes(self.store.len());
        }
    }
}

/// A batch that is being filled.
#[derive(Debug)]
pub(crate) struct Filling<'f> {
    store: &'f mut [u8],
    entries: &'f mut Vec<Entry>,
    tail: &'f mut usize,
    limit: usize,
}

impl Filling<'_> {
    /// See [`Frames::room`].
    #[inline]
    pub(crate) fn room(&self) -> usize {
        self.limit.saturating_sub(self.entries.len())
    }

    /// Whether a frame of so many bytes finds room.
    #[inline(always)]
    pub(crate) fn has_room_for(&self, bytes: usize) -> bool {
        self.entries.len() < self.limit && *self.tail + bytes <= self.store.len()
    }

    /// See [`Frames::push_with`].
    #[must_use = "a frame that found no room is lost"]
    #[inline(always)]
    pub(crate) fn push_with(&mut self, bytes_max: usize, write: impl FnOnce(&mut [u8]) -> usize) -> bool {
        let Some(room) = self.next(bytes_max) else { return false };
        let length = write(room).min(bytes_max);
        if length == 0 {
            return false;
        }
        self.add(length);
        true
    }

    /// Room for the next frame of at most this many bytes. [`add`](Self::add) makes it a frame of the batch.
    #[inline(always)]
    pub(crate) fn next(&mut self, bytes_max: usize) -> Option<&mut [u8]> {
        let tail = *self.tail;
        if self.entries.len() < self.limit { self.store.get_mut(tail..tail + bytes_max) } else { None }
    }

    /// Adds the first bytes of [`next`](Self::next) as a frame.
    #[inline(always)]
    pub(crate) fn add(&mut self, length: usize) {
        self.entries.push(Entry { offset: *self.tail as u32, length: length as u32 });
        *self.tail += length.next_multiple_of(LINE);
    }
}

impl Default for Frames {
    fn default() -> Self {
        Self::new()
    }
}

impl Index<usize> for Frames {
    type Output = [u8];

    #[inline]
    fn index(&self, index: usize) -> &[u8] {
        &self.store[self.entries[index].range()]
    }
}

/// Bytes of a line of the cache.
const LINE: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_of_which_nothing_is_kept_has_all_its_room() {
        let mut frames = Frames::with_room(2, 100);
        for _ in 0..10 {
            assert!(frames.push(&[1; 100]) && frames.push(&[2; 100]));
            frames.retain(|frame, _| frame[0] == 2);
            assert_eq!((frames.len(), &frames[0]), (1, &[2; 100][..]));
            frames.retain(|_, _| false);
            assert!(frames.is_empty() && frames.has_room_for(100));
        }
    }

    #[test]
    fn frames_are_packed_and_limited() {
        let mut frames = Frames::with_room(2, 100);
        frames.limit_to(0);
        assert!(frames.room() == 0 && !frames.push(&[0; 1]), "a limit holds until it is cleared");
        frames.clear();
        assert!(frames.push(&[1; 100]) && !frames.push(&[2; 200]) && frames.push(&[3; 60]));
        assert_eq!((frames.len(), frames.room()), (2, 0));
        assert!(!frames.push(&[4; 1]), "a third frame has no room");
        assert_eq!(frames.iter().map(<[u8]>::len).collect::<Vec<_>>(), [100, 60]);
        frames.clear();
        assert!(frames.is_empty() && frames.push(&[5; 10]));
        assert_eq!(&frames[0], [5; 10]);
        assert!(frames.get(1).is_none());
    }

    #[test]
    fn a_selection_shares_memory_until_one_is_cleared() {
        let mut frames = Frames::new();
        for byte in 0..4 {
            assert!(frames.push(&[byte; 70]));
        }
        let part = frames.select([3, 1, 9]);
        assert_eq!(part.len(), 2);
        assert_eq!(part[0].as_ptr(), frames[3].as_ptr());
        assert!(!frames.push(&[0; 1]));
        frames.clear();
        assert!(frames.push(&[7; 70]));
        assert_eq!(part[1], [1; 70]);
    }

    #[test]
    fn what_is_left_moves_up() {
        let mut frames = Frames::with_room(4, 100);
        for byte in 0..3 {
            assert!(frames.push(&[byte; 100]));
        }
        frames.remove_first(2);
        assert_eq!((frames.len(), frames.room(), &frames[0][..]), (1, 1, &[2; 100][..]));
        assert!(frames.push(&[3; 100]) && !frames.push(&[4; 1]), "there was memory for four");
        frames.remove_first(7);
        assert_eq!((frames.len(), frames.room()), (0, 4));
    }

    #[test]
    fn what_is_known_of_a_frame_stays_with_it() {
        let large = Meta { checksum: Checksum::Partial, segment_bytes: 1448, ..Meta::default() };
        let mut frames = Frames::new();
        frames.describe_last(large);
        assert!(frames.push(&[0; 10]) && !frames.has_metas());
        assert!(frames.push(&[1; 10]));
        frames.describe_last(large);
        assert!(frames.push(&[2; 10]));
        let metas = |frames: &Frames| (0..frames.len()).map(|at| frames.meta(at)).collect::<Vec<_>>();
        assert_eq!(metas(&frames), [Meta::default(), large, Meta::default()]);
        assert_eq!(metas(&frames.select([2, 1])), [Meta::default(), large]);
        frames.remove_first(1);
        assert_eq!(metas(&frames), [large, Meta::default()]);
        frames.clear();
        assert!(frames.push(&[3; 10]) && frames.meta(0) == Meta::default() && !frames.has_metas());
    }

    #[test]
    fn frames_of_very_different_lengths_share_the_bytes() {
        let mut frames = Frames::with_bytes(10, 1024);
        assert!(frames.push(&[0; 900]) && frames.has_room_for(64) && !frames.has_room_for(65));
        assert!(!frames.push(&[1; 100]) && frames.push(&[1; 60]) && frames.room() == 8);
    }

    #[test]
    fn what_is_retained_keeps_its_order() {
        let mut frames = Frames::new();
        for byte in 0..5 {
            assert!(frames.push(&[byte; 70]));
        }
        let partial = Meta { checksum: Checksum::Partial, segment_bytes: 0, ..Meta::default() };
        frames.describe_from(3, partial);
        frames.retain(|frame, meta| frame[0] % 2 == 0 && (meta == partial) == (frame[0] > 2));
        assert_eq!(frames.iter().map(|frame| frame[0]).collect::<Vec<_>>(), [0, 2, 4]);
        assert!(frames.push(&[9; 70]));
        assert_eq!(frames[3], [9; 70]);
        let metas = [0, 1, 2, 3].map(|index| frames.meta(index) == partial);
        assert_eq!(metas, [false, false, true, false]);
    }

    #[test]
    fn what_writes_nothing_adds_nothing() {
        let mut frames = Frames::new();
        assert!(!frames.push_with(100, |_| 0));
        assert!(frames.is_empty());
    }
}
