//! Connections that were answered a moment ago.
//!
//! Unacceptable segments are answered by an ACK (RFC 9293 3.10.7.4), and so are segments that may be forged (RFC 5961). If
//! both ends were led to believe in bytes that the other never sent, each such ACK would ask for the next one, for ever. So
//! a connection answers a segment that may be such an ACK only once in a while.

use std::collections::HashMap;

use super::Engine;
use crate::fifo::Fifo;
use crate::time::Tick;

/// Which connections were answered lately, and when.
#[derive(Default)]
pub(super) struct Answered {
    at: HashMap<u32, Tick>,
    /// The same in the order of time.
    queue: Fifo<(u32, Tick)>,
}

impl Answered {
    /// Notes an answer, unless there was one lately or too many connections have one.
    fn note(&mut self, index: u32, now: Tick) -> bool {
        while let Some((earlier, at)) = self.queue.front()
            && at.after(INTERVAL_MILLIS).is_due(now)
        {
            self.queue.pop_front();
            if self.at.get(&earlier) == Some(&at) {
                self.at.remove(&earlier);
            }
        }
        if self.at.contains_key(&index) || self.queue.len() >= CONNECTIONS_MAX {
            return false;
        }
        self.at.insert(index, now);
        self.queue.push_back((index, now));
        true
    }

    /// The place of a connection is free: the next one there was never answered.
    #[inline]
    pub(super) fn forget(&mut self, index: u32) {
        if !self.at.is_empty() {
            self.at.remove(&index);
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.queue.bytes() + self.at.capacity() * size_of::<(u32, Tick)>()
    }
}

impl Engine {
    /// Whether a connection may answer what occupies no sequence number, or may be forged.
    #[cold]
    pub(super) fn may_answer(&mut self, index: u32) -> bool {
        let may = self.answered.note(index, self.tick);
        if !may {
            self.counters.answers_withheld += 1;
        }
        may
    }
}

/// Between two such answers of a connection. Linux has the same interval.
const INTERVAL_MILLIS: u32 = 500;

/// So many connections are answered within the interval: enough for the keep-alive probes of eight million.
const CONNECTIONS_MAX: usize = 1 << 16;
