//! `stack:switch/IP:PORT`: TCP of our own between the loops of this process, over no kernel at all.
//!
//! Each loop that dials or serves here has one host, with addresses of its own to dial from, on a mesh that joins all
//! of them. A service has an accept queue on each loop that serves it. A connection is assigned to one of them,
//! round-robin, before its first segment leaves, so it lives on the loop of its engine from the start.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU16, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use anywire_advice::Message;
use anywire_stack::mesh::{self, Host, ListenQueue, Mesh, MeshError, Reservation};
use anywire_stack::stream::{Listener, Stream};
use anywire_sys::martian::is_martian;

use crate::address::Address;
use crate::connection::{Connection, Transport};
use crate::dialer::DialOptions;
use crate::error::{DialError, ListenError};
use crate::listener::ListenOptions;
use crate::wires::{Acceptor, Arrival, Bound, Dialing, Wire};

/// TCP of our own, within this process.
pub(crate) struct Stack;

impl Wire for Stack {
    fn scheme(&self) -> &'static str {
        "stack"
    }

    fn summary(&self) -> &'static str {
        "TCP of our own within one process, without the kernel"
    }

    fn form(&self) -> &'static str {
        "switch/IP:PORT, such as stack:switch/10.0.0.2:80 or stack:switch/[fd00::2]:80"
    }

    fn normalise(&self, location: &str) -> Result<String, String> {
        let Some((device, address)) = location.split_once('/') else {
            return Err("there is no \"/\" behind the device".to_owned());
        };
        if device != DEVICE {
            return Err(format!("there is no device {device:?}, only {DEVICE:?}"));
        }
        let address: SocketAddr =
            address.parse().map_err(|_| format!("{address:?} is no IP address and port"))?;
        let ip = address.ip();
        if is_martian(ip) {
            return Err(format!("{ip} is not the address of one host"));
        }
        if mesh::is_of_ports(ip) {
            return Err(format!("{ip} is one of those that the switch gives to who dials"));
        }
        Ok(location_of(address))
    }

    fn host_and_port<'a>(&self, location: &'a str) -> Option<(&'a str, u16)> {
        crate::place::host_and_port(location.split_once('/')?.1)
    }

    fn bind(
        &'static self,
        address: &Address,
        options: &ListenOptions,
        loops: usize,
    ) -> Result<Bound, ListenError> {
        let service = socket_address(address);
        let backlog = usize::try_from(options.backlog).unwrap_or(usize::MAX);
        let (service, queues) = MESH.listen(service, loops, backlog).map_err(|error| match error {
            MeshError::AddressTaken(_) => ListenError::InUse { address: address.clone() },
            error => ListenError::System { address: address.clone(), cause: io::Error::other(error) },
        })?;
        let local = service.address();
        let acceptor = |queue| Box::new(StackAcceptor { local, queue, listener: None }) as Box<dyn Acceptor>;
        Ok(Bound {
            local: Address::from_wire(self, location_of(local)),
            acceptors: queues.into_iter().map(acceptor).collect(),
            guard: Some(Box::new(service)),
        })
    }

    fn dial<'a>(&'static self, address: &'a Address, options: &'a DialOptions) -> Dialing<'a> {
        Box::pin(async move {
            let failed = |cause| DialError::from_io(address, cause);
            let here = Here::get().map_err(failed)?;
            let service = socket_address(address);
            let dialing = async { here.host.dial(service).await.map_err(failed) };
            let (stream, reservation) = options.connect_in_time(address, dialing).await?;
            Ok(Connection::new(StackTransport { stream, _reservation: Some(reservation) }))
        })
    }

    fn scratch(&'static self) -> Option<Address> {
        static NEXT: AtomicU16 = AtomicU16::new(1);
        let [high, low] = NEXT.fetch_add(1, Ordering::Relaxed).to_be_bytes();
        Some(Address::from_wire(self, location_of(([10, 254, high, low], 80).into())))
    }

    fn reaches_other_processes(&self) -> bool {
        false
    }
}

fn location_of(address: SocketAddr) -> String {
    format!("{DEVICE}/{address}")
}

/// Of an address that was normalised.
fn socket_address(address: &Address) -> SocketAddr {
    let parsed = address.location().split_once('/').and_then(|(_, address)| address.parse().ok());
    parsed.expect("an address of this wire is DEVICE/IP:PORT")
}

/// The loop-local part of this wire. None of it may leave the loop.
struct Here {
    host: Host,
    listeners: RefCell<HashMap<u64, Listener>>,
    arrivals: RefCell<HashMap<u64, Stream>>,
    /// Listeners and arrivals are named by numbers, because acceptors and arrivals must be `Send`.
    next_name: Cell<u64>,
}

/// Its place among the loop's values; empty until the wire is used there.
#[derive(Default)]
struct MaybeHere(RefCell<Option<Rc<Here>>>);

impl Here {
    /// That of the present loop; joins the mesh if it has not.
    fn get() -> io::Result<Rc<Self>> {
        if anywire_loops::current().is_none() {
            let message = Message::new("this wire is dialled and served on loops only");
            return Err(io::Error::other(message.with_help("use LoopHandle::spawn")));
        }
        let place = anywire_loops::local(MaybeHere::default);
        if let Some(here) = &*place.0.borrow() {
            return Ok(Rc::clone(here));
        }
        // Each hasher that the library makes has keys of its own, which begin with random ones of the system.
        let random = RandomState::new();
        let (host, driver) = Host::join(&MESH, std::array::from_fn(|index| random.hash_one(index)))?;
        // Past the loop's own spawn, which counts tasks: the loop does not wait for the driver when it ends.
        drop(tokio::task::spawn_local(driver));
        let here = Rc::new(Self {
            host,
            listeners: RefCell::default(),
            arrivals: RefCell::default(),
            next_name: Cell::new(0),
        });
        *place.0.borrow_mut() = Some(Rc::clone(&here));
        Ok(here)
    }

