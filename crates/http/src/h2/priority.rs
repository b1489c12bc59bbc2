//! Priorities of responses (RFC 9218), and the order in which streams send.

use std::collections::VecDeque;

use super::StreamId;

/// The priority of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Priority {
    /// 0 is the most urgent, 7 the least.
    urgency: u8,
    /// Whether the response is of use in parts, so that it shares the connection with others.
    incremental: bool,
}

impl Priority {
    /// Without a signal a stream takes turns with the others: RFC 9218 would send it in one go, and a download would hold
    /// up all pages behind it.
    pub(super) const UNSAID: Self = Self { urgency: DEFAULT_URGENCY, incremental: true };

    /// Reads the field `priority`: a dictionary of which `u` and `i` matter. Other members, and what is malformed, have no
    /// meaning (RFC 9218 section 4).
    pub(super) fn parse(field: &[u8]) -> Self {
        let mut priority = Self { urgency: DEFAULT_URGENCY, incremental: false };
        for member in field.split(|&byte| byte == b',') {
            match member.trim_ascii() {
                [b'u', b'=', digit @ b'0'..=b'7'] => priority.urgency = digit - b'0',
                b"i" | b"i=?1" => priority.incremental = true,
                b"i=?0" => priority.incremental = false,
                _ => {}
            }
        }
        priority
    }
}

/// The streams that can send, in the order in which they may.
#[derive(Debug, Default)]
pub(super) struct Ready {
    queues: Vec<Queue>,
}

/// The streams of one urgency.
#[derive(Debug, Default)]
struct Queue {
    /// One after the other.
    whole: VecDeque<StreamId>,
    /// In turns.
    shared: VecDeque<StreamId>,
    /// Whose turn it is, where there are both kinds.
    shared_is_next: bool,
}

impl Ready {
    /// Adds a stream that is not in it.
    pub(super) fn push(&mut self, id: StreamId, priority: Priority) {
        let urgency = usize::from(priority.urgency);
        if self.queues.len() <= urgency {
            self.queues.resize_with(urgency + 1, Queue::default);
        }
        let queue = &mut self.queues[urgency];
        if priority.incremental {
            queue.shared.push_back(id);
        } else {
            // The oldest request first, whichever was ready first.
            let at = queue.whole.partition_point(|other| *other < id);
            queue.whole.insert(at, id);
        }
    }

    /// Takes out the stream whose turn it is.
    pub(super) fn pop(&mut self) -> Option<StreamId> {
        self.queues.iter_mut().find_map(Queue::pop)
    }

    /// Whether no stream can send.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.queues.iter().all(|queue| queue.whole.is_empty() && queue.shared.is_empty())
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.queues.iter().map(|queue| queue.whole.len() + queue.shared.len()).sum()
    }

    pub(super) fn remove(&mut self, id: StreamId, priority: Priority) {
        if let Some(queue) = self.queues.get_mut(usize::from(priority.urgency)) {
            let queue = if priority.incremental { &mut queue.shared } else { &mut queue.whole };
            queue.retain(|other| *other != id);
        }
    }

    /// Frees memory when no stream is left.
    pub(super) fn clear(&mut self) {
        self.queues = Vec::new();
    }
}

impl Queue {
    fn pop(&mut self) -> Option<StreamId> {
        let shared = !self.shared.is_empty() && (self.shared_is_next || self.whole.is_empty());
        self.shared_is_next = !shared;
        if shared { self.shared.pop_front() } else { self.whole.pop_front() }
    }
}

const DEFAULT_URGENCY: u8 = 3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_says_urgency_and_sharing() {
        for (field, urgency, incremental) in [
            ("", 3, false),
            ("u=0", 0, false),
            ("u=7, i", 7, true),
            ("i=?1,u=2", 2, true),
            ("i, i=?0", 3, false),
            ("u=8", 3, false),
            ("u=-1, x, i=1", 3, false),
        ] {
            assert_eq!(Priority::parse(field.as_bytes()), Priority { urgency, incremental }, "{field}");
        }
    }

    #[test]
    fn the_urgent_go_first_and_equals_take_turns() {
        let mut ready = Ready::default();
        let next = |ready: &mut Ready, again: Option<Priority>| {
            let id = ready.pop()?;
            if let Some(priority) = again {
                ready.push(id, priority);
            }
            Some(id.0)
        };
        for id in [1, 3, 5] {
            ready.push(StreamId(id), Priority::UNSAID);
        }
        let order: Vec<_> = (0..6).filter_map(|_| next(&mut ready, Some(Priority::UNSAID))).collect();
        assert_eq!(order, [1, 3, 5, 1, 3, 5]);
        ready.push(StreamId(7), Priority::parse(b"u=1"));
        assert_eq!(next(&mut ready, None), Some(7));
        let whole = Priority::parse(b"u=3");
        ready.push(StreamId(11), whole);
        ready.push(StreamId(9), whole);
        // Both kinds of one urgency share it.
        let order: Vec<_> = (0..5).filter_map(|_| next(&mut ready, None)).collect();
        assert_eq!(order, [9, 1, 11, 3, 5]);
        ready.push(StreamId(1), whole);
        ready.remove(StreamId(1), whole);
        assert_eq!(ready.pop(), None);
    }
}
