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
use tokio::time::{Instant, timeout_at};

/// What the hosts of this process on devices are doing at this moment.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Snapshot {
    /// One for each loop that has a device, by device, loops and loop.
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
    /// The number of the loop among its [`Loops`](anywire_loops::Loops).
    pub loop_number: usize,
    /// The number of these [`Loops`](anywire_loops::Loops) among those of the process.
    pub loops_number: u64,
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
    /// Connections that have a TCB: open, opening or ending.
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
    let asked: Vec<_> = loops(None).into_iter().map(|one| one.ask(connections_max)).collect();
    // They answer at the same time, so one that is stuck takes the others none of theirs.
    let deadline = Instant::now() + PATIENCE;
    for (device, number, answer) in asked {
        match timeout_at(deadline, answer).await {
            Ok(Ok(host)) => snapshot.hosts.extend(host),
            // It has ended meanwhile.
            Ok(Err(_)) => {}
            Err(_) => snapshot.silent.push((device, number)),
        }
    }
    let place = |one: &HostSnapshot| (one.device.clone(), one.loops_number, one.loop_number);
    snapshot.hosts.sort_by_cached_key(place);
    snapshot
}

/// A host that can be asked.
pub(super) trait Inspected {
    fn interface(&self) -> &Interface;
    /// Lets the process end: its connections have said their last words.
    fn release_process(&self);
}

/// Lets operators find a host of the present loop.
pub(super) fn register(device: &Arc<str>, host: Weak<dyn Inspected>) {
    let Some(on) = anywire_loops::current() else { return };
    anywire_loops::local(OfLoop::default).0.borrow_mut().push((Arc::clone(device), host));
    let mut all = all();
    // A host in place of one that has ended is the same loop's.
    all.retain(|one| one.is_there() && !(one.device == *device && one.on.same_as(&on)));
    all.push(DeviceLoop { device: Arc::clone(device), on });
}

/// A loop that has a device.
#[derive(Clone)]
pub(super) struct DeviceLoop {
    pub(super) device: Arc<str>,
    pub(super) on: LoopHandle,
}

impl DeviceLoop {
    /// Whether its loop runs: neither one that has ended nor one that died answers.
    fn is_there(&self) -> bool {
        self.on.state() == LoopState::Running
    }

    fn ask(self, connections_max: usize) -> (String, usize, anywire_loops::Task<Option<HostSnapshot>>) {
        let (device, number) = (self.device.to_string(), self.on.id().index());
        let on = self.on.clone();
        let answer = on.spawn(move || async move {
            let host = host(&self.device)?;
            Some(describe(&self, &*host, connections_max).await)
        });
        (device, number, answer)
    }
}

/// The loops that have a device, or this one.
pub(super) fn loops(device: Option<&str>) -> Vec<DeviceLoop> {
    let all = all();
    let is_meant = |one: &&DeviceLoop| one.is_there() && device.is_none_or(|device| *one.device == *device);
    all.iter().filter(is_meant).cloned().collect()
}

/// The hosts of the present loop.
pub(super) fn hosts() -> Vec<Rc<dyn Inspected>> {
    let of_loop = anywire_loops::local(OfLoop::default);
    let hosts = of_loop.0.borrow();
    hosts.iter().filter_map(|(_, host)| host.upgrade()).collect()
}

/// The host of the present loop on a device.
pub(super) fn host(device: &str) -> Option<Rc<dyn Inspected>> {
    let of_loop = anywire_loops::local(OfLoop::default);
    let mut hosts = of_loop.0.borrow_mut();
    hosts.retain(|(_, host)| host.strong_count() > 0);
    // The last one is in place of those that have ended.
    hosts.iter().rfind(|(name, _)| **name == *device).and_then(|(_, host)| host.upgrade())
}

/// Those of the present loop.
#[derive(Default)]
struct OfLoop(RefCell<Vec<Found>>);

/// A host, and its device.
type Found = (Arc<str>, Weak<dyn Inspected>);

