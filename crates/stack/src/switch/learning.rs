//! Which port an address is behind: the ports' own addresses, and learned ones.
//!
//! The table is bounded as a whole and per port, so a storm of forged addresses neither grows it nor evicts other
//! ports' addresses. Frames to an address without an entry are flooded, which is slow but correct. A port's own
//! address is never learned elsewhere.

use std::collections::HashMap;

use anywire_tcp::{Instant, Mac};
use foldhash::fast::RandomState;

use super::limits::Limits;

/// An address as a number: its six bytes, the first one highest.
pub(super) type Address = u64;

/// `mac` as a number.
pub(super) const fn address_of(mac: Mac) -> Address {
    let [a, b, c, d, e, f] = mac.bytes();
    u64::from_be_bytes([0, 0, a, b, c, d, e, f])
}

/// Whether it stands for many stations: the lowest bit of its first byte says so (IEEE 802 8.2.2).
pub(super) const fn is_group(address: Address) -> bool {
    address & 0x0100_0000_0000 != 0
}

/// The addresses and their ports.
pub(super) struct Stations {
    /// The standard library's hash is too slow for one lookup per frame. This one has a secret as well, and the limits bound the
    /// damage if an attacker guesses it.
    places: HashMap<Address, Place, RandomState>,
    learned: usize,
    learned_by_port: Vec<usize>,
    /// No sweep before: a table that is full of living addresses is not searched at each frame.
    next_sweep: Instant,
    limits: Limits,
}

#[derive(Debug, Clone, Copy)]
struct Place {
    port: u16,
    /// When a frame came from there; never for a port's own address, which is believed forever.
    seen: Option<Instant>,
}

/// What came of learning an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Learned {
    /// It was known there, or is now.
    Known,
    /// It was behind another port before.
    Moved {
        /// That port.
        before: u16,
    },
    /// There is no place for it.
    Refused,
    /// It is the address of another port, or of a group: a frame from it is forged.
    Forged,
}

impl Stations {
    pub(super) fn new(limits: Limits) -> Self {
        Self {
            places: HashMap::default(),
            learned: 0,
            learned_by_port: Vec::new(),
            next_sweep: Instant::default(),
            limits,
        }
    }

    /// How many are learned.
    pub(super) const fn learned(&self) -> usize {
        self.learned
    }

    /// The port of `address`, if it is known and believed.
    #[inline]
    pub(super) fn find(&self, address: Address, now: Instant) -> Option<u16> {
        let place = self.places.get(&address)?;
        place.is_believed(now, &self.limits).then_some(place.port)
    }

    /// Makes `address` the own one of `port`.
    pub(super) fn fix(&mut self, address: Address, port: u16) {
        if let Some(before) = self.places.insert(address, Place { port, seen: None }) {
            self.forget_one(before);
        }
    }

    /// Whether `address` is some port's own.
    pub(super) fn is_fixed(&self, address: Address) -> bool {
        self.places.get(&address).is_some_and(|place| place.seen.is_none())
    }

    /// Takes note of a frame from `address` that came in by `port`.
    pub(super) fn learn(&mut self, address: Address, port: u16, now: Instant) -> Learned {
        if is_group(address) || address == 0 {
            return Learned::Forged;
        }
        if let Some(place) = self.places.get_mut(&address) {
            let Some(seen) = &mut place.seen else {
                return if place.port == port { Learned::Known } else { Learned::Forged };
            };
            if place.port == port {
                *seen = now;
                return Learned::Known;
            }
        } else if self.learned >= self.limits.stations {
            self.sweep(now);
        }
        let before = self.places.get(&address).copied();
        let is_full = before.is_none() && self.learned >= self.limits.stations;
        if is_full || *self.count_of(port) >= self.limits.stations_per_port {
            return Learned::Refused;
        }
        self.places.insert(address, Place { port, seen: Some(now) });
        self.learned += 1;
        *self.count_of(port) += 1;
        let Some(before) = before else { return Learned::Known };
        self.forget_one(before);
        Learned::Moved { before: before.port }
    }

