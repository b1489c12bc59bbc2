//! The address and port that a connection has at our end, if its user has named none.
//!
//! Ports follow each other from a start that only we know, anew for each remote (RFC 6056, algorithm 3), until one is free. If an
//! address of ours has none towards a remote, the next address is asked; and that one first by the next connection, since a look at
//! all ports takes some milliseconds.
//!
//! Engines that share an address share its ports, too: each has [blocks](PortBlock) of its own, so an answer leads to the engine that
//! has asked, whatever address it was asked from.

use core::net::SocketAddr;
use core::ops::RangeInclusive;
use std::collections::HashMap;
use std::time::Duration;

use crate::engine::input::receive::ports;
use crate::engine::user::calls::pair;
use crate::engine::{ConnId, ConnectError, ConnectOptions, Engine, bytes_of_map};
use crate::hash::secret_hash_of_tuple;
use crate::time::Instant;

/// 64 ports that one engine gives out, of those that share an address.
///
/// ```
/// use anywire_tcp::PortBlock;
///
/// let block = PortBlock::of(50_000).expect("it is given out");
/// assert_eq!(block.ports(), 49_984..=50_047);
/// assert_eq!(PortBlock::of(443), None);
/// assert_eq!(PortBlock::all().count(), 768);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortBlock(u16);

impl PortBlock {
    /// How many ports a block has.
    pub const PORTS: u16 = 64;

    /// The one with this port; none for ports that engines do not give out, those below 16,384.
    #[inline]
    pub const fn of(port: u16) -> Option<Self> {
        if port < PORT_FIRST { None } else { Some(Self((port - PORT_FIRST) / Self::PORTS)) }
    }

    /// All of them, in their order.
    pub fn all() -> impl ExactSizeIterator<Item = Self> {
        (0..(PORTS / Self::PORTS as u64) as u16).map(Self)
    }

    /// Its number, from 0 on.
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// Its ports.
    pub const fn ports(self) -> RangeInclusive<u16> {
        self.first()..=self.first() + (Self::PORTS - 1)
    }

    const fn first(self) -> u16 {
        PORT_FIRST + self.0 * Self::PORTS
    }
}

/// How addresses and ports are given out.
#[derive(Default)]
pub(crate) struct Sources {
    /// The ports that are given out; all of them if there is none.
    blocks: Vec<PortBlock>,
    /// Ports that were given out or found taken.
    tried: u32,
    /// Of the few remotes towards which an address of ours has run out of ports.
    short: HashMap<SocketAddr, Short>,
}

#[derive(Clone, Copy)]
struct Short {
    /// Which of our addresses is asked first.
    local: u16,
    /// When none had a port left.
    none_at: Option<Instant>,
}

impl Sources {
    pub(crate) fn bytes(&self) -> usize {
        bytes_of_map(&self.short) + self.blocks.capacity() * size_of::<PortBlock>()
    }

    /// An address of ours was taken away: the next connection looks for one anew.
    pub(crate) fn forget_addresses(&mut self) {
        self.short.clear();
    }

    /// How many ports are given out.
    fn ports(&self) -> u64 {
        if self.blocks.is_empty() { PORTS } else { self.blocks.len() as u64 * u64::from(PortBlock::PORTS) }
    }

    /// One of them, by its number.
    fn port(&self, number: u64) -> u16 {
        let each = u64::from(PortBlock::PORTS);
        match self.blocks.get((number / each) as usize) {
            Some(block) => block.first() + (number % each) as u16,
            None => PORT_FIRST + number as u16,
        }
    }
}

