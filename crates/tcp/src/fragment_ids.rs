//! Identifications of packets that routers may fragment: no two packets from one address to another share one within two minutes
//! (RFC 791 3.2, RFC 6864 4.3).
//!
//! A packet that is sent again counts, too: it says another time and another ACK, and its fragments must not join those of the
//! first. Pairs of addresses are spread over some counters by a keyed hash, and begin each elsewhere (RFC 7739 5.3). So nothing is
//! kept for a pair, and hardly anybody sees how many packets others get. After 65,536 packets a counter is round: a flow of more
//! than 546 such packets a second repeats it sooner.

use crate::hash::{Key, secret_hash};

/// The counters.
pub(crate) struct FragmentIds([u16; COUNTERS]);

impl FragmentIds {
    pub(crate) const fn new() -> Self {
        Self([0; COUNTERS])
    }

    /// For the next packet between these addresses of IPv4.
    pub(crate) fn next(&mut self, key: Key, local: u32, remote: u32) -> u16 {
        let hash = secret_hash(key, &[u64::from(local) << 32 | u64::from(remote)]);
        let counter = &mut self.0[(hash >> 16) as usize % COUNTERS];
        *counter = counter.wrapping_add(1);
        counter.wrapping_add(hash as u16)
    }
}

const COUNTERS: usize = 256;

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn a_pair_has_all_numbers_before_one_comes_again() {
        let (key, mut ids) = (Key([3, 4]), FragmentIds::new());
        let first: HashSet<u16> = (0..1 << 16).map(|_| ids.next(key, 1, 2)).collect();
        assert_eq!(first.len(), 1 << 16);
    }

    #[test]
    fn pairs_begin_elsewhere_and_by_the_key() {
        let first = |key: Key, remote: u32| FragmentIds::new().next(key, 1, remote);
        let all: HashSet<u16> = (0..100).map(|remote| first(Key([3, 4]), remote)).collect();
        assert!(all.len() > 95, "{} of 100", all.len());
        assert_ne!(first(Key([3, 4]), 1), first(Key([3, 5]), 1));
    }
}
