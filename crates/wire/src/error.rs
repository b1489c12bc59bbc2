//! Why listening or dialling failed, and who can mend it.

use std::{fmt, io};

use anywire_advice::{Advice, MORE_PORTS};
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;

use crate::address::{Address, AddressError};
use crate::claim::ClaimHeld;
use crate::names::ResolveError;
use crate::place::{self, BadZone};

/// Why an address cannot be listened on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ListenError {
    /// The address is malformed; the caller's fault.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// Another server listens there; stop it, or choose another address.
    #[error(
        "cannot listen on {address}: somebody listens there already (`ss -lp` shows who){help}",
        help = Advice("stop that one or choose another address")
    )]
    InUse {
        /// The address.
        address: Address,
    },
    /// Another server has begun to listen there and does not come to an end: it was stopped in the midst of it.
    #[error(
        "cannot listen on {address}: process {pid} of user {uid} has begun to listen there, or in the same folder, and does not \
         go on (it holds `@{name}`){help}",
        help = Advice("let it go on, or end it")
    )]
    Claimed {
        /// The address.
        address: Address,
        /// The abstract Unix name by which servers that start take turns (`ss -lxp` shows it).
        name: String,
        /// The process.
        pid: i32,
        /// Its user.
        uid: u32,
    },
    /// The system does not permit it: a port below 1024, a folder that this user may not write to.
    #[error(
        "cannot listen on {address}: not permitted to this user{help}",
        help = Advice("choose a port from 1024 up or a folder of its own")
    )]
    Permission {
        /// The address.
        address: Address,
    },
    /// The folder of the socket file does not exist.
    #[error("cannot listen on {address}: its folder does not exist{help}", help = Advice("make it first"))]
    NoFolder {
        /// The address.
        address: Address,
    },
    /// There is a file of that name, and it is no socket; it is left alone.
    #[error(
        "cannot listen on {address}: a file of this name is there and is no socket{help}",
        help = Advice("move it away")
    )]
    NotASocket {
        /// The address.
        address: Address,
    },
    /// The name has no address, or no name server answers.
    #[error(
        "cannot listen on {address}: its name does not resolve ({cause}){help}",
        help = Advice("check its spelling, or use an IP address")
    )]
    Resolve {
        /// The address.
        address: Address,
        /// The error of the resolver.
        #[source]
        cause: io::Error,
    },
    /// The host of the address is not one of this machine's, or it is IPv6 and the machine has none.
    #[error(
        "cannot listen on {address}: this machine does not have that address{help}",
        help = Advice("use 127.0.0.1, 0.0.0.0 or, with IPv6, [::]")
    )]
    NotHere {
        /// The address.
        address: Address,
    },
    /// The zone of the address names no interface of this machine, or the address is one of a link and has no zone.
    #[error("cannot listen on {address}: {}{help}", BadZone(address.location()), help = Advice(BadZone::HELP))]
    NoInterface {
        /// The address.
        address: Address,
    },
    /// The system was to choose a port (port 0), and none is free.
    #[error("cannot listen on {address}: no port is free for the system to choose{help}", help = Advice(MORE_PORTS))]
    NoFreePort {
        /// The address.
        address: Address,
    },
    /// The wire speaks TLS, and the options have no [`ListenOptions::tls`](crate::ListenOptions::tls).
    #[error(
        "cannot listen on {address}: TLS needs a certificate and its key, and none was given{help}",
        help = Advice("give them to `Server::tls`, or as `ListenOptions::tls`")
    )]
    NoCertificate {
        /// The address.
        address: Address,
    },
    /// This process has no descriptor left.
    #[error(
        "cannot listen on {address}: this process is out of file descriptors{help}",
        help = Advice("raise its limit (`ulimit -n`) or close connections")
    )]
    Descriptors {
        /// The address.
        address: Address,
    },
    /// Any other error of the system.
    #[error("cannot listen on {address}: {cause}")]
    System {
        /// The address.
        address: Address,
        /// The error of the system.
        #[source]
        cause: io::Error,
    },
}

impl ListenError {
    /// The variant for an error of the system when it binds or listens.
    pub fn from_io(address: &Address, cause: io::Error) -> Self {
        let address = address.clone();
        if no_descriptor_left(&cause) {
            return Self::Descriptors { address };
        }
        if let Some(ClaimHeld { name, pid, uid, .. }) = ClaimHeld::of(&cause) {
            return Self::Claimed { address, name: name.clone(), pid: *pid, uid: *uid };
        }
        match cause.kind() {
            io::ErrorKind::AddrInUse if address.location().ends_with(":0") => Self::NoFreePort { address },
            io::ErrorKind::AddrInUse => Self::InUse { address },
            io::ErrorKind::PermissionDenied => Self::Permission { address },
            io::ErrorKind::NotFound => Self::NoFolder { address },
            _ if not_here(&cause) => Self::NotHere { address },
            _ if place::is_of_zone(address.location(), &cause) => Self::NoInterface { address },
            _ => Self::System { address, cause },
        }
    }

