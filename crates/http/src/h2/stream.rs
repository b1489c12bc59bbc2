//! One stream: how far both of its halves are, and its windows (RFC 9113 sections 5.1 and 5.2).

use super::priority::Priority;

/// The number of a stream. A client's are odd.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub(super) u32);

impl StreamId {
    /// The number itself.
    pub fn get(self) -> u32 {
        self.0
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
    /// How much the peer may still send.
    pub(super) in_window: i64,
    /// What has come and was not taken by its reader.
    pub(super) unread: u32,
    /// What the reader has taken, and the peer was not told of.
    pub(super) taken: u32,
    /// How much we may still send. Below 0 after the peer has made its window smaller.
    pub(super) out_window: i64,
    /// What is left of the length that the peer's head states.
    pub(super) left: Option<u64>,
    /// The request was HEAD: its response states a length, and no body follows.
    pub(super) asks_head: bool,
    /// It was opened by a CONNECT.
    pub(super) is_connect: bool,
    pub(super) priority: Priority,
    /// The driver has something to send.
    pub(super) wants_to_send: bool,
    /// It is among those that can send.
    pub(super) is_queued: bool,
}

impl Stream {
    /// Whether both halves have ended.
    pub(super) fn has_ended(&self) -> bool {
        self.incoming == Half::Ended && self.outgoing == Half::Ended
    }

    /// Whether it has something to send, and its window lets it.
    pub(super) fn can_send(&self) -> bool {
        self.wants_to_send && self.outgoing == Half::Body && self.out_window > 0
    }
}
