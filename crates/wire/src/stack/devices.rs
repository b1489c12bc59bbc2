//! Which devices this process has open. Each belongs to the loop that used it first, for as long as that loop runs.

use std::collections::HashSet;
use std::collections::btree_map::{BTreeMap, Entry};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Condvar, LazyLock, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};

use anywire_stack::device::Device;
use anywire_stack::tap::{self, AddressError, Tap};
use anywire_stack::xdp::{self, Attachment, WantedMode, Xdp};
use anywire_sys::interfaces::interface_with;

use super::location::{DeviceName, Location};

/// A device that may still go to any loop.
pub(super) struct Opened {
    pub(super) device: Box<dyn Device + Send>,
    /// What sends it packets to addresses of ours, on an interface that the kernel uses too.
    pub(super) attachment: Option<Arc<Attachment>>,
    /// Addresses that nobody on the link had when it was asked: they need not be asked for again.
    pub(super) free: Vec<IpAddr>,
}

/// Where a device is.
enum State {
    /// Open, so that a fault in it is told before anything starts. The first loop that uses it will have it.
    Parked(Opened),
    /// It was parked, and somebody asks on its link for the moment.
    Asked,
    /// On this loop.
    OnLoop(ThreadId),
}

#[derive(Default)]
struct Devices {
    states: BTreeMap<String, State>,
    /// What is listened on.
    claimed: HashSet<(String, SocketAddr)>,
}

/// What a loop gets that asks for a device.
pub(super) enum Taken {
    /// It has the device from now on. To be [released](release) when the loop ends.
    Ours(Opened),
    /// Another loop of this process has it.
    Elsewhere,
}

/// Opens a device for the loop that will use it, unless it is open.
pub(super) fn reserve(device: &DeviceName<'_>) -> io::Result<()> {
    match devices().states.entry(device.to_string()) {
        Entry::Occupied(_) => {}
        Entry::Vacant(place) => {
            place.insert(State::Parked(open(device)?));
        }
    }
    Ok(())
}

/// Lets a device be used that no loop has yet, without holding up others; not at all if a loop has it.
pub(super) fn with_parked(
    device: &DeviceName<'_>,
    using: impl FnOnce(&mut Opened) -> io::Result<()>,
) -> io::Result<()> {
    let name = device.to_string();
    let mut opened = {
        let mut devices = settled(&name);
        let Some(state) = devices.states.get_mut(&name) else { return Ok(()) };
        match std::mem::replace(state, State::Asked) {
            State::Parked(opened) => opened,
            other => {
                *state = other;
                return Ok(());
            }
        }
    };
    let used = using(&mut opened);
    devices().states.insert(name, State::Parked(opened));
    HAS_SETTLED.notify_all();
    used
}

/// The device for the present loop, which has none of this name yet.
pub(super) fn take(device: &DeviceName<'_>) -> io::Result<Taken> {
    let name = device.to_string();
    let mut devices = settled(&name);
    if let Some(State::OnLoop(_)) = devices.states.get(&name) {
        return Ok(Taken::Elsewhere);
    }
    let ours = match devices.states.remove(&name) {
        Some(State::Parked(parked)) => parked,
        _ => open(device)?,
    };
    devices.states.insert(name, State::OnLoop(thread::current().id()));
    Ok(Taken::Ours(ours))
}

/// The present loop has closed the device.
pub(super) fn release(name: &str) {
    let mut devices = devices();
    if let Some(State::OnLoop(owner)) = devices.states.get(name)
        && *owner == thread::current().id()
    {
        devices.states.remove(name);
    }
}

/// A place that this process listens on.
pub(super) struct Claim {
    device: String,
    pub(super) address: SocketAddr,
}

impl Claim {
    /// Claims a place, with any free port if its port is 0. `None` if somebody in this process listens there already.
    pub(super) fn of(location: &Location<'_>) -> Option<Self> {
        let (mut devices, device) = (devices(), location.device.to_string());
        let mut address = location.address;
        if address.port() == 0 {
            let is_free = |port: &u16| {
                let place = (device.clone(), SocketAddr::new(address.ip(), *port));
                !devices.claimed.contains(&place)
            };
            address.set_port((PORT_FIRST..=u16::MAX).find(is_free)?);
        }
        devices.claimed.insert((device.clone(), address)).then_some(Self { device, address })
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let mut devices = devices();
        devices.claimed.remove(&(self.device.clone(), self.address));
        // No loop has come to use it. Another listener opens it anew.
        if let Some(State::Parked(_)) = devices.states.get(&self.device) {
            devices.states.remove(&self.device);
        }
    }
}

/// Checks that the kernel itself does not have an address that is to be ours on this device: it would answer, too.
pub(super) fn check_address(device: &str, address: IpAddr) -> io::Result<()> {
    let Some(interface) = interface_with(address)? else { return Ok(()) };
    let device = device.to_owned();
    Err(io::Error::new(io::ErrorKind::AddrInUse, AddressError::KernelHasIt { address, device, interface }))
}

/// All devices, once nobody asks on the link of this one any more.
fn settled(name: &str) -> MutexGuard<'static, Devices> {
    let is_asked = |devices: &mut Devices| matches!(devices.states.get(name), Some(State::Asked));
    HAS_SETTLED.wait_while(devices(), is_asked).unwrap_or_else(PoisonError::into_inner)
}

fn open(device: &DeviceName<'_>) -> io::Result<Opened> {
    match device {
        DeviceName::Switch => Err(io::ErrorKind::Unsupported.into()),
        DeviceName::Tap(name) => {
            let tap = Tap::open(name, tap::Options::default()).map_err(io::Error::other)?;
            Ok(Opened { device: Box::new(tap), attachment: None, free: Vec::new() })
        }
        DeviceName::Xdp(name) => {
            let opened = || {
                let attachment = Attachment::attach(name, WantedMode::Any)?;
                // All queues of the interface lead to the one loop.
                let xdp = Xdp::open(&attachment, attachment.share(0, 1)?, xdp::Options::default())?;
                Ok((xdp, attachment))
            };
            let (xdp, attachment) = opened().map_err(|error: xdp::OpenError| io::Error::other(error))?;
            tracing::debug!(device = name, mode = %attachment.mode(), zero_copy = xdp.is_zero_copy(), "attached");
            Ok(Opened { device: Box::new(xdp), attachment: Some(attachment), free: Vec::new() })
        }
    }
}

fn devices() -> MutexGuard<'static, Devices> {
    static DEVICES: LazyLock<Mutex<Devices>> = LazyLock::new(Mutex::default);
    // Nothing panics while the lock is held.
    DEVICES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Nobody asks any more on the link of a device.
static HAS_SETTLED: Condvar = Condvar::new();

/// The first of the ports that nobody has by name (RFC 6335 section 6).
const PORT_FIRST: u16 = 49_152;