    /// That of the present loop, if there is one.
    fn existing() -> Option<Rc<Self>> {
        anywire_loops::current()?;
        anywire_loops::local(MaybeHere::default).0.borrow().clone()
    }

    fn name(&self) -> u64 {
        let name = self.next_name.get();
        self.next_name.set(name + 1);
        name
    }
}

impl Drop for Here {
    fn drop(&mut self) {
        self.arrivals.take();
        self.listeners.take();
        // The loop's tasks are gone, and what their connections had left to say would be lost with the
        // engine.
        self.host.interface().finish(LAST_WORDS);
    }
}

struct StackAcceptor {
    local: SocketAddr,
    queue: ListenQueue,
    /// The name of the listener on the loop that polls.
    listener: Option<u64>,
}

impl Acceptor for StackAcceptor {
    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Box<dyn Arrival>>> {
        let here = Here::get()?;
        let name = match self.listener {
            Some(name) => name,
            None => {
                let listener = here.host.attend(self.local, &self.queue)?;
                let name = here.name();
                here.listeners.borrow_mut().insert(name, listener);
                *self.listener.insert(name)
            }
        };
        let mut listeners = here.listeners.borrow_mut();
        let listener = listeners.get_mut(&name).ok_or(io::ErrorKind::NotConnected)?;
        let stream = ready!(listener.poll_accept(cx))?;
        drop(listeners);
        self.queue.note_accepted(stream.peer_addr());
        let name = here.name();
        here.arrivals.borrow_mut().insert(name, stream);
        Poll::Ready(Ok(Box::new(StackArrival(name))))
    }
}

impl Drop for StackAcceptor {
    fn drop(&mut self) {
        if let (Some(name), Some(here)) = (self.listener, Here::existing()) {
            let listener = here.listeners.borrow_mut().remove(&name);
            drop(listener);
        }
    }
}

/// A connection that waits on its loop under this name.
struct StackArrival(u64);

impl Arrival for StackArrival {
    fn register(self: Box<Self>) -> io::Result<Connection> {
        let stream = Here::existing().and_then(|here| here.arrivals.borrow_mut().remove(&self.0));
        let stream =
            stream.ok_or_else(|| io::Error::other("a connection of this wire cannot leave its loop"))?;
        Ok(Connection::new(StackTransport { stream, _reservation: None }))
    }
}

impl Drop for StackArrival {
    fn drop(&mut self) {
        let abandoned = Here::existing().and_then(|here| here.arrivals.borrow_mut().remove(&self.0));
        drop(abandoned);
    }
}

struct StackTransport {
    stream: Stream,
    /// Of an end that has dialled.
    _reservation: Option<Reservation>,
}

impl Transport for StackTransport {
    #[inline]
    fn poll_readable(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream.poll_readable(cx).map(Ok)
    }

    #[inline]
    fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        self.stream.poll_read_into(cx, buffer)
    }

    #[inline]
    fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.stream.poll_write_from(cx, &[IoSlice::new(bytes)])
    }

    #[inline]
    fn poll_write_vectored(
        &mut self,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.stream.poll_write_from(cx, slices)
    }

    fn poll_half_close(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.stream.half_close())
    }

    fn abort(&mut self) {
        self.stream.abort();
    }

    fn local(&self) -> Address {
        Address::from_wire(&Stack, location_of(self.stream.local_addr()))
    }

    fn peer(&self) -> Address {
        Address::from_wire(&Stack, location_of(self.stream.peer_addr()))
    }
}

static MESH: LazyLock<Mesh> = LazyLock::new(|| Mesh::new(mesh::Limits::default()));

/// The one device so far.
const DEVICE: &str = "switch";

/// How long a loop that ends waits for a peer to acknowledge the remaining bytes. Each acknowledgement restarts it.
/// Long enough for a peer thread that waits for a core on a crowded machine.
const LAST_WORDS: Duration = Duration::from_millis(200);

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn wrong(location: &str, part: &str) {
        let said = Stack.normalise(location).expect_err(location);
        assert!(said.contains(part), "{said}");
    }

    #[test]
    fn the_wrong_part_is_named() {
        wrong("10.0.0.2:80", "\"/\"");
        wrong("tap0/10.0.0.2:80", "\"tap0\"");
        wrong("switch/10.0.0.2", "\"10.0.0.2\"");
        wrong("switch/host:80", "\"host:80\"");
        wrong("switch/0.0.0.0:80", "0.0.0.0");
        wrong("switch/127.0.0.1:80", "127.0.0.1");
        wrong("switch/[ff02::1]:80", "ff02::1");
        wrong("switch/10.255.0.1:80", "who dials");
    }

    #[test]
    fn equal_addresses_are_spelt_alike() {
        assert_eq!(Stack.normalise("switch/10.0.0.2:80").as_deref(), Ok("switch/10.0.0.2:80"));
        assert_eq!(Stack.normalise("switch/[fd00:0::0:2]:80").as_deref(), Ok("switch/[fd00::2]:80"));
    }

    #[test]
    fn port_0_stands_for_a_free_one() {
        let address = "stack:switch/10.1.0.1:0".parse::<Address>().expect("an address");
        let bound = Stack.bind(&address, &ListenOptions::default(), 1).expect("nobody listens there");
        assert!(socket_address(&bound.local).port() >= 49_152, "{}", bound.local);
    }
}
