//! `tcp:HOST:PORT`: kernel TCP.

use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use socket2::{Domain, SockRef, Socket, Type};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};

use crate::address::Address;
use crate::connection::{Connection, Transport};
use crate::dialer::DialOptions;
use crate::error::{DialError, ListenError};
use crate::listener::ListenOptions;
use crate::socket::{SocketAcceptor, tokio_stream};
use crate::wires::{Acceptor, Arrival, Bound, Dialing, Wire};

/// Kernel TCP. One listening socket a loop (SO_REUSEPORT), so that the system spreads connections and no loop waits
/// for another.
pub(crate) struct Tcp;

impl Wire for Tcp {
    fn scheme(&self) -> &'static str {
        "tcp"
    }

    fn summary(&self) -> &'static str {
        "kernel TCP"
    }

    fn form(&self) -> &'static str {
        "HOST:PORT, such as 127.0.0.1:8080, [::1]:8080 or example.com:80"
    }

    fn normalise(&self, location: &str) -> Result<String, String> {
        let (host, port) = split(location)?;
        let port: u16 = port.parse().map_err(|_| format!("{port:?} is no port (0 to 65535)"))?;
        Ok(match host {
            Host::V6(host) => SocketAddr::from((host, port)).to_string(),
            Host::Other(host) => format!("{}:{port}", host.to_ascii_lowercase()),
        })
    }

    fn bind(
        &'static self,
        address: &Address,
        options: &ListenOptions,
        loops: usize,
    ) -> Result<Bound, ListenError> {
        let mut local = resolve_blocking(address)?;
        let mut acceptors: Vec<Box<dyn Acceptor>> = Vec::with_capacity(loops);
        for index in 0..loops {
            let socket =
                listen(local, options, index > 0).map_err(|cause| ListenError::of(address, cause))?;
            let named = socket.local_addr().map(|named| named.as_socket());
            local = named.map_err(|cause| ListenError::of(address, cause))?.unwrap_or(local);
            acceptors.push(Box::new(SocketAcceptor::new(socket.into(), TcpListener::from_std, accept)));
        }
        Ok(Bound { local: Address::known(self, local.to_string()), acceptors, guard: None })
    }

    fn dial<'a>(&'static self, address: &'a Address, options: &'a DialOptions) -> Dialing<'a> {
        Box::pin(async move {
            let targets = resolve(address, options.resolve_timeout).await?;
            let racing = race(address, &targets, options.attempt_delay);
            let after = options.connect_timeout;
            let raced = tokio::time::timeout(after, racing).await;
            let stream =
                raced.unwrap_or_else(|_| Err(DialError::Timeout { address: address.clone(), after }))?;
            // A socket that refuses this is dead, which the first write will say better.
            let _ = stream.set_nodelay(true);
            Ok(Connection::new(Box::new(TcpTransport { stream })))
        })
    }

    fn scratch(&'static self) -> Option<Address> {
        Some(Address::known(self, "127.0.0.1:0"))
    }
}

enum Host<'a> {
    V6(Ipv6Addr),
    Other(&'a str),
}

/// `[v6]:port` or `host:port`, or what is wrong with it.
fn split(location: &str) -> Result<(Host<'_>, &str), String> {
    if let Some(rest) = location.strip_prefix('[') {
        let Some((host, rest)) = rest.split_once(']') else { return Err("\"[\" has no \"]\"".to_owned()) };
        let Some(port) = rest.strip_prefix(':') else {
            return Err("there is no port behind \"]\"".to_owned());
        };
        let host = host.parse().map_err(|_| format!("{host:?} is no IPv6 address"))?;
        return Ok((Host::V6(host), port));
    }
    let Some((host, port)) = location.rsplit_once(':') else { return Err("there is no port".to_owned()) };
    if host.is_empty() {
        return Err("there is no host".to_owned());
    }
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
    if host.len() > 253 || !host.bytes().all(is_name) {
        return Err(format!("{host:?} is no host name (an IPv6 address stands in brackets)"));
    }
    Ok((Host::Other(host), port))
}

fn listen(address: SocketAddr, options: &ListenOptions, joins: bool) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    socket.set_nonblocking(true)?;
    socket.set_reuse_address(true)?;
    if !joins && address.port() != 0 {
        // The first one binds alone, so that another server on the port is found: with SO_REUSEPORT on both sides
        // two servers of one user would share it in silence.
        let probe = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
        probe.set_reuse_address(true)?;
        if address.is_ipv6() {
            probe.set_only_v6(false)?;
        }
        probe.bind(&address.into())?;
    }
    socket.set_reuse_port(true)?;
    if address.is_ipv6() {
        // `[::]` takes IPv4 as well, whatever the system's default is.
        socket.set_only_v6(false)?;
    }
    // Accepted connections inherit it, which saves a system call on each.
    socket.set_tcp_nodelay(true)?;
    socket.bind(&address.into())?;
    socket.listen(i32::try_from(options.backlog).unwrap_or(i32::MAX))?;
    Ok(socket)
}

