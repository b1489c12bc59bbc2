//! The storage of headers: nothing, one static field, or a block of fields.

use crate::free_list::{self, Reused as _};

use super::StaticHeader;
use super::block::{Block, Lines};

/// A pointer and its kind, so that messages are cheap to move.
#[derive(Default)]
pub(super) enum Storage {
    #[default]
    Nothing,
    /// Most responses have one field of their own. A block for it took 110 instructions: from the free list, filled,
    /// and back.
    Static(&'static StaticHeader),
    Block(Box<Block>),
}

impl Storage {
    /// A view of the lines.
    #[inline]
    pub(super) fn lines(&self) -> Lines<'_> {
        match self {
            Self::Nothing => Lines::NONE,
            Self::Static(header) => header.lines(),
            Self::Block(block) => block.lines(),
        }
    }

    /// See [`StaticHeader::ok_beginning`].
    #[inline]
    pub(super) fn ok_beginning(&self) -> Option<&[u8]> {
        if let Self::Static(header) = self { header.ok_beginning() } else { None }
    }

    /// The lines as a block that can be changed.
    #[inline]
    pub(super) fn block_mut(&mut self) -> &mut Block {
        match self {
            Self::Block(block) => block,
            held => held.make_block(),
        }
    }

    #[inline]
    pub(super) fn append_static(&mut self, header: &'static StaticHeader) {
        match self {
            Self::Nothing => *self = Self::Static(header),
            held => held.block_mut().push_lines(header.lines()),
        }
    }

    /// Removes all lines; a block stays for the next ones.
    pub(super) fn clear(&mut self) {
        match self {
            Self::Block(block) => block.clear(),
            held => *held = Self::Nothing,
        }
    }

    /// Whether the memory is small enough to be reused by another head.
    #[inline]
    pub(super) fn is_small(&self) -> bool {
        !matches!(self, Self::Block(block) if !block.is_small())
    }

    fn make_block(&mut self) -> &mut Block {
        let mut block = free_list::take::<Block>();
        block.push_lines(self.lines());
        *self = Self::Block(block);
        match self {
            Self::Block(block) => block,
            _ => unreachable!("it was put there in the line before"),
        }
    }

    /// Returns the memory of a block to the free list.
    pub(super) fn give_back(&mut self) {
        if let Self::Block(block) = std::mem::take(self) {
            free_list::give_back(block);
        }
    }
}

impl Clone for Storage {
    fn clone(&self) -> Self {
        match self {
            Self::Nothing => Self::Nothing,
            Self::Static(header) => Self::Static(header),
            Self::Block(block) => {
                let mut clone = free_list::take::<Block>();
                clone.push_lines(block.lines());
                Self::Block(clone)
            }
        }
    }
}
