//! A host on a device, for one loop: an engine, and the addresses that it has there together with other loops.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::future::{Future, poll_fn};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use anywire_advice::Advice;
use anywire_tcp::{Cidr, ConnectError, ConnectOptions, Engine, Mac, Route, RouteError, Settings, Via};
use tokio::sync::Notify;

use super::addresses::Step;
use super::directory::{ServiceError, Shards};
use super::shard::Shard;
use super::steering::LoopNumber;
use crate::device::{Capabilities, Device};
use crate::ip::{self, Event, Layer, Probing};
use crate::stream::{Driver, Events, Interface, ListenOptions, Listener, Stream, WeakInterface};
use crate::xdp::{Claim, OpenError, Wanted};

/// A host on a device that it may share with other loops. Clones are the same one. It belongs to one thread. When the last clone,
/// stream and listener of it is dropped, its driver ends as soon as its connections have, and gives back addresses, queues and services.
#[derive(Clone)]
pub struct SharedHost {
    inner: Rc<Inner>,
    interface: Interface,
}

/// What all clones of a host and its watch share. The watch lasts as long as the driver, which ends with the last [`Interface`], so
/// this holds none.
struct Inner {
    shards: Arc<Shards>,
    number: LoopNumber,
    addresses: RefCell<HashMap<IpAddr, State>>,
    /// An address is in another state.
    has_changed: Notify,
    /// What sends packets for our addresses here. An address that somebody else has has none.
    claims: RefCell<HashMap<IpAddr, Claim>>,
    /// It has ports to dial from. One that never dials leaves them to others.
    has_ports: Cell<bool>,
    /// Nothing will become of addresses that are asked for.
    has_ended: Cell<bool>,
    /// Told of what happens below TCP that concerns no single call.
    tell: Box<dyn Fn(&Event)>,
}

/// Whether an address can be used.
#[derive(Debug, Clone, Copy)]
enum State {
    /// Others are asked whether they have it, or it is about to be used.
    Awaited,
    Ready,
    InUse(Mac),
    Refused(RouteError),
}

/// How a [`SharedHost`] is made.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct HostOptions {
    /// Random numbers that nobody else knows: see [`Settings::secret`].
    pub secret: [u64; 4],
    /// Another one, from which random times follow.
    pub seed: u64,
    /// The address of its interface. Default: that of the device, if it has one.
    pub mac: Mac,
    /// Connections. Each takes 8 bytes of a table from the start. Default 262,144.
    pub connections: usize,
    /// How an address is checked before it is used. Default [`Probing::LOCAL`].
    pub probing: Probing,
}

impl HostOptions {
    /// The defaults.
    pub const fn new(secret: [u64; 4], seed: u64, mac: Mac) -> Self {
        Self { secret, seed, mac, connections: 1 << 18, probing: Probing::LOCAL }
    }
}

/// Why a host does not have an address.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JoinError {
    /// Somebody else on the link has it.
    #[error("{by} has the address {address}")]
    InUse {
        /// The address.
        address: IpAddr,
        /// Who has it.
        by: Mac,
    },
    /// The engine does not take the address, or a route to its network.
    #[error(transparent)]
    Route(#[from] RouteError),
    /// The kernel does not send us packets for it.
    #[error(transparent)]
    Claim(#[from] OpenError),
    /// The layer below TCP does not take it: see [`LayerError`](ip::LayerError).
    #[error(transparent)]
    Layer(io::Error),
    /// It was [taken away](Interface::remove_address) before it was ready.
    #[error("the address {0} was taken away before it was ready")]
    TakenAway(IpAddr),
    /// Nobody drives the host any more: its device is gone, or its driver has panicked. Start another host.
    #[error("nobody drives this host any more{help}", help = Advice("start another one"))]
    Stopped,
    /// Another loop asks whether somebody has the address, and has not said how that went.
    #[error(
        "the loop that asks whether somebody has the address {0} has not said so in time{help}",
        help = Advice("try again; if it lasts, look for what holds that loop up")
    )]
    TimedOut(IpAddr),
}

