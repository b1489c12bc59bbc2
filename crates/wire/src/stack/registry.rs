//! Which devices this process has open: each is there for as long as a loop or a service uses it.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::mem;
use std::net::IpAddr;
use std::sync::{Arc, Condvar, LazyLock, Mutex, MutexGuard, PoisonError};

use anywire_advice::{Chain, Message};
use anywire_stack::device::{Capabilities, Device};
use anywire_stack::ip::Event;
use anywire_stack::shards::{Mac, NoShard, Shard, Shards};
use anywire_stack::tap::{self, AddressError, Tap, TapError};
use anywire_stack::xdp::{self, Attachment, WantedMode, Xdp};
use anywire_sys::interfaces::interface_with;
use anywire_sys::network_interface::NetworkInterface;

use super::checks;
use super::host::mac_of_engine;
use super::location::DeviceName;
use crate::claim::{Claim, ClaimHeld};

/// A queue of a device, which may go to any loop.
type Queue = Box<dyn Device + Send>;

/// A device that is open.
struct Opened {
    shards: Arc<Shards>,
    /// Its queues, as long as no loop uses it: a fault in it is told before anything starts. The first loop gets them.
    parked: Vec<Queue>,
    /// Somebody asks on its link for the moment, with the queues.
    is_asked: bool,
    /// Loops and services that use it.
    users: usize,
    /// The last event that each of its loops may tell of, and that was told.
    told: Option<Event>,
    /// No other process opens it meanwhile.
    _claim: Option<Claim>,
}

/// Keeps a device open.
pub(super) struct OpenDevice {
    name: String,
    pub(super) shards: Arc<Shards>,
}

impl OpenDevice {
    /// Opens a device, unless it is open. `mac` is the address of its engines, if one is asked for.
    ///
    /// # Errors
    /// `InvalidInput` if it is open with another address.
    pub(super) fn of(device: &DeviceName<'_>, mac: Option<Mac>) -> io::Result<Self> {
        Self::among(&mut devices(), device, mac)
    }

    fn among(devices: &mut Devices, device: &DeviceName<'_>, mac: Option<Mac>) -> io::Result<Self> {
        let name = device.to_string();
        let opened = match devices.entry(name.clone()) {
            Entry::Occupied(opened) => {
                let opened = opened.into_mut();
                if opened.shards.is_gone() {
                    // Its last users have not heard of that yet, or keep what they had.
                    *opened = open(device, mac)?;
                }
                check_mac(&name, opened.shards.capabilities(), mac)?;
                opened
            }
            Entry::Vacant(place) => place.insert(open(device, mac)?),
        };
        opened.users += 1;
        let shards = Arc::clone(&opened.shards);
        Ok(Self { name, shards })
    }
}

impl Drop for OpenDevice {
    fn drop(&mut self) {
        let mut devices = devices();
        // Another one may be open under the name of one that is gone.
        let is_ours = |opened: &&mut Opened| Arc::ptr_eq(&opened.shards, &self.shards);
        let Some(opened) = devices.get_mut(&self.name).filter(is_ours) else { return };
        opened.users -= 1;
        if opened.users == 0 {
            devices.remove(&self.name);
        }
    }
}

/// The device for the present loop, which has none of this name yet. The shard is to be dropped before what keeps the device open.
pub(super) fn join(device: &DeviceName<'_>, mac: Option<Mac>) -> io::Result<(Shard, OpenDevice)> {
    let name = device.to_string();
    let (open, shard);
    {
        // Held until the shard is there: another loop would open the device once more.
        let mut devices = settled(&name);
        open = OpenDevice::among(&mut devices, device, mac)?;
        let parked = devices.get_mut(&name).map(|opened| mem::take(&mut opened.parked)).unwrap_or_default();
        let more = if parked.is_empty() { more_queues(device, &open.shards) } else { parked };
        shard = match open.shards.join(more) {
            // The loops that had them have ended.
            Err(NoShard::NoQueue) => queues(device, open.shards.attachment())
                .and_then(|all| open.shards.join(all).map_err(io::Error::other)),
            joined => joined.map_err(io::Error::other),
        };
    }
    // Behind the lock, which an `OpenDevice` takes when it is dropped.
    Ok((shard?, open))
}

/// Lets the queues of a device be used that no loop has yet, without holding up others; not at all if a loop has them.
pub(super) fn with_parked(
    device: &DeviceName<'_>,
    using: impl FnOnce(&Shards, &mut [Queue]) -> io::Result<()>,
) -> io::Result<()> {
    let Some(mut borrowed) = Borrowed::of(device.to_string()) else { return Ok(()) };
    let Borrowed { shards, queues, .. } = &mut borrowed;
    using(shards, queues)
}