async fn describe(of: &DeviceLoop, host: &dyn Inspected, max: usize) -> HostSnapshot {
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
        device: of.device.to_string(),
        loop_number: of.on.id().index(),
        loops_number: of.on.loops_number(),
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

fn all() -> MutexGuard<'static, Vec<DeviceLoop>> {
    static ALL: Mutex<Vec<DeviceLoop>> = Mutex::new(Vec::new());
    // Nothing panics while the lock is held.
    ALL.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How long loops have to answer.
pub(super) const PATIENCE: Duration = Duration::from_secs(2);

/// Places of an engine that are looked at before other tasks of the loop run: some 50 us.
const PLACES_AT_ONCE: u32 = 512;

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::sync::{Barrier, mpsc};
    use std::task::{Context, Wake};

    use anywire_loops::Loops;

    use anywire_stack::shards::Cidr;

    use super::super::host::DeviceHost;
    use super::super::{Capture, CaptureOptions, checks};
    use super::*;

    /// Runs this while several loops that have the device are held up, on a clock that moves only while it waits. How long that was.
    fn while_stuck(device: &str, asking: impl AsyncFnOnce()) -> Duration {
        let (loops, device) = (Loops::start(3).expect("threads"), Arc::<str>::from(device));
        let mut held = Vec::new();
        for one in loops.iter() {
            let ((hold, released), device) = (mpsc::channel::<()>(), Arc::clone(&device));
            one.spawn(|| async move { register(&device, Weak::<DeviceHost>::new()) })
                .wait()
                .expect("no panic");
            one.post(move || _ = released.recv()).expect("there is room");
            held.push(hold);
        }
        let mut builder = tokio::runtime::Builder::new_current_thread();
        let runtime = builder.enable_time().start_paused(true).build().expect("a runtime");
        runtime.block_on(async {
            let start = Instant::now();
            asking().await;
            start.elapsed()
        })
    }

    /// Panics where the runtime's own timer calls it, which its loop does not survive.
    struct Panics;

    impl Wake for Panics {
        fn wake(self: Arc<Self>) {
            panic!("a waker panics, as the test wishes");
        }
    }

    fn die(one: &LoopHandle) {
        let killer = one.spawn(|| async {
            let mut sleep = pin!(tokio::time::sleep(Duration::from_millis(1)));
            let waker = Arc::new(Panics).into();
            assert!(sleep.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
            std::future::pending::<()>().await;
        });
        killer.wait().expect_err("its loop dies");
        while one.state() == LoopState::Running {
            std::thread::yield_now();
        }
    }

    #[test]
    fn loops_that_died_are_forgotten() {
        let loops = Loops::start(1).expect("a thread");
        let one = loops.get(0);
        one.spawn(|| async { register(&"tap:died".into(), Weak::<DeviceHost>::new()) })
            .wait()
            .expect("no panic");
        assert_eq!(super::loops(Some("tap:died")).len(), 1);
        die(&one);
        assert!(super::loops(Some("tap:died")).is_empty());
    }

    /// As of a server and a client of one process.
    #[test]
    fn loops_of_the_same_number_are_told_apart() {
        let all = [(); 2].map(|()| Loops::start(1).expect("a thread"));
        for loops in &all {
            let registering =
                loops.get(0).spawn(|| async { register(&"tap:both".into(), Weak::<DeviceHost>::new()) });
            registering.wait().expect("no panic");
        }
        let found: Vec<_> = loops(Some("tap:both")).into_iter().map(|one| one.on).collect();
        assert!(found.len() == 2 && !found[0].same_as(&found[1]), "{found:?}");
        assert_ne!(found[0].loops_number(), found[1].loops_number());
    }

    /// The fault would be silence otherwise: the service has begun, and nobody listens.
    #[test]
    fn a_loop_that_is_held_up_is_told_of() {
        let loops = Loops::start(1).expect("a thread");
        let one = loops.get(0);
        one.spawn(|| async { register(&"tap:held".into(), Weak::<DeviceHost>::new()) })
            .wait()
            .expect("no panic");
        let (hold, released) = mpsc::channel::<()>();
        one.post(move || _ = released.recv()).expect("there is room");
        let own = Cidr::host([10, 0, 0, 2].into());
        let told = checks::ask_running("tap:held", own, None);
        assert_eq!(told.expect_err("it is held up").kind(), std::io::ErrorKind::TimedOut);
        drop(hold);
    }

    /// Each has the device at which the other one is to listen.
    #[test]
    fn loops_that_ask_each_other_do_not_wait_for_each_other() {
        let loops = Loops::start(2).expect("two threads");
        let (all_here, own) = (Arc::new(Barrier::new(2)), Cidr::host([10, 0, 0, 2].into()));
        for (index, device) in ["tap:first", "tap:second"].into_iter().enumerate() {
            let has = loops
                .get(index)
                .spawn(move || async move { register(&device.into(), Weak::<DeviceHost>::new()) });
            has.wait().expect("no panic");
        }
        let asking = ["tap:second", "tap:first"].into_iter().enumerate().map(|(index, device)| {
            let all_here = Arc::clone(&all_here);
            loops.get(index).spawn(move || async move {
                all_here.wait();
                checks::ask_running(device, own, None)
            })
        });
        for asked in asking.collect::<Vec<_>>() {
            asked.wait().expect("no panic").expect("it was held up by nobody else");
        }
    }

    #[test]
    fn loops_that_are_stuck_have_their_time_together() {
        let took = while_stuck("tap:stuck", async || {
            let silent = snapshot(0).await.silent;
            assert_eq!(silent.iter().filter(|(device, _)| device == "tap:stuck").count(), 3, "{silent:?}");
        });
        assert!(took <= PATIENCE + Duration::from_millis(2), "{took:?}");
    }

    #[test]
    fn a_capture_begins_though_loops_are_stuck() {
        let took = while_stuck("tap:slow", async || {
            let options = CaptureOptions { device: Some("tap:slow".into()), ..CaptureOptions::default() };
            let mut capture = Capture::start(options).await.expect("there is such a device");
            assert!(capture.next().await.is_some_and(|header| !header.is_empty()));
        });
        assert!(took <= PATIENCE + Duration::from_millis(2), "{took:?}");
    }
}
