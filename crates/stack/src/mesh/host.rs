//! A host on a mesh: an engine on an endpoint, which dials services and serves them.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::rc::Rc;

use anywire_tcp::{Cidr, ConnectOptions, Engine, Mac, Route, Settings, Via};

use super::directory::{Known, Mesh};
use super::links::Links;
use super::listen_queue::ListenQueue;
use crate::device::Device;
use crate::stream::{Driver, Interface, ListenOptions, Listener, Stream};

/// A host on a [`Mesh`], for one thread. Clones are the same host.
///
/// ```
/// use std::time::Duration;
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
///     let mut listener = host.listen(service.address(), &queue)?;
///     let mut stream = listener.accept().await?;
///     stream.write_all(b"hello").await?;
///     stream.shutdown().await?;
///     stream.read_u8().await.expect_err("the other end closes, too");
///     std::io::Result::Ok(())
/// }));
///
/// run()?.block_on(async {
///     let (host, driver) = Host::join(&mesh, [2; 4])?;
///     tokio::task::spawn_local(driver);
///     let mut stream = host.dial("10.0.0.2:80".parse()?).await?;
///     let mut heard = String::new();
///     stream.read_to_string(&mut heard).await?;
///     assert_eq!(heard, "hello");
///     drop(stream);
///     host.interface().finish(Duration::from_millis(100), Duration::from_secs(1));
///     Ok::<_, Box<dyn std::error::Error>>(())
/// })?;
/// server.join().unwrap()?;
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct Host {
    interface: Interface,
    links: Links,
    ports: Rc<RefCell<LocalPorts>>,
    known: Rc<RefCell<Known>>,
}

impl Host {
    /// Another host, and the task that drives it. Keep `secret` private: see [`Settings::secret`].
    ///
    /// # Errors
    /// `QuotaExceeded` at the limit of endpoints; or the system's, if it has no memory left.
    pub fn join(mesh: &Mesh, secret: [u64; 4]) -> io::Result<(Self, Driver)> {
        let endpoint = mesh.join().map_err(|error| io::Error::new(io::ErrorKind::QuotaExceeded, error))?;
        let links = endpoint.links.clone();
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
        let mtu = u16::try_from(endpoint.capabilities().mtu).unwrap_or(u16::MAX);
        engine.set_mac(endpoint.mac());
        for address in links.addresses() {
            engine.add_address(address).map_err(io::Error::other)?;
            let (network, gateway) =
                if address.is_ipv4() { (Cidr::ALL_V4, GATEWAY_V4) } else { (Cidr::ALL_V6, GATEWAY_V6) };
            let route = Route { network, via: Via::Gateway(gateway), mtu, source: None };
            engine.add_route(route).map_err(io::Error::other)?;
            // The mesh forwards by IP address; Ethernet addresses only show in captures.
            engine.add_neighbour(gateway, MESH_MAC).map_err(io::Error::other)?;
        }
        let (interface, driver) = Interface::new(engine, endpoint);
        Ok((Self { interface, links, ports: Rc::default(), known: Rc::default() }, driver))
    }

    /// Its network interface: the engine and the endpoint, with their counters.
    pub const fn interface(&self) -> &Interface {
        &self.interface
    }

    /// Connects to a service, whose hosts take turns. Waits for the handshake, unless no host listens yet. If more wait to be
    /// accepted than may, the SYN is sent again until there is room, as between machines.
    ///
    /// # Errors
    /// `ConnectionRefused` if no host listens there, `AddrNotAvailable` if all local ports are in use, and the errors
    /// of [`Interface::connect`].
    pub async fn dial(&self, service: SocketAddr) -> io::Result<Stream> {
        let refused = |refused| io::Error::new(io::ErrorKind::ConnectionRefused, refused);
        let from = self.take_port(service)?;
        let queue = self.links.mesh.next_queue(&self.known, service).map_err(refused)?;
        let mut stream = self.interface.start(Some(from), service, NO_NAGLE)?;
        // Nothing has left yet: the driver runs on this thread.
        self.links.steer(from.port(), &queue).map_err(refused)?;
        match queue.take_early() {
            Some(place) => stream.take_for_open_with(place),
            None => stream.opened().await?,
        }
        Ok(stream)
    }

