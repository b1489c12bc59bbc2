//! `stack:switch/…`: the network between the loops of this process.
//!
//! Each loop that dials or serves here has one host, with addresses of its own to dial from, on a mesh that joins all
//! of them. A service has an accept queue on each loop that serves it. A connection is assigned to one of them,
//! round-robin, before its first segment leaves, so it lives on the loop of its engine from the start.

use std::cell::RefCell;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::{Arc, LazyLock};
use std::task::{Context, Poll, ready};

use anywire_stack::mesh::{self, Host, ListenQueue, Mesh, MeshError};
use anywire_stack::stream::Listener;
use anywire_sys::thread_bound::ThreadBound;

use super::location::{DeviceName, Location};
use super::{LAST_WORDS, StackArrival, StackTransport, on_a_loop};
use crate::address::Address;
use crate::connection::Connection;
use crate::dialer::DialOptions;
use crate::error::{DialError, ListenError};
use crate::listener::ListenOptions;
use crate::wires::{Acceptor, Arrival, Bound, Wire};

pub(super) fn bind(
    wire: &'static dyn Wire,
    address: &Address,
    service: SocketAddr,
    options: &ListenOptions,
    loops: usize,
) -> Result<Bound, ListenError> {
    let backlog = usize::try_from(options.backlog).unwrap_or(usize::MAX);
    let (service, queues) = MESH.listen(service, loops, backlog).map_err(|error| match error {
        MeshError::AddressTaken(_) => ListenError::InUse { address: address.clone() },
        error => ListenError::System { address: address.clone(), cause: io::Error::other(error) },
    })?;
    let local = service.address();
    let acceptor = |queue| Box::new(SwitchAcceptor { local, queue, listener: None }) as Box<dyn Acceptor>;
    Ok(Bound {
        local: Address::from_wire(wire, location_of(local).to_string()),
        acceptors: queues.into_iter().map(acceptor).collect(),
        guard: Some(Box::new(service)),
    })
}

pub(super) async fn dial(
    address: &Address,
    service: SocketAddr,
    options: &DialOptions,
) -> Result<Connection, DialError> {
    let failed = |cause| DialError::from_io(address, cause);
    let here = Here::get().map_err(failed)?;
    let dialing = async { here.host.dial(service).await.map_err(failed) };
    let (stream, reservation) = options.connect_in_time(address, dialing).await?;
    Ok(Connection::new(StackTransport::new(stream, &here.name, Some(Box::new(reservation)))))
}

fn location_of(address: SocketAddr) -> Location<'static> {
    Location { device: DeviceName::Switch, address }
}

/// The host of the present loop.
struct Here {
    /// Of the device.
    name: Arc<str>,
    host: Host,
}

/// Its place among the loop's values; empty until the switch is used there.
#[derive(Default)]
struct MaybeHere(RefCell<Option<Rc<Here>>>);

impl Here {
    /// That of the present loop; joins the mesh if it has not.
    fn get() -> io::Result<Rc<Self>> {
        on_a_loop()?;
        let place = anywire_loops::local(MaybeHere::default);
        if let Some(here) = &*place.0.borrow() {
            return Ok(Rc::clone(here));
        }
        // Each hasher that the library makes has keys of its own, which begin with random ones of the system.
        let random = RandomState::new();
        let (host, driver) = Host::join(&MESH, std::array::from_fn(|index| random.hash_one(index)))?;
        // Past the loop's own spawn, which counts tasks: the loop does not wait for the driver when it ends.
        drop(tokio::task::spawn_local(driver));
        let here = Rc::new(Self { name: DeviceName::Switch.to_string().into(), host });
        *place.0.borrow_mut() = Some(Rc::clone(&here));
        Ok(here)
    }
}

impl Drop for Here {
    fn drop(&mut self) {
        // The loop's tasks are gone, and what their connections had left to say would be lost with the
        // engine.
        self.host.interface().finish(LAST_WORDS);
    }
}

struct SwitchAcceptor {
    local: SocketAddr,
    queue: ListenQueue,
    /// On the loop that polls.
    listener: Option<ThreadBound<(RefCell<Listener>, Rc<Here>)>>,
}

impl Acceptor for SwitchAcceptor {
    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Box<dyn Arrival>>> {
        let (listener, here) = match self.listener.as_ref().and_then(ThreadBound::get) {
            Some(attended) => attended,
            None => {
                let here = Here::get()?;
                let listener = RefCell::new(here.host.attend(self.local, &self.queue)?);
                let attended = self.listener.insert(ThreadBound::new((listener, here)));
                attended.get().ok_or(io::ErrorKind::NotConnected)?
            }
        };
        let stream = ready!(listener.borrow_mut().poll_accept(cx))?;
        self.queue.note_accepted(stream.peer_addr());
        Poll::Ready(Ok(StackArrival::of(StackTransport::new(stream, &here.name, None))))
    }
}

static MESH: LazyLock<Mesh> = LazyLock::new(|| Mesh::new(mesh::Limits::default()));
