//! The memory of an engine, by purpose.

use super::Engine;

/// Bytes that an engine has taken from the system, by purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Memory {
    /// Control blocks.
    pub blocks: usize,
    /// The table from addresses and ports to blocks.
    pub table: usize,
    /// Segments that wait to be acknowledged or read.
    pub segments: usize,
    /// Of these, the ones that hold something now.
    pub segments_in_use: usize,
    /// The wheel and the queues of timers.
    pub timers: usize,
    /// Half-open connections, TIME-WAITs, extensions, the rings of senders, and 16 bytes for each connection that has a
    /// deadline or keep-alive.
    pub others: usize,
}

impl Memory {
    /// All of it.
    pub const fn total(&self) -> usize {
        self.blocks + self.table + self.segments + self.timers + self.others
    }
}

impl Engine {
    /// What its memory is made of.
    pub fn memory(&self) -> Memory {
        Memory {
            blocks: self.blocks.bytes(),
            table: self.table.bytes(),
            segments: self.pool.bytes(),
            segments_in_use: self.pool.bytes_in_use(),
            timers: self.wheel.bytes() + self.fresh.bytes() + self.delayed_acks.bytes() + self.young.bytes(),
            others: self.extensions.bytes()
                + self.half_open.bytes()
                + self.time_wait.bytes()
                + self.time_wait_queue.bytes()
                + self.watches.bytes()
                + self.turns.bytes()
                + self.answered.bytes()
                + self.ready.bytes(),
        }
    }
}
