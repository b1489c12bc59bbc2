//! Who is there: the endpoints of a mesh by their numbers, and its services by their addresses.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anywire_advice::Advice;
use anywire_sys::martian::is_martian;

use super::endpoint::Endpoint;
use super::listen_queue::{ListenQueue, Queue, Refused};
use super::{Limits, is_of_endpoints};
use crate::ring_link::Mailbox;

/// The hosts of one process that reach each other. Clones are the same mesh; usable from any thread.
#[derive(Debug, Clone)]
pub struct Mesh {
    pub(super) directory: Arc<Directory>,
}

/// Why a mesh refuses an endpoint or a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MeshError {
    /// All endpoints are in use. Drop one, or raise [`Limits::endpoints`].
    #[error(
        "cannot join the mesh: all {limit} endpoints are in use{help}",
        help = Advice("drop one, or raise `Limits::endpoints`")
    )]
    EndpointsExhausted {
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
    /// All ports that may be chosen are in use at this address.
    #[error("no port is left to listen at on the mesh{help}", help = Advice("name one below 49,152"))]
    NoPort,
    /// The address is that of an endpoint, or no single host's. Choose one that no endpoint has.
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
    endpoints: HashSet<u16>,
    /// The number that was given out last: the one of an endpoint that has gone is not used again soon.
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
    /// A mesh without endpoints.
    pub fn new(limits: Limits) -> Self {
        let directory = Directory { limits, listed: Mutex::default(), version: AtomicU64::new(0) };
        Self { directory: Arc::new(directory) }
    }

    /// Another endpoint, for the thread that calls. It is freed when it is dropped.
    ///
    /// # Errors
    /// [`MeshError::EndpointsExhausted`] at the [limit](Limits::endpoints).
    pub fn join(&self) -> Result<Endpoint, MeshError> {
        let limit = self.directory.limits.endpoints.min(usize::from(u16::MAX - 1));
        let mut listed = self.directory.lock();
        if listed.endpoints.len() >= limit {
            return Err(MeshError::EndpointsExhausted { limit });
        }
        let mut number = listed.last_number;
        loop {
            number = number.checked_add(1).filter(|number| *number != u16::MAX).unwrap_or(1);
            if !listed.endpoints.contains(&number) {
                break;
            }
        }
        let mailbox = Arc::new(Mailbox::new(number));
        listed.last_number = number;
        listed.endpoints.insert(number);
        drop(listed);
        Ok(Endpoint::new(self.clone(), mailbox))
    }

    /// Listens at an address for `hosts` hosts. Each has a listen queue of its own, and `backlog` connections may wait there to be
    /// accepted. Port 0 stands for a free one. Clients that connect before a host [listens](super::Host::listen) at its queue wait, too,
    /// as many as may wait to be accepted; others wait for their handshakes.
    ///
    /// # Errors
    /// [`MeshError::AddressTaken`] if another service listens there. [`MeshError::NoPort`] if port 0 was asked for and all ports are taken.
    /// [`MeshError::NotAService`] if no service may have the address. [`MeshError::ServicesExhausted`] at the [limit](Limits::services).
    pub fn listen(
        &self,
        address: SocketAddr,
        hosts: usize,
        backlog: usize,
    ) -> Result<(Service, Vec<ListenQueue>), MeshError> {
        if is_of_endpoints(address.ip()) || is_martian(address.ip()) {
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
        let taken = if address.port() == 0 { MeshError::NoPort } else { MeshError::AddressTaken(address) };
        let address = free.ok_or(taken)?;
        let shared: Vec<_> = (0..hosts.max(1)).map(|_| Arc::new(Queue::new(backlog.max(1)))).collect();
        let queues = shared.iter().map(|queue| ListenQueue { queue: Arc::clone(queue) }).collect();
        let queues_of_all = Arc::new(Queues { all: shared, next: AtomicUsize::new(0) });
        self.directory.change(&mut listed, |services| services.insert(address, queues_of_all));
        drop(listed);
        Ok((Service { directory: Arc::clone(&self.directory), address }, queues))
    }

    /// The queue that gets the next connection to a service: each in turn, those left out that were dropped.
    pub(super) fn next_queue(
        &self,
        known: &RefCell<Known>,
        service: SocketAddr,
    ) -> Result<Arc<Queue>, Refused> {
        let queues = self.queues(known, service).ok_or(Refused)?;
        let (first, count) = (queues.next.fetch_add(1, Ordering::Relaxed), queues.all.len());
        let mut in_turn = (0..count).map(|step| (step, &queues.all[(first + step) % count]));
        let (step, queue) = in_turn.find(|(_, queue)| queue.is_open()).ok_or(Refused)?;
        // It is the turn of the one behind it, so that no host gets the share of one that is left out.
        queues.next.fetch_add(step, Ordering::Relaxed);
        Ok(Arc::clone(queue))
    }

    fn queues(&self, known: &RefCell<Known>, service: SocketAddr) -> Option<Arc<Queues>> {
        let (mut known, version) = (known.borrow_mut(), self.directory.version.load(Ordering::Acquire));
        if known.version != Some(version) {
            *known = Known { version: Some(version), services: Arc::clone(&self.directory.lock().services) };
        }
        // A service is kept without the zone of its address: there is one link.
        known.services.get(&SocketAddr::new(service.ip(), service.port())).cloned()
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

    pub(super) fn leave(&self, mailbox: &Mailbox) {
        self.lock().endpoints.remove(&mailbox.number);
        mailbox.close();
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_to_listen_at_run_out_by_their_own_error() {
        let mesh = Mesh::new(Limits { services: usize::MAX, ..Limits::default() });
        let ip = IpAddr::from([10, 0, 0, 2]);
        let listen = |port| mesh.listen(SocketAddr::new(ip, port), 1, 1);
        let last = listen(u16::MAX).expect("nobody listens there");
        let queues = Arc::new(Queues { all: Vec::new(), next: AtomicUsize::new(0) });
        let others = (*PORTS_FREE.start()..u16::MAX).map(|port| SocketAddr::new(ip, port));
        mesh.directory.change(&mut mesh.directory.lock(), |services| {
            services.extend(others.map(|other| (other, Arc::clone(&queues))));
        });
        assert_eq!(listen(0).expect_err("all are taken"), MeshError::NoPort);
        drop(last);
        assert_eq!(listen(0).expect("one is free again").0.address().port(), u16::MAX);
    }
}