/// The queues of a device that no loop has, while somebody asks on its link with them. They are given back when this is dropped, also by a
/// panic: all that wait for the device would wait for ever.
struct Borrowed {
    name: String,
    shards: Arc<Shards>,
    queues: Vec<Queue>,
}

impl Borrowed {
    fn of(name: String) -> Option<Self> {
        let mut devices = settled(&name);
        let opened = devices.get_mut(&name).filter(|opened| !opened.parked.is_empty())?;
        opened.is_asked = true;
        let (queues, shards) = (mem::take(&mut opened.parked), Arc::clone(&opened.shards));
        drop(devices);
        Some(Self { name, shards, queues })
    }
}

impl Drop for Borrowed {
    fn drop(&mut self) {
        let mut devices = devices();
        // Another one may be open under the name of one that is gone.
        let is_ours = |opened: &&mut Opened| Arc::ptr_eq(&opened.shards, &self.shards);
        if let Some(opened) = devices.get_mut(&self.name).filter(is_ours) {
            (opened.parked, opened.is_asked) = (mem::take(&mut self.queues), false);
        }
        drop(devices);
        HAS_SETTLED.notify_all();
    }
}

/// Whether an event of a device, which each of its loops hears, is new.
pub(super) fn is_news(device: &str, event: &Event) -> bool {
    let mut devices = devices();
    devices.get_mut(device).is_none_or(|opened| opened.told.replace(*event) != Some(*event))
}

/// Checks that the address which is asked for is the one that a device was opened with: its engines are one interface.
pub(super) fn check_mac(device: &str, opened: &Capabilities, asked: Option<Mac>) -> io::Result<()> {
    let (Some(asked), Some(own)) = (asked, opened.mac) else { return Ok(()) };
    if asked == own {
        return Ok(());
    }
    let message =
        Message::new(format!("{device} is open with mac={own} already, and cannot have {asked} too"));
    Err(io::Error::new(
        io::ErrorKind::InvalidInput,
        message.with_help("give all its addresses the same mac=, or one of them"),
    ))
}

/// Checks that the kernel itself does not have an address that is to be ours on this device: it would answer, too.
pub(super) fn check_address(device: &str, address: IpAddr) -> io::Result<()> {
    let Some(interface) = interface_with(address)? else { return Ok(()) };
    let device = device.to_owned();
    Err(io::Error::new(io::ErrorKind::AddrInUse, AddressError::KernelHasIt { address, device, interface }))
}

fn open(device: &DeviceName<'_>, mac: Option<Mac>) -> io::Result<Opened> {
    let claim = claim(device)?;
    checks::is_up(device)?;
    let attachment = match device {
        DeviceName::Xdp(name) => {
            if let Ok(interface) = NetworkInterface::find(name) {
                checks::is_mac_of(&interface, mac)?;
            }
            let attachment = Attachment::attach(name, WantedMode::Any).map_err(io::Error::other)?;
            tracing::debug!(device = name, mode = %attachment.mode(), "attached");
            if let Some(advice) = checks::hidden_vlans(attachment.interface()) {
                tracing::warn!(device = name, "{advice}");
            }
            Some(attachment)
        }
        DeviceName::Tap(_) | DeviceName::Switch => None,
    };
    let parked = queues(device, attachment.as_ref())?;
    let first = parked.first().ok_or(io::ErrorKind::NotFound)?;
    let mut capabilities: Capabilities = first.capabilities();
    capabilities.mac = Some(mac_of_engine(&device.to_string(), mac, &capabilities));
    // Each hasher that the library makes has keys of its own, which begin with random ones of the system.
    let random = RandomState::new();
    let shards = Shards::new(capabilities, attachment, std::array::from_fn(|index| random.hash_one(index)));
    Ok(Opened { shards, parked, is_asked: false, users: 0, told: None, _claim: claim })
}

/// Takes an interface for this process alone: the kernel would deal the frames of one with several queues to all that open it. None if it
/// is not there, which opening it says better.
fn claim(device: &DeviceName<'_>) -> io::Result<Option<Claim>> {
    let (DeviceName::Tap(name) | DeviceName::Xdp(name)) = device else { return Ok(None) };
    let Ok(interface) = NetworkInterface::find(name) else { return Ok(None) };
    Claim::of_interface(name, interface.index).map(Some).map_err(|error| match ClaimHeld::of(&error) {
        Some(held) => {
            let message = format!("process {} has {name}, and its frames come to one process", held.pid);
            let help = "call and serve there from that process (`anywire serve` takes --listen several times), or end it";
            io::Error::new(io::ErrorKind::AddrInUse, Message::new(message).with_help(help))
        }
        None => error,
    })
}

