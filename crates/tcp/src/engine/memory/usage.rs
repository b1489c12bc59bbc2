//! The memory of an engine, by purpose.

use std::collections::{HashMap, VecDeque};

use crate::engine::Engine;

/// Bytes that an engine has taken from the system, by purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Memory {
    /// TCBs.
    pub tcbs: usize,
    /// The table from addresses and ports to TCBs.
    pub table: usize,
    /// Segments that wait to be acknowledged or read, and payloads that connections share.
    pub segments: usize,
    /// Of these, the ones that hold data now.
    pub segments_in_use: usize,
    /// The wheel and the queues of timers.
    pub timers: usize,
    /// Half-open connections, TIME-WAITs, extensions, the rings of senders, neighbours, the addresses of IPv6 peers, replies, the last batch of
    /// frames, and 16 bytes for each connection that has a deadline or keep-alive.
    pub others: usize,
}

impl Memory {
    /// All of it.
    pub const fn total(&self) -> usize {
        self.tcbs + self.table + self.segments + self.timers + self.others
    }
}

impl Engine {
    /// What its memory is made of.
    pub fn memory(&self) -> Memory {
        Memory {
            tcbs: self.tcbs.bytes(),
            table: self.table.bytes(),
            segments: self.pool.bytes(),
            segments_in_use: self.pool.bytes_in_use(),
            timers: self.wheel.bytes() + self.fresh.bytes() + self.delayed_acks.bytes() + self.young.bytes(),
            others: self.extensions.bytes()
                + self.half_open.bytes()
                + self.time_wait.bytes()
                + self.time_wait_queue.bytes()
                + self.idle_timers.bytes()
                + self.scheduler.bytes()
                + self.answered.bytes()
                + self.ready.bytes()
                + self.local.bytes()
                + self.sources.bytes()
                + self.path_mtus.bytes()
                + bytes_of_map(&self.user_timeouts)
                + self.troubles.bytes()
                + bytes_of_queue(&self.replies)
                + self.waiting_for_memory.bytes()
                + self.waiting_to_split.len() * size_of::<u32>()
                + self.batch_bytes(),
        }
    }

    /// What it keeps of the last batch, and works with.
    fn batch_bytes(&self) -> usize {
        self.received.bytes()
            + bytes_of_list(&self.in_frames)
            + bytes_of_list(&self.batch)
            + bytes_of_list(&self.delayed_ack_candidates)
            + bytes_of_list(&self.left_over)
            + bytes_of_list(&self.due)
    }
}

pub(crate) fn bytes_of_list<T>(list: &Vec<T>) -> usize {
    list.capacity() * size_of::<T>()
}

pub(crate) fn bytes_of_queue<T>(queue: &VecDeque<T>) -> usize {
    queue.capacity() * size_of::<T>()
}

/// Of the standard library's: of eight places, a power of two in all, it fills seven, and each has a byte of its own.
pub(crate) fn bytes_of_map<K, V, S>(map: &HashMap<K, V, S>) -> usize {
    let places = (map.capacity() * 8).div_ceil(7).next_power_of_two();
    if map.capacity() == 0 { 0 } else { places * (size_of::<(K, V)>() + 1) }
}
