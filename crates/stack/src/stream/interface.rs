//! A network interface: opening and listening, and the state that its driver and its streams share.

use std::cell::{Cell, OnceCell, RefCell};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::{Rc, Weak};
use std::task::Waker;
use std::time::Duration;

use anywire_tcp::{ConnId, ConnectError, ConnectOptions, Engine, Instant, ListenError};

use super::core::{Core, InterfaceCounters};
use super::driver::Driver;
use super::duplex::Stream;
use super::events::Events;
use super::listener::{ListenOptions, Listener};
use crate::clock::Clock;
use crate::device::{Capabilities, Device, DeviceCounters};
use crate::ip::{self, Event, Layer};
use crate::wait::Polling;

/// A network interface of a host: an engine on a device, whose connections are [`Stream`]s. Clones are the same one.
///
/// When the last clone, stream and listener of it is dropped, its driver ends as soon as its connections
/// have.
#[derive(Clone)]
pub struct Interface {
    pub(super) shared: Rc<Shared>,
}

impl Interface {
    /// An interface, and the task that drives it: to be spawned on the present thread.
    pub fn new(engine: Engine, device: impl Device + 'static) -> (Self, Driver) {
        Self::over(engine, None, device)
    }

    /// The same on a link where neighbours are asked for: `layer` does that, and gives the engine its addresses.
    /// [`events`](Self::events) tells when an address is ready.
    pub fn with_layer(engine: Engine, layer: Layer, device: impl Device + 'static) -> (Self, Driver) {
        Self::over(engine, Some(layer), device)
    }

    fn over(engine: Engine, layer: Option<Layer>, device: impl Device + 'static) -> (Self, Driver) {
        let shared = Rc::new(Shared {
            core: RefCell::new(Core::new(engine, layer, Box::new(device))),
            driver: RefCell::new(None),
            is_woken: Cell::new(false),
            polling: Cell::default(),
            on_removed: OnceCell::new(),
            clock: Clock::start(),
        });
        (Self { shared: Rc::clone(&shared) }, Driver::of(shared))
    }

    /// Connects, from any address and port. Small writes leave at once: Nagle's algorithm is off.
    ///
    /// # Errors
    /// `ConnectionRefused`, `TimedOut` or `ConnectionReset` from the peer; `HostUnreachable` if nobody at the next hop answers; and
    /// the errors of [`start`](Self::start).
    pub async fn connect(&self, remote: SocketAddr) -> io::Result<Stream> {
        let options = ConnectOptions { no_nagle: true, ..ConnectOptions::default() };
        let mut stream = self.start(None, remote, options)?;
        stream.opened().await?;
        Ok(stream)
    }

    /// Begins to connect, from any address and port or from this one. Bytes written before the stream is
    /// [open](Stream::opened) wait.
    ///
    /// # Errors
    /// - `AddrNotAvailable` if the engine has no such address, or no port is left.
    /// - `NetworkUnreachable` if no route leads there.
    /// - `AddrInUse` if both addresses and ports are in use together.
    /// - `InvalidInput` if the remote address is no host's.
    /// - `QuotaExceeded` at the engine's limit of connections or neighbours.
    pub fn start(
        &self,
        from: Option<SocketAddr>,
        remote: SocketAddr,
        options: ConnectOptions,
    ) -> io::Result<Stream> {
        let id = self.shared.with(|core| {
            let id = match from {
                Some(from) => core.engine.connect_from(from, remote, options),
                None => core.engine.connect(remote, options),
            }?;
            core.hold(id);
            Ok(id)
        });
        let id = id.map_err(|error| io::Error::new(kind_of_connect(error), error))?;
        Ok(Stream { shared: Rc::clone(&self.shared), id })
    }

    /// Listens at an address of the engine's, or at all of them if it is 0.0.0.0 or `[::]`.
    ///
    /// # Errors
    /// `AddrNotAvailable` if the engine has no such address; `AddrInUse` if the port is listened on already;
    /// `QuotaExceeded` at the engine's limit of listeners.
    pub fn listen(&self, address: SocketAddr, options: ListenOptions) -> io::Result<Listener> {
        let key = self.shared.with(|core| core.listen(address, options));
        let key = key.map_err(|error| io::Error::new(kind_of_listen(error), error))?;
        Ok(Listener { shared: Rc::clone(&self.shared), address, key })
    }

    /// Lets the engine be asked and told things: its counters and memory, more addresses and routes. Its connections are
    /// their streams' and must be left alone.
    pub fn with_engine<R>(&self, with: impl FnOnce(&mut Engine) -> R) -> R {
        self.shared.with(|core| with(&mut core.engine))
    }

