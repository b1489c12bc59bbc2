//! The one peer of a Unix socket.
//!
//! Over UDP a socket is connected to an address, whoever is there. A Unix socket is connected to another socket, and loses it when
//! that is closed. So it is connected when there is something to send, and anew to a service that was started anew. While it is
//! not, it refuses what others send.

use std::cell::Cell;
use std::io;
use std::os::fd::AsFd;

use anywire_sys::datagrams;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, SocketAddrUnix, connect, recv, send};

/// The name of the peer, and whether the socket is connected to it.
#[derive(Debug, Clone)]
pub(super) struct UnixPeer {
    name: SocketAddrUnix,
    is_connected: Cell<bool>,
}

impl UnixPeer {
    /// For a socket that [refuses](datagrams::refuse_from_now_on) all datagrams, as it has since before it had a name.
    ///
    /// # Errors
    /// The system refused to connect it, for another reason than that nobody is there yet.
    pub(super) fn of(socket: impl AsFd, name: SocketAddrUnix) -> io::Result<Self> {
        let peer = Self { name, is_connected: Cell::new(false) };
        match peer.connect(socket) {
            Err(error) if error.kind() != io::ErrorKind::ConnectionRefused => Err(error),
            _ => Ok(peer),
        }
    }

    /// Sends a datagram.
    ///
    /// # Errors
    /// What the system said: `ConnectionRefused` if nobody is there.
    pub(super) fn send(&self, socket: impl AsFd, data: &[u8]) -> io::Result<()> {
        if !self.is_connected.get() {
            self.connect(&socket)?;
        }
        match send(&socket, data, SendFlags::NOSIGNAL) {
            Err(Errno::CONNREFUSED | Errno::CONNRESET | Errno::NOTCONN) => {
                self.disconnected(&socket)?;
                self.connect(&socket)?;
                send(&socket, data, SendFlags::NOSIGNAL)?;
                Ok(())
            }
            sent => Ok(sent.map(drop)?),
        }
    }

    fn connect(&self, socket: impl AsFd) -> io::Result<()> {
        match connect(&socket, &self.name) {
            Ok(()) => {}
            // A socket of streams is nobody for datagrams.
            Err(Errno::NOENT | Errno::CONNREFUSED | Errno::PROTOTYPE) => {
                return Err(io::ErrorKind::ConnectionRefused.into());
            }
            Err(error) => return Err(error.into()),
        }
        self.is_connected.set(true);
        datagrams::hear_again(&socket)
    }

    /// The peer has gone, so anybody could send to the socket now.
    fn disconnected(&self, socket: impl AsFd) -> io::Result<()> {
        self.is_connected.set(false);
        datagrams::refuse_from_now_on(&socket)?;
        // What has come in between is not of the peer.
        while recv(&socket, &mut [0; 1], RecvFlags::DONTWAIT).is_ok() {}
        Ok(())
    }
}