    /// Forgets everything behind `port`.
    pub(super) fn forget_port(&mut self, port: u16) {
        self.places.retain(|_, place| place.port != port);
        self.learned -= std::mem::take(self.count_of(port));
    }

    /// Forgets expired addresses, at most eight times in a lifetime.
    fn sweep(&mut self, now: Instant) {
        if now < self.next_sweep {
            return;
        }
        self.next_sweep = now + self.limits.station_lifetime / 8;
        let limits = self.limits;
        let counts = &mut self.learned_by_port;
        self.places.retain(|_, place| {
            let keep = place.is_believed(now, &limits);
            if !keep && let Some(count) = counts.get_mut(usize::from(place.port)) {
                *count -= 1;
            }
            keep
        });
        self.learned = self.learned_by_port.iter().sum();
    }

    fn forget_one(&mut self, place: Place) {
        if place.seen.is_some() {
            self.learned -= 1;
            *self.count_of(place.port) -= 1;
        }
    }

    fn count_of(&mut self, port: u16) -> &mut usize {
        let port = usize::from(port);
        if self.learned_by_port.len() <= port {
            self.learned_by_port.resize(port + 1, 0);
        }
        &mut self.learned_by_port[port]
    }
}

impl Place {
    fn is_believed(&self, now: Instant, limits: &Limits) -> bool {
        self.seen.is_none_or(|seen| now.since(seen) <= limits.station_lifetime)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const LIMITS: fn() -> Limits = || Limits { stations: 8, stations_per_port: 5, ..Limits::default() };

    #[test]
    fn an_address_follows_its_station() {
        let (mut stations, now) = (Stations::new(LIMITS()), Instant::default());
        assert_eq!(stations.find(7, now), None);
        assert_eq!(stations.learn(7, 1, now), Learned::Known);
        assert_eq!(stations.find(7, now), Some(1));
        assert_eq!(stations.learn(7, 2, now), Learned::Moved { before: 1 });
        assert_eq!((stations.find(7, now), stations.learned()), (Some(2), 1));
        stations.forget_port(2);
        assert_eq!((stations.find(7, now), stations.learned()), (None, 0));
    }

    #[test]
    fn the_address_of_a_port_is_its_own() {
        let (mut stations, now) = (Stations::new(LIMITS()), Instant::default());
        assert_eq!(stations.learn(7, 3, now), Learned::Known);
        stations.fix(7, 1);
        assert_eq!((stations.learned(), stations.learn(7, 1, now)), (0, Learned::Known));
        assert_eq!(stations.learn(7, 2, now), Learned::Forged);
        assert_eq!(stations.find(7, now + Duration::from_secs(1 << 20)), Some(1));
    }

    #[test]
    fn groups_and_zero_are_never_stations() {
        let (mut stations, now) = (Stations::new(LIMITS()), Instant::default());
        for address in [0, 0xffff_ffff_ffff, 0x0100_5e00_0001] {
            assert_eq!(stations.learn(address, 1, now), Learned::Forged);
        }
    }

    #[test]
    fn both_limits_hold_and_age_makes_room() {
        let (mut stations, start) = (Stations::new(LIMITS()), Instant::default());
        let learned = |stations: &mut Stations, port, from: u64, now| {
            (from..from + 10).filter(|&address| stations.learn(address, port, now) == Learned::Known).count()
        };
        assert_eq!(learned(&mut stations, 1, 100, start), 5);
        assert_eq!(learned(&mut stations, 2, 200, start), 3);
        assert_eq!(stations.learned(), 8);
        let later = start + LIMITS().station_lifetime + Duration::from_secs(1);
        assert_eq!(stations.find(100, later), None);
        assert_eq!(learned(&mut stations, 2, 300, later), 5);
        assert_eq!(stations.learned(), 5);
    }
}