    /// Listens at a queue of the service at this address. From now on this host gets new connections, and the connections that
    /// have waited.
    ///
    /// # Errors
    /// `AddrInUse` if this host listens there already, for a queue that was not dropped yet.
    pub fn listen(&self, service: SocketAddr, queue: &ListenQueue) -> io::Result<Listener> {
        self.interface.with_engine(|engine| engine.add_address(service.ip())).map_err(io::Error::other)?;
        let options = ListenOptions { backlog: queue.backlog(), connections: NO_NAGLE };
        let listener = self.interface.listen(service, options)?;
        self.links.listen(&queue.queue);
        Ok(listener)
    }

    /// A local address and port to reach a service from. Ports lead to hosts, so one port is used towards one service at a time.
    fn take_port(&self, service: SocketAddr) -> io::Result<SocketAddr> {
        let [v4, v6] = self.links.addresses();
        let own = |remote: SocketAddr, port| SocketAddr::new(if remote.is_ipv4() { v4 } else { v6 }, port);
        let port = self.interface.with_engine(|engine| {
            let connections = engine.connections();
            let is_used = |port, remote| engine.has_connection(own(remote, port), remote);
            self.ports.borrow_mut().take(service, connections, is_used)
        });
        Ok(own(service, port.ok_or(io::ErrorKind::AddrNotAvailable)?))
    }
}

/// The local ports of dialled connections. They are used round-robin, so a port that was just given back is reused last.
#[derive(Debug)]
struct LocalPorts {
    /// Where connections from each port went last.
    services: HashMap<u16, SocketAddr>,
    next: u16,
}

impl LocalPorts {
    /// The next port from which there is no connection, towards whatever service. `connections` is how many there are at most.
    fn take(
        &mut self,
        service: SocketAddr,
        connections: usize,
        is_used: impl Fn(u16, SocketAddr) -> bool,
    ) -> Option<u16> {
        if self.services.len() > 2 * connections + NOTES_MIN {
            self.services.retain(|port, service| is_used(*port, *service));
        }
        for _ in 0..PORTS {
            let port = self.next;
            self.next = port.checked_add(1).unwrap_or(PORT_FIRST);
            if self.services.get(&port).is_none_or(|service| !is_used(port, *service)) {
                self.services.insert(port, service);
                return Some(port);
            }
        }
        None
    }
}

impl Default for LocalPorts {
    fn default() -> Self {
        Self { services: HashMap::new(), next: PORT_FIRST }
    }
}

/// Small writes leave at once. A user with more to say writes it in one call.
const NO_NAGLE: ConnectOptions = ConnectOptions { no_nagle: true, keep_alive: false, class: 0, dscp: 0 };

/// The gateways of all routes, which no frame shows: addresses for documentation (RFC 5737, RFC 3849).
const GATEWAY_V4: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
const GATEWAY_V6: IpAddr = IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1));

/// Their interface. No endpoint has this address.
const MESH_MAC: Mac = Mac::new([2, 0, 0, 1, 0, 0]);

/// The first local port (RFC 6056 asks for a wide range).
const PORT_FIRST: u16 = 16_384;

/// How many there are: all of them are tried before a dial fails.
const PORTS: usize = (u16::MAX - PORT_FIRST) as usize + 1;

/// Ports of which it is noted where they led, even if no connection is left.
const NOTES_MIN: usize = 64;

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn ports_take_turns_and_run_out() {
        let service: SocketAddr = "10.0.0.2:80".parse().expect("an address");
        let used = RefCell::new(HashSet::new());
        let mut ports = LocalPorts::default();
        let take = |ports: &mut LocalPorts| {
            let port = ports.take(service, PORTS, |port, _| used.borrow().contains(&port));
            used.borrow_mut().extend(port);
            port
        };
        assert_eq!((take(&mut ports), take(&mut ports)), (Some(PORT_FIRST), Some(PORT_FIRST + 1)));
        used.borrow_mut().remove(&PORT_FIRST);
        for _ in 0..PORTS - 2 {
            assert_ne!(take(&mut ports), Some(PORT_FIRST));
        }
        assert_eq!((take(&mut ports), take(&mut ports)), (Some(PORT_FIRST), None));
        used.borrow_mut().remove(&40_000);
        assert_eq!(take(&mut ports), Some(40_000));
    }

    #[test]
    fn ports_without_connections_are_forgotten() {
        let service = "10.0.0.2:80".parse().expect("an address");
        let mut ports = LocalPorts::default();
        for _ in 0..PORTS {
            ports.take(service, 7, |_, _| false).expect("none is used");
            assert!(ports.services.len() <= 2 * 7 + NOTES_MIN + 1);
        }
    }
}