impl SharedHost {
    /// A host on a shard, and the two tasks that drive it: to be spawned on the present thread. `tell` hears of what happens below TCP.
    ///
    /// # Errors
    /// The system's, if it has no memory left.
    pub fn start(
        shard: Shard,
        options: HostOptions,
        tell: impl Fn(&Event) + 'static,
    ) -> io::Result<(Self, Driver, Watch)> {
        let Capabilities { transmit_checksum, .. } = shard.capabilities();
        let mut settings = Settings::new(options.secret);
        settings.checksum_offload = transmit_checksum;
        let mut limits = anywire_tcp::Limits::default();
        limits.connections = options.connections;
        let mut engine = Engine::new(settings, limits)?;
        engine.set_mac(options.mac);
        let (shards, number) = (Arc::clone(shard.shards()), shard.number());
        let mut settings = ip::Settings::new(options.seed);
        settings.probing = options.probing;
        let layer = Layer::new(options.mac, settings, ip::Limits::default());
        let (interface, driver) = Interface::with_layer(engine, layer, shard);
        let inner = Rc::new(Inner {
            shards,
            number,
            addresses: RefCell::default(),
            has_changed: Notify::new(),
            claims: RefCell::default(),
            has_ports: Cell::new(false),
            has_ended: Cell::new(false),
            tell: Box::new(tell),
        });
        let told = Rc::downgrade(&inner);
        interface.on_removed(move |address| {
            if let Some(inner) = told.upgrade() {
                inner.forget(address);
            }
        });
        let watch: Watch = Box::pin(Rc::clone(&inner).watch(interface.events(), interface.downgrade()));
        Ok((Self { inner, interface }, driver, watch))
    }

    /// Its network interface: engine and device, with their counters.
    pub fn interface(&self) -> &Interface {
        &self.interface
    }

    /// Gives the host an address, and ways to its network and, by the gateway, to all others. Waits until it is known that nobody else
    /// has the address; if another loop has it on this device, it is ready at once. An address that the host has already gets these ways as
    /// well; of two gateways, the one that was named last leads to other networks. [`Interface::remove_address`] takes it away; other
    /// loops that have it keep it.
    ///
    /// # Errors
    /// See [`JoinError`].
    pub async fn join(&self, own: Cidr, gateway: Option<IpAddr>) -> Result<(), JoinError> {
        let (inner, ip, mut has_waited) = (&*self.inner, own.address(), false);
        loop {
            if self.interface.has_stopped() {
                return Err(JoinError::Stopped);
            }
            // What somebody else had the last time is asked for anew.
            if matches!(inner.state(ip), Some(State::Awaited | State::Ready)) {
                self.add_routes(own, gateway)?;
                return inner.settled(ip).await;
            }
            let changed = inner.shards.addresses.changed();
            match inner.shards.addresses.want(ip, inner.number, has_waited) {
                Step::Wait => {
                    has_waited = true;
                    changed.await;
                }
                Step::InUse(by) => return Err(JoinError::InUse { address: ip, by }),
                step => {
                    inner.set(ip, State::Awaited);
                    if let Err(error) = self.add(own, gateway, step) {
                        inner.addresses.borrow_mut().remove(&ip);
                        inner.claims.borrow_mut().remove(&ip);
                        inner.shards.addresses.give_up(ip, inner.number);
                        return Err(error);
                    }
                }
            }
        }
    }

    /// The same on a thread that waits, while the tasks of its loop do not run: drives the host meanwhile. So no loop that waits here waits
    /// for another one that does.
    ///
    /// # Errors
    /// See [`JoinError`]; `TimedOut` after `patience`.
    pub fn join_blocking(
        &self,
        own: Cidr,
        gateway: Option<IpAddr>,
        patience: Duration,
    ) -> Result<(), JoinError> {
        let mut joining = pin!(self.join(own, gateway));
        let mut cx = Context::from_waker(Waker::noop());
        let joined = self.interface.drive_until(
            patience,
            |event| self.inner.on_event(event),
            || match joining.as_mut().poll(&mut cx) {
                Poll::Ready(joined) => Some(joined),
                Poll::Pending => None,
            },
        );
        joined.unwrap_or(Err(JoinError::TimedOut(own.address())))
    }

