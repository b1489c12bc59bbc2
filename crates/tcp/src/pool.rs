//! Segments in memory: sent ones until they are acknowledged, received ones until they are read.
//!
//! Two sizes of cell, so that a small message does not pay for a large one: 256 bytes (236 of data) and 2048 (2028 of
//! data). A third kind, of 64 bytes, refers to a payload that many cells share. A fourth one, as long, is a FIN behind data that
//! has left: there is one for each connection, beside the limit, so that a FIN always finds its place and takes none from data.
//! Cells are linked into queues by their index; free ones are taken again last in, first out, while their lines are still in
//! the cache. The pool grows on demand up to its limit and never allocates otherwise.

mod segment;
mod shelf;

use std::io;

use crate::shared_payload::{SharedPayload, SharedPayloads};

pub(crate) use self::segment::{Marks, Segment};
pub(crate) use self::shelf::{Cell, SEGMENT_BYTES};

use self::shelf::{FIN_DATA, Kind, LARGE_DATA, Large, SHARED, SHARED_DATA, SMALL_DATA, Shared, Shelf, Small};

/// All segments of an engine.
pub(crate) struct Pool {
    small: Shelf<SMALL_DATA>,
    large: Shelf<LARGE_DATA>,
    shared: Shelf<SHARED_DATA>,
    fins: Shelf<FIN_DATA>,
    payloads: SharedPayloads,
    bytes_in_use: usize,
    bytes_max: usize,
    /// What may be in use while something is received.
    bytes_max_receiving: usize,
    /// The same for a connection whose user has read all earlier bytes.
    bytes_max_keeping_up: usize,
}

impl Pool {
    /// A pool of at most so many bytes, and as many FINs.
    pub(crate) fn new(bytes_max: usize, fins_max: usize) -> io::Result<Self> {
        let cells_max = SHARED as usize - 1;
        // Promised memory comes on top of the limit: a batch of frames, and segments cut in two.
        let reserve = 2 * bytes_max + PROMISED_BYTES;
        Ok(Self {
            small: Shelf::reserve((reserve / size_of::<Small>()).clamp(1, cells_max))?,
            large: Shelf::reserve((reserve / size_of::<Large>()).clamp(1, cells_max))?,
            shared: Shelf::reserve((bytes_max / size_of::<Shared>()).clamp(1, cells_max))?,
            fins: Shelf::reserve(fins_max.clamp(1, cells_max))?,
            payloads: SharedPayloads::default(),
            bytes_in_use: 0,
            bytes_max,
            bytes_max_receiving: bytes_max + bytes_max / 4,
            bytes_max_keeping_up: bytes_max + bytes_max / 4 * 3,
        })
    }

    /// Whether not even a large cell is left.
    pub(crate) const fn is_full(&self) -> bool {
        self.bytes_in_use + size_of::<Large>() > self.bytes_max
    }

    /// Whether a cell for so many bytes is left.
    pub(crate) const fn has_room_for(&self, bytes: usize) -> bool {
        let cell = if Self::is_small(bytes) { size_of::<Small>() } else { size_of::<Large>() };
        self.bytes_in_use + cell <= self.bytes_max
    }

    /// Whether so many bytes fit into a small cell.
    pub(crate) const fn is_small(bytes: usize) -> bool {
        bytes <= SMALL_DATA
    }

    /// Whether nothing more is to be received. A quarter comes on top of the limit, for data that arrives in order alone.
    /// Without it two engines could be full of data for each other, and neither could take any.
    #[inline]
    pub(crate) const fn is_full_for_receiving(&self) -> bool {
        self.bytes_in_use + size_of::<Large>() > self.bytes_max_receiving
    }

    /// The same for a connection without unread bytes, which needs no cell if its user reads at once. It may exceed a
    /// quarter: with small windows, segments cut in two may have taken that much. If two engines were full of such
    /// segments, each would have to refuse what the other sends.
    #[inline]
    pub(crate) const fn is_full_for_who_keeps_up(&self) -> bool {
        self.bytes_in_use + size_of::<Large>() > self.bytes_max_keeping_up
    }

    /// Bytes of cells that hold something.
    pub(crate) fn bytes_in_use(&self) -> usize {
        self.bytes_in_use
    }