fn resolve_blocking(address: &Address) -> Result<SocketAddr, ListenError> {
    use std::net::ToSocketAddrs;
    let found = address.location().to_socket_addrs();
    let first = found.ok().and_then(|mut found| found.next());
    first.ok_or_else(|| ListenError::NotHere { address: address.clone() })
}

/// All addresses of the name, IPv6 and IPv4 in turn (RFC 8305 section 4).
async fn resolve(address: &Address, after: Duration) -> Result<Vec<SocketAddr>, DialError> {
    if let Ok(literal) = address.location().parse() {
        return Ok(vec![literal]);
    }
    let lookup = tokio::time::timeout(after, tokio::net::lookup_host(address.location()));
    let found: Vec<SocketAddr> = match lookup.await {
        Ok(Ok(found)) => found.collect(),
        Ok(Err(cause)) => return Err(DialError::Resolve { address: address.clone(), cause }),
        Err(_) => Vec::new(),
    };
    if found.is_empty() {
        let cause = io::Error::new(io::ErrorKind::TimedOut, format!("no address within {after:?}"));
        return Err(DialError::Resolve { address: address.clone(), cause });
    }
    Ok(interleave(found))
}

fn interleave(found: Vec<SocketAddr>) -> Vec<SocketAddr> {
    // The resolver's first choice stays first (RFC 6724 has sorted them).
    let first_is_v6 = found.first().is_some_and(SocketAddr::is_ipv6);
    let (first, second): (Vec<_>, Vec<_>) = found.into_iter().partition(|one| one.is_ipv6() == first_is_v6);
    let longer = first.len().max(second.len());
    (0..longer).flat_map(|at| [first.get(at), second.get(at)]).flatten().copied().collect()
}

/// Happy eyeballs (RFC 8305 section 5): each address gets a head start, and the first one that answers wins; a refusal
/// brings the next one at once.
async fn race(address: &Address, targets: &[SocketAddr], delay: Duration) -> Result<TcpStream, DialError> {
    let mut waiting = targets.iter();
    let mut running: Vec<Pin<Box<dyn Future<Output = io::Result<TcpStream>>>>> = Vec::new();
    let mut last = None;
    loop {
        let more = waiting.next().map(|target| running.push(Box::pin(TcpStream::connect(*target)))).is_some();
        if running.is_empty() {
            let none = || io::Error::new(io::ErrorKind::NotFound, "the name has no address");
            return Err(DialError::of(address, last.unwrap_or_else(none)));
        }
        let mut head_start = pin!(tokio::time::sleep(delay));
        // Ready with a stream, or with nothing when it is the next one's turn.
        let outcome = poll_fn(|cx| {
            let mut at = 0;
            while at < running.len() {
                match running[at].as_mut().poll(cx) {
                    Poll::Pending => at += 1,
                    Poll::Ready(Ok(stream)) => return Poll::Ready(Some(stream)),
                    Poll::Ready(Err(failed)) => {
                        drop(running.swap_remove(at));
                        last = Some(failed);
                        return Poll::Ready(None);
                    }
                }
            }
            if more { head_start.as_mut().poll(cx).map(|()| None) } else { Poll::Pending }
        });
        if let Some(stream) = outcome.await {
            return Ok(stream);
        }
    }
}

fn accept(listener: &TcpListener, cx: &mut Context<'_>) -> Poll<io::Result<Box<dyn Arrival>>> {
    let (stream, _) = ready!(listener.poll_accept(cx))?;
    Poll::Ready(Ok(Box::new(TcpTransport { stream })))
}

/// Each loop has a socket of its own, so what arrives at a loop has joined it already.
impl Arrival for TcpTransport {
    fn settle(self: Box<Self>) -> io::Result<Box<dyn Transport>> {
        Ok(self)
    }
}

struct TcpTransport {
    stream: TcpStream,
}

impl Transport for TcpTransport {
    tokio_stream!();

    fn abort(&mut self) {
        // A linger time of zero makes the close an RST; if it cannot be set the connection is gone already.
        let _ = SockRef::from(&self.stream).set_linger(Some(Duration::ZERO));
    }

    fn local(&self) -> Address {
        Address::known(&Tcp, self.stream.local_addr().unwrap_or(UNKNOWN).to_string())
    }

    fn peer(&self) -> Address {
        Address::known(&Tcp, self.stream.peer_addr().unwrap_or(UNKNOWN).to_string())
    }
}

/// What a connection that was reset before it was looked at says of its ends.
const UNKNOWN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_take_turns_and_the_first_choice_stays_first() {
        let parse = |text: &str| text.parse::<SocketAddr>().expect(text);
        let v6 = [parse("[::1]:1"), parse("[::2]:1"), parse("[::3]:1")];
        let v4 = [parse("127.0.0.1:1")];
        assert_eq!(interleave([&v6[..], &v4[..]].concat()), [v6[0], v4[0], v6[1], v6[2]]);
        assert_eq!(interleave([&v4[..], &v6[..1]].concat()), [v4[0], v6[0]]);
    }
}
