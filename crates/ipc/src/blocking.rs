//! The classical ways, in blocking calls.

use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use anywire_advice::{MORE_PORTS, Message};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socketpair};

use crate::plan::Way;

/// One end of a way, for messages of one size.
pub(crate) trait End: Send {
    /// Sends a whole message.
    fn send(&mut self, message: &[u8]) -> io::Result<()>;
    /// Receives a whole message; false at the end of the stream.
    fn receive(&mut self, message: &mut [u8]) -> io::Result<bool>;
}

/// Two ends of one of these ways.
pub(crate) fn pair(way: Way) -> io::Result<[Box<dyn End>; 2]> {
    Ok(match way {
        Way::Tcp => {
            let listener = TcpListener::bind("127.0.0.1:0").map_err(without_port)?;
            let here = TcpStream::connect(listener.local_addr()?).map_err(without_port)?;
            let (there, _) = listener.accept()?;
            here.set_nodelay(true)?;
            there.set_nodelay(true)?;
            [Box::new(Stream(here)), Box::new(Stream(there))]
        }
        Way::Pipe => {
            let (one, other) = (io::pipe()?, io::pipe()?);
            let (here, there) =
                (Pipes { reads: one.0, writes: other.1 }, Pipes { reads: other.0, writes: one.1 });
            [Box::new(here), Box::new(there)]
        }
        Way::Seqpacket => {
            let kind = SocketType::SEQPACKET;
            let (one, other) = socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None)?;
            [Box::new(Packets(one)), Box::new(Packets(other))]
        }
        _ => {
            let (one, other) = UnixStream::pair()?;
            [Box::new(Stream(one)), Box::new(Stream(other))]
        }
    })
}

/// The error of a socket for which the system had no port.
fn without_port(cause: io::Error) -> io::Error {
    match cause.kind() {
        io::ErrorKind::AddrInUse | io::ErrorKind::AddrNotAvailable => {
            io::Error::other(Message::new("no port is free").with_help(MORE_PORTS))
        }
        _ => cause,
    }
}

struct Stream<S>(S);

impl<S: Read + Write + Send> End for Stream<S> {
    fn send(&mut self, message: &[u8]) -> io::Result<()> {
        self.0.write_all(message)
    }

    fn receive(&mut self, message: &mut [u8]) -> io::Result<bool> {
        read_whole(&mut self.0, message)
    }
}

struct Pipes {
    reads: PipeReader,
    writes: PipeWriter,
}

impl End for Pipes {
    fn send(&mut self, message: &[u8]) -> io::Result<()> {
        self.writes.write_all(message)
    }

    fn receive(&mut self, message: &mut [u8]) -> io::Result<bool> {
        read_whole(&mut self.reads, message)
    }
}

/// A socket that keeps the borders of messages.
struct Packets(OwnedFd);

impl End for Packets {
    fn send(&mut self, message: &[u8]) -> io::Result<()> {
        send(&self.0, message, SendFlags::NOSIGNAL)?;
        Ok(())
    }

    fn receive(&mut self, message: &mut [u8]) -> io::Result<bool> {
        let (read, _) = recv(&self.0, &mut *message, RecvFlags::empty())?;
        Ok(read == message.len())
    }
}

fn read_whole(from: &mut impl Read, message: &mut [u8]) -> io::Result<bool> {
    match from.read_exact(message) {
        Ok(()) => Ok(true),
        Err(end) if end.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}
