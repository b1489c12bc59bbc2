//! What a user of the layer is told.

use std::fmt;
use std::net::IpAddr;

use anywire_packet::Mac;
use anywire_tcp::RouteError;

/// Something that has happened below TCP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// Nobody else has this address: it is the engine's from now on.
    AddressReady(IpAddr),
    /// Somebody else has this address, which is therefore not used. Give one to us or to the other that is free.
    AddressInUse {
        /// The address.
        address: IpAddr,
        /// Who has it.
        by: Mac,
    },
    /// Nobody else has it, but the engine does not take it.
    AddressRefused {
        /// The address.
        address: IpAddr,
        /// Why not.
        reason: RouteError,
    },
    /// Somebody else has begun to use an address of ours. We go on, and say at most every ten seconds that it is ours (RFC 5227 2.4,
    /// c). Connections to it will break until one of the two gives it up.
    AddressConflict {
        /// The address.
        address: IpAddr,
        /// Who else uses it.
        by: Mac,
    },
    /// A neighbour has another interface: it was replaced, or somebody pretends to be it.
    NeighbourMoved {
        /// The neighbour.
        address: IpAddr,
        /// The interface that it had.
        from: Mac,
        /// The one that it has now.
        to: Mac,
    },
    /// A neighbour does not answer. Connections that are being opened end; the others go on to send, and it is asked for again.
    NeighbourUnreachable(IpAddr),
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AddressReady(address) => write!(f, "{address} is ours"),
            Self::AddressInUse { address, by } => {
                write!(f, "{address} is in use by {by}: take another address")
            }
            Self::AddressRefused { address, reason } => write!(f, "{address} is not taken: {reason}"),
            Self::AddressConflict { address, by } => {
                write!(f, "{address} is ours, and {by} uses it too: one of both needs another address")
            }
            Self::NeighbourMoved { address, from, to } => {
                write!(f, "{address} has moved from {from} to {to}")
            }
            Self::NeighbourUnreachable(address) => write!(f, "{address} does not answer on this link"),
        }
    }
}
