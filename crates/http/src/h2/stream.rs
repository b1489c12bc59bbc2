//! One stream: how far both of its halves are, and its windows (RFC 9113 sections 5.1 and 5.2).

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use super::frame;
use super::priority::{Priority, Ready};
use super::window::InWindow;
use crate::Method;

/// The number of a stream. A client's are odd.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub(super) u32);

impl StreamId {
    /// The number itself.
    pub fn get(self) -> u32 {
        self.0
    }
}

/// A map of one connection's streams, in which a look-up costs a multiplication.
pub type StreamMap<V> = HashMap<StreamId, V, BuildHasherDefault<IdHasher>>;

/// Hashes a [`StreamId`] without its lowest bit, which all streams of one end have in common. The numbers are counted up, so
/// that a peer cannot choose which of them meet.
#[derive(Debug, Default)]
pub struct IdHasher(u64);

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0 << 8 | u64::from(*byte);
        }
    }

    #[inline]
    fn write_u32(&mut self, id: u32) {
        // The map takes its place from the low bits and a mark from the high ones.
        self.0 = u64::from(id >> 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

/// How far one half of a stream is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Half {
    /// The head is still to come.
    Head,
    /// Data, and perhaps trailers.
    Body,
    Ended,
}

#[derive(Debug)]
pub(super) struct Stream {
    pub(super) incoming: Half,
    pub(super) outgoing: Half,
    /// What the peer may send.
    pub(super) in_window: InWindow,
    /// What has come and was not taken by its reader.
    pub(super) unread: u32,
    /// How much we may still send. Below 0 after the peer has made its window smaller.
    pub(super) out_window: i64,
    /// What is left of the length that the peer's head states.
    pub(super) left: Option<u64>,
    pub(super) kind: StreamKind,
    pub(super) priority: Priority,
    pub(super) turn: Turn,
}

/// What is on a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StreamKind {
    Message,
    /// The response to HEAD, which states a length, and no body follows.
    Head,
    /// Nothing but data: it was opened by a CONNECT, and that was not refused.
    Tunnel,
}

impl StreamKind {
    pub(super) fn of(method: &Method) -> Self {
        match *method {
            Method::HEAD => Self::Head,
            Method::CONNECT => Self::Tunnel,
            _ => Self::Message,
        }
    }
}

/// Whether the driver has something to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    Idle,
    /// It has, and this has its turn now, or waits for a window.
    Wanted,
    /// It is among those that can send.
    Queued,
}

impl Stream {
    /// Whether both halves have ended.
    pub(super) fn has_ended(&self) -> bool {
        self.incoming == Half::Ended && self.outgoing == Half::Ended
    }

    /// So much of the body has come, perhaps the last of it. An error says how that differs from the length that its head
    /// states.
    #[inline]
    pub(super) fn keeps_its_length(&mut self, bytes: usize, end: bool) -> Result<(), &'static str> {
        let Some(left) = self.left else { return Ok(()) };
        let Some(rest) = left.checked_sub(bytes as u64) else { return Err(BODY_TOO_LONG) };
        self.left = Some(rest);
        if rest == 0 || !end { Ok(()) } else { Err(BODY_TOO_SHORT) }
    }

    /// Tells the peer of what was read, once it is worth a frame and if the peer has more to send.
    #[inline]
    pub(super) fn return_window(&mut self, id: StreamId, out: &mut Vec<u8>) {
        if self.incoming == Half::Body
            && let Some(increment) = self.in_window.give_back()
        {
            frame::window_update(out, id.0, increment);
        }
    }

    /// The driver has nothing to send.
    pub(super) fn leave_turn(&mut self, id: StreamId, ready: &mut Ready) {
        if std::mem::replace(&mut self.turn, Turn::Idle) == Turn::Queued {
            ready.remove(id, self.priority);
        }
    }

    /// Whether it has something to send, and its window lets it.
    pub(super) fn can_send(&self) -> bool {
        self.turn != Turn::Idle && self.outgoing == Half::Body && self.out_window > 0
    }
}

/// What is wrong with a body beside the length that its head states.
pub(super) const BODY_TOO_SHORT: &str = "a body is shorter than its `Content-Length`";
const BODY_TOO_LONG: &str = "a body is longer than its `Content-Length`";
