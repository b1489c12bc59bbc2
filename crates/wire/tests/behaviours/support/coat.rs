//! A coat for tests, around TCP: a handshake of three messages that agrees on a name and a protocol, then bytes that are
//! changed on their way and held back until they are flushed. What TLS needs of a wire, without TLS.

use std::io::{self, IoSlice};
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use anywire_wire::{
    Acceptor, Address, Arrival, Bound, Connection, Credentials, DialOptions, Dialing, ListenError,
    ListenOptions, Negotiated, Transport, Wire, wires,
};

/// The wire `coat:HOST:PORT`.
pub(crate) struct Coat;

impl Coat {
    /// Where a listener gets a free port.
    pub(crate) fn scratch() -> Address {
        Wire::scratch(&Self).expect("TCP has free ports")
    }

    /// The address that the coat is around.
    pub(crate) fn inner(address: &Address) -> Address {
        Address::from_wire(tcp(), address.location())
    }

    fn outer(inner: &Address) -> Address {
        Address::from_wire(&Self, inner.location())
    }
}

fn tcp() -> &'static dyn Wire {
    wires().next().expect("TCP is the first wire")
}

impl Wire for Coat {
    fn scheme(&self) -> &'static str {
        "coat"
    }

    fn summary(&self) -> &'static str {
        "TCP with a coat around it"
    }

    fn form(&self) -> &'static str {
        tcp().form()
    }

    fn normalise(&self, location: &str) -> Result<String, String> {
        tcp().normalise(location)
    }

    fn bind(
        &'static self,
        address: &Address,
        options: &ListenOptions,
        loops: usize,
    ) -> Result<Bound, ListenError> {
        let bound = tcp().bind(&Self::inner(address), options, loops)?;
        let coated = |acceptor| {
            Box::new(CoatAcceptor { acceptor, protocols: options.protocols.clone() }) as Box<dyn Acceptor>
        };
        Ok(Bound {
            local: Self::outer(&bound.local),
            guard: bound.guard,
            acceptors: bound.acceptors.into_iter().map(coated).collect(),
        })
    }

    fn dial<'a>(&'static self, address: &'a Address, options: &'a DialOptions) -> Dialing<'a> {
        Box::pin(async move {
            let inner = Self::inner(address);
            let connection = tcp().dial(&inner, options).await?;
            let name = options.server_name.as_deref().unwrap_or_default();
            let hello = format!("{name} {}\n", options.protocols.join(","));
            Ok(Connection::new(CoatTransport::new(connection, Role::Dials, hello)))
        })
    }

    fn scratch(&'static self) -> Option<Address> {
        tcp().scratch().as_ref().map(Self::outer)
    }
}

struct CoatAcceptor {
    acceptor: Box<dyn Acceptor>,
    protocols: Vec<String>,
}

impl Acceptor for CoatAcceptor {
    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Box<dyn Arrival>>> {
        let arrival = ready!(self.acceptor.poll_accept(cx))?;
        Poll::Ready(Ok(Box::new(CoatArrival { arrival, protocols: self.protocols.clone() })))
    }
}

struct CoatArrival {
    arrival: Box<dyn Arrival>,
    protocols: Vec<String>,
}

impl Arrival for CoatArrival {
    fn register(self: Box<Self>) -> io::Result<Connection> {
        let connection = self.arrival.register()?;
        Ok(Connection::new(CoatTransport::new(connection, Role::Accepts(self.protocols), String::new())))
    }
}

enum Role {
    /// Sends `NAME PROTOCOLS`, reads the protocol, and sends `done`.
    Dials,
    /// The other side, with the protocols that it speaks.
    Accepts(Vec<String>),
}

struct CoatTransport {
    inner: Connection,
    role: Role,
    /// Lines of the handshake that were read.
    lines: usize,
    line: Vec<u8>,
    negotiated: Arc<Negotiated>,
    /// Taken, and not given to the inner connection.
    held: Vec<u8>,
}

impl CoatTransport {
    fn new(inner: Connection, role: Role, hello: String) -> Self {
        let held = hello.into_bytes();
        Self { inner, role, lines: 0, line: Vec::new(), negotiated: Arc::default(), held }
    }