    /// The variant for a name that does not resolve.
    pub(crate) fn of_resolving(address: &Address, cause: io::Error) -> Self {
        let address = address.clone();
        if resolver_had_no_descriptor(&cause) {
            Self::Descriptors { address }
        } else {
            Self::Resolve { address, cause }
        }
    }

    /// The same with the address that the caller knows: that of the wire around the one that failed.
    #[cfg(feature = "tls")]
    pub(crate) fn at(mut self, outer: &Address) -> Self {
        match &mut self {
            Self::Address(_) => {}
            Self::InUse { address }
            | Self::Claimed { address, .. }
            | Self::Permission { address }
            | Self::NoFolder { address }
            | Self::NotASocket { address }
            | Self::Resolve { address, .. }
            | Self::NotHere { address }
            | Self::NoInterface { address }
            | Self::NoFreePort { address }
            | Self::NoCertificate { address }
            | Self::Descriptors { address }
            | Self::System { address, .. } => *address = outer.clone(),
        }
        self
    }
}

/// Why no connection came about; nothing was sent.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DialError {
    /// The address is malformed; the caller's fault.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// The name has no address, or no name server answers in time. Inside is a [`ResolveError`]: see [`ResolveError::of`].
    #[error(
        "cannot reach {address}: its name does not resolve ({cause}){help}",
        help = Advice("check its spelling and the name server")
    )]
    Resolve {
        /// The address.
        address: Address,
        /// The error of the resolver.
        #[source]
        cause: io::Error,
    },
    /// The machine was reached, and no server listens there.
    #[error(
        "cannot reach {address}: nobody listens there{help}",
        help = Advice("check the address, or start the server")
    )]
    Refused {
        /// The address.
        address: Address,
    },
    /// No answer within the deadline.
    #[error(
        "cannot reach {address}: no answer within {after:?}{help}",
        help = Advice("check that a firewall lets it through")
    )]
    Timeout {
        /// The address.
        address: Address,
        /// The deadline.
        after: std::time::Duration,
    },
    /// There is no way to that host.
    #[error(
        "cannot reach {address}: there is no way to it ({cause}){help}",
        help = Advice("check the network and the address")
    )]
    Unreachable {
        /// The address.
        address: Address,
        /// What the system said.
        #[source]
        cause: io::Error,
    },
    /// The zone of the address names no interface of this machine, or the address is one of a link and has no zone.
    #[error("cannot reach {address}: {}{help}", BadZone(address.location()), help = Advice(BadZone::HELP))]
    NoInterface {
        /// The address.
        address: Address,
    },
    /// The server cut the connection while it was made.
    #[error(
        "cannot reach {address}: it cut the connection at once{help}",
        help = Advice("try again, or look at that server's log")
    )]
    Reset {
        /// The address.
        address: Address,
    },
    /// There is no socket file of that name.
    #[error(
        "cannot reach {address}: there is no such file{help}",
        help = Advice("check the path, or start the server")
    )]
    NoSuchFile {
        /// The address.
        address: Address,
    },
    /// This user may not connect there: the mode of the socket file forbids it, or a firewall.
    #[error(
        "cannot reach {address}: not permitted to this user{help}",
        help = Advice("check the socket file's mode, or the firewall")
    )]
    Permission {
        /// The address.
        address: Address,
    },
    /// This process has no descriptor left.
    #[error(
        "cannot reach {address}: this process is out of file descriptors{help}",
        help = Advice("raise its limit (`ulimit -n`) or close connections")
    )]
    Descriptors {
        /// The address.
        address: Address,
    },
    /// This machine has no local port left for a connection to that address: all are in use, or were until a minute ago.
    #[error("cannot reach {address}: this machine has no local port left for it{help}", help = Advice(MORE_PORTS))]
    NoLocalPort {
        /// The address.
        address: Address,
    },
    /// The connection was made, and its handshake failed or took too long.
    #[error("cannot reach {address}: its {}", Shaking { address, cause })]
    Handshake {
        /// The address.
        address: Address,
        /// Why it failed.
        #[source]
        cause: io::Error,
    },
    /// Any other error of the system.
    #[error("cannot reach {address}: {cause}")]
    System {
        /// The address.
        address: Address,
        /// The error of the system.
        #[source]
        cause: io::Error,
    },
}

