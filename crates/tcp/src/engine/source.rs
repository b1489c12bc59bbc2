//! The address and port that a connection has at our end, if its user has named none.
//!
//! Ports follow each other from a start that only we know, anew for each remote (RFC 6056, algorithm 3), until one is free. If an
//! address of ours has none towards a remote, the next address is asked; and that one first by the next connection, since a look at
//! all ports takes some milliseconds.

use core::net::SocketAddr;
use std::collections::HashMap;
use std::time::Duration;

use super::receive::ports;
use super::user::pair;
use super::{ConnId, ConnectError, ConnectOptions, Engine, bytes_of_map};
use crate::hash::secret_hash_of_tuple;
use crate::time::Instant;

/// How addresses and ports are given out.
#[derive(Default)]
pub(super) struct Sources {
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
    pub(super) fn bytes(&self) -> usize {
        bytes_of_map(&self.short)
    }
}

impl Engine {
    /// Opens a connection, from any address and port. [`Events::OPENED`](super::Events::OPENED) or
    /// [`CLOSED`](super::Events::CLOSED) tells how it went; data sent before that waits.
    ///
    /// The address is that of the [route](super::Route::source), or the next one that has a port left. If there is none at all, that
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
        loop {
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
                self.note_short(remote, Short { local, none_at: Some(self.now) });
                return Err(ConnectError::NoPort);
            }
        }
    }

    fn connect_from_any_port(
        &mut self,
        local: u16,
        remote: SocketAddr,
        options: ConnectOptions,
    ) -> Result<ConnId, ConnectError> {
        let address = self.local.address(local);
        let addresses = pair(address, remote.ip()).ok_or(ConnectError::NoAddress)?;
        let start = secret_hash_of_tuple(self.keys.ports, &addresses, remote.port().into()) % PORTS;
        for _ in 0..PORTS {
            let port = PORT_FIRST + ((start + u64::from(self.sources.tried)) % PORTS) as u16;
            // One after the other, also where the count begins anew.
            self.sources.tried = (self.sources.tried + 1) % PORTS as u32;
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
    fn few_remotes_are_remembered() {
        let mut engine = Engine::new(Settings::new([1, 2, 3, 4]), Limits::default()).expect("address space");
        for port in 0..5000 {
            let remote = SocketAddr::from(([10, 0, 0, 5], port));
            engine.note_short(remote, Short { local: 1, none_at: None });
            assert!(engine.sources.short.contains_key(&remote) && engine.sources.short.len() <= SHORT_MAX);
        }
    }
}
