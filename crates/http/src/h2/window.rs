//! What the peer may send (RFC 9113 section 5.2): of one body, and of all bodies of a connection.

/// The window that an end has given its peer. What a reader takes goes back to the peer, several reads in one frame.
#[derive(Debug)]
pub(super) struct InWindow {
    /// How much the peer may still send. A stream's is below 0 if the peer has sent more before it knew our settings.
    open: i64,
    /// What readers have taken, and the peer was not told of.
    taken: u32,
    /// What the peer does not get back, because nobody reads the body.
    withheld: u32,
}

impl InWindow {
    pub(super) fn new(bytes: u32) -> Self {
        Self { open: i64::from(bytes), taken: 0, withheld: 0 }
    }

    /// The peer has sent so much. False if that is more than it may.
    #[inline]
    pub(super) fn spend(&mut self, bytes: usize) -> bool {
        self.open -= bytes as i64;
        self.open >= 0
    }

    /// So much was read, or is read by nobody.
    #[inline]
    pub(super) fn free(&mut self, bytes: u32) {
        self.taken += bytes;
    }

    /// What to tell the peer, if it is worth a frame: as much as the peer may still send. A peer whose bytes are all read
    /// hears of half a window. The more is left unread, the sooner it hears; and at the last, of each byte.
    #[inline]
    pub(super) fn give_back(&mut self) -> Option<u32> {
        if self.is_told() {
            return None;
        }
        self.open += i64::from(self.taken);
        Some(std::mem::take(&mut self.taken))
    }

    /// Whether nothing is to be returned that is worth a frame.
    #[inline]
    pub(super) fn is_told(&self) -> bool {
        // Below 0, what opens no window is worth nothing.
        self.taken == 0 || i64::from(self.taken) < self.open.abs()
    }

    /// So much was thrown away, and does not go back to the peer.
    pub(super) fn withhold(&mut self, bytes: u32) {
        self.withheld += bytes;
    }

    /// Settings make it smaller.
    pub(super) fn shrink(&mut self, bytes: u32) {
        self.open -= i64::from(bytes);
    }

    /// All of it but for what waits to be read.
    pub(super) fn accounted(&self) -> i64 {
        self.open + i64::from(self.taken) + i64::from(self.withheld)
    }
}