impl Engine {
    /// Opens a connection, from any address and port. [`Events::OPENED`](crate::engine::Events::OPENED) or
    /// [`CLOSED`](crate::engine::Events::CLOSED) tells how it went; data sent before that waits.
    ///
    /// The address is that of the [route](crate::engine::Route::source), or the next one that has a port left. If there is none at all, that
    /// is believed for ten milliseconds.
    ///
    /// # Errors
    /// See [`ConnectError`].
    pub fn connect(&mut self, remote: SocketAddr, options: ConnectOptions) -> Result<ConnId, ConnectError> {
        let best = self.local.best_source_for(remote.ip()).ok_or(ConnectError::NoAddress)?;
        let first = self.local.source_for(remote.ip(), 0).unwrap_or(best);
        let short =
            if self.sources.short.is_empty() { None } else { self.sources.short.get(&remote).copied() };
        if short.and_then(|short| short.none_at).is_some_and(|at| self.now.since(at) < NONE_BELIEVED) {
            return Err(ConnectError::NoPort);
        }
        let begun = short.map_or(best, |short| short.local);
        let mut local = begun;
        // Each address once. The first one may be none of the others: it need not be of the remote's scope.
        for _ in 0..=self.local.addresses_max() {
            match self.connect_from_any_port(local, remote, options) {
                Err(ConnectError::NoPort) => {}
                result => {
                    if local != begun {
                        self.note_short(remote, Short { local, none_at: None });
                    }
                    return result;
                }
            }
            local = self.local.source_for(remote.ip(), local + 1).unwrap_or(first);
            if local == begun {
                break;
            }
        }
        self.note_short(remote, Short { local, none_at: Some(self.now) });
        Err(ConnectError::NoPort)
    }

    /// From now on, only the ports of these blocks are given out, and those of earlier calls. Before the first call, all ports from
    /// 16,384 on are. [`connect_from`](Self::connect_from) takes any port.
    ///
    /// Loops that share a device and its addresses have blocks of their own: then a segment that arrives for a port leads to its
    /// engine.
    pub fn give_ports(&mut self, blocks: impl IntoIterator<Item = PortBlock>) {
        self.sources.blocks.extend(blocks);
        // There are ports again.
        self.sources.short.clear();
    }

    fn connect_from_any_port(
        &mut self,
        local: u16,
        remote: SocketAddr,
        options: ConnectOptions,
    ) -> Result<ConnId, ConnectError> {
        let address = self.local.address(local);
        let addresses = pair(address, remote.ip()).ok_or(ConnectError::NoAddress)?;
        let count = self.sources.ports();
        let start = secret_hash_of_tuple(self.keys.ports, &addresses, remote.port().into()) % count;
        for _ in 0..count {
            let port = self.sources.port((start + u64::from(self.sources.tried)) % count);
            // One after the other, also where the count begins anew.
            self.sources.tried = (self.sources.tried + 1) % count as u32;
            let both = ports(remote.port(), port);
            if self.former(self.hash_of(&addresses, both), &addresses, both).is_ok() {
                return self.connect_from(SocketAddr::new(address, port), remote, options);
            }
        }
        Err(ConnectError::NoPort)
    }

    fn note_short(&mut self, remote: SocketAddr, short: Short) {
        let known = &mut self.sources.short;
        if known.len() >= SHORT_MAX && !known.contains_key(&remote) {
            // They are found again, by a look at all ports.
            known.clear();
        }
        known.insert(remote, short);
    }
}

/// The first port that is given out (RFC 6056 asks for a wide range); the last one is the last that there is.
const PORT_FIRST: u16 = 16_384;
const PORTS: u64 = (u16::MAX - PORT_FIRST) as u64 + 1;

/// How long no port is looked for if all were taken: a look at all of them takes some milliseconds.
const NONE_BELIEVED: Duration = Duration::from_millis(10);

/// Remotes for which such notes are kept.
const SHORT_MAX: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Limits, Settings};

    #[test]
    fn blocks_have_all_ports_once() {
        let all: Vec<u16> = PortBlock::all().flat_map(PortBlock::ports).collect();
        assert_eq!(all, (PORT_FIRST..=u16::MAX).collect::<Vec<_>>());
        for port in [PORT_FIRST, 20_000, u16::MAX] {
            let block = PortBlock::of(port).expect("it is given out");
            assert!(block.ports().contains(&port) && PortBlock::all().nth(block.index()) == Some(block));
        }
        assert_eq!(PortBlock::of(PORT_FIRST - 1), None);
    }

    #[test]
    fn few_remotes_are_remembered() {
        let mut engine = Engine::new(Settings::new([1, 2, 3, 4]), Limits::default()).expect("address space");
        for port in 0..5000 {
            let remote = SocketAddr::from(([10, 0, 0, 5], port));
            engine.note_short(remote, Short { local: 1, none_at: None });
            assert!(engine.sources.short.contains_key(&remote) && engine.sources.short.len() <= SHORT_MAX);
        }
    }
}
