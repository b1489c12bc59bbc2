//! A host on a device, for one loop: an engine and the addresses that this process has there.

use std::cell::RefCell;
use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher, RandomState};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;

use anywire_stack::device::Capabilities;
use anywire_stack::ip::{self, Event, Layer, Probing};
use anywire_stack::stream::{Interface, ListenOptions, Listener, Stream};
use anywire_stack::xdp::{Attachment, Claim, Wanted};
use anywire_tcp::{Cidr, ConnectOptions, Engine, Mac, Route, Settings, Via};
use tokio::sync::Notify;

use super::checks;
use super::devices::{self, Opened, Taken};
use super::location::DeviceName;
use super::{LAST_WORDS, on_a_loop};

/// A host on a device.
pub(super) struct Host {
    pub(super) name: Arc<str>,
    interface: Interface,
    addresses: RefCell<HashMap<IpAddr, State>>,
    /// An address is in another state.
    has_changed: Notify,
    /// Addresses that nobody had when the device was opened.
    free: RefCell<Vec<IpAddr>>,
    attachment: Option<Arc<Attachment>>,
    /// What sends packets for our addresses here.
    claims: RefCell<Vec<Claim>>,
}

/// Whether an address can be used.
#[derive(Debug, Clone, Copy)]
enum State {
    /// Others are asked whether they have it.
    Probed,
    Ready,
    InUse(Mac),
    Refused(anywire_tcp::RouteError),
}

/// Those of the present loop.
#[derive(Default)]
struct Hosts(RefCell<Vec<Rc<Host>>>);

impl Host {
    /// The one of the present loop; opens the device if nobody has it. `None` if another loop has it.
    pub(super) fn here(device: &DeviceName<'_>, mac: Option<Mac>) -> io::Result<Option<Rc<Self>>> {
        on_a_loop()?;
        let (hosts, name) = (anywire_loops::local(Hosts::default), device.to_string());
        if let Some(host) = hosts.0.borrow().iter().find(|host| *host.name == *name) {
            return Ok(Some(Rc::clone(host)));
        }
        let device = match devices::take(device)? {
            Taken::Ours(device) => device,
            Taken::Elsewhere => return Ok(None),
        };
        let host = Self::start(&name, mac, device).inspect_err(|_| devices::release(&name))?;
        hosts.0.borrow_mut().push(Rc::clone(&host));
        Ok(Some(host))
    }

    fn start(name: &str, mac: Option<Mac>, opened: Opened) -> io::Result<Rc<Self>> {
        let Opened { device, attachment, free } = opened;
        let capabilities = device.capabilities();
        // Each hasher that the library makes has keys of its own, which begin with random ones of the system.
        let random = RandomState::new();
        let mut settings = Settings::new(std::array::from_fn(|index| random.hash_one(index)));
        settings.checksum_offload = capabilities.transmit_checksum;
        let mut limits = anywire_tcp::Limits::default();
        limits.connections = CONNECTIONS;
        let mut engine = Engine::new(settings, limits)?;
        let mac = mac_of_engine(name, mac, &capabilities);
        engine.set_mac(mac);
        let mut settings = ip::Settings::new(random.hash_one("ip"));
        settings.probing = Probing::LOCAL;
        let layer = Layer::new(mac, settings, ip::Limits::default());
        let (interface, driver) = Interface::with_layer(engine, layer, device);
        // Past the loop's own spawn, which counts tasks: the loop does not wait for these when it ends.
        drop(tokio::task::spawn_local(driver));
        let host = Rc::new(Self {
            name: name.into(),
            interface,
            addresses: RefCell::default(),
            has_changed: Notify::new(),
            free: RefCell::new(free),
            attachment,
            claims: RefCell::default(),
        });
        drop(tokio::task::spawn_local(Rc::clone(&host).watch()));
        Ok(host)
    }

    /// Follows what happens below TCP.
    async fn watch(self: Rc<Self>) {
        while let Some(event) = self.interface.next_event().await {
            let device = &*self.name;
            let (address, state) = match event {
                Event::AddressReady(address) => (address, State::Ready),
                Event::AddressInUse { address, by } => (address, State::InUse(by)),
                Event::AddressRefused { address, reason } => (address, State::Refused(reason)),
                event => {
                    tracing::warn!(device, "{event}");
                    continue;
                }
            };
            tracing::debug!(device, "{event}");
            self.addresses.borrow_mut().insert(address, state);
            self.has_changed.notify_waiters();
        }
    }

