//! A host on a mesh: an engine on a port, which dials services and serves them.

use std::cell::RefCell;
use std::collections::HashSet;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::rc::Rc;

use anywire_tcp::{Cidr, ConnectOptions, Engine, Mac, Route, Settings, Via};

use super::directory::{Known, Mesh};
use super::listen_queue::{ListenQueue, Queued};
use super::port::Switchboard;
use crate::device::Device;
use crate::stream::{Driver, Interface, ListenOptions, Listener, Stream};

/// A host on a [`Mesh`], for one thread. Clones are the same host.
///
/// ```
/// use anywire_stack::mesh::{Host, Limits, Mesh};
/// use tokio::io::{AsyncReadExt, AsyncWriteExt};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mesh = Mesh::new(Limits::default());
/// let (service, mut queues) = mesh.listen("10.0.0.2:80".parse()?, 1, 1024)?;
/// let run = || tokio::runtime::Builder::new_current_thread().enable_time().build_local(Default::default());
///
/// let (there, queue) = (mesh.clone(), queues.remove(0));
/// let server = std::thread::spawn(move || run()?.block_on(async {
///     let (host, driver) = Host::join(&there, [1; 4])?;
///     tokio::task::spawn_local(driver);
///     let mut listener = host.attend(service.address(), &queue)?;
///     let mut stream = listener.accept().await?;
///     queue.note_accepted(stream.peer_addr());
///     stream.write_all(b"hello").await?;
///     stream.shutdown().await?;
///     stream.read_u8().await.expect_err("the other end closes, too");
///     std::io::Result::Ok(())
/// }));
///
/// run()?.block_on(async {
///     let (host, driver) = Host::join(&mesh, [2; 4])?;
///     tokio::task::spawn_local(driver);
///     let (mut stream, reservation) = host.dial("10.0.0.2:80".parse()?).await?;
///     let mut heard = String::new();
///     stream.read_to_string(&mut heard).await?;
///     assert_eq!(heard, "hello");
///     drop((stream, reservation));
///     host.interface().finish(std::time::Duration::from_millis(100));
///     Ok::<_, Box<dyn std::error::Error>>(())
/// })?;
/// server.join().unwrap()?;
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct Host {
    interface: Interface,
    board: Switchboard,
    ports: Rc<RefCell<LocalPorts>>,
    known: Rc<RefCell<Known>>,
}

impl Host {
    /// Another host, and the task that drives it. Keep `secret` private: see [`Settings::secret`].
    ///
    /// # Errors
    /// `QuotaExceeded` at the limit of ports; or the system's, if it has no memory left.
    pub fn join(mesh: &Mesh, secret: [u64; 4]) -> io::Result<(Self, Driver)> {
        let port = mesh.join().map_err(|error| io::Error::new(io::ErrorKind::QuotaExceeded, error))?;
        let board = port.board.clone();
        let mut settings = Settings::new(secret);
        // Nothing is damaged on its way from memory to memory.
        settings.checksums = false;
        settings.loops_back = true;
        let mut limits = anywire_tcp::Limits::default();
        limits.connections = mesh.directory.limits.connections;
        limits.half_open = limits.half_open.min(limits.connections);
        // Ports are used round-robin, and a port in TIME-WAIT can be reused (RFC 6191), so few of these are needed.
        limits.time_wait = limits.time_wait.min(limits.connections / 2).max(1);
        let mut engine = Engine::new(settings, limits)?;
        let mtu = u16::try_from(port.capabilities().mtu).unwrap_or(u16::MAX);
        engine.set_mac(port.mac());
        for address in board.addresses() {
            engine.add_address(address).map_err(io::Error::other)?;
            let (network, gateway) =
                if address.is_ipv4() { (Cidr::ALL_V4, GATEWAY_V4) } else { (Cidr::ALL_V6, GATEWAY_V6) };
            let route = Route { network, via: Via::Gateway(gateway), mtu, source: None };
            engine.add_route(route).map_err(io::Error::other)?;
            // The mesh forwards by IP address; Ethernet addresses only show in captures.
            engine.add_neighbour(gateway, MESH_MAC).map_err(io::Error::other)?;
        }
        let (interface, driver) = Interface::new(engine, port);
        Ok((Self { interface, board, ports: Rc::default(), known: Rc::default() }, driver))
    }

    /// Its network interface: the engine and the port, with their counters.
    pub const fn interface(&self) -> &Interface {
        &self.interface
    }

