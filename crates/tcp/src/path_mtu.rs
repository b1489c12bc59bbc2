//! The known MTUs of paths, by destination (RFC 1191 6.2, RFC 8201 5.2). A router has told one connection, so the next ones lose
//! no segments to learn it.

use core::net::IpAddr;
use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use crate::engine::{bytes_of_map, bytes_of_queue};
use crate::time::Instant;

/// The MTUs of paths that are narrower than their first link.
#[derive(Default)]
pub(crate) struct PathMtus {
    known: HashMap<IpAddr, Known>,
    /// In order of expiry. An MTU that was learned again has one entry for each time.
    order: VecDeque<(IpAddr, Instant)>,
}

#[derive(Clone, Copy)]
struct Known {
    mtu: u16,
    expires: Instant,
}

impl PathMtus {
    /// Remembers a path for ten minutes, among at most `max` others. True if an older one had to give way. What is wider than what
    /// is known says nothing of the narrower place on the path (RFC 1191 6.3, RFC 8201 4).
    pub(crate) fn learn(&mut self, remote: IpAddr, mtu: u16, now: Instant, max: usize) -> bool {
        if max == 0 {
            return true;
        }
        if self.of(remote, now).is_some_and(|known| known < mtu) {
            return false;
        }
        let expires = now + LIFETIME;
        self.known.insert(remote, Known { mtu, expires });
        self.order.push_back((remote, expires));
        let mut any_evicted = false;
        while let Some((oldest, at)) = self.order.front().copied() {
            let is_over = self.known.get(&oldest).is_none_or(|known| known.expires != at || at <= now);
            // One destination that is learned again and again must not make the queue long.
            if !is_over && self.order.len() <= max {
                break;
            }
            self.order.pop_front();
            if self.known.get(&oldest).is_some_and(|known| known.expires == at) {
                self.known.remove(&oldest);
                any_evicted |= at > now;
            }
        }
        any_evicted
    }

    /// Bytes of memory that it holds.
    pub(crate) fn bytes(&self) -> usize {
        bytes_of_map(&self.known) + bytes_of_queue(&self.order)
    }

    /// The MTU of the path, if one is known.
    #[inline]
    pub(crate) fn of(&self, remote: IpAddr, now: Instant) -> Option<u16> {
        if self.known.is_empty() {
            return None;
        }
        self.known.get(&remote).filter(|known| known.expires > now).map(|known| known.mtu)
    }
}

/// A path may become wider again: ten minutes later its first link is tried (RFC 1191 6.3, RFC 8201 4).
const LIFETIME: Duration = Duration::from_secs(600);

#[cfg(test)]
mod tests {
    use super::*;

    fn remote(last: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, last])
    }

    fn at(seconds: u64) -> Instant {
        Instant::from_micros(seconds * 1_000_000)
    }

    #[test]
    fn a_path_is_known_for_ten_minutes_since_it_was_learned_last() {
        let mut paths = PathMtus::default();
        assert!(!paths.learn(remote(1), 1400, at(0), 8));
        assert!(!paths.learn(remote(1), 1300, at(300), 8));
        assert_eq!((paths.of(remote(1), at(899)), paths.of(remote(2), at(899))), (Some(1300), None));
        assert_eq!(paths.of(remote(1), at(900)), None);
        assert!(!paths.learn(remote(2), 1000, at(900), 8), "one that has expired gives way to nobody");
        assert_eq!((paths.known.len(), paths.order.len()), (1, 1), "what has expired is dropped");
    }

    /// One connection was told of a narrow place, and an older one is told of a wider one before it.
    #[test]
    fn a_wider_mtu_takes_the_place_of_none_that_still_counts() {
        let mut paths = PathMtus::default();
        paths.learn(remote(1), 1000, at(0), 8);
        assert!(!paths.learn(remote(1), 1400, at(300), 8));
        assert_eq!(paths.of(remote(1), at(599)), Some(1000));
        assert_eq!(paths.of(remote(1), at(600)), None, "nor does it last longer for that");
        paths.learn(remote(1), 1400, at(600), 8);
        assert_eq!(paths.of(remote(1), at(601)), Some(1400));
        paths.learn(remote(1), 1400, at(900), 8);
        assert_eq!(paths.of(remote(1), at(1499)), Some(1400), "the same once more is news");
    }

    #[test]
    fn the_oldest_gives_way() {
        let mut paths = PathMtus::default();
        for last in 0..4 {
            assert!(!paths.learn(remote(last), 1000, at(last.into()), 4));
        }
        assert!(paths.learn(remote(4), 1000, at(4), 4));
        assert_eq!((paths.of(remote(0), at(5)), paths.of(remote(1), at(5))), (None, Some(1000)));
        // The same one again takes no place.
        for second in 5..100 {
            paths.learn(remote(4), 1000, at(second), 4);
            assert!(paths.order.len() <= 4);
        }
        assert_eq!(paths.of(remote(4), at(100)), Some(1000));
        assert!(paths.learn(remote(5), 1000, at(100), 0), "no room at all");
    }
}
