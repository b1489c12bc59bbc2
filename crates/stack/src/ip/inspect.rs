//! What the layer knows, as `ip neigh` and `ip address` tell it.

use std::fmt;
use std::net::IpAddr;

use anywire_packet::Mac;

use super::layer::Layer;

/// A neighbour on the link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct NeighbourInfo {
    /// Its address.
    pub address: IpAddr,
    /// Its interface, once it is known.
    pub mac: Option<Mac>,
    /// How well it is known.
    pub state: NeighbourState,
}

/// The states of RFC 4861 7.3.2. `Display` writes them as `ip neigh` does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum NeighbourState {
    /// It is asked for.
    Incomplete,
    /// It has answered of late, or its connections have progressed.
    Reachable,
    /// Nothing was heard of it for a while.
    Stale,
    /// The same, and something was sent to it: it is given time to show that it is there.
    Delay,
    /// It is asked whether it is still there.
    Probe,
}

impl fmt::Display for NeighbourState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Incomplete => "INCOMPLETE",
            Self::Reachable => "REACHABLE",
            Self::Stale => "STALE",
            Self::Delay => "DELAY",
            Self::Probe => "PROBE",
        })
    }
}

impl Layer {
    /// The neighbours, sorted by address.
    pub fn neighbours(&self) -> Vec<NeighbourInfo> {
        let described = self.cache.neighbours.iter().map(|(address, neighbour)| NeighbourInfo {
            address: *address,
            mac: neighbour.mac,
            state: neighbour.state,
        });
        let mut all: Vec<_> = described.collect();
        all.sort_unstable_by_key(|neighbour| neighbour.address);
        all
    }

    /// The addresses of the host, and whether each is ours: not while it is probed.
    pub fn own_addresses(&self) -> Vec<(IpAddr, bool)> {
        self.addresses.iter().map(|address| (address.ip, address.is_ours())).collect()
    }
}