    /// Connects to a service: takes a place in its backlog, waits for one if need be, and then for the
    /// handshake, unless no host attends the service yet. The reservation is to be dropped together with the stream.
    ///
    /// # Errors
    /// `ConnectionRefused` if no host listens there, `AddrNotAvailable` if all local ports are in use, and the errors
    /// of [`Interface::connect`].
    pub async fn dial(&self, service: SocketAddr) -> io::Result<(Stream, Reservation)> {
        let mut tries = 0;
        loop {
            let from = self.take_port(service)?;
            let place = self.board.mesh.enqueue(&self.known, service, from.address).await;
            let refused = |refused| io::Error::new(io::ErrorKind::ConnectionRefused, refused);
            let place = place.map_err(refused)?;
            let mut stream = match self.interface.start(Some(from.address), service, NO_NAGLE) {
                // An earlier connection from there has not quite ended; the next port is as good.
                Err(error) if error.kind() == io::ErrorKind::AddrInUse && tries < PORTS => {
                    tries += 1;
                    continue;
                }
                started => started?,
            };
            // Nothing has left yet. Not before it is known that the port is free: the frames of an earlier connection
            // would take the way of this one.
            self.board.steer(from.address.port(), &place).map_err(refused)?;
            if place.is_attended() {
                stream.opened().await?;
            } else {
                stream.take_for_open();
            }
            return Ok((stream, Reservation { _place: place, _from: from }));
        }
    }

    /// Serves a queue of the service at this address. From now on this host gets new connections, and the connections that
    /// have waited.
    ///
    /// # Errors
    /// `AddrInUse` if this host listens there already, for a queue that was not dropped yet.
    pub fn attend(&self, service: SocketAddr, queue: &ListenQueue) -> io::Result<Listener> {
        self.interface.with_engine(|engine| engine.add_address(service.ip())).map_err(io::Error::other)?;
        // Clients enforce the backlog when they dial. This limit only bounds connections that were given up before
        // they were accepted.
        let backlog = queue.backlog().saturating_mul(2).saturating_add(16);
        let options = ListenOptions { backlog, connections: NO_NAGLE };
        let listener = self.interface.listen(service, options)?;
        self.board.attend(&queue.queue);
        Ok(listener)
    }

    fn take_port(&self, service: SocketAddr) -> io::Result<FromPort> {
        let [v4, v6] = self.board.addresses();
        let port = self.ports.borrow_mut().take().ok_or(io::ErrorKind::AddrNotAvailable)?;
        let address = SocketAddr::new(if service.is_ipv4() { v4 } else { v6 }, port);
        Ok(FromPort { address, ports: Rc::clone(&self.ports) })
    }
}

/// What keeps a dialled connection's place in the backlog until it is accepted, and its local port.
#[derive(Debug)]
pub struct Reservation {
    _place: Queued,
    _from: FromPort,
}

#[derive(Debug)]
struct FromPort {
    address: SocketAddr,
    ports: Rc<RefCell<LocalPorts>>,
}

impl Drop for FromPort {
    fn drop(&mut self) {
        self.ports.borrow_mut().used.remove(&self.address.port());
    }
}

/// The local ports of dialled connections. They are used round-robin, so a port that was just given back is reused last.
#[derive(Debug)]
struct LocalPorts {
    used: HashSet<u16>,
    next: u16,
}

impl LocalPorts {
    fn take(&mut self) -> Option<u16> {
        if self.used.len() >= PORTS {
            return None;
        }
        loop {
            let port = self.next;
            self.next = port.checked_add(1).unwrap_or(PORT_FIRST);
            if self.used.insert(port) {
                return Some(port);
            }
        }
    }
}

impl Default for LocalPorts {
    fn default() -> Self {
        Self { used: HashSet::new(), next: PORT_FIRST }
    }
}

/// Small writes leave at once. A user with more to say writes it in one call.
const NO_NAGLE: ConnectOptions = ConnectOptions { no_nagle: true, keep_alive: false, class: 0, dscp: 0 };

/// The gateways of all routes, which no frame shows: addresses for documentation (RFC 5737, RFC 3849).
const GATEWAY_V4: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
const GATEWAY_V6: IpAddr = IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1));

/// Their interface. No port has this address.
const MESH_MAC: Mac = Mac::new([2, 0, 0, 1, 0, 0]);

/// The first local port (RFC 6056 asks for a wide range).
const PORT_FIRST: u16 = 16_384;

/// How many there are: all of them are tried before a dial fails.
const PORTS: usize = (u16::MAX - PORT_FIRST) as usize + 1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_take_turns_and_run_out() {
        let mut ports = LocalPorts::default();
        let first = ports.take();
        assert_eq!((first, ports.take()), (Some(PORT_FIRST), Some(PORT_FIRST + 1)));
        ports.used.remove(&PORT_FIRST);
        for _ in 0..PORTS - 2 {
            assert_ne!(ports.take(), Some(PORT_FIRST));
        }
        assert_eq!((ports.take(), ports.take()), (Some(PORT_FIRST), None));
        ports.used.remove(&40_000);
        assert_eq!(ports.take(), Some(40_000));
    }
}