    /// Whether an address of this family is ready.
    pub fn has_address_for(&self, remote: IpAddr) -> bool {
        let addresses = self.inner.addresses.borrow();
        addresses.iter().any(|(ip, state)| ip.is_ipv4() == remote.is_ipv4() && matches!(state, State::Ready))
    }

    /// Whether this host has an address, or is about to.
    pub fn has_address(&self, ip: IpAddr) -> bool {
        matches!(self.inner.state(ip), Some(State::Awaited | State::Ready))
    }

    /// Listens, as one of the loops that a [service](Shards::reserve) is for.
    ///
    /// # Errors
    /// Those of [`Interface::listen`]; `QuotaExceeded` if all loops of the service listen already; `NotConnected` if the driver of the host
    /// has ended.
    pub fn listen(&self, address: SocketAddr, options: ListenOptions) -> io::Result<Listener> {
        let listener = self.interface.listen(address, options)?;
        let shared = self.inner.shards.listen(address, self.inner.number);
        shared.map_err(|error| {
            let is_stopped = error == ServiceError::Stopped;
            let kind = if is_stopped { io::ErrorKind::NotConnected } else { io::ErrorKind::QuotaExceeded };
            io::Error::new(kind, error)
        })?;
        Ok(listener)
    }

    /// Connects from an address of the host's, and from a port whose answers lead here. Small writes leave at once: Nagle's algorithm is
    /// off.
    ///
    /// # Errors
    /// Those of [`Interface::connect`]; `AddrNotAvailable` if other loops have all ports.
    pub async fn connect(&self, remote: SocketAddr) -> io::Result<Stream> {
        let options = ConnectOptions { no_nagle: true, ..ConnectOptions::default() };
        // Before it has any, its engine would give out all of them. One that has stopped gets none, and says so below.
        if !self.inner.has_ports.get() && !self.interface.has_stopped() && !self.take_ports() {
            return Err(io::Error::new(io::ErrorKind::AddrNotAvailable, ConnectError::NoPort));
        }
        loop {
            let error = match self.interface.start(None, remote, options) {
                Ok(mut stream) => {
                    stream.opened().await?;
                    return Ok(stream);
                }
                Err(error) => error,
            };
            let reason = error.get_ref().and_then(|inner| inner.downcast_ref::<ConnectError>());
            if reason != Some(&ConnectError::NoPort) || !self.take_ports() {
                return Err(error);
            }
        }
    }

    /// Takes more ports to dial from; false if other loops have them all.
    fn take_ports(&self) -> bool {
        let blocks = self.inner.shards.give_blocks(self.inner.number);
        if blocks.is_empty() {
            return false;
        }
        self.inner.has_ports.set(true);
        self.interface.with_engine(|engine| engine.give_ports(blocks));
        true
    }

    /// Ways to the network of an address and, by the gateway, to all others.
    fn add_routes(&self, own: Cidr, gateway: Option<IpAddr>) -> Result<(), RouteError> {
        let Capabilities { mtu, .. } = self.interface.capabilities();
        let mtu = u16::try_from(mtu).unwrap_or(u16::MAX);
        let on_link = Route { network: own.network(), via: Via::OnLink, mtu, source: None };
        let all = if own.address().is_ipv4() { Cidr::ALL_V4 } else { Cidr::ALL_V6 };
        let others =
            gateway.map(|gateway| Route { network: all, via: Via::Gateway(gateway), mtu, source: None });
        self.interface.with_engine(|engine| {
            [Some(on_link), others].into_iter().flatten().try_for_each(|route| engine.add_route(route))
        })
    }

    fn add(&self, own: Cidr, gateway: Option<IpAddr>, step: Step) -> Result<(), JoinError> {
        self.add_routes(own, gateway)?;
        if let Some(attachment) = self.inner.shards.attachment() {
            let claim = attachment.claim(Wanted::Address(own.address()))?;
            self.inner.claims.borrow_mut().insert(own.address(), claim);
        }
        let added = match step {
            Step::Follow => self.interface.follow_address(own.address()),
            _ if self.inner.shards.addresses.take_free(own.address()) => {
                self.interface.add_free_address(own.address())
            }
            _ => self.interface.add_address(own.address()),
        };
        added.map_err(JoinError::Layer)
    }
}

