//! Places of the engine's slabs, as values of its table.

/// The meaning of a value in the table: its top two bits tell the kind of place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Place {
    Block(u32),
    HalfOpen(u32),
    TimeWait(u32),
}

impl Place {
    /// A value that the table never has.
    pub(super) const NOBODY: u32 = u32::MAX;

    pub(super) const fn of(value: u32) -> Self {
        match value >> 30 {
            0 => Self::Block(value),
            1 => Self::HalfOpen(value & PLACE),
            _ => Self::TimeWait(value & PLACE),
        }
    }

    pub(super) const fn value(self) -> u32 {
        match self {
            Self::Block(place) => place,
            Self::HalfOpen(place) => place | 1 << 30,
            Self::TimeWait(place) => place | 2 << 30,
        }
    }
}

/// The bits of a place in a value of the table.
pub(super) const PLACE: u32 = (1 << 30) - 1;