/// What another loop gets of a device that is open: nothing if it has no more, since the first loop has all that there is.
fn more_queues(device: &DeviceName<'_>, shards: &Shards) -> Vec<Queue> {
    let DeviceName::Tap(name) = device else { return Vec::new() };
    if shards.capabilities().queues <= 1 {
        return Vec::new();
    }
    match Tap::open(name, tap::Options::default()) {
        Ok(mut tap) => {
            // The queue that the device was opened with counts them.
            tap.leave_drops_to_another();
            vec![Box::new(tap)]
        }
        // There are no more queues, or somebody else has taken the last one.
        Err(TapError::Busy { .. }) => Vec::new(),
        Err(error) => {
            tracing::warn!(device = name, error = %Chain(&error), "a loop has no queue of its own and sends by that of another one");
            Vec::new()
        }
    }
}

/// A queue of a TAP device, or all queues of an interface.
fn queues(device: &DeviceName<'_>, attachment: Option<&Arc<Attachment>>) -> io::Result<Vec<Queue>> {
    match (device, attachment) {
        (DeviceName::Tap(name), _) => {
            let tap = Tap::open(name, tap::Options::default()).map_err(io::Error::other)?;
            Ok(vec![Box::new(tap)])
        }
        (DeviceName::Xdp(_), Some(attachment)) => {
            let count = attachment.interface().receive_queues;
            let one = |place| -> Result<Queue, xdp::OpenError> {
                let queues = attachment.share(place, count)?;
                Ok(Box::new(Xdp::open(attachment, queues, xdp::Options::default())?))
            };
            (0..count).map(one).collect::<Result<_, _>>().map_err(io::Error::other)
        }
        (DeviceName::Xdp(_) | DeviceName::Switch, _) => Err(io::ErrorKind::Unsupported.into()),
    }
}

type Devices = BTreeMap<String, Opened>;

/// All devices, once nobody asks on the link of this one any more.
fn settled(name: &str) -> MutexGuard<'static, Devices> {
    let is_asked = |devices: &mut Devices| devices.get(name).is_some_and(|opened| opened.is_asked);
    HAS_SETTLED.wait_while(devices(), is_asked).unwrap_or_else(PoisonError::into_inner)
}

fn devices() -> MutexGuard<'static, Devices> {
    static DEVICES: LazyLock<Mutex<Devices>> = LazyLock::new(Mutex::default);
    // Nothing panics while the lock is held.
    DEVICES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Nobody asks any more on the link of a device.
static HAS_SETTLED: Condvar = Condvar::new();

#[cfg(test)]
mod tests {
    use anywire_stack::device::{DeviceCounters, Frames, Instant};

    use super::*;

    /// A queue on which nothing happens.
    struct Silent;

    impl Device for Silent {
        fn capabilities(&self) -> Capabilities {
            Capabilities::new(1500)
        }

        fn receive(&mut self, _: Instant, _: &mut Frames) -> usize {
            0
        }

        fn room(&self) -> usize {
            0
        }

        fn transmit(&mut self, _: Instant, _: &mut Frames) -> usize {
            0
        }

        fn counters(&self) -> DeviceCounters {
            DeviceCounters::default()
        }
    }

    /// All that wait for it would wait for ever.
    #[test]
    fn a_panic_while_somebody_asks_on_a_link_gives_the_device_back() {
        let device = DeviceName::Tap("panicked-on");
        let name = device.to_string();
        let shards = Shards::new(Capabilities::new(1500), None, [1, 2]);
        let parked: Vec<Queue> = vec![Box::new(Silent)];
        let opened = Opened { shards, parked, is_asked: false, users: 1, told: None, _claim: None };
        devices().insert(name.clone(), opened);
        let asked = std::panic::catch_unwind(|| with_parked(&device, |_, _| panic!("as a test wants it")));
        asked.expect_err("the caller hears of it");
        let opened = devices().remove(&name).expect("it is open");
        assert!(!opened.is_asked && opened.parked.len() == 1);
    }

    #[test]
    fn a_device_has_one_mac() {
        let [own, other] = [1, 2].map(|last| Mac::new([2, 0, 0, 0, 0, last]));
        let mut opened = Capabilities::new(1500);
        opened.mac = Some(own);
        for asked in [None, Some(own)] {
            check_mac("tap0", &opened, asked).expect("the same");
        }
        let said = check_mac("tap0", &opened, Some(other)).expect_err("another one");
        assert!(
            said.kind() == io::ErrorKind::InvalidInput && said.to_string().contains("mac=02:00"),
            "{said}"
        );
    }
}