    /// A line of the handshake. Byte by byte: what comes behind it is no handshake.
    fn poll_line(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<String>> {
        loop {
            let mut byte = [0];
            if ready!(self.inner.poll_read(cx, &mut byte))? == 0 {
                return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
            }
            if byte == *b"\n" {
                let line = String::from_utf8(std::mem::take(&mut self.line));
                return Poll::Ready(line.map_err(io::Error::other));
            }
            self.line.extend(byte);
        }
    }

    /// What a line that was read means; what is to be said about it.
    fn heard(&mut self, line: String) -> io::Result<String> {
        let refuse = || io::Error::new(io::ErrorKind::InvalidData, "no protocol in common");
        match &self.role {
            Role::Dials => {
                Arc::make_mut(&mut self.negotiated).protocol = Some(line).filter(|chosen| !chosen.is_empty());
                Ok("done\n".to_owned())
            }
            Role::Accepts(protocols) if self.lines == 0 => {
                let (name, offered) = line.split_once(' ').ok_or_else(refuse)?;
                let chosen =
                    protocols.iter().find(|protocol| offered.split(',').any(|one| one == **protocol));
                // As with ALPN, a peer that offers nothing agrees on nothing.
                if chosen.is_none() && !protocols.is_empty() && !offered.is_empty() {
                    return Err(refuse());
                }
                Arc::make_mut(&mut self.negotiated).server_name = Some(name.to_owned());
                Arc::make_mut(&mut self.negotiated).protocol = chosen.cloned();
                Ok(format!("{}\n", chosen.map_or("", String::as_str)))
            }
            Role::Accepts(_) => Ok(String::new()),
        }
    }
}

impl Transport for CoatTransport {
    fn poll_handshake(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.inner.poll_handshake(cx))?;
        let expected = if matches!(self.role, Role::Dials) { 1 } else { 2 };
        loop {
            ready!(self.poll_flush(cx))?;
            if self.lines == expected {
                return Poll::Ready(Ok(()));
            }
            let line = ready!(self.poll_line(cx))?;
            let said = self.heard(line)?;
            self.held.extend(said.bytes());
            self.lines += 1;
        }
    }

    fn negotiated(&self) -> Option<&Arc<Negotiated>> {
        Some(&self.negotiated)
    }

    fn is_buffered(&self) -> bool {
        true
    }

    fn held_back(&self) -> usize {
        self.held.len()
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.held.is_empty() {
            let written = ready!(self.inner.poll_write(cx, &self.held))?;
            self.held.drain(..written);
        }
        self.inner.poll_flush(cx)
    }

    // The inner connection charges the budget.
    fn is_cooperative(&self) -> bool {
        true
    }

    fn poll_readable(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.inner.poll_readable(cx)
    }

    fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        let read = ready!(self.inner.poll_read(cx, buffer))?;
        change(&mut buffer[..read]);
        Poll::Ready(Ok(read))
    }

    /// Sends nothing unless it is full.
    fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if self.held.len() >= HELD_MAX_BYTES {
            ready!(self.poll_flush(cx))?;
        }
        let taken = bytes.len().min(HELD_MAX_BYTES - self.held.len());
        let new = self.held.len();
        self.held.extend_from_slice(&bytes[..taken]);
        change(&mut self.held[new..]);
        Poll::Ready(Ok(taken))
    }

    fn poll_write_vectored(
        &mut self,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let first = slices.iter().find(|slice| !slice.is_empty());
        self.poll_write(cx, first.map_or(&[], |slice| slice))
    }

    fn poll_half_close(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.inner.poll_half_close(cx)
    }

    fn abort(&mut self) {
        self.inner.abort();
    }

    fn local(&self) -> Address {
        Coat::outer(&self.inner.local())
    }

    fn peer(&self) -> Address {
        Coat::outer(&self.inner.peer())
    }

    fn credentials(&self) -> Option<Credentials> {
        self.inner.credentials()
    }

    fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        self.inner.as_fd()
    }
}

/// Changes bytes, and changes them back. Eight at a time: megabytes pass in builds that are not optimised.
fn change(bytes: &mut [u8]) {
    let (words, rest) = bytes.as_chunks_mut();
    for word in words {
        *word = (u64::from_ne_bytes(*word) ^ u64::from_ne_bytes([KEY; 8])).to_ne_bytes();
    }
    for byte in rest {
        *byte ^= KEY;
    }
}

const KEY: u8 = 0x55;
const HELD_MAX_BYTES: usize = 8 * 1024;
