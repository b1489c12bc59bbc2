//! Why listening or dialling failed, and who can mend it.

use std::io;

use crate::address::Address;

/// Why an address cannot be listened on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ListenError {
    /// Somebody listens there already; stop that, or take another address.
    #[error(
        "cannot listen on {address}: somebody listens there already; stop that one or choose another address"
    )]
    InUse {
        /// What was asked for.
        address: Address,
    },
    /// The system does not permit it: a port below 1024, a folder that this user may not write to.
    #[error(
        "cannot listen on {address}: not permitted to this user; choose a port from 1024 up or a folder of its own"
    )]
    Permission {
        /// What was asked for.
        address: Address,
    },
    /// The folder of the socket file does not exist.
    #[error("cannot listen on {address}: its folder does not exist; make it first")]
    NoFolder {
        /// What was asked for.
        address: Address,
    },
    /// There is a file of that name, and it is no socket; it is left alone.
    #[error("cannot listen on {address}: a file of this name is there and is no socket; move it away")]
    NotASocket {
        /// What was asked for.
        address: Address,
    },
    /// The host of the address is not one of this machine's, or is a name that does not resolve.
    #[error(
        "cannot listen on {address}: this machine does not have that host; use 127.0.0.1, 0.0.0.0 or [::]"
    )]
    NotHere {
        /// What was asked for.
        address: Address,
    },
    /// Anything else that the system says.
    #[error("cannot listen on {address}: {cause}")]
    System {
        /// What was asked for.
        address: Address,
        /// What it said.
        #[source]
        cause: io::Error,
    },
}

impl ListenError {
    /// Sorts what the system says to bind or listen.
    pub(crate) fn of(address: &Address, cause: io::Error) -> Self {
        let address = address.clone();
        match cause.kind() {
            io::ErrorKind::AddrInUse => Self::InUse { address },
            io::ErrorKind::PermissionDenied => Self::Permission { address },
            io::ErrorKind::NotFound => Self::NoFolder { address },
            io::ErrorKind::AddrNotAvailable => Self::NotHere { address },
            _ => Self::System { address, cause },
        }
    }
}

/// Why no connection came about; nothing was sent.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DialError {
    /// The name has no address, or no name server answers.
    #[error(
        "cannot reach {address}: its name does not resolve ({cause}); check its spelling and the name server"
    )]
    Resolve {
        /// What was dialled.
        address: Address,
        /// What the resolver said.
        #[source]
        cause: io::Error,
    },
    /// The machine is there, and nobody listens.
    #[error("cannot reach {address}: nobody listens there; check the address, or start the server")]
    Refused {
        /// What was dialled.
        address: Address,
    },
    /// No answer within the deadline.
    #[error("cannot reach {address}: no answer within {after:?}; check that a firewall lets it through")]
    Timeout {
        /// What was dialled.
        address: Address,
        /// The deadline.
        after: std::time::Duration,
    },
    /// There is no way to that host.
    #[error("cannot reach {address}: no route to it ({cause})")]
    Unreachable {
        /// What was dialled.
        address: Address,
        /// What the system said.
        #[source]
        cause: io::Error,
    },
    /// There is no socket file of that name.
    #[error("cannot reach {address}: there is no such file; check the path, or start the server")]
    NoSuchFile {
        /// What was dialled.
        address: Address,
    },
    /// This user may not connect there.
    #[error("cannot reach {address}: not permitted to this user; check the mode of the socket file")]
    Permission {
        /// What was dialled.
        address: Address,
    },
    /// This process has no descriptor left.
    #[error(
        "cannot reach {address}: this process is out of file descriptors; raise its limit or close connections"
    )]
    Descriptors {
        /// What was dialled.
        address: Address,
    },
    /// Anything else that the system says.
    #[error("cannot reach {address}: {cause}")]
    System {
        /// What was dialled.
        address: Address,
        /// What it said.
        #[source]
        cause: io::Error,
    },
}

impl DialError {
    /// Sorts what the system says to connect.
    pub(crate) fn of(address: &Address, cause: io::Error) -> Self {
        let address = address.clone();
        if out_of_descriptors(&cause) {
            return Self::Descriptors { address };
        }
        match cause.kind() {
            io::ErrorKind::ConnectionRefused => Self::Refused { address },
            io::ErrorKind::NotFound => Self::NoSuchFile { address },
            io::ErrorKind::PermissionDenied => Self::Permission { address },
            io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => {
                Self::Unreachable { address, cause }
            }
            _ => Self::System { address, cause },
        }
    }

    /// Whether a deadline passed.
    pub fn is_timeout(&self) -> bool {
        matches!(self, Self::Timeout { .. })
    }

    /// Whether nobody listens there: the machine (or file) was reached.
    pub fn is_refused(&self) -> bool {
        matches!(self, Self::Refused { .. })
    }

    /// What was dialled.
    pub fn address(&self) -> &Address {
        match self {
            Self::Resolve { address, .. }
            | Self::Refused { address }
            | Self::Timeout { address, .. }
            | Self::Unreachable { address, .. }
            | Self::NoSuchFile { address }
            | Self::Permission { address }
            | Self::Descriptors { address }
            | Self::System { address, .. } => address,
        }
    }
}

/// Whether an error means that descriptors or kernel memory ran out: it passes, and is no fault of the peer.
pub(crate) fn out_of_descriptors(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let code = Errno::from_io_error(error);
    code.is_some_and(|code| matches!(code, Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM))
}