    /// Bytes of memory taken from the system, used or free.
    pub(crate) fn bytes(&self) -> usize {
        let Self { small, large, shared, fins, .. } = self;
        let cells = small.cells.bytes() + large.cells.bytes() + shared.cells.bytes() + fins.cells.bytes();
        cells + self.payloads.bytes()
    }

    /// An empty cell for at least this many bytes. None if the pool is at its limit, or if no cell is that long.
    #[inline]
    pub(crate) fn take(&mut self, bytes: usize) -> Option<Cell> {
        self.open_within(self.bytes_max, bytes, |_| ()).map(|(cell, _)| cell)
    }

    /// The same for a queue that has a cell already: it leaves an eighth of the limit to queues without one.
    #[inline]
    pub(crate) fn take_more(&mut self, bytes: usize) -> Option<Cell> {
        self.open_within(self.bytes_max - self.bytes_max / 8, bytes, |_| ()).map(|(cell, _)| cell)
    }

    /// The same for promised memory: only the reservation, which is twice the limit, bounds it.
    #[inline]
    pub(crate) fn take_beyond_limit(&mut self, bytes: usize) -> Option<Cell> {
        self.open_within(usize::MAX, bytes, |_| ()).map(|(cell, _)| cell)
    }

    /// Whether [`take_beyond_limit`](Self::take_beyond_limit) finds a cell of any size.
    pub(crate) fn has_promised(&self) -> bool {
        self.small.has_free() && self.large.has_free()
    }

    /// A cell for a FIN without data. There is one for each connection.
    pub(crate) fn take_fin(&mut self) -> Cell {
        let taken = self.fins.take(|_| ());
        let (cell, fin) = taken.expect("a connection sends one FIN, and there are as many as connections");
        fin.segment.marks = Marks::FIN;
        cell
    }

    /// Like [`take`](Self::take) for a message of this many bytes, which `write` writes into the cell. Gives its segment too, a queue
    /// of its own. If `write` panics, the cell stays free.
    #[inline(always)]
    pub(crate) fn take_written(
        &mut self,
        bytes: usize,
        write: impl FnOnce(&mut [u8]),
    ) -> Option<(Cell, &mut Segment)> {
        self.open_within(self.bytes_max, bytes, |data| write(&mut data[..bytes]))
    }

    #[inline(always)]
    fn open_within(
        &mut self,
        limit: usize,
        bytes: usize,
        write: impl FnOnce(&mut [u8]),
    ) -> Option<(Cell, &mut Segment)> {
        let is_small = bytes <= SMALL_DATA;
        let in_use = self.bytes_in_use + if is_small { size_of::<Small>() } else { size_of::<Large>() };
        if bytes > LARGE_DATA || in_use > limit {
            return None;
        }
        let (cell, segment) = if is_small {
            let (cell, taken) = self.small.take(|data| write(data))?;
            (cell, &mut taken.segment)
        } else {
            let (cell, taken) = self.large.take(|data| write(data))?;
            (cell, &mut taken.segment)
        };
        self.bytes_in_use = in_use;
        Some((cell, segment))
    }

    /// A cell that holds all of a shared payload. `is_first`: its queue has no cell yet, so it may take the last of the memory.
    #[inline]
    pub(crate) fn take_shared(&mut self, payload: &SharedPayload, is_first: bool) -> Option<Cell> {
        let limit = if is_first { self.bytes_max } else { self.bytes_max - self.bytes_max / 8 };
        let known = self.payloads.place_of(payload);
        let added = if known.is_some() { 0 } else { payload.bytes().len() };
        let in_use = self.bytes_in_use + size_of::<Shared>() + added;
        if in_use > limit {
            return None;
        }
        let (cell, taken) = self.shared.take(|_| ())?;
        let place = known.unwrap_or_else(|| self.payloads.keep(payload));
        self.payloads.acquire(place);
        taken.data[..4].copy_from_slice(&place.to_ne_bytes());
        taken.segment.length = payload.bytes().len() as u16;
        self.bytes_in_use = in_use;
        Some(cell)
    }

    /// The sum of a segment's bytes, if it is known because many share them.
    #[inline(always)]
    pub(crate) fn sum_of(&self, cell: Cell) -> Option<u64> {
        let Kind::Shared = cell.kind() else { return None };
        let cell = &self.shared.cells[cell.place()];
        let (bytes, sum) = self.payloads.get(cell.payload());
        (bytes.len() == usize::from(cell.segment.length)).then_some(sum)
    }

