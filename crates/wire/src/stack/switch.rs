//! `stack:switch/…`: the network between the loops of this process.
//!
//! Each loop that dials or serves here has one host, with addresses of its own to dial from, on a mesh that joins all
//! of them. A service has an accept queue on each loop that serves it. A connection is assigned to one of them,
//! in turn, before its first segment leaves, so it lives on the loop of its engine from the start.

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

use super::exit;
use super::host::{on_a_loop, stopped};
use super::lease::Lease;
use super::location::{DeviceName, Location};
use super::transport::{StackArrival, StackTransport};
use crate::address::Address;
use crate::connection::Connection;
use crate::dialer::DialOptions;
use crate::error::{DialError, ListenError};
use crate::listener::ListenOptions;
use crate::wires::{Acceptor, Arrival, Bound, Ended, Wire};

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
    let (lease, guard) = Lease::new(service);
    let acceptor = |queue| {
        let lease = lease.clone();
        Box::new(SwitchAcceptor { local, queue, listener: None, ended: None, lease }) as Box<dyn Acceptor>
    };
    Ok(Bound {
        local: Address::from_wire(wire, location_of(local).to_string()),
        acceptors: queues.into_iter().map(acceptor).collect(),
        guard: Some(Box::new(guard)),
    })
}

pub(super) async fn dial(
    address: &Address,
    service: SocketAddr,
    options: &DialOptions,
) -> Result<Connection, DialError> {
    let failed = |cause| DialError::from_io(address, cause);
    let own = LoopHost::get().map_err(failed)?;
    let dialing = async { own.host.dial(service).await.map_err(failed) };
    let stream = options.connect_in_time(address, dialing).await?;
    Ok(Connection::new(StackTransport::new(stream, &own.name)))
}

fn location_of(address: SocketAddr) -> Location<'static> {
    Location { device: DeviceName::Switch, address }
}

/// The host of the present loop.
struct LoopHost {
    /// Of the device.
    name: Arc<str>,
    host: Host,
}

/// Its place among the loop's values; empty until the switch is used there.
#[derive(Default)]
struct OfLoop(RefCell<Option<Rc<LoopHost>>>);

impl LoopHost {
    /// The host of the present loop, which joins the mesh if it has none, or one that nobody drives any more.
    fn get() -> io::Result<Rc<Self>> {
        on_a_loop()?;
        let place = anywire_loops::local(OfLoop::default);
        if let Some(own) = place.0.borrow().as_ref().filter(|own| !own.host.interface().has_stopped()) {
            return Ok(Rc::clone(own));
        }
        // Each hasher that the library makes has keys of its own, which begin with random ones of the system.
        let random = RandomState::new();
        let (host, driver) = Host::join(&MESH, std::array::from_fn(|index| random.hash_one(index)))?;
        // Past the loop's own spawn, which counts tasks: the loop does not wait for the driver when it ends.
        drop(tokio::task::spawn_local(driver));
        let own = Rc::new(Self { name: DeviceName::Switch.to_string().into(), host });
        let stopped = place.0.borrow_mut().replace(Rc::clone(&own));
        drop(stopped);
        Ok(own)
    }
}

impl Drop for OfLoop {
    fn drop(&mut self) {
        // The loop's tasks are gone, and what their connections had left to say would be lost with the engine.
        if let Some(own) = self.0.take() {
            exit::finish(&[own.host.interface()]);
        }
    }
}

struct SwitchAcceptor {
    local: SocketAddr,
    queue: ListenQueue,
    /// On the loop that polls.
    listener: Option<ThreadBound<(RefCell<Listener>, Rc<LoopHost>)>>,
    /// Nobody drives the loop's host any more.
    ended: Option<Ended>,
    lease: Lease<mesh::Service>,
}

impl Acceptor for SwitchAcceptor {
    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Box<dyn Arrival>>> {
        let (listener, own) = match self.listener.as_ref().and_then(ThreadBound::get) {
            Some(listening) => listening,
            // A listener that stops asks once more who waits. It would join the mesh again.
            None if self.lease.is_given_up() => return Poll::Pending,
            None => {
                let own = LoopHost::get()?;
                let listener = RefCell::new(own.host.listen(self.local, &self.queue)?);
                let listening = self.listener.insert(ThreadBound::new((listener, own)));
                listening.get().ok_or(io::ErrorKind::NotConnected)?
            }
        };
        match ready!(listener.borrow_mut().poll_accept(cx)) {
            Ok(stream) => Poll::Ready(Ok(StackArrival::of(StackTransport::new(stream, &own.name)))),
            Err(error) => {
                let end = stopped(&own.name, own.host.interface());
                self.ended = end.as_ref().map(|_| Ended::One);
                Poll::Ready(Err(end.unwrap_or(error)))
            }
        }
    }

    fn ended(&self) -> Option<Ended> {
        self.ended
    }
}

static MESH: LazyLock<Mesh> = LazyLock::new(|| Mesh::new(mesh::Limits::default()));

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use anywire_loops::Loops;

    use super::*;

    /// A listener that went on would ask again for ever, and its service would look alive. The next listener of the loop has another host.
    #[test]
    fn a_listener_that_nobody_drives_ends() {
        let loops = Loops::start(1).expect("a thread");
        let asked = loops.get(0).spawn(|| async {
            let (host, driver) = Host::join(&MESH, [1; 4]).expect("room");
            let own = LoopHost { name: DeviceName::Switch.to_string().into(), host };
            *anywire_loops::local(OfLoop::default).0.borrow_mut() = Some(Rc::new(own));
            let at = ([10, 253, 0, 1], 80).into();
            let (service, queues) = MESH.listen(at, 2, 1).expect("nobody listens there");
            let (lease, _guard) = Lease::new(service);
            let [mut ends, mut next] = <[ListenQueue; 2]>::try_from(queues).expect("two").map(|queue| {
                SwitchAcceptor { local: at, queue, listener: None, ended: None, lease: lease.clone() }
            });
            let cx = &mut Context::from_waker(Waker::noop());
            assert!(ends.poll_accept(cx).is_pending(), "nobody has come");
            drop(driver);
            let Poll::Ready(Err(error)) = ends.poll_accept(cx) else { panic!("nothing will come") };
            assert!(next.poll_accept(cx).is_pending() && next.ended().is_none(), "somebody may come here");
            (error.kind(), ends.ended())
        });
        assert_eq!(asked.wait().expect("no panic"), (io::ErrorKind::NotConnected, Some(Ended::One)));
    }
}