    /// Gives the host an address. With a [layer](Self::with_layer) it is used once nobody else has answered to it, which
    /// [`events`](Self::events) tells; without one at once.
    ///
    /// # Errors
    /// Inside is a [`LayerError`](ip::LayerError), or without a layer a [`RouteError`](anywire_tcp::RouteError).
    pub fn add_address(&self, address: IpAddr) -> io::Result<()> {
        self.add(address, Layer::add_address)
    }

    /// Gives the host an address that nobody has, as [`who_has`](ip::who_has) has found a moment ago. It is used at once, which
    /// [`events`](Self::events) tells too.
    ///
    /// # Errors
    /// Those of [`add_address`](Self::add_address).
    pub fn add_free_address(&self, address: IpAddr) -> io::Result<()> {
        self.add(address, Layer::add_free_address)
    }

    fn add(
        &self,
        address: IpAddr,
        add: impl FnOnce(&mut Layer, Instant, IpAddr) -> Result<(), ip::LayerError>,
    ) -> io::Result<()> {
        let now = self.shared.now();
        let added = self
            .shared
            .with(|core| core.lower.add_address(&mut core.engine, address, |layer| add(layer, now, address)));
        // The layer is due earlier than the driver knows.
        self.shared.wake_driver();
        added
    }

    /// Gives the host an address that another loop of the same device has, which goes on to announce and defend it. It is ready at once,
    /// which [`events`](Self::events) tells.
    ///
    /// # Errors
    /// Those of [`add_address`](Self::add_address).
    pub fn follow_address(&self, address: IpAddr) -> io::Result<()> {
        self.add(address, Layer::follow_address)
    }

    /// Announces and defends an address from now on that was [followed](Self::follow_address): the other loop has ended.
    pub fn lead_address(&self, address: IpAddr) {
        let now = self.shared.now();
        self.shared.with(|core| {
            if let Some(layer) = core.lower.layer_mut() {
                layer.lead_address(now, address);
            }
        });
        self.shared.wake_driver();
    }

    /// Takes an address away. Its connections end with `NetworkDown`, and their peers get a reset; listeners wait until it is back. Says
    /// how many connections have ended.
    pub fn remove_address(&self, address: IpAddr) -> usize {
        let ended = self.shared.with(|core| core.remove_address(address));
        if let Some(told) = self.shared.on_removed.get() {
            told(address);
        }
        self.shared.wake_tasks();
        ended
    }

    /// Has the host of a shared device hear of each address that is [taken away](Self::remove_address), before anybody can ask for it anew.
    pub(crate) fn on_removed(&self, told: impl Fn(IpAddr) + 'static) {
        // A host says so once, when it begins.
        let _ = self.shared.on_removed.set(Box::new(told));
    }

    /// What happens below TCP. None while somebody has it already, such as the [host](crate::shards::SharedHost) of a shared device: each event
    /// is told once.
    pub fn events(&self) -> Option<Events> {
        Events::of(&self.shared)
    }

    pub(crate) fn downgrade(&self) -> WeakInterface {
        WeakInterface(Rc::downgrade(&self.shared))
    }

    /// What the layer has counted; none if there is no layer.
    pub fn layer_counters(&self) -> Option<ip::Counters> {
        self.shared.core.borrow().lower.layer().map(Layer::counters)
    }

    /// Closes all connections because the process ends, also those that streams have, which are at their end from then on.
    /// [`finish_all`](Self::finish_all) lets their last segments leave.
    pub fn close_all(&self) {
        self.shared.with(Core::close_all);
    }

    /// [`finish_all`](Self::finish_all) for this interface alone.
    pub fn finish(&self, patience: Duration, deadline: Duration) {
        Self::finish_all(&[self], patience, deadline);
    }

    /// Drives the interfaces of a loop on the calling thread after the tasks of the loop have ended. Returns when no connection is left on
    /// any of them, or after `deadline`, which no peer can move. An interface on which no frame has arrived for `patience` counts as one
    /// without connections. Blocks until then. The interfaces take turns, so peers on one of them cannot use up the time of another one.
    pub fn finish_all(interfaces: &[&Self], patience: Duration, deadline: Duration) {
        let began = std::time::Instant::now();
        let mut waiting: Vec<_> = interfaces.iter().map(|interface| (*interface, began)).collect();
        loop {
            let mut are_busy = false;
            waiting.retain_mut(|(interface, heard_last)| {
                let is_busy = interface.shared.step();
                let now = std::time::Instant::now();
                if is_busy {
                    are_busy = true;
                    *heard_last = now;
                }
                let is_silent = !is_busy && now.duration_since(*heard_last) >= patience;
                let has_connections = interface.with_engine(|engine| engine.connections()) > 0;
                has_connections && !interface.has_lost_device() && !is_silent
            });
            if waiting.is_empty() || began.elapsed() >= deadline {
                return;
            }
            if !are_busy {
                std::thread::sleep(FINISH_PAUSE);
            }
        }
    }