impl DialError {
    /// The variant for an error of the system when it connects.
    pub fn from_io(address: &Address, cause: io::Error) -> Self {
        let address = address.clone();
        if no_descriptor_left(&cause) {
            return Self::Descriptors { address };
        }
        match cause.kind() {
            io::ErrorKind::ConnectionRefused => Self::Refused { address },
            io::ErrorKind::ConnectionReset => Self::Reset { address },
            io::ErrorKind::NotFound => Self::NoSuchFile { address },
            io::ErrorKind::PermissionDenied => Self::Permission { address },
            io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => {
                Self::Unreachable { address, cause }
            }
            _ if no_such_family(&cause) => Self::Unreachable { address, cause },
            _ if place::is_of_zone(address.location(), &cause) => Self::NoInterface { address },
            io::ErrorKind::AddrNotAvailable => Self::NoLocalPort { address },
            _ => Self::System { address, cause },
        }
    }

    /// The variant for a name that does not resolve.
    pub(crate) fn of_resolving(address: &Address, cause: io::Error) -> Self {
        let address = address.clone();
        if resolver_had_no_descriptor(&cause) {
            Self::Descriptors { address }
        } else {
            Self::Resolve { address, cause }
        }
    }

    /// The same with the address that the caller knows: that of the wire around the one that failed.
    #[cfg(feature = "tls")]
    pub(crate) fn at(mut self, outer: &Address) -> Self {
        match &mut self {
            Self::Address(_) => {}
            Self::Resolve { address, .. }
            | Self::Refused { address }
            | Self::Timeout { address, .. }
            | Self::Unreachable { address, .. }
            | Self::NoInterface { address }
            | Self::Reset { address }
            | Self::NoSuchFile { address }
            | Self::Permission { address }
            | Self::Descriptors { address }
            | Self::NoLocalPort { address }
            | Self::Handshake { address, .. }
            | Self::System { address, .. } => *address = outer.clone(),
        }
        self
    }

    /// Whether a deadline passed: one of [`DialOptions`](crate::DialOptions), or the system's own.
    pub fn is_timeout(&self) -> bool {
        match self {
            Self::Timeout { .. } => true,
            Self::Resolve { cause, .. } | Self::Handshake { cause, .. } | Self::System { cause, .. } => {
                cause.kind() == io::ErrorKind::TimedOut
            }
            _ => false,
        }
    }

    /// Whether a limit of this process was reached: too many names are being asked for.
    pub fn is_limit(&self) -> bool {
        match self {
            Self::Resolve { cause, .. } => matches!(ResolveError::of(cause), Some(ResolveError::Full)),
            _ => false,
        }
    }

    /// What TLS found in a handshake that failed, unless the peer was silent or left.
    #[cfg(feature = "tls")]
    pub fn handshake(&self) -> Option<&crate::tls::HandshakeError> {
        match self {
            Self::Handshake { cause, .. } => crate::tls::HandshakeError::of(cause),
            _ => None,
        }
    }

    /// Whether the machine (or file) was reached and no server listens there.
    pub fn is_refused(&self) -> bool {
        matches!(self, Self::Refused { .. })
    }
}

/// Which handshake failed, why, and what would help.
struct Shaking<'e> {
    address: &'e Address,
    cause: &'e io::Error,
}

impl fmt::Display for Shaking<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (tls, cause) = (if self.address.has_tls() { "TLS " } else { "" }, self.cause);
        #[cfg(feature = "tls")]
        if let Some(error) = crate::tls::HandshakeError::of(cause) {
            return write!(f, "{tls}handshake failed: {cause}{}", Advice(error.remedy()));
        }
        let remedy = match cause.kind() {
            io::ErrorKind::TimedOut => "see what the peer does, or give it more time",
            io::ErrorKind::InvalidInput => "name another one",
            _ => "check that both ends speak the same protocol on this port",
        };
        write!(f, "{tls}handshake failed: {cause}{}", Advice(remedy))
    }
}

/// Whether an error means that this machine has no such address, or none of that family.
pub(crate) fn not_here(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::AddrNotAvailable || no_such_family(error)
}

fn no_such_family(error: &io::Error) -> bool {
    Errno::from_io_error(error) == Some(Errno::AFNOSUPPORT)
}

/// Whether this process has as many descriptors as it may.
pub(crate) fn no_descriptor_left(error: &io::Error) -> bool {
    Errno::from_io_error(error) == Some(Errno::MFILE)
}

/// The resolver opens files and sockets; where it has no descriptor for them it mostly says that there is no such name.
fn resolver_had_no_descriptor(error: &io::Error) -> bool {
    no_descriptor_left(error) || matches!(eventfd(0, EventfdFlags::CLOEXEC), Err(Errno::MFILE))
}

/// Whether an error means that descriptors or kernel memory ran out: it passes, and is no fault of the peer.
pub(crate) fn out_of_descriptors(error: &io::Error) -> bool {
    let code = Errno::from_io_error(error);
    code.is_some_and(|code| matches!(code, Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM))
}
