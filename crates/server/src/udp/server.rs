//! A service of datagrams: addresses, loops and limits around a handler, and how it starts.

use std::fmt;
use std::io;
use std::time::Duration;

use anywire_advice::Advice;
use anywire_loops::{self as loops, LoopHandle, LoopState, Loops};
use anywire_wire::AddressError;
use anywire_wire::udp::{DatagramAddress, ToDatagramAddress, Udp, UdpError, UdpOptions, Unregistered};
use tokio::sync::watch;

use super::handle::{Parts, UdpServerHandle, UdpShutdown};
use super::handler::DatagramHandler;
use super::rate::PeerRate;
use super::sockets::Sockets;
use crate::loop_choice::LoopChoice;

/// A service of datagrams to be started: its handler, addresses and loops.
///
/// Each loop has a socket of its own at each address, and a handler of its own. The module has an [example](super).
pub struct UdpServer<M> {
    make: M,
    addresses: Vec<Result<DatagramAddress, AddressError>>,
    options: UdpOptions,
    limits: UdpLimits,
    loops: LoopChoice,
    shutdown_deadline: Duration,
}

/// Limits of a service of datagrams.
#[derive(Debug, Clone)]
pub struct UdpLimits {
    /// How much one peer may send (`None`: as much as it likes).
    pub peer_rate: Option<PeerRate>,
    /// Replies that are to come later, at each socket (4096); beyond it [`Replies::later`](super::Replies::later) refuses.
    pub later_max: usize,
}

impl Default for UdpLimits {
    fn default() -> Self {
        Self { peer_rate: None, later_max: 4096 }
    }
}

/// Why a service of datagrams cannot start, or could not go on.
///
/// Its `Debug` form is the message, so that a `main` that returns it prints a sentence.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum UdpServerError {
    /// An address is malformed; the caller's fault.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// An address cannot be received at: in use, not permitted, not there.
    #[error(transparent)]
    Bind(#[from] UdpError),
    /// No address was given.
    #[error("the service has nowhere to receive{help}", help = Advice("add .listen(\"udp:127.0.0.1:9000\")"))]
    NoAddress,
    /// The loops did not start: the system gave no thread or no descriptor.
    #[error(transparent)]
    Loops(#[from] loops::StartError),
    /// A socket could not be registered with its loop; mostly no descriptor is left.
    #[error(
        "a socket could not be registered with its loop: {0}{help}",
        help = Advice("a higher limit on open files may help")
    )]
    Register(#[source] io::Error),
    /// The signals that end a service cannot be received.
    #[error(
        "receiving SIGTERM and SIGINT failed: {0}{help}",
        help = Advice("a higher limit on open files may help")
    )]
    Signals(#[source] io::Error),
}

impl fmt::Debug for UdpServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl<M, H> UdpServer<M>
where
    M: Fn() -> H + Clone + Send + 'static,
    H: DatagramHandler,
{
    /// A service whose handlers are made so, one for each socket, on the loop that will run it. It has one loop a core.
    #[must_use]
    pub fn new(make: M) -> Self {
        Self {
            make,
            addresses: Vec::new(),
            options: UdpOptions::default(),
            limits: UdpLimits::default(),
            loops: LoopChoice::PerCore,
            shutdown_deadline: Duration::from_secs(10),
        }
    }

    /// Receives here, too: `udp:0.0.0.0:9000`, `unixgram:/run/app.sock`. [`start`](Self::start) reports a malformed address.
    #[must_use]
    pub fn listen(mut self, address: impl ToDatagramAddress) -> Self {
        self.addresses.push(address.to_datagram_address());
        self
    }

    /// How to receive: buffer, largest datagram, steering.
    #[must_use]
    pub fn options(mut self, options: UdpOptions) -> Self {
        self.options = options;
        self
    }

    /// The limits.
    #[must_use]
    pub fn limits(mut self, limits: UdpLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Runs on so many loops of its own instead of one a core.
    #[must_use]
    pub fn loops(mut self, count: usize) -> Self {
        self.loops = LoopChoice::Count(count);
        self
    }

    /// Runs on these loops, which may serve others as well and outlive the service.
    #[must_use]
    pub fn on(mut self, loops: &Loops) -> Self {
        self.loops = LoopChoice::Given(loops.clone());
        self
    }

    /// How long [`run`](Self::run) answers what has arrived, and waits for later replies (10 s).
    #[must_use]
    pub fn shutdown_deadline(mut self, deadline: Duration) -> Self {
        self.shutdown_deadline = deadline;
        self
    }

    /// Starts, and returns once every address is received at. Blocks for a moment; not to be called on a loop.
    ///
    /// # Errors
    /// Addresses, loops and sockets are checked in this order; the first mistake is returned, and nothing runs.
    pub fn start(self) -> Result<UdpServerHandle, UdpServerError> {
        let addresses = self.addresses.into_iter().collect::<Result<Vec<_>, _>>()?;
        if addresses.is_empty() {
            return Err(UdpServerError::NoAddress);
        }
        let (loops, owns_loops) = self.loops.start()?;
        let homes = homes(&loops);
        // All addresses are bound before the first datagram is taken: a service starts whole or not at all.
        let bound = addresses.iter().map(|address| Udp::bind(address, &self.options, homes.len()));
        let bound: Vec<Vec<Unregistered>> = bound.collect::<Result<_, _>>()?;
        let local: Vec<_> = bound.iter().map(|sockets| sockets[0].local().clone()).collect();
        let (end, ended) = watch::channel(None);
        let parts = Parts::default();
        let service = Sockets {
            make: self.make,
            limits: self.limits,
            loops: homes.clone(),
            ended,
            parts: parts.clone(),
        };
        let mut registrations = Vec::new();
        for sockets in bound {
            // Of several sockets, the system gives the datagrams of one that is closed to the others.
            let moves = sockets.len() < homes.len();
            for (home, mut socket) in homes.iter().zip(sockets) {
                socket.refuse_sources(&local);
                let registration = service.begin(socket, home, 0, moves);
                registrations.push(registration.map_err(UdpServerError::Register)?);
            }
        }
        let handle = UdpServerHandle::new(local, loops, owns_loops, parts, end, self.shutdown_deadline);
        for registration in registrations {
            let gone = || Err(io::Error::other("the loop has ended, or the handler could not be made"));
            let registered = loops::block_on(registration).unwrap_or_else(|_| gone());
            registered.map_err(UdpServerError::Register)?;
        }
        Ok(handle)
    }

    /// Starts, and serves until SIGTERM or SIGINT. Then answers what has arrived, up to the shutdown deadline, and returns.
    /// Blocks the calling thread; not to be called on a loop.
    ///
    /// # Errors
    /// As [`start`](Self::start), and [`UdpServerError::Signals`].
    pub fn run(self) -> Result<UdpShutdown, UdpServerError> {
        let mut server = self.start()?;
        server.register_signals()?;
        for address in server.addresses() {
            tracing::info!(%address, "receiving");
        }
        server.wait_for_signal()
    }
}

/// The loops that receive. One that has died gets no work; if none runs, its registration says so.
fn homes(loops: &Loops) -> Vec<LoopHandle> {
    let running: Vec<_> = loops.iter().filter(|one| one.state() == LoopState::Running).collect();
    if running.is_empty() { loops.iter().collect() } else { running }
}
