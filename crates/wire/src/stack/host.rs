//! The hosts of the present loop: one for each device that it uses.

use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher, RandomState};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Duration;

use anywire_advice::Message;
use anywire_stack::device::Capabilities;
use anywire_stack::ip::Event;
use anywire_stack::shards::{self, Cidr, HostOptions, JoinError, Mac, Shards};
use anywire_stack::stream::{Driver, Interface, ListenOptions, Listener, Polling, Stream};

use super::checks;
use super::exit;
use super::inspect::{self, Inspected};
use super::location::DeviceName;
use super::registry::{self, OpenDevice};

/// A host on a device.
pub(super) struct DeviceHost {
    pub(super) name: Arc<str>,
    host: shards::SharedHost,
    shards: Arc<Shards>,
    /// The process does not end before its connections are closed. None once they are.
    open: Cell<Option<exit::Open>>,
    /// Given up after the host; none once that has lost the device.
    device: Cell<Option<OpenDevice>>,
}

/// Those of the present loop.
#[derive(Default)]
struct Hosts(RefCell<Vec<Rc<DeviceHost>>>);

impl DeviceHost {
    /// The one of the present loop; opens the device if nobody has.
    pub(super) fn of_loop(device: &DeviceName<'_>, mac: Option<Mac>) -> io::Result<Rc<Self>> {
        on_a_loop()?;
        let name = device.to_string();
        if let Some(host) = Self::running(&name) {
            registry::check_mac(&name, host.shards.capabilities(), mac)?;
            return Ok(host);
        }
        let host = Self::start(device, name.into(), mac)?;
        let inspected: Weak<Self> = Rc::downgrade(&host);
        inspect::register(&host.name, inspected);
        let hosts = anywire_loops::local(Hosts::default);
        let ended: Vec<_> = hosts.0.borrow_mut().extract_if(.., |one| one.name == host.name).collect();
        drop(ended);
        hosts.0.borrow_mut().push(Rc::clone(&host));
        Ok(host)
    }

    /// The one of the present loop, if the loop has the device and drives it.
    pub(super) fn running(device: &str) -> Option<Rc<Self>> {
        anywire_loops::current()?;
        let hosts = anywire_loops::local(Hosts::default);
        let hosts = hosts.0.borrow();
        hosts.iter().find(|host| *host.name == *device && host.end().is_none()).cloned()
    }

    fn start(device: &DeviceName<'_>, name: Arc<str>, mac: Option<Mac>) -> io::Result<Rc<Self>> {
        let (shard, open) = registry::join(device, mac)?;
        // Each hasher that the library makes has keys of its own, which begin with random ones of the system.
        let random = RandomState::new();
        let mac = mac_of_engine(&name, None, open.shards.capabilities());
        let secret = std::array::from_fn(|index| random.hash_one(index));
        let options = HostOptions::new(secret, random.hash_one("ip"), mac);
        let device = Arc::clone(&name);
        let (host, driver, watch) =
            shards::SharedHost::start(shard, options, move |event| tell(&device, event))?;
        let host = Rc::new(Self {
            name,
            host,
            shards: Arc::clone(&open.shards),
            open: Cell::new(Some(exit::Open::new())),
            device: Cell::new(Some(open)),
        });
        // Past the loop's own spawn, which counts tasks: the loop does not wait for these when it ends.
        let mut driving = Driving { driver: Box::pin(driver), _end: DriverEnd(Rc::downgrade(&host)) };
        drop(tokio::task::spawn_local(poll_fn(move |cx| {
            let polled = driving.driver.as_mut().poll(cx);
            // One that spins, or has much to do, never lets the loop sleep.
            anywire_loops::give_way();
            polled
        })));
        drop(tokio::task::spawn_local(watch));
        Ok(host)
    }

    /// Whether an address is that of a loop of this process on the device.
    pub(super) fn is_own(&self, ip: IpAddr) -> bool {
        self.shards.has_address(ip)
    }

    /// Gives the host an address, and ways to its network and, by the gateway, to all others. Waits until it is known that nobody else
    /// has it.
    pub(super) async fn join(&self, own: Cidr, gateway: Option<IpAddr>) -> io::Result<()> {
        self.check(own.address())?;
        self.host.join(own, gateway).await.map_err(|error| self.not_joined(error))
    }

    /// The same on a thread that waits. See [`shards::SharedHost::join_blocking`].
    pub(super) fn join_blocking(
        &self,
        own: Cidr,
        gateway: Option<IpAddr>,
        patience: Duration,
    ) -> io::Result<()> {
        self.check(own.address())?;
        self.host.join_blocking(own, gateway, patience).map_err(|error| self.not_joined(error))
    }

