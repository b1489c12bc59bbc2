//! What the peer may send (RFC 9113 section 5.2): of one body, and of all bodies of a connection.

/// The window that an end has given its peer. What a reader takes goes back to the peer, several reads in one frame.
#[derive(Debug)]
pub(super) struct InWindow {
    /// How much the peer may still send. A stream's is below 0 if the peer has sent more before it knew our settings.
    open: i64,
    /// What readers have taken, and the peer was not told of.
    taken: u32,
    /// Bytes that the peer does not get back, because their body has no reader.
    withheld: u32,
    /// All of it.
    whole: u32,
}

impl InWindow {
    pub(super) fn new(bytes: u32) -> Self {
        Self { open: i64::from(bytes), taken: 0, withheld: 0, whole: bytes }
    }

    /// The peer has sent so much. False if that is more than it may.
    #[inline]
    pub(super) fn spend(&mut self, bytes: usize) -> bool {
        self.open -= bytes as i64;
        self.open >= 0
    }

    /// These bytes were read, or have no reader.
    #[inline]
    pub(super) fn free(&mut self, bytes: u32) {
        self.taken += bytes;
    }

    /// What to tell the peer, if it is worth a frame: as much as the peer may still send. A peer whose bytes are all read
    /// hears of half a window; the more is left unread, the sooner it hears.
    #[inline]
    pub(super) fn give_back(&mut self) -> Option<u32> {
        if self.is_returned() {
            return None;
        }
        self.open += i64::from(self.taken);
        Some(std::mem::take(&mut self.taken))
    }

    /// Whether nothing is to be returned that is worth a frame.
    #[inline]
    pub(super) fn is_returned(&self) -> bool {
        // Below 0, what opens no window is worth nothing.
        i64::from(self.taken) < self.open.abs() || self.taken < (self.whole / 2).clamp(1, LEAST_BYTES)
    }

    /// Whether next to nothing is left of it, so that the peer waits for readers.
    pub(super) fn is_closed(&self) -> bool {
        self.open < i64::from(LEAST_BYTES)
    }

    /// So much was thrown away, and does not go back to the peer.
    pub(super) fn withhold(&mut self, bytes: u32) {
        self.withheld += bytes;
    }

    /// Settings make it smaller.
    pub(super) fn shrink(&mut self, bytes: u32) {
        self.open -= i64::from(bytes);
        self.whole -= bytes;
    }

    /// Whether no byte of it is lost, if so many wait to be read.
    pub(super) fn is_accounted(&self, unread: i64) -> bool {
        let free = self.open + i64::from(self.taken) + i64::from(self.withheld);
        free + unread == i64::from(self.whole)
    }
}

/// Less is not worth a frame, if the window is larger than twice that. Where others leave less than this unread, a body would
/// go on by a few bytes in each round trip: below the least rate that servers ask for, and by so many frames that peers take
/// them for a flood.
const LEAST_BYTES: u32 = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    /// A window of which so much was sent, and so much of that was read.
    fn window(whole: u32, sent: usize, read: u32) -> InWindow {
        let mut window = InWindow::new(whole);
        assert!(window.spend(sent));
        window.free(read);
        window
    }

    #[test]
    fn it_opens_by_what_is_worth_a_frame() {
        for (whole, sent, read, opens) in [
            // Half of what the peer may have.
            (65_535, 32_767, 32_767, None),
            (65_535, 32_768, 32_768, Some(32_768)),
            (65_535, 65_535, 2_000, Some(2_000)),
            (65_535, 60_000, 5_000, None),
            (65_535, 60_000, 6_000, Some(6_000)),
            // And a KiB, but for windows that are smaller than two.
            (65_535, 65_535, 1023, None),
            (65_535, 65_535, 1024, Some(1024)),
            (100, 100, 49, None),
            (100, 100, 50, Some(50)),
            (1, 1, 0, None),
            (1, 1, 1, Some(1)),
        ] {
            let mut window = window(whole, sent, read);
            assert_eq!(window.give_back(), opens, "{window:?}");
            assert_eq!(window.give_back(), None, "{window:?}");
            assert!(window.is_accounted(sent as i64 - i64::from(read)), "{window:?}");
        }
    }

    #[test]
    fn below_nothing_it_opens_once_that_opens_it() {
        let mut window = window(65_535, 40_000, 39_000);
        window.give_back();
        window.shrink(65_435);
        assert!(!window.spend(1));
        // 39,000 went back before; 1,001 bytes wait, and 100 are allowed.
        assert_eq!((window.give_back(), window.is_accounted(1001)), (None, true));
        window.free(900);
        assert_eq!(window.give_back(), None);
        window.free(101);
        assert_eq!((window.give_back(), window.is_accounted(0)), (Some(1001), true));
        assert!(window.spend(100) && !window.spend(1));
    }

    #[test]
    fn what_is_withheld_does_not_come_back() {
        let mut window = window(100, 100, 0);
        window.withhold(100);
        assert_eq!((window.give_back(), window.is_accounted(0), window.is_closed()), (None, true, true));
    }
}
