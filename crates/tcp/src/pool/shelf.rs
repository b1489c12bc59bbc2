//! Where the cells of the pool lie: a shelf for each size, and the numbers that name them.

use std::io;

use anywire_sys::arena::Arena;

use super::Segment;

/// A cell of the pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Cell(pub(crate) u32);

impl Cell {
    pub(crate) const NONE: Self = Self(u32::MAX);

    pub(crate) const fn is_none(self) -> bool {
        self.0 == u32::MAX
    }

    /// Looks at one bit after the other, for the most likely kind first: a `match` on both would compile to a jump table.
    #[inline(always)]
    pub(super) const fn kind(self) -> Kind {
        if self.0 & FIN == 0 {
            Kind::Small
        } else if self.0 & LARGE == 0 {
            Kind::Shared
        } else if self.0 & SHARED == 0 {
            Kind::Large
        } else {
            Kind::Fin
        }
    }

    #[inline(always)]
    pub(super) const fn place(self) -> usize {
        (self.0 & !FIN) as usize
    }
}

impl Default for Cell {
    fn default() -> Self {
        Self::NONE
    }
}

/// What a cell has its bytes in.
pub(super) enum Kind {
    Small,
    Large,
    /// A payload that several cells share.
    Shared,
    /// There are none.
    Fin,
}

#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(super) struct CellOf<const DATA: usize> {
    pub(super) segment: Segment,
    pub(super) data: [u8; DATA],
}

pub(super) type Small = CellOf<SMALL_DATA>;
pub(super) type Large = CellOf<LARGE_DATA>;
/// Its data is the place of a shared payload.
pub(super) type Shared = CellOf<SHARED_DATA>;
pub(super) type Fin = CellOf<FIN_DATA>;

/// Cells of one size, and which of them is free next.
pub(super) struct Shelf<const DATA: usize> {
    pub(super) cells: Arena<CellOf<DATA>>,
    pub(super) free: Cell,
}

impl<const DATA: usize> Shelf<DATA> {
    /// What the numbers of its cells have set.
    const TAG: u32 = match DATA {
        LARGE_DATA => LARGE,
        SHARED_DATA => SHARED,
        FIN_DATA => FIN,
        _ => 0,
    };

    pub(super) fn reserve(cells_max: usize) -> io::Result<Self> {
        let cells = Arena::reserve(cells_max, CellOf { segment: Segment::default(), data: [0; DATA] })?;
        Ok(Self { cells, free: Cell::NONE })
    }

    /// Whether there is another one to take.
    pub(super) fn has_free(&self) -> bool {
        !self.free.is_none() || self.cells.len() < self.cells.capacity()
    }

    /// A cell that was free, its segment empty and a queue of its own. `write` fills it before it is taken.
    #[inline(always)]
    pub(super) fn take(&mut self, write: impl FnOnce(&mut [u8; DATA])) -> Option<(Cell, &mut CellOf<DATA>)> {
        if self.free.is_none() {
            self.grow()?;
        }
        let cell = self.free;
        let taken = &mut self.cells[(cell.0 ^ Self::TAG) as usize];
        write(&mut taken.data);
        self.free = taken.segment.next;
        taken.segment = Segment { next: cell, ..Segment::default() };
        Some((cell, taken))
    }

    /// Links the new cells so that they are taken from the lowest up.
    #[cold]
    fn grow(&mut self) -> Option<()> {
        let used = self.cells.len();
        let added = self.cells.grow();
        for place in (used..used + added).rev() {
            self.cells[place].segment.next = self.free;
            self.free = Cell(place as u32 | Self::TAG);
        }
        (added > 0).then_some(())
    }
}

impl Shared {
    /// Where the payload is kept.
    #[inline(always)]
    pub(super) fn payload(&self) -> u32 {
        u32::from_ne_bytes([self.data[0], self.data[1], self.data[2], self.data[3]])
    }
}

pub(super) const SMALL_DATA: usize = 256 - size_of::<Segment>();
pub(super) const LARGE_DATA: usize = 2048 - size_of::<Segment>();
pub(super) const SHARED_DATA: usize = 64 - size_of::<Segment>();
pub(super) const FIN_DATA: usize = 0;
/// Set in the index of a large cell.
pub(super) const LARGE: u32 = 1 << 31;
/// Set in the index of a cell that shares its payload.
pub(super) const SHARED: u32 = 1 << 30;
/// Both are set in the index of a FIN.
pub(super) const FIN: u32 = LARGE | SHARED;

const _: () = assert!(size_of::<Small>() == 256 && size_of::<Large>() == 2048);
const _: () = assert!(size_of::<Shared>() == 64 && size_of::<Fin>() == 64);

/// The most bytes that a segment holds.
pub(crate) const SEGMENT_BYTES: usize = LARGE_DATA;