    /// Whether nobody drives it any more: the [`Driver`] was dropped, or the device is gone.
    pub fn has_stopped(&self) -> bool {
        self.shared.core.borrow().is_stopped()
    }

    /// Whether it has no device any more, for good: that is gone, or the driver has panicked.
    pub fn has_lost_device(&self) -> bool {
        self.shared.core.borrow().has_lost_device
    }

    /// Gives the device back, since nobody will drive it any more.
    pub(crate) fn lose_device(&self) {
        if !self.has_lost_device() {
            self.shared.core.borrow_mut().lose_device(io::ErrorKind::ConnectionAborted);
            self.shared.wake_tasks();
        }
    }

    /// Drives the interface on the calling thread, whose tasks do not run meanwhile, until `look` gives something; none after `patience`.
    /// Each event below TCP goes to `on_event` instead of to [`events`](Self::events). Blocks until then.
    pub(crate) fn drive_until<R>(
        &self,
        patience: Duration,
        on_event: impl Fn(&Event),
        mut look: impl FnMut() -> Option<R>,
    ) -> Option<R> {
        let began = std::time::Instant::now();
        let found = loop {
            if let Some(found) = look() {
                break Some(found);
            }
            let is_busy = self.shared.step();
            let next_event = || self.shared.with(|core| core.lower.next_event());
            std::iter::from_fn(next_event).for_each(|event| on_event(&event));
            if !is_busy {
                if began.elapsed() >= patience {
                    break None;
                }
                std::thread::sleep(FINISH_PAUSE);
            }
        };
        // What came meanwhile may be due earlier than the driver knows.
        self.shared.wake_driver();
        found
    }

    /// Says how the driver waits for the device from now on. Default: [`Polling::Adaptive`].
    pub fn set_polling(&self, polling: Polling) {
        self.shared.polling.set(polling);
        self.shared.wake_driver();
    }

    /// The counters so far.
    pub fn counters(&self) -> InterfaceCounters {
        let core = self.shared.core.borrow();
        InterfaceCounters { link_downs: core.lower.link_downs, ..core.counters }
    }

    /// What the device is able to do.
    pub fn capabilities(&self) -> Capabilities {
        self.shared.core.borrow().device.capabilities()
    }

    /// What the device has counted so far.
    pub fn device_counters(&self) -> DeviceCounters {
        self.shared.core.borrow().device.counters()
    }
}

impl std::fmt::Debug for Interface {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Interface").field("counters", &self.counters()).finish_non_exhaustive()
    }
}

/// An [`Interface`] that does not keep its driver from ending.
#[derive(Clone)]
pub(crate) struct WeakInterface(Weak<Shared>);

impl WeakInterface {
    /// None if the driver has ended.
    pub(crate) fn upgrade(&self) -> Option<Interface> {
        self.0.upgrade().map(|shared| Interface { shared })
    }
}

impl Drop for Interface {
    fn drop(&mut self) {
        self.shared.release();
    }
}

/// What an interface, its driver, its streams and its listeners share. Nothing of it stays borrowed while other code
/// runs.
pub(super) struct Shared {
    pub(super) core: RefCell<Core>,
    driver: RefCell<Option<Waker>>,
    /// The driver has been woken and has not run since.
    is_woken: Cell<bool>,
    /// How the driver waits.
    pub(super) polling: Cell<Polling>,
    /// Told of addresses that are taken away.
    on_removed: OnceCell<Box<dyn Fn(IpAddr)>>,
    clock: Clock,
}

impl Shared {
    /// Changes the core, and wakes the driver if there is something to send.
    pub(super) fn with<R>(&self, change: impl FnOnce(&mut Core) -> R) -> R {
        let mut core = self.core.borrow_mut();
        let result = change(&mut core);
        let has_frames = core.wants_to_transmit();
        drop(core);
        if has_frames {
            self.wake_driver();
        }
        result
    }

