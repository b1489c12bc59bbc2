//! Addresses that have failed lately. They are tried last, so that a dead one costs its head start once and not at each dial.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anywire_loops::clock;

/// Which addresses have failed, and until when that counts.
#[derive(Debug, Default)]
pub(super) struct CoolDown {
    until: HashMap<SocketAddr, Instant>,
}

impl CoolDown {
    pub(super) fn is_cooling(&self, address: SocketAddr, now: Instant) -> bool {
        !self.until.is_empty() && self.until.get(&address).is_some_and(|until| now < *until)
    }

    pub(super) fn failed(&mut self, address: SocketAddr, now: Instant, for_this: Duration) {
        if self.until.len() >= ADDRESSES_MAX && !self.until.contains_key(&address) {
            self.until.retain(|_, until| now < *until);
            // All of them count still: the one that counts for the shortest time goes.
            if self.until.len() >= ADDRESSES_MAX
                && let Some(first) = self.until.iter().min_by_key(|(_, until)| **until).map(|(one, _)| *one)
            {
                self.until.remove(&first);
            }
        }
        self.until.insert(address, clock::after(now, for_this));
    }

    pub(super) fn connected(&mut self, address: SocketAddr) {
        if !self.until.is_empty() {
            self.until.remove(&address);
        }
    }
}

/// 64 bytes each at most.
const ADDRESSES_MAX: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_failed_counts_for_a_while_and_until_it_connects() {
        let (now, second) = (clock::precise(), Duration::from_secs(1));
        let [one, other] = [1, 2].map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
        let mut failed = CoolDown::default();
        failed.failed(one, now, second);
        failed.failed(other, now, second);
        assert!(failed.is_cooling(one, now) && failed.is_cooling(other, now));
        assert!(!failed.is_cooling(one, now + second));
        failed.connected(other);
        assert!(!failed.is_cooling(other, now));
    }

    #[test]
    fn it_holds_so_many_and_no_more() {
        let now = clock::precise();
        let mut failed = CoolDown::default();
        for port in 0..=ADDRESSES_MAX as u16 {
            let for_this = Duration::from_millis(1 + u64::from(port));
            failed.failed(SocketAddr::from(([127, 0, 0, 1], port)), now, for_this);
        }
        assert_eq!(failed.until.len(), ADDRESSES_MAX);
        assert!(!failed.is_cooling(SocketAddr::from(([127, 0, 0, 1], 0)), now), "the first to end goes");
    }
}
