//! What headers hold: nothing, one field of the program's text, or a block of fields.

use crate::spare::{self, Spare as _};

use super::StaticHeader;
use super::block::{Block, Lines};

/// A pointer and its kind, so that messages are cheap to move.
#[derive(Default)]
pub(super) enum Held {
    #[default]
    Nothing,
    /// Most answers have one field besides those that the encoder writes. Drawing a block for it, copying it
    /// there and giving the block back took 110 instructions.
    Static(&'static StaticHeader),
    Block(Box<Block>),
}

impl Held {
    /// What there is to read.
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

    /// A block to be changed, with the lines that are held.
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

    /// Whether its memory is small enough to be kept for the next head.
    #[inline]
    pub(super) fn is_small(&self) -> bool {
        !matches!(self, Self::Block(block) if !block.is_small())
    }

    fn make_block(&mut self) -> &mut Block {
        let mut block = spare::draw::<Block>();
        block.push_lines(self.lines());
        *self = Self::Block(block);
        match self {
            Self::Block(block) => block,
            _ => unreachable!("it was put there in the line before"),
        }
    }

    /// Keeps the memory of a block for the next head.
    pub(super) fn give_back(&mut self) {
        if let Self::Block(block) = std::mem::take(self) {
            spare::give_back(block);
        }
    }
}

impl Clone for Held {
    fn clone(&self) -> Self {
        match self {
            Self::Nothing => Self::Nothing,
            Self::Static(header) => Self::Static(header),
            Self::Block(block) => {
                let mut clone = spare::draw::<Block>();
                clone.push_lines(block.lines());
                Self::Block(clone)
            }
        }
    }
}
