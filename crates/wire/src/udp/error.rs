//! Why a datagram socket could not be bound or connected, and who can mend it.

use std::io;

use anywire_advice::{Advice, MORE_PORTS};

use super::address::DatagramAddress;
use crate::address::AddressError;
use crate::claim::ClaimHeld;
use crate::error::{no_descriptor_left, not_here};
use crate::place::{self, BadZone};

/// Why there is no socket at an address for datagrams.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UdpError {
    /// The address is malformed; the caller's fault.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// Another service receives there; stop it, or choose another address.
    #[error(
        "cannot use {address}: another service receives there (`ss -lunp` shows which){help}",
        help = Advice("stop that one or choose another address")
    )]
    InUse {
        /// The address.
        address: DatagramAddress,
    },
    /// Another service has begun to receive there and does not come to an end: it was stopped in the midst of it.
    #[error(
        "cannot use {address}: process {pid} of user {uid} has begun to use its folder, and does not go on (it holds `@{name}`){help}",
        help = Advice("let it go on, or end it")
    )]
    Claimed {
        /// The address.
        address: DatagramAddress,
        /// The abstract Unix name by which servers that start take turns (`ss -lxp` shows it).
        name: String,
        /// The process.
        pid: i32,
        /// Its user.
        uid: u32,
    },
    /// The system does not permit it: a port below 1024, a folder that this user may not write to.
    #[error(
        "cannot use {address}: not permitted to this user{help}",
        help = Advice("choose a port from 1024 up or a folder of its own")
    )]
    Permission {
        /// The address.
        address: DatagramAddress,
    },
    /// The folder of the socket file does not exist.
    #[error("cannot use {address}: its folder does not exist{help}", help = Advice("make it first"))]
    NoFolder {
        /// The address.
        address: DatagramAddress,
    },
    /// There is a file of that name, and it is no socket; it is left alone.
    #[error(
        "cannot use {address}: a file of this name is there and is no socket{help}",
        help = Advice("move it away")
    )]
    NotASocket {
        /// The address.
        address: DatagramAddress,
    },
    /// The name has no address, or no name server answers.
    #[error(
        "cannot use {address}: its name does not resolve ({cause}){help}",
        help = Advice("check its spelling, or use an IP address")
    )]
    Resolve {
        /// The address.
        address: DatagramAddress,
        /// The error of the resolver.
        #[source]
        cause: io::Error,
    },
    /// The host of the address is not one of this machine's, or it is IPv6 and the machine has none.
    #[error(
        "cannot use {address}: this machine does not have that address{help}",
        help = Advice("use 127.0.0.1, 0.0.0.0 or, with IPv6, [::]")
    )]
    NotHere {
        /// The address.
        address: DatagramAddress,
    },
    /// The zone of the address names no interface of this machine, or the address is one of a link and has no zone.
    #[error("cannot use {address}: {}{help}", BadZone(address.location()), help = Advice(BadZone::HELP))]
    NoInterface {
        /// The address.
        address: DatagramAddress,
    },
    /// This process has no descriptor left.
    #[error(
        "cannot use {address}: this process is out of file descriptors{help}",
        help = Advice("raise its limit (`ulimit -n`)")
    )]
    Descriptors {
        /// The address.
        address: DatagramAddress,
    },
    /// The system was to choose a port, and none is free.
    #[error("cannot use {address}: this machine has no local port left for it{help}", help = Advice(MORE_PORTS))]
    NoLocalPort {
        /// The address.
        address: DatagramAddress,
    },
    /// The kernel refused the program that steers datagrams.
    #[error(
        "cannot steer the datagrams of {address}: {cause}{help}",
        help = Advice("leave the steering at its default")
    )]
    Steering {
        /// The address.
        address: DatagramAddress,
        /// The error of the system.
        #[source]
        cause: io::Error,
    },
    /// Any other error of the system.
    #[error("cannot use {address}: {cause}")]
    System {
        /// The address.
        address: DatagramAddress,
        /// The error of the system.
        #[source]
        cause: io::Error,
    },
}

impl UdpError {
    /// The variant for an error of the system when it binds.
    pub(super) fn binding(address: &DatagramAddress, cause: io::Error) -> Self {
        match cause.kind() {
            io::ErrorKind::NotFound => Self::NoFolder { address: address.clone() },
            _ => Self::of_system(address, cause),
        }
    }

    /// The variant for any other error of the system.
    pub(super) fn of_system(address: &DatagramAddress, cause: io::Error) -> Self {
        let address = address.clone();
        if no_descriptor_left(&cause) {
            return Self::Descriptors { address };
        }
        if let Some(ClaimHeld { name, pid, uid, .. }) = ClaimHeld::of(&cause) {
            return Self::Claimed { address, name: name.clone(), pid: *pid, uid: *uid };
        }
        match cause.kind() {
            // What the system says of datagrams without a port.
            io::ErrorKind::WouldBlock if address.port().is_some() => Self::NoLocalPort { address },
            io::ErrorKind::AddrInUse if address.port() == Some(0) => Self::NoLocalPort { address },
            io::ErrorKind::AddrInUse => Self::InUse { address },
            io::ErrorKind::PermissionDenied => Self::Permission { address },
            _ if not_here(&cause) => Self::NotHere { address },
            _ if place::is_of_zone(address.location(), &cause) => Self::NoInterface { address },
            _ => Self::System { address, cause },
        }
    }
}