    /// Gives a cell back.
    #[inline]
    pub(crate) fn free(&mut self, cell: Cell) {
        self.find(cell).free();
    }

    /// Asks for the cache lines of a cell, unless it is a large one; nothing for none.
    #[inline(always)]
    pub(crate) fn prefetch(&self, cell: Cell) {
        match cell.kind() {
            Kind::Small => self.small.cells.prefetch(cell.place()),
            _ if cell.is_none() => {}
            Kind::Shared => self.shared.cells.prefetch(cell.place()),
            Kind::Fin => self.fins.cells.prefetch(cell.place()),
            Kind::Large => {}
        }
    }

    /// A cell that may be given back, depending on its segment.
    #[inline(always)]
    pub(crate) fn find(&mut self, cell: Cell) -> Found<'_> {
        let bytes_in_use = &mut self.bytes_in_use;
        let (segment, free, bytes, shares) = match cell.kind() {
            Kind::Small => {
                let segment = &mut self.small.cells[cell.place()].segment;
                (segment, &mut self.small.free, size_of::<Small>(), None)
            }
            Kind::Large => {
                let segment = &mut self.large.cells[cell.place()].segment;
                (segment, &mut self.large.free, size_of::<Large>(), None)
            }
            Kind::Shared => {
                let found = &mut self.shared.cells[cell.place()];
                let shares = Some((&mut self.payloads, found.payload()));
                (&mut found.segment, &mut self.shared.free, size_of::<Shared>(), shares)
            }
            Kind::Fin => (&mut self.fins.cells[cell.place()].segment, &mut self.fins.free, 0, None),
        };
        Found { cell, segment, free, bytes, bytes_in_use, shares }
    }

    #[inline(always)]
    pub(crate) fn segment(&self, cell: Cell) -> &Segment {
        match cell.kind() {
            Kind::Small => &self.small.cells[cell.place()].segment,
            Kind::Large => &self.large.cells[cell.place()].segment,
            Kind::Shared => &self.shared.cells[cell.place()].segment,
            Kind::Fin => &self.fins.cells[cell.place()].segment,
        }
    }

    #[inline(always)]
    pub(crate) fn segment_mut(&mut self, cell: Cell) -> &mut Segment {
        match cell.kind() {
            Kind::Small => &mut self.small.cells[cell.place()].segment,
            Kind::Large => &mut self.large.cells[cell.place()].segment,
            Kind::Shared => &mut self.shared.cells[cell.place()].segment,
            Kind::Fin => &mut self.fins.cells[cell.place()].segment,
        }
    }

    /// The bytes of a segment.
    #[inline]
    pub(crate) fn bytes_of(&self, cell: Cell) -> &[u8] {
        let (segment, data) = match cell.kind() {
            Kind::Small => {
                let cell = &self.small.cells[cell.place()];
                (&cell.segment, &cell.data[..])
            }
            Kind::Large => {
                let cell = &self.large.cells[cell.place()];
                (&cell.segment, &cell.data[..])
            }
            Kind::Shared => {
                let cell = &self.shared.cells[cell.place()];
                (&cell.segment, self.payloads.get(cell.payload()).0)
            }
            Kind::Fin => return &[],
        };
        let start = usize::from(segment.start);
        &data[start..start + usize::from(segment.length)]
    }

    /// A segment, to be changed, and its bytes.
    #[inline(always)]
    pub(crate) fn segment_and_bytes(&mut self, cell: Cell) -> (&mut Segment, &[u8]) {
        let (segment, data): (_, &[u8]) = match cell.kind() {
            Kind::Small => {
                let cell = &mut self.small.cells[cell.place()];
                (&mut cell.segment, &cell.data)
            }
            Kind::Large => {
                let cell = &mut self.large.cells[cell.place()];
                (&mut cell.segment, &cell.data)
            }
            Kind::Shared => {
                let cell = &mut self.shared.cells[cell.place()];
                let place = cell.payload();
                (&mut cell.segment, self.payloads.get(place).0)
            }
            Kind::Fin => (&mut self.fins.cells[cell.place()].segment, &[]),
        };
        let (start, length) = (usize::from(segment.start), usize::from(segment.length));
        (segment, &data[start..start + length])
    }

    #[inline(always)]
    fn parts_mut(&mut self, cell: Cell) -> (&mut Segment, &mut [u8]) {
        match cell.kind() {
            Kind::Small => {
                let cell = &mut self.small.cells[cell.place()];
                (&mut cell.segment, &mut cell.data)
            }
            Kind::Large => {
                let cell = &mut self.large.cells[cell.place()];
                (&mut cell.segment, &mut cell.data)
            }
            Kind::Shared => {
                let cell = &mut self.shared.cells[cell.place()];
                (&mut cell.segment, &mut [])
            }
            Kind::Fin => (&mut self.fins.cells[cell.place()].segment, &mut []),
        }
    }

    /// How many more bytes fit into the cell of a segment.
    pub(crate) fn room_of(&self, cell: Cell) -> usize {
        let data = match cell.kind() {
            Kind::Small => SMALL_DATA,
            Kind::Large => LARGE_DATA,
            Kind::Shared | Kind::Fin => return 0,
        };
        let segment = self.segment(cell);
        data - usize::from(segment.start) - usize::from(segment.length)
    }

    /// Extends a segment by this many bytes, and gives them to be written. Its cell must have the room.
    #[inline]
    pub(crate) fn append(&mut self, cell: Cell, bytes: usize) -> &mut [u8] {
        let (segment, data) = self.parts_mut(cell);
        let end = usize::from(segment.start) + usize::from(segment.length);
        segment.length += bytes as u16;
        &mut data[end..end + bytes]
    }

    /// The same for bytes that `write` writes: if it panics, the segment is as it was.
    #[inline]
    pub(crate) fn append_written(&mut self, cell: Cell, bytes: usize, write: impl FnOnce(&mut [u8])) {
        let (segment, data) = self.parts_mut(cell);
        let end = usize::from(segment.start) + usize::from(segment.length);
        write(&mut data[end..end + bytes]);
        segment.length += bytes as u16;
    }

    /// Puts a cell behind the last one of a queue and gives the new last one.
    #[inline]
    pub(crate) fn push_back(&mut self, tail: Cell, cell: Cell) -> Cell {
        let first =
            if tail.is_none() { cell } else { std::mem::replace(&mut self.segment_mut(tail).next, cell) };
        self.segment_mut(cell).next = first;
        cell
    }

    /// The first cell of the queue with this last one.
    #[inline]
    pub(crate) fn front(&self, tail: Cell) -> Cell {
        if tail.is_none() { tail } else { self.segment(tail).next }
    }

    /// Frees the first cell of a queue and gives its last one, if any is left.
    #[inline]
    pub(crate) fn pop_front(&mut self, tail: Cell) -> Cell {
        let first = self.segment(tail).next;
        if first == tail {
            self.free(first);
            return Cell::NONE;
        }
        let second = self.segment(first).next;
        self.segment_mut(tail).next = second;
        self.free(first);
        tail
    }

    /// Takes the first cell out of a queue without freeing it, and gives the last one, if any is left.
    pub(crate) fn unlink_front(&mut self, tail: Cell) -> Cell {
        let first = self.segment(tail).next;
        if first == tail {
            return Cell::NONE;
        }
        let second = self.segment(first).next;
        self.segment_mut(tail).next = second;
        tail
    }

    /// Puts a cell behind another one of a queue, or to its front; gives the last one.
    pub(crate) fn insert_after(&mut self, tail: Cell, before: Cell, cell: Cell) -> Cell {
        if tail.is_none() || before == tail {
            return self.push_back(tail, cell);
        }
        let before = if before.is_none() { tail } else { before };
        let after = std::mem::replace(&mut self.segment_mut(before).next, cell);
        self.segment_mut(cell).next = after;
        tail
    }

    /// Frees a whole queue.
    pub(crate) fn free_all(&mut self, mut tail: Cell) {
        while !tail.is_none() {
            tail = self.pop_front(tail);
        }
    }

    /// The cells of a queue, first to last.
    pub(crate) fn queue(&self, tail: Cell) -> impl Iterator<Item = Cell> {
        let mut next = self.front(tail);
        std::iter::from_fn(move || {
            let cell = next;
            if cell.is_none() {
                return None;
            }
            next = if cell == tail { Cell::NONE } else { self.segment(cell).next };
            Some(cell)
        })
    }

    /// Calls `visit` for the segments of a queue in order: those before the cell `end`, for as long as it returns true.
    #[inline]
    pub(crate) fn walk(&mut self, tail: Cell, end: Cell, mut visit: impl FnMut(&mut Segment) -> bool) {
        let mut next = self.front(tail);
        while !next.is_none() && next != end {
            let segment = self.segment_mut(next);
            next = if next == tail { Cell::NONE } else { segment.next };
            if !visit(segment) {
                return;
            }
        }
    }
}