    /// Gives the host an address, and ways to its network and, by the gateway, to all others. Waits until it is known that nobody else
    /// has it.
    pub(super) async fn join(&self, own: Cidr, gateway: Option<IpAddr>) -> io::Result<()> {
        let ip = own.address();
        // What somebody else had the last time is asked for anew.
        let is_there = matches!(self.addresses.borrow().get(&ip), Some(State::Probed | State::Ready));
        if !is_there {
            devices::check_address(&self.name, ip)?;
            self.addresses.borrow_mut().insert(ip, State::Probed);
            self.add(own, gateway).inspect_err(|_| {
                self.addresses.borrow_mut().remove(&ip);
            })?;
        }
        loop {
            let changed = self.has_changed.notified();
            let state = self.addresses.borrow().get(&ip).copied();
            match state {
                Some(State::Ready) => return Ok(()),
                Some(State::InUse(by)) => return Err(checks::taken(&self.name, ip, by)),
                Some(State::Refused(reason)) => return Err(io::Error::other(reason)),
                Some(State::Probed) | None => changed.await,
            }
        }
    }

    fn add(&self, own: Cidr, gateway: Option<IpAddr>) -> io::Result<()> {
        let Capabilities { mtu, .. } = self.interface.capabilities();
        checks::fits(&self.name, mtu, own.address())?;
        let mtu = u16::try_from(mtu).unwrap_or(u16::MAX);
        let on_link = Route { network: own.network(), via: Via::OnLink, mtu, source: None };
        let all = if own.address().is_ipv4() { Cidr::ALL_V4 } else { Cidr::ALL_V6 };
        let others =
            gateway.map(|gateway| Route { network: all, via: Via::Gateway(gateway), mtu, source: None });
        self.interface
            .with_engine(|engine| {
                [Some(on_link), others].into_iter().flatten().try_for_each(|route| engine.add_route(route))
            })
            .map_err(io::Error::other)?;
        if let Some(attachment) = &self.attachment {
            let claim = attachment.claim(Wanted::Address(own.address())).map_err(io::Error::other)?;
            self.claims.borrow_mut().push(claim);
        }
        let mut free = self.free.borrow_mut();
        match free.iter().position(|known| *known == own.address()) {
            // Once: the next time it may have been given to somebody else meanwhile.
            Some(place) => self.interface.add_free_address(free.swap_remove(place)),
            None => self.interface.add_address(own.address()),
        }
    }

    /// Whether an address of this family is ready.
    pub(super) fn has_address_for(&self, remote: IpAddr) -> bool {
        let addresses = self.addresses.borrow();
        addresses.iter().any(|(ip, state)| ip.is_ipv4() == remote.is_ipv4() && matches!(state, State::Ready))
    }

    pub(super) fn listen(&self, address: SocketAddr, backlog: usize) -> io::Result<Listener> {
        self.interface.listen(address, ListenOptions { backlog, connections: NO_NAGLE })
    }

    pub(super) async fn connect(&self, remote: SocketAddr) -> io::Result<Stream> {
        self.interface.connect(remote).await
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        for host in self.0.take() {
            // The loop's tasks are gone, and what their connections had left to say would be lost with the engine.
            host.interface.finish(LAST_WORDS);
            let name = Arc::clone(&host.name);
            drop(host);
            devices::release(&name);
        }
    }
}

/// The address of the interface that an engine on a device is: the one that is asked for, or else the device's, or else one of its own.
pub(super) fn mac_of_engine(device: &str, asked: Option<Mac>, capabilities: &Capabilities) -> Mac {
    asked.or(capabilities.mac).unwrap_or_else(|| mac_of(device))
}

/// An address for an interface that has none: the same each time, so that neighbours need not learn another one.
fn mac_of(device: &str) -> Mac {
    let [first, second, third, fourth, fifth, ..] =
        BuildHasherDefault::<DefaultHasher>::default().hash_one(device).to_be_bytes();
    // Locally administered, and of one interface.
    Mac::new([2, first, second, third, fourth, fifth])
}

/// Small writes leave at once. A user with more to say writes it in one call.
const NO_NAGLE: ConnectOptions = ConnectOptions { no_nagle: true, keep_alive: false, class: 0, dscp: 0 };

/// Connections of a host. Each takes 8 bytes of a table from the start.
const CONNECTIONS: usize = 1 << 18;
