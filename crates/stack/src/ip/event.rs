//! What a user of the layer is told.

use std::fmt;
use std::net::IpAddr;

use anywire_packet::{Cidr, Mac};
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
    /// A peer in another network has called, and no route leads back to it: it hears nothing. Told of the first one; later ones are
    /// [counted](anywire_tcp::Counters::unroutable).
    NoRoute {
        /// The peer.
        peer: IpAddr,
        /// The network of ours that it has called.
        network: Cidr,
    },
    /// The link carries frames again. Our addresses are announced anew, because it may lead to another switch.
    LinkUp,
    /// The link carries no frames for now. Connections go on once it is up again, unless they time out before.
    LinkDown,
    /// The interface has another Ethernet address than when the device was opened, which was ours too: neighbours do not reach us any
    /// more. Set it back, or open the device anew.
    MacChanged {
        /// The address that it had, which is still ours.
        from: Mac,
        /// The one that it has now.
        to: Mac,
    },
    /// The interface carries shorter packets than before. Connections send none that are longer from now on; to send longer ones again,
    /// raise its MTU and open the device anew.
    MtuLowered {
        /// Bytes of the longest IP packet.
        mtu: usize,
    },
    /// The kernel has been given an address of ours, and answers for it: its resets end our connections. Take it from the kernel, or take
    /// another one.
    KernelHasAddress(IpAddr),
    /// Somebody has removed the device, or detached the XDP program of an interface: its connections end, and no frame will come any more.
    DeviceGone,
}

impl Event {
    /// The address of which it says that it is ours, or will not be.
    pub(super) const fn settles_address(&self) -> Option<IpAddr> {
        match *self {
            Self::AddressReady(address)
            | Self::AddressInUse { address, .. }
            | Self::AddressRefused { address, .. } => Some(address),
            _ => None,
        }
    }
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
            Self::NoRoute { peer, network } => write!(
                f,
                "{peer} has called and cannot be answered: it is outside of the own network {network}, and no gateway is known \
                 (gateway=IP names one, prefix=N the size of the network)"
            ),
            Self::LinkUp => write!(f, "the link is up"),
            Self::LinkDown => write!(f, "the link is down: nothing is sent until it is up again"),
            Self::MacChanged { from, to } => write!(
                f,
                "the interface has the address {to} now, and had {from}, which is still ours: neighbours do not reach us until it is set \
                 back or the service is started again"
            ),
            Self::MtuLowered { mtu } => write!(
                f,
                "the interface has an MTU of {mtu} now: no longer packets are sent, also if it is raised again, until the service is \
                 started again"
            ),
            Self::KernelHasAddress(address) => write!(
                f,
                "the kernel has been given {address}, which is ours, and answers for it: take it from the kernel (`ip addr del`), or \
                 take another one here"
            ),
            Self::DeviceGone => write!(
                f,
                "the device carries no frames any more: it was removed, or its XDP program detached"
            ),
        }
    }
}
