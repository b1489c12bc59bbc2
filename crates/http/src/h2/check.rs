//! What always holds of the windows, looked at after every input in builds with debug assertions: tests and fuzzing.

use super::engine::Incoming;
use super::frame::WINDOW_MAX;
use super::stream::{Half, Turn};
use super::{Engine, StreamId};

impl Engine {
    /// Panics if a byte of a window is lost, or kept back from the peer; does nothing in a release build.
    #[inline(always)]
    pub(super) fn check(&self) {
        if cfg!(debug_assertions) && !self.has_failed() {
            self.check_windows();
        }
    }

    fn check_windows(&self) {
        let (mut unread, mut open, mut queued) = (0, 0, 0);
        for (id, stream) in self.streams.iter() {
            let waits = i64::from(stream.unread);
            assert!(stream.in_window.is_accounted(waits), "the window of {id:?}: {stream:?}");
            let is_whole = stream.incoming != Half::Body || self.is_within_last(id);
            let is_returned = is_whole || stream.in_window.is_returned();
            assert!(is_returned, "{id:?} waits for what was read: {stream:?}");
            assert!(stream.out_window <= i64::from(WINDOW_MAX), "a peer has too much: {stream:?}");
            unread += waits;
            open += usize::from(!stream.has_ended());
            queued += usize::from(stream.turn == Turn::Queued);
        }
        assert!(self.in_window.is_accounted(unread), "{:?}, and {unread} unread", self.in_window);
        assert!(self.in_window.is_returned(), "all wait for what was read: {:?}", self.in_window);
        assert!(self.out_window >= 0 && self.out_window <= i64::from(WINDOW_MAX), "{}", self.out_window);
        assert_eq!((self.open, self.ready.len()), (open, queued), "streams that are open, that can send");
    }

    /// Whether the last frame of a body is coming.
    fn is_within_last(&self, stream: StreamId) -> bool {
        matches!(self.incoming, Incoming::Data { id, end: true, .. } if id == stream)
    }
}
