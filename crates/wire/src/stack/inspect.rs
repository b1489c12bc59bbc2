//! What the hosts of this process on devices are doing, asked of their loops.

use std::cell::RefCell;
use std::net::IpAddr;
use std::rc::{Rc, Weak};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anywire_loops::{LoopHandle, LoopState};
use anywire_stack::device::DeviceCounters;
use anywire_stack::ip::{self, NeighbourInfo};
use anywire_stack::shards::Mac;
use anywire_stack::stream::{ConnectionInfo, EngineCounters, Interface, InterfaceCounters, Memory};
use tokio::task::yield_now;
use tokio::time::timeout;

/// What the hosts of this process on devices are doing at this moment.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Snapshot {
    /// One for each loop that has a device, by device and loop.
    pub hosts: Vec<HostSnapshot>,
    /// Loops that have not answered within two seconds, because something holds them up: the device, and the number of the loop.
    pub silent: Vec<(String, usize)>,
}

/// What one loop has on one device.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct HostSnapshot {
    /// The device, as addresses name it.
    pub device: String,
    /// The number of the loop.
    pub loop_number: usize,
    /// The Ethernet address of the host.
    pub mac: Mac,
    /// The longest packet of its device, in bytes.
    pub mtu: usize,
    /// Its addresses, and whether each may be used: not while others are asked whether they have it.
    pub addresses: Vec<(IpAddr, bool)>,
    /// Neighbours on the link.
    pub neighbours: Vec<NeighbourInfo>,
    /// Listeners and connections, as many as were asked for.
    pub connections: Vec<ConnectionInfo>,
    /// Those beyond.
    pub connections_omitted: u64,
    /// Connections that have a block: open, opening or ending.
    pub open: usize,
    /// Half-open connections: only a SYN has come.
    pub half_open: usize,
    /// Connections in TIME-WAIT.
    pub time_wait: usize,
    /// The memory of the engine.
    pub memory: Memory,
    /// What the engine has counted.
    pub tcp: EngineCounters,
    /// What the layer below it has counted.
    pub ip: ip::Counters,
    /// What the interface has counted.
    pub interface: InterfaceCounters,
    /// What the device has counted.
    pub link: DeviceCounters,
}

/// Asks each loop of this process that has a device. `connections_max` is how many connections each host tells of.
///
/// To be awaited on a runtime of tokio with a timer, such as a loop. A loop tells of its connections in parts, between which its other
/// tasks run.
///
/// ```
/// # anywire_loops::Loops::start(1)?.get(0).spawn(|| async {
/// let text = anywire_wire::stack::snapshot(0).await.prometheus();
/// assert_eq!(text, "", "this process has no device");
/// # }).wait()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub async fn snapshot(connections_max: usize) -> Snapshot {
    let mut snapshot = Snapshot::default();
    let asked: Vec<_> = places(None).into_iter().map(|place| place.ask(connections_max)).collect();
    for (device, number, answer) in asked {
        match timeout(PATIENCE, answer).await {
            Ok(Ok(host)) => snapshot.hosts.extend(host),
            // It has ended meanwhile.
            Ok(Err(_)) => {}
            Err(_) => snapshot.silent.push((device, number)),
        }
    }
    snapshot.hosts.sort_by(|a, b| (&a.device, a.loop_number).cmp(&(&b.device, b.loop_number)));
    snapshot
}

/// A host that can be asked.
pub(super) trait Inspected {
    fn interface(&self) -> &Interface;
}

/// Lets operators find a host of the present loop.
pub(super) fn register(device: &Arc<str>, host: Weak<dyn Inspected>) {
    let Some(on) = anywire_loops::current() else { return };
    anywire_loops::local(Here::default).0.borrow_mut().push((Arc::clone(device), host));
    let mut all = all();
    all.retain(Place::is_there);
    all.push(Place { device: Arc::clone(device), on });
}

/// A loop that has a device.
#[derive(Clone)]
pub(super) struct Place {
    pub(super) device: Arc<str>,
    pub(super) on: LoopHandle,
}

impl Place {
    fn is_there(&self) -> bool {
        self.on.state() != LoopState::Ended
    }

    fn ask(self, connections_max: usize) -> (String, usize, anywire_loops::Task<Option<HostSnapshot>>) {
        let (device, number) = (self.device.to_string(), self.on.id().index());
        let answer = self.on.spawn(move || async move {
            let host = here(&self.device)?;
            Some(describe(&self.device, number, &*host, connections_max).await)
        });
        (device, number, answer)
    }
}

/// The loops that have a device, or this one.
pub(super) fn places(device: Option<&str>) -> Vec<Place> {
    let all = all();
    let is_meant = |place: &&Place| place.is_there() && device.is_none_or(|device| *place.device == *device);
    all.iter().filter(is_meant).cloned().collect()
}

/// The host of the present loop on a device.
pub(super) fn here(device: &str) -> Option<Rc<dyn Inspected>> {
    let here = anywire_loops::local(Here::default);
    let mut hosts = here.0.borrow_mut();
    hosts.retain(|(_, host)| host.strong_count() > 0);
    hosts.iter().find(|(name, _)| **name == *device).and_then(|(_, host)| host.upgrade())
}

/// Those of the present loop.
#[derive(Default)]
struct Here(RefCell<Vec<Found>>);

/// A host, and its device.
type Found = (Arc<str>, Weak<dyn Inspected>);

async fn describe(device: &str, number: usize, host: &dyn Inspected, max: usize) -> HostSnapshot {
    let interface = host.interface();
    let (mut connections, mut omitted, mut next) = (Vec::new(), 0, (max > 0).then_some(0));
    while let Some(from) = next {
        next = interface.survey(from, PLACES_AT_ONCE, &mut connections);
        omitted += connections.len().saturating_sub(max) as u64;
        connections.truncate(max);
        yield_now().await;
    }
    let (mac, open, half_open, time_wait, memory, tcp) = interface.with_engine(|engine| {
        let counters = *engine.counters();
        (
            engine.mac(),
            engine.connections(),
            engine.half_open(),
            engine.in_time_wait(),
            engine.memory(),
            counters,
        )
    });
    HostSnapshot {
        device: device.to_owned(),
        loop_number: number,
        mac,
        mtu: interface.capabilities().mtu,
        addresses: interface.own_addresses(),
        neighbours: interface.neighbours(),
        connections,
        connections_omitted: omitted,
        open,
        half_open,
        time_wait,
        memory,
        tcp,
        ip: interface.layer_counters().unwrap_or_default(),
        interface: interface.counters(),
        link: interface.device_counters(),
    }
}

fn all() -> MutexGuard<'static, Vec<Place>> {
    static ALL: Mutex<Vec<Place>> = Mutex::new(Vec::new());
    // Nothing panics while the lock is held.
    ALL.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How long a loop has to answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// Places of an engine that are looked at before other tasks of the loop run: some 50 us.
const PLACES_AT_ONCE: u32 = 512;