    /// Sends as much as there is room for if this connection is about to be reset. A kernel sends at each write, so there
    /// the last bytes leave before the reset: for example the early answer to a large upload.
    pub(super) fn send_before_reset(&self, id: ConnId) {
        let mut core = self.core.borrow_mut();
        if core.will_cut_short(id) {
            core.send(self.now(), usize::MAX);
        }
    }

    /// One step of the driver; see [`Core::step`].
    pub(super) fn step(&self) -> bool {
        self.is_woken.set(false);
        let is_busy = self.core.borrow_mut().step(self.now());
        self.wake_tasks();
        is_busy
    }

    /// When the next step is due without a wake-up.
    pub(super) fn next_deadline(&self) -> Option<tokio::time::Instant> {
        let core = self.core.borrow();
        let (room, engine) = if core.wants_room() {
            // There was no room; the device tells when there is, unless it goes by the time.
            (Some(self.now() + ROOM_PATIENCE), core.engine.next_timer())
        } else {
            (None, core.engine.next_deadline())
        };
        let next = [room, engine, core.lower.next_deadline(), core.device.next_deadline()];
        Some(self.clock.at(next.into_iter().flatten().min()?))
    }

    /// Whether there is nothing left to do for the driver.
    pub(super) fn is_over(self: &Rc<Self>) -> bool {
        let core = self.core.borrow();
        core.is_stopped() || Rc::strong_count(self) == 1 && core.engine.connections() == 0
    }

    /// Says whom to wake.
    pub(super) fn set_driver(&self, waker: &Waker) {
        self.driver.borrow_mut().get_or_insert_with(|| waker.clone()).clone_from(waker);
    }

    pub(super) fn wake_driver(&self) {
        if !self.is_woken.replace(true)
            && let Some(driver) = &*self.driver.borrow()
        {
            driver.wake_by_ref();
        }
    }

    /// To be called when a handle is released. If only the driver is left, it has to check whether to end.
    pub(super) fn release(self: &Rc<Self>) {
        if Rc::strong_count(self) <= 2 {
            self.wake_driver();
        }
    }

    /// The driver has gone for good. After a panic, neither the engine nor the device can be trusted.
    pub(super) fn stop(&self, has_panicked: bool) {
        let mut core = self.core.borrow_mut();
        if has_panicked {
            core.lose_device(io::ErrorKind::ConnectionAborted);
        } else {
            core.stop(io::ErrorKind::ConnectionAborted);
        }
        drop(core);
        self.wake_tasks();
    }

    /// Wakes them all. A waker that panics is no fault of the driver, and costs no other task its wake-up.
    fn wake_tasks(&self) {
        // Outside of the loop, so that it costs a wake-up nothing. The panic was reported when it began.
        while catch_unwind(AssertUnwindSafe(|| self.wake_each_task())).is_err() {}
    }

    fn wake_each_task(&self) {
        loop {
            // Nothing is borrowed while a task is woken.
            let task = self.core.borrow_mut().woken.pop_front();
            let Some(task) = task else { return };
            task.wake();
        }
    }

    pub(super) fn now(&self) -> Instant {
        self.clock.now()
    }
}

impl Drop for Shared {
    /// The last streams may have left data, which is sent here or never.
    fn drop(&mut self) {
        let now = self.now();
        self.core.get_mut().send(now, usize::MAX);
    }
}

fn kind_of_connect(error: ConnectError) -> io::ErrorKind {
    match error {
        ConnectError::NoAddress | ConnectError::NoPort => io::ErrorKind::AddrNotAvailable,
        ConnectError::NoRoute => io::ErrorKind::NetworkUnreachable,
        ConnectError::NotAHost => io::ErrorKind::InvalidInput,
        ConnectError::InUse => io::ErrorKind::AddrInUse,
        ConnectError::TooMany | ConnectError::NoNeighbour => io::ErrorKind::QuotaExceeded,
        _ => io::ErrorKind::Other,
    }
}

fn kind_of_listen(error: ListenError) -> io::ErrorKind {
    match error {
        ListenError::NoAddress => io::ErrorKind::AddrNotAvailable,
        ListenError::InUse => io::ErrorKind::AddrInUse,
        ListenError::TooMany => io::ErrorKind::QuotaExceeded,
        _ => io::ErrorKind::Other,
    }
}

/// How long a device without room is left alone if it does not say that it has some again: far
/// longer than a step of a loop, far shorter than a retransmission timeout.
const ROOM_PATIENCE: Duration = Duration::from_millis(10);

/// How long [`Interface::finish`] sleeps while nothing comes: not much more than a thread takes to be woken.
const FINISH_PAUSE: Duration = Duration::from_micros(100);
