//! Who is there: the ports of a mesh by their numbers, and its services by their addresses.

use std::cell::RefCell;
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use anywire_advice::Advice;
use anywire_sys::martian::is_martian;

use super::listen_queue::{ListenQueue, Queue, Queued, Refused};
use super::port::Port;
use super::station::Station;
use super::{Limits, is_of_ports};

/// The hosts of one process that reach each other. Clones are the same mesh; usable from any thread.
#[derive(Debug, Clone)]
pub struct Mesh {
    pub(super) directory: Arc<Directory>,
}

/// Why a mesh refuses a port or a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MeshError {
    /// All ports are in use. Drop one, or raise [`Limits::ports`].
    #[error(
        "cannot join the mesh: all {limit} ports are in use{help}",
        help = Advice("drop one, or raise `Limits::ports`")
    )]
    PortsExhausted {
        /// How many there may be.
        limit: usize,
    },
    /// There are as many services as may be. Drop one, or raise [`Limits::services`].
    #[error(
        "cannot listen on the mesh: there are {limit} services{help}",
        help = Advice("drop one, or raise `Limits::services`")
    )]
    ServicesExhausted {
        /// How many there may be.
        limit: usize,
    },
    /// Another service listens there already.
    #[error(
        "cannot listen on the mesh at {0}: another service does already{help}",
        help = Advice("drop that service, or choose another port")
    )]
    AddressTaken(SocketAddr),
    /// The address is a port's own, or no single host's. Choose one that no port has.
    #[error(
        "cannot listen on the mesh at {0}: that is no address of a service{help}",
        help = Advice("choose that of a host, outside of 10.255.0.0/16")
    )]
    NotAService(IpAddr),
}

#[derive(Debug)]
pub(super) struct Directory {
    pub(super) limits: Limits,
    listed: Mutex<Listed>,
    /// How often the services have changed.
    version: AtomicU64,
}

type Services = HashMap<SocketAddr, Arc<Queues>>;

/// The services, as a host knows them: it takes no lock to dial, unless they have changed since.
#[derive(Debug, Default)]
pub(super) struct Known {
    version: Option<u64>,
    services: Arc<Services>,
}

#[derive(Debug, Default)]
struct Listed {
    ports: HashMap<u16, Arc<Station>>,
    /// The number that was given out last: the one of a port that has gone is not used again soon.
    last_number: u16,
    /// Those who know them keep them, so a change makes another table.
    services: Arc<Services>,
}

#[derive(Debug)]
struct Queues {
    all: Vec<Arc<Queue>>,
    next: AtomicUsize,
}

impl Mesh {
    /// A mesh without ports.
    pub fn new(limits: Limits) -> Self {
        let directory = Directory { limits, listed: Mutex::default(), version: AtomicU64::new(0) };
        Self { directory: Arc::new(directory) }
    }

    /// Another port, for the thread that calls. It is freed when it is dropped.
    ///
    /// # Errors
    /// [`MeshError::PortsExhausted`] at the [limit](Limits::ports).
    pub fn join(&self) -> Result<Port, MeshError> {
        let limit = self.directory.limits.ports.min(usize::from(u16::MAX - 1));
        let mut listed = self.directory.lock();
        if listed.ports.len() >= limit {
            return Err(MeshError::PortsExhausted { limit });
        }
        let mut number = listed.last_number;
        loop {
            number = number.checked_add(1).filter(|number| *number != u16::MAX).unwrap_or(1);
            if !listed.ports.contains_key(&number) {
                break;
            }
        }
        let station = Arc::new(Station::new(number));
        listed.last_number = number;
        listed.ports.insert(number, Arc::clone(&station));
        drop(listed);
        Ok(Port::new(self.clone(), station))
    }

    /// Listens at an address for `hosts` hosts. Each has a listen queue of its own, with room for `backlog`
    /// connections that were not accepted yet. Port 0 stands for a free one. Clients that
    /// connect before a host [attends](super::Host::attend) its queue wait there.
    ///
    /// # Errors
    /// [`MeshError::AddressTaken`] if another service listens there, [`MeshError::NotAService`] if the address cannot
    /// be a service's, [`MeshError::ServicesExhausted`] at the [limit](Limits::services).
    pub fn listen(
        &self,
        address: SocketAddr,
        hosts: usize,
        backlog: usize,
    ) -> Result<(Service, Vec<ListenQueue>), MeshError> {
        if is_of_ports(address.ip()) || is_martian(address.ip()) {
            return Err(MeshError::NotAService(address.ip()));
        }
        let mut listed = self.directory.lock();
        let limit = self.directory.limits.services;
        if listed.services.len() >= limit {
            return Err(MeshError::ServicesExhausted { limit });
        }
        let ports = if address.port() == 0 { PORTS_FREE } else { address.port()..=address.port() };
        let mut candidates = ports.map(|port| SocketAddr::new(address.ip(), port));
        let free = candidates.find(|candidate| !listed.services.contains_key(candidate));
        let address = free.ok_or(MeshError::AddressTaken(address))?;
        let shared: Vec<_> = (0..hosts.max(1)).map(|_| Arc::new(Queue::new(backlog.max(1)))).collect();
        let queues = shared.iter().map(|queue| ListenQueue { queue: Arc::clone(queue) }).collect();
        let queues_of_all = Arc::new(Queues { all: shared, next: AtomicUsize::new(0) });
        self.directory.change(&mut listed, |services| services.insert(address, queues_of_all));
        drop(listed);
        Ok((Service { directory: Arc::clone(&self.directory), address }, queues))
    }

