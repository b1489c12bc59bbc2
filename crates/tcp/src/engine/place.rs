//! Places of the engine's slabs, as values of its table.

use anywire_packet::Addresses;

use super::input::receive::ports;
use super::{ConnIndex, Engine};

/// The meaning of a value in the table: its top two bits tell the kind of place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Place {
    Tcb(ConnIndex),
    HalfOpen(u32),
    TimeWait(u32),
}

impl Place {
    /// A value that the table never has.
    pub(crate) const NOBODY: u32 = u32::MAX;

    pub(crate) const fn of(value: u32) -> Self {
        match value >> 30 {
            0 => Self::Tcb(ConnIndex(value)),
            1 => Self::HalfOpen(value & PLACE),
            _ => Self::TimeWait(value & PLACE),
        }
    }

    pub(crate) const fn value(self) -> u32 {
        match self {
            Self::Tcb(index) => index.0,
            Self::HalfOpen(place) => place | 1 << 30,
            Self::TimeWait(place) => place | 2 << 30,
        }
    }
}

impl Engine {
    /// The addresses as a TCB has them, ours and the peer's, and the ports of the connection in a place.
    #[inline(always)]
    pub(crate) fn name_of(&self, place: Place) -> (u16, u32, u32) {
        match place {
            Place::Tcb(index) => {
                let tcb = &self.tcbs[index];
                (tcb.local, tcb.remote, ports(tcb.remote_port, tcb.local_port))
            }
            Place::HalfOpen(place) => {
                let half = &self.half_open[place];
                (half.local, half.remote, ports(half.remote_port, half.local_port))
            }
            Place::TimeWait(place) => {
                let wait = &self.time_wait[place];
                (wait.local, wait.remote, ports(wait.remote_port, wait.local_port))
            }
        }
    }

    /// The connection between these addresses and ports.
    #[inline(always)]
    pub(crate) fn find(&self, hash: u64, addresses: &Addresses, both: u32) -> Option<Place> {
        let found = self.table.find(hash, |value| {
            let (local, remote, ports) = self.name_of(Place::of(value));
            ports == both && self.local.addresses(local, remote) == *addresses
        });
        found.map(Place::of)
    }

    /// Takes a connection out of the table.
    pub(crate) fn leave_table(&mut self, place: Place) {
        let (local, remote, ports) = self.name_of(place);
        let hash = self.hash_of(&self.local.addresses(local, remote), ports);
        self.table.remove(hash, place.value());
    }
}

/// The bits of a place in a value of the table.
pub(crate) const PLACE: u32 = (1 << 30) - 1;