/// A cell of the pool, and where it goes when it is given back.
pub(crate) struct Found<'p> {
    cell: Cell,
    pub(crate) segment: &'p mut Segment,
    free: &'p mut Cell,
    bytes: usize,
    bytes_in_use: &'p mut usize,
    /// The payload that it shares, and where that is kept.
    shares: Option<(&'p mut SharedPayloads, u32)>,
}

impl Found<'_> {
    /// Gives it back.
    #[inline(always)]
    pub(crate) fn free(self) {
        self.segment.next = std::mem::replace(self.free, self.cell);
        *self.bytes_in_use -= self.bytes;
        if let Some((payloads, place)) = self.shares {
            *self.bytes_in_use -= payloads.release(place);
        }
    }
}

/// Addresses beyond twice the limit; memory only if it comes to that. A batch of 64 frames of 2 KiB fits twice, and one of four
/// super-frames of 64 KiB once.
const PROMISED_BYTES: usize = 256 << 10;

#[cfg(test)]
mod tests {
    use super::shelf::FIN;
    use super::*;

    #[test]
    fn a_queue_keeps_its_order() {
        let mut pool = Pool::new(1 << 20, 1).expect("memory");
        let mut tail = Cell::NONE;
        for number in 0..5_u8 {
            let cell = pool.take(if number % 2 == 0 { 10 } else { 1000 }).expect("room");
            pool.append(cell, 2).fill(number);
            tail = pool.push_back(tail, cell);
        }
        let numbers: Vec<_> = pool.queue(tail).map(|cell| pool.bytes_of(cell)[0]).collect();
        assert_eq!(numbers, [0, 1, 2, 3, 4]);
        tail = pool.pop_front(tail);
        let front = pool.front(tail);
        assert_eq!(pool.bytes_of(front), [1, 1]);
        assert_eq!(pool.room_of(front), LARGE_DATA - 2);
        pool.free_all(tail);
        assert_eq!(pool.bytes_in_use(), 0);
    }