    fn check(&self, ip: IpAddr) -> io::Result<()> {
        if self.host.has_address(ip) {
            return Ok(());
        }
        registry::check_address(&self.name, ip)?;
        checks::fits(&self.name, self.host.interface().capabilities().mtu, ip)
    }

    fn not_joined(&self, error: JoinError) -> io::Error {
        match error {
            JoinError::InUse { address, by } => checks::taken(&self.name, address, by),
            JoinError::Stopped => self.end().unwrap_or_else(|| io::Error::other(error)),
            JoinError::TimedOut(_) => io::Error::new(io::ErrorKind::TimedOut, error),
            error => io::Error::other(error),
        }
    }

    /// Whether the device was removed, for all loops.
    pub(super) fn is_gone(&self) -> bool {
        self.shards.is_gone()
    }

    /// Why nothing will come from the device any more, if so.
    pub(super) fn end(&self) -> Option<io::Error> {
        if self.is_gone() {
            let was_detached = self.shards.attachment().is_some_and(|attachment| attachment.was_detached());
            let message = lost(&self.name, was_detached);
            return Some(io::Error::new(io::ErrorKind::NetworkDown, message));
        }
        stopped(&self.name, self.host.interface())
    }

    /// Says how the present loop waits for the device, if an address says so: the last one that does holds.
    pub(super) fn poll(&self, polling: Option<Polling>) {
        if let Some(polling) = polling {
            self.host.interface().set_polling(polling);
        }
    }

    /// Whether an address of this family is ready.
    pub(super) fn has_address_for(&self, remote: IpAddr) -> bool {
        self.host.has_address_for(remote)
    }

    pub(super) fn listen(&self, address: SocketAddr, backlog: usize) -> io::Result<Listener> {
        self.host.listen(address, ListenOptions { backlog, ..ListenOptions::default() })
    }

    pub(super) async fn connect(&self, remote: SocketAddr) -> io::Result<Stream> {
        self.host.connect(remote).await
    }
}

/// What has become of a device that carries no frames any more.
fn lost(device: &str, was_detached: bool) -> Message {
    if was_detached {
        let message =
            format!("somebody has detached the XDP program of {device}, and its connections have ended");
        return Message::new(message)
            .with_help("start again, and let other tools leave the program attached");
    }
    let message = Message::new(format!("{device} was removed, and its connections have ended"));
    message.with_help("start again once it is there")
}

/// What drives a host.
struct Driving {
    driver: Pin<Box<Driver>>,
    /// Dropped after the driver.
    _end: DriverEnd,
}

/// When it is dropped, a host that has lost its device keeps that open no longer: the next one opens it anew.
struct DriverEnd(Weak<DeviceHost>);

impl Drop for DriverEnd {
    fn drop(&mut self) {
        if let Some(host) = self.0.upgrade().filter(|host| host.host.interface().has_lost_device()) {
            drop(host.device.take());
        }
    }
}

/// Why nothing will come from an interface any more, if nobody drives it: then its listeners end, and would otherwise ask again for ever.
pub(super) fn stopped(device: &str, interface: &Interface) -> Option<io::Error> {
    interface.has_stopped().then(|| {
        let message = Message::new(format!("the task that drove {device} on this loop has ended"));
        let help = "look for a panic in the log, and start again";
        io::Error::new(io::ErrorKind::NotConnected, message.with_help(help))
    })
}

fn tell(device: &str, event: &Event) {
    match event {
        Event::AddressReady(_) | Event::AddressInUse { .. } | Event::AddressRefused { .. } => {
            tracing::debug!(device, "{event}");
        }
        Event::MacChanged { .. } | Event::MtuLowered { .. } | Event::KernelHasAddress(_)
            if !registry::is_news(device, event) => {}
        event => tracing::warn!(device, "{event}"),
    }
}

impl Inspected for DeviceHost {
    fn interface(&self) -> &Interface {
        self.host.interface()
    }

    fn release_process(&self) {
        self.open.set(None);
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        // The loop's tasks are gone, and what their connections had left to say would be lost with the engines.
        let hosts = self.0.take();
        let interfaces: Vec<_> = hosts.iter().map(|host| host.host.interface()).collect();
        exit::finish(&interfaces);
        hosts.iter().for_each(|host| host.release_process());
    }
}

/// Whether a loop calls, which alone can have hosts.
pub(super) fn on_a_loop() -> io::Result<()> {
    match anywire_loops::current() {
        Some(_) => Ok(()),
        None => {
            let message = Message::new("this wire is dialled and served on loops only");
            Err(io::Error::other(message.with_help("use LoopHandle::spawn")))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_was_detached_is_no_device_that_was_removed() {
        let [detached, removed] = [true, false].map(|was_detached| lost("xdp:va", was_detached).to_string());
        assert!(detached.contains("detached") && !detached.contains("removed"), "{detached}");
        assert!(removed.contains("xdp:va was removed"), "{removed}");
    }
}
