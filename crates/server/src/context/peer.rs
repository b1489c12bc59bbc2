//! Who is at the other end of a connection.

use std::sync::Arc;

use anywire_wire::{Address, Connection, Credentials, Negotiated};

/// Who sends the requests of a connection.
#[derive(Debug, Clone)]
pub(crate) struct Peer {
    pub(crate) address: Address,
    /// What few wires know of it. Behind a pointer: an idle connection over TCP holds 16 bytes less.
    identity: Option<Box<Identity>>,
}

/// With the counts of its `Arc` it fits a block of 72 bytes.
const _: () = assert!(size_of::<Peer>() <= 56);

#[derive(Debug, Clone)]
struct Identity {
    credentials: Option<Credentials>,
    negotiated: Option<Arc<Negotiated>>,
}

impl Peer {
    /// A peer of which nothing else is known.
    pub(crate) fn at(address: Address) -> Self {
        Self { address, identity: None }
    }

    /// No connection: the request was made by a program, or came by a server that does not say whose it is.
    #[cold]
    pub(crate) fn unknown() -> Self {
        Self::at("memory:unknown".parse().expect("an address"))
    }

    /// The peer of a connection.
    #[cold]
    pub(crate) fn of(connection: &Connection) -> Self {
        let (credentials, negotiated) = (connection.credentials(), connection.negotiated().cloned());
        let is_known = credentials.is_some() || negotiated.is_some();
        let identity = is_known.then(|| Box::new(Identity { credentials, negotiated }));
        Self { address: connection.peer(), identity }
    }

    pub(crate) fn credentials(&self) -> Option<Credentials> {
        self.identity.as_ref()?.credentials
    }

    pub(crate) fn negotiated(&self) -> Option<&Arc<Negotiated>> {
        self.identity.as_ref()?.negotiated.as_ref()
    }
}