    #[test]
    fn the_limit_holds_and_what_was_freed_is_taken_again() {
        let mut pool = Pool::new(1024, 3).expect("memory");
        let cells: Vec<_> = std::iter::from_fn(|| pool.take(1)).collect();
        assert_eq!(cells.len(), 4);
        assert!(pool.take(SEGMENT_BYTES + 1).is_none());
        pool.free(cells[2]);
        assert_eq!(pool.take(1), Some(cells[2]));
        assert!(pool.take(1).is_none());
    }

    #[test]
    fn fins_have_places_of_their_own() {
        let mut pool = Pool::new(1024, 3).expect("memory");
        let mut tail = Cell::NONE;
        while let Some(cell) = pool.take_beyond_limit(1) {
            tail = pool.push_back(tail, cell);
        }
        assert!(!pool.has_promised() && pool.take_beyond_limit(SEGMENT_BYTES).is_some());
        let in_use = pool.bytes_in_use();
        for _ in 0..3 {
            let fin = pool.take_fin();
            tail = pool.push_back(tail, fin);
            assert_eq!((pool.room_of(fin), pool.bytes_of(fin), pool.bytes_in_use()), (0, &[][..], in_use));
            assert!(pool.segment(fin).marks.has(Marks::FIN) && pool.segment_and_bytes(fin).1.is_empty());
        }
        pool.free_all(tail);
        assert_eq!((pool.bytes_in_use(), pool.has_promised()), (size_of::<Large>(), true));
        assert_eq!(pool.take_fin(), Cell(FIN | 2), "the place is used again");
    }
}