    /// Takes a place in the backlog of a service, for a connection from this address and port.
    pub(super) const fn enqueue<'m>(
        &'m self,
        known: &'m RefCell<Known>,
        service: SocketAddr,
        from: SocketAddr,
    ) -> Enqueue<'m> {
        Enqueue { mesh: self, known, service, from }
    }

    fn queues(&self, known: &RefCell<Known>, service: SocketAddr) -> Option<Arc<Queues>> {
        let (mut known, version) = (known.borrow_mut(), self.directory.version.load(Ordering::Acquire));
        if known.version != Some(version) {
            *known = Known { version: Some(version), services: Arc::clone(&self.directory.lock().services) };
        }
        known.services.get(&service).cloned()
    }

    /// Queues are asked round-robin; a full one is skipped. Pending while none has a place.
    fn poll_enqueue(
        &self,
        known: &RefCell<Known>,
        service: SocketAddr,
        from: SocketAddr,
        cx: &Context<'_>,
    ) -> Poll<Result<Queued, Refused>> {
        let Some(queues) = self.queues(known, service) else { return Poll::Ready(Err(Refused)) };
        let first = queues.next.fetch_add(1, Ordering::Relaxed);
        let mut is_open = false;
        for step in 0..queues.all.len() {
            let queue = &queues.all[(first + step) % queues.all.len()];
            match queue.poll_join(from, cx) {
                Poll::Ready(Ok(())) => {
                    // It is the turn of the one behind it, so that no host gets the share of one that is skipped.
                    queues.next.fetch_add(step, Ordering::Relaxed);
                    return Poll::Ready(Ok(Queued { queue: Arc::clone(queue), from }));
                }
                Poll::Ready(Err(Refused)) => {}
                Poll::Pending => is_open = true,
            }
        }
        if is_open { Poll::Pending } else { Poll::Ready(Err(Refused)) }
    }

    pub(super) fn station(&self, number: u16) -> Option<Arc<Station>> {
        self.directory.lock().ports.get(&number).cloned()
    }
}

/// A connection that waits for a place in a backlog. Dropped, it leaves nothing behind.
pub(super) struct Enqueue<'m> {
    mesh: &'m Mesh,
    known: &'m RefCell<Known>,
    service: SocketAddr,
    from: SocketAddr,
}

impl Future for Enqueue<'_> {
    type Output = Result<Queued, Refused>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.mesh.poll_enqueue(self.known, self.service, self.from, cx)
    }
}

impl Drop for Enqueue<'_> {
    fn drop(&mut self) {
        // A service that has gone has told everybody.
        let queues = self.mesh.queues(self.known, self.service);
        queues.iter().flat_map(|queues| &queues.all).for_each(|queue| queue.give_up(self.from));
    }
}

impl Directory {
    fn lock(&self) -> MutexGuard<'_, Listed> {
        // Nothing that can panic leaves the lists half changed.
        self.listed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change<R>(&self, listed: &mut Listed, change: impl FnOnce(&mut Services) -> R) {
        change(Arc::make_mut(&mut listed.services));
        // Who sees this waits for the lock, and so for the new table.
        self.version.fetch_add(1, Ordering::Release);
    }

    pub(super) fn leave(&self, station: &Station) {
        self.lock().ports.remove(&station.number);
        station.close();
    }
}

/// An address that is listened on; free again when this is dropped. Connections go on, and so do the
/// queues, until they are dropped as well.
#[derive(Debug)]
pub struct Service {
    directory: Arc<Directory>,
    address: SocketAddr,
}

impl Service {
    /// Where it is, with the port that was chosen.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.directory.change(&mut self.directory.lock(), |services| services.remove(&self.address));
    }
}

/// Among these a free port is chosen (RFC 6335, section 6).
const PORTS_FREE: std::ops::RangeInclusive<u16> = 49_152..=u16::MAX;
