//! The rate that one peer may send at.

use std::hash::{BuildHasher, RandomState};
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use anywire_wire::udp::Peer;

/// How much one peer may send to one loop. A peer is an IPv4 address, a /64 network of IPv6 (of each link, if it is link-local), or a
/// Unix name.
///
/// Beyond it datagrams are counted and not handled. Each loop keeps its own account, so a peer whose ports are spread over all
/// loops may send that much to each of them.
///
/// ```
/// use anywire_server::udp::PeerRate;
///
/// let rate = PeerRate { datagrams_per_second: 1000, ..PeerRate::default() };
/// assert_eq!(rate.burst, 100);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeerRate {
    /// Datagrams a second in the long run (100); 0 counts as 1.
    pub datagrams_per_second: u32,
    /// Datagrams that may come at once after a rest (100); 0 counts as 1.
    pub burst: u32,
    /// Peers that each loop keeps in mind (65,536, which take 1 MiB). Beyond it the one that rested longest is forgotten, and
    /// begins anew with a full burst. So the number of peers cannot use up memory.
    pub peers_max: usize,
}

impl Default for PeerRate {
    fn default() -> Self {
        Self { datagrams_per_second: 100, burst: 100, peers_max: 65_536 }
    }
}

/// The accounts of one loop: the generic cell rate algorithm, in sets of four as in a cache.
pub(super) struct Accounts {
    sets: Vec<[Account; WAYS]>,
    /// Keyed by chance, so that nobody can choose addresses that share an account.
    hasher: RandomState,
    since: Instant,
    /// Time that one datagram takes of the rate, in nanoseconds.
    interval: u64,
    /// How far ahead of the present an account may be.
    tolerance: u64,
}

#[derive(Clone, Copy, Default)]
struct Account {
    /// A part of the hash that does not choose the set.
    tag: u32,
    /// Until when the peer's datagrams so far have used up the rate, in nanoseconds.
    used_until: u64,
}

impl Accounts {
    pub(super) fn new(rate: PeerRate, now: Instant) -> Self {
        let sets = rate.peers_max.div_ceil(WAYS).max(1).next_power_of_two();
        let interval = NANOSECONDS / u64::from(rate.datagrams_per_second.max(1));
        let tolerance = interval * u64::from(rate.burst.max(1) - 1);
        let sets = vec![[Account::default(); WAYS]; sets];
        Self { sets, hasher: RandomState::new(), since: now, interval, tolerance }
    }

    /// Whether one more datagram of this peer is within its rate.
    pub(super) fn permit(&mut self, peer: &Peer, now: Instant) -> bool {
        let elapsed = now.saturating_duration_since(self.since);
        let now = u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX / 2);
        let hash = match (peer.ip(), peer) {
            (Some(IpAddr::V4(ip)), _) => self.hasher.hash_one(ip),
            // Each link has the network of link-local addresses.
            (Some(IpAddr::V6(ip)), Peer::Ip(SocketAddr::V6(address))) => {
                self.hasher.hash_one((&ip.segments()[..4], address.scope_id()))
            }
            _ => self.hasher.hash_one(peer),
        };
        let tag = (hash >> 32) as u32;
        let mask = self.sets.len() as u64 - 1;
        let set = &mut self.sets[(hash & mask) as usize];
        let known = set.iter().position(|account| account.tag == tag);
        let at = known.unwrap_or_else(|| {
            let rested_longest = (0..WAYS).min_by_key(|&way| set[way].used_until).unwrap_or(0);
            set[rested_longest] = Account { tag, used_until: 0 };
            rested_longest
        });
        let used_until = set[at].used_until.max(now);
        if used_until - now > self.tolerance {
            return false;
        }
        set[at].used_until = used_until + self.interval;
        true
    }
}

const WAYS: usize = 4;
const NANOSECONDS: u64 = Duration::from_secs(1).as_nanos() as u64;

#[cfg(test)]
mod tests {
    use super::*;

    fn accounts(peers_max: usize) -> (Accounts, Instant) {
        let now = Instant::now();
        let rate = PeerRate { datagrams_per_second: 10, burst: 3, peers_max };
        (Accounts::new(rate, now), now)
    }

    fn peer(text: &str) -> Peer {
        Peer::Ip(text.parse().expect(text))
    }

    #[test]
    fn a_burst_passes_and_then_the_rate() {
        let (mut accounts, now) = accounts(1000);
        let one = peer("10.0.0.1:1");
        let passed = |accounts: &mut Accounts, ms| {
            (0..10).filter(|_| accounts.permit(&one, now + Duration::from_millis(ms))).count()
        };
        assert_eq!(passed(&mut accounts, 0), 3);
        assert_eq!(passed(&mut accounts, 99), 0);
        assert_eq!(passed(&mut accounts, 100), 1);
        assert_eq!(passed(&mut accounts, 10_000), 3);
    }

    #[test]
    fn ports_and_the_lower_half_of_ipv6_are_one_peer() {
        let (mut accounts, now) = accounts(1000);
        for same in [
            ["10.0.0.1:1", "10.0.0.1:2"],
            ["[2001:db8::1]:1", "[2001:db8::ffff:2]:1"],
            ["[fe80::1%1]:1", "[fe80::2%1]:1"],
        ] {
            assert_eq!((0..3).filter(|_| accounts.permit(&peer(same[0]), now)).count(), 3);
            assert!(!accounts.permit(&peer(same[1]), now), "{same:?}");
        }
        assert!(accounts.permit(&peer("[fe80::1%2]:1"), now), "another link");
        assert!(accounts.permit(&peer("[::ffff:10.0.0.2]:1"), now));
        assert!(!(0..3).all(|_| accounts.permit(&peer("10.0.0.2:1"), now)), "it is the same in IPv4");
    }

    #[test]
    fn more_peers_than_accounts_take_no_memory_and_find_room() {
        let (mut accounts, now) = accounts(16);
        for host in 0..10_000_u32 {
            let peer = Peer::Ip((std::net::Ipv4Addr::from(host), 1).into());
            assert!(accounts.permit(&peer, now + Duration::from_secs(u64::from(host))), "{host}");
        }
        assert_eq!(accounts.sets.len(), 4);
    }
}