impl Inner {
    fn state(&self, ip: IpAddr) -> Option<State> {
        self.addresses.borrow().get(&ip).copied()
    }

    fn set(&self, ip: IpAddr, state: State) {
        self.addresses.borrow_mut().insert(ip, state);
        self.has_changed.notify_waiters();
    }

    /// The host has it no more. Other loops may.
    fn forget(&self, ip: IpAddr) {
        self.addresses.borrow_mut().remove(&ip);
        self.claims.borrow_mut().remove(&ip);
        self.shards.set_answers(ip, self.number, false);
        self.shards.addresses.give_up(ip, self.number);
        self.has_changed.notify_waiters();
    }

    async fn settled(&self, ip: IpAddr) -> Result<(), JoinError> {
        loop {
            let changed = self.has_changed.notified();
            match self.state(ip) {
                Some(State::InUse(by)) => return Err(JoinError::InUse { address: ip, by }),
                Some(State::Refused(reason)) => return Err(reason.into()),
                _ if self.has_ended.get() => return Err(JoinError::Stopped),
                Some(State::Ready) => return Ok(()),
                Some(State::Awaited) => changed.await,
                None => return Err(JoinError::TakenAway(ip)),
            }
        }
    }

    /// Follows what happens below TCP, and what other loops tell.
    async fn watch(self: Rc<Self>, events: Option<Events>, interface: WeakInterface) {
        let (mut events, mut others) =
            (pin!(self.follow_events(events, interface.clone())), pin!(self.follow_others(interface)));
        poll_fn(|cx| match others.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(()),
            Poll::Pending => events.as_mut().poll(cx),
        })
        .await;
    }

    async fn follow_events(&self, mut events: Option<Events>, interface: WeakInterface) {
        while let Some(events) = &mut events
            && let Some(event) = events.next().await
        {
            self.on_event(&event);
        }
        // Nobody drives it any more, though the tasks of its loop run on. Other loops get its queues, its part of the services and its
        // addresses.
        if let Some(interface) = interface.upgrade() {
            interface.lose_device();
        }
        self.has_ended.set(true);
        self.shards.addresses.leave(self.number);
        self.has_changed.notify_waiters();
    }

    fn on_event(&self, event: &Event) {
        let table = &self.shards.addresses;
        match *event {
            Event::AddressReady(ip) => {
                self.set(ip, State::Ready);
                table.set_ready(ip, self.number);
                self.shards.set_answers(ip, self.number, true);
            }
            Event::AddressInUse { address, by } => {
                self.set(address, State::InUse(by));
                self.claims.borrow_mut().remove(&address);
                table.set_in_use(address, self.number, by);
            }
            Event::AddressRefused { address, reason } => {
                self.set(address, State::Refused(reason));
                self.claims.borrow_mut().remove(&address);
                table.give_up(address, self.number);
            }
            _ => {}
        }
        (self.tell)(event);
    }

    /// Leads addresses whose loop has ended, as long as the interface is there.
    async fn follow_others(&self, interface: WeakInterface) {
        loop {
            let changed = self.shards.addresses.changed();
            let ready: Vec<_> = {
                let addresses = self.addresses.borrow();
                let ready = addresses.iter().filter(|(_, state)| matches!(state, State::Ready));
                ready.map(|(ip, _)| *ip).collect()
            };
            {
                let Some(interface) = interface.upgrade() else { return };
                for ip in ready {
                    if self.shards.addresses.leads(ip, self.number) {
                        interface.lead_address(ip);
                    }
                }
            }
            changed.await;
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.shards.addresses.leave(self.number);
    }
}

impl std::fmt::Debug for SharedHost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SharedHost").field("number", &self.inner.number).finish_non_exhaustive()
    }
}

/// The task of a [`SharedHost`] that follows what happens below TCP, and what other loops tell. It ends with the driver.
pub type Watch = Pin<Box<dyn Future<Output = ()>>>;
