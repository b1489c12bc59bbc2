//! A keyed hash of connections, which decides which loop has them: a few nanoseconds a segment.
//!
//! The key goes into both halves of an address before they are mixed. Peers choose addresses and ports, and without the key they know
//! of none that lead to the same loop. What the hash gives never leaves the process.

use anywire_packet::Addresses;

use super::flow::Flow;

/// Keep it secret.
#[derive(Debug, Clone, Copy)]
pub(super) struct Key([u64; 2]);

impl Key {
    /// The key of a random secret. One of few bits, as tests have it, spreads connections as well.
    pub(super) const fn new([s0, s1]: [u64; 2]) -> Self {
        Self([s0 ^ 0x9e37_79b9_7f4a_7c15, s1 ^ 0xbf58_476d_1ce4_e5b9])
    }
}

/// The hash of a connection. All bits are good.
#[inline]
pub(super) fn flow_hash(Key([k0, k1]): Key, flow: &Flow) -> u64 {
    let (high, low) = match flow.addresses {
        Addresses::V4 { remote, .. } => (0, u64::from(remote)),
        Addresses::V6 { remote, .. } => ((remote >> 64) as u64, remote as u64),
    };
    let ports = (u64::from(flow.remote_port) << 16) | u64::from(flow.local_port);
    let address = fold_multiply(high ^ k0, low ^ k1);
    fold_multiply(address ^ ports ^ k1.rotate_left(32), k0 | 1)
}

#[inline]
const fn fold_multiply(a: u64, b: u64) -> u64 {
    let product = (a as u128) * (b as u128);
    (product as u64) ^ ((product >> 64) as u64)
}
