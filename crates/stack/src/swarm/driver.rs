//! A swarm of connections: an engine, a device, and a task for each connection, run in rounds.

use std::collections::HashMap;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use anywire_tcp::{ConnId, ConnectError, ConnectOptions, Engine, Events, Frames, Instant, Ready};

use super::conn::{Conn, Incoming};
use super::context::{SwarmState, swarm_state};
use super::current::NOBODY;
use super::executor::Tasks;
use super::limits::SwarmCounters;
use super::mail::{Deliver, Mail};
use super::rest::Alarm;
use crate::clock::Clock;
use crate::device::Device;
use crate::ip::Layer;
use crate::lower_layer::LowerLayer;
use crate::wait::Waiter;

/// Connections with a task each, all of one type. The owner calls [`round`](Self::round) in a loop.
///
/// ```
/// use anywire_stack::swarm::Swarm;
/// use anywire_stack::pair::{self, Endpoint};
/// use anywire_tcp::{ConnectOptions, Engine, Instant, Limits, Mac, Route, Settings, Via};
///
/// let [one, two] = Endpoint::pair(pair::Settings::default());
/// let mac = |last| Mac::new([2, 0, 0, 0, 1, last]);
/// let engine = |own: u8, other: u8| {
///     let mut engine = Engine::new(Settings::new([1, 2, 3, 4]), Limits::default())?;
///     engine.set_mac(mac(own));
///     engine.add_address([10, 0, 0, own].into())?;
///     engine.add_route(Route { network: "10.0.0.0/24".parse()?, via: Via::OnLink, mtu: 1500, source: None })?;
///     engine.add_neighbour([10, 0, 0, other].into(), mac(other))?;
///     Ok::<_, Box<dyn std::error::Error>>(engine)
/// };
/// let mut server = Swarm::new(engine(1, 2)?, one, 1000, |incoming| async move {
///     let mut conn = incoming.conn;
///     while let Some(received) = conn.recv().await {
///         conn.send(received).await;
///     }
/// })?;
/// server.engine().listen("10.0.0.1:7".parse()?, ConnectOptions::default())?;
///
/// let mut client = Swarm::new(engine(2, 1)?, two, 1000, |incoming| async move {
///     let mut conn = incoming.conn;
///     conn.send(&b"hello"[..]).await;
///     assert!(conn.readable().await);
///     conn.read(|bytes| {
///         assert_eq!(bytes, b"hello");
///         bytes.len()
///     });
/// })?;
/// client.open("10.0.0.2:1000".parse()?, "10.0.0.1:7".parse()?, ConnectOptions::default())?;
/// for step in 0..100 {
///     let now = Instant::from_micros(step * 1000);
///     client.round(now);
///     server.round(now);
/// }
/// assert_eq!((client.tasks(), server.tasks()), (0, 0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Swarm<F, S, D> {
    tasks: Tasks<F>,
    start: S,
    pub(super) state: SwarmState,
    pub(super) lower: LowerLayer,
    pub(super) device: D,
    pub(super) frames: Frames,
    /// What the device had no room for, to be sent before anything else. Empty for devices that keep to their [`room`](Device::room).
    pub(super) unsent: Frames,
    /// Numbers on their way to the executor; empty between rounds.
    woken: Vec<u32>,
    connections_max: u32,
    /// Where to look first for a slot for a task that cannot have that of its connection.
    next_spare: u32,
    /// Connections that were asked for by [`open`](Self::open), until they are open or have failed, by their places.
    opening: HashMap<u32, ConnId>,
    pub(super) counters: SwarmCounters,
    mail: Vec<Box<dyn Deliver>>,
    alarm: Arc<Alarm>,
    /// Since [`run_until`](Self::run_until) was called first.
    clock: Option<Clock>,
    waiter: Waiter,
}

impl<F, S, D> Swarm<F, S, D>
where
    F: Future<Output = ()>,
    S: FnMut(Incoming) -> F,
    D: Device,
{
    /// A swarm of at most so many connections. `start` makes the task of each that comes in, or is opened by
    /// [`open`](Self::open).
    ///
    /// A task may outlive its connection. An eighth more tasks than connections, and 64, have room.
    ///
    /// # Errors
    /// The system's, if address space for the tasks cannot be had; `InvalidInput` for no connections, or more than 3 billion.
    pub fn new(engine: Engine, device: D, connections_max: usize, start: S) -> io::Result<Self> {
        Self::over(engine, None, device, connections_max, start)
    }

    /// A swarm on a real link, where neighbours are asked for: `layer` does that, and gives the engine its addresses.
    /// [`next_event`](Self::next_event) tells when an address is ready.
    ///
    /// ```no_run
    /// use anywire_stack::device::Device;
    /// use anywire_stack::ip::{self, Event, Layer};
    /// use anywire_stack::swarm::{Incoming, Swarm};
    /// use anywire_stack::tap::{Options, Tap};
    /// use anywire_tcp::{ConnectOptions, Engine, Limits, Route, Settings, Via};
    ///
    /// # async fn serve(secret: [u64; 4], seed: u64) -> Result<(), Box<dyn std::error::Error>> {
    /// let tap = Tap::open("tap0", Options::default())?;
    /// let mac = tap.capabilities().mac.ok_or("a TAP device has an address")?;
    /// let mut engine = Engine::new(Settings::new(secret), Limits::default())?;
    /// engine.set_mac(mac);
    /// engine.add_route(Route { network: "10.0.0.0/24".parse()?, via: Via::OnLink, mtu: 1500, source: None })?;
    /// let layer = Layer::new(mac, ip::Settings::new(seed), ip::Limits::default());
    /// let mut swarm = Swarm::with_layer(engine, layer, tap, 1_000_000, |mut incoming: Incoming| async move {
    ///     while let Some(received) = incoming.conn.recv().await {
    ///         incoming.conn.send(received).await;
    ///     }
    /// })?;
    /// swarm.add_address("10.0.0.2".parse()?)?;
    /// loop {
    ///     match swarm.run_until_event().await {
    ///         Event::AddressReady(ip) => _ = swarm.engine().listen((ip, 7).into(), ConnectOptions::default())?,
    ///         Event::DeviceGone => return Ok(()),
    ///         event => eprintln!("{event}"),
    ///     }
    /// }
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of [`new`](Self::new).
    pub fn with_layer(
        engine: Engine,
        layer: Layer,
        device: D,
        connections_max: usize,
        start: S,
    ) -> io::Result<Self> {
        Self::over(engine, Some(layer), device, connections_max, start)
    }

    fn over(
        engine: Engine,
        layer: Option<Layer>,
        device: D,
        connections_max: usize,
        start: S,
    ) -> io::Result<Self> {
        let tasks_max = match connections_max {
            0 => 0,
            connections => connections.saturating_add(connections / SPARE_SHARE + SPARE_MIN),
        };
        Ok(Self {
            tasks: Tasks::with_capacity(tasks_max)?,
            start,
            state: SwarmState::new(engine),
            lower: LowerLayer::new(layer),
            frames: device.batch(),
            unsent: Frames::with_room(0, 0),
            device,
            woken: Vec::new(),
            connections_max: connections_max as u32,
            next_spare: connections_max as u32,
            opening: HashMap::new(),
            counters: SwarmCounters::default(),
            mail: Vec::new(),
            alarm: Arc::default(),
            clock: None,
            waiter: Waiter::default(),
        })
    }

    /// The engine: to give it addresses and routes, to listen, and to read its counters.
    pub fn engine(&mut self) -> &mut Engine {
        &mut self.state.engine
    }

    /// The device.
    pub const fn device(&self) -> &D {
        &self.device
    }

    /// Opens a connection from this address and port; its task starts once it is open, and never if that fails.
    ///
    /// # Errors
    /// See [`ConnectError`].
    pub fn open(
        &mut self,
        from: SocketAddr,
        to: SocketAddr,
        options: ConnectOptions,
    ) -> Result<ConnId, ConnectError> {
        let id = self.engine().connect_from(from, to, options)?;
        self.opening.insert(id.index(), id);
        Ok(id)
    }

    /// Delivers this mail in each round from now on. Its mailboxes are for the tasks of this swarm.
    pub fn attach<M: 'static>(&mut self, mail: &Mail<M>) {
        let alarm = Arc::clone(&self.alarm);
        mail.notify_with(Box::new(move || alarm.wake_owner()));
        self.mail.push(Box::new(mail.clone()));
    }

    /// Tasks that have not ended.
    pub fn tasks(&self) -> usize {
        self.tasks.len()
    }

    /// Counts since the start.
    pub fn counters(&self) -> SwarmCounters {
        SwarmCounters { tasks: self.tasks.counters(), link_downs: self.lower.link_downs, ..self.counters }
    }

    /// Bytes of tasks and rings; the engine's are its own.
    pub fn bytes(&self) -> usize {
        let SwarmState { senders, owners, shown, idle, .. } = &self.state;
        self.tasks.bytes() + senders.bytes() + owners.bytes() + shown.bytes() + idle.bytes()
    }

    /// When a round is due at the latest, if no frame arrives before.
    pub fn next_deadline(&self) -> Option<Instant> {
        let Self { state, tasks, device, lower, .. } = self;
        let is_due = state.has_dropped_elsewhere() || self.is_ending_tasks(tasks.now());
        if is_due || self.mail.iter().any(|mail| mail.has_some()) {
            return Some(Instant::default());
        }
        let ends = state.drain.map(|drain| drain.ends).filter(|ends| *ends > tasks.now());
        let waits_for_room = self.waits_for_room();
        let engine = if waits_for_room { state.engine.next_timer() } else { state.engine.next_deadline() };
        let room = (waits_for_room || !state.senders.is_empty()).then(|| tasks.now() + ROOM_PATIENCE);
        let others = [lower.next_deadline(), tasks.next_deadline(), device.next_deadline()];
        [ends, engine, room].into_iter().chain(others).flatten().min()
    }

    /// One round: takes a batch of frames from the device, resumes the tasks that it concerns, lets tasks send as far
    /// as the device has room, and transmits. Says how much was done; 0 means that there is nothing to do
    /// before a frame arrives or [`next_deadline`](Self::next_deadline).
    pub fn round(&mut self, now: Instant) -> usize {
        self.state.end_dropped_elsewhere();
        // Before the next batch, so that unread bytes of the last one leave its frames.
        let had_events = self.lower.has_events();
        let arrived = self.device.receive(now, &mut self.frames);
        if arrived > 0 {
            self.state.engine.receive(now, &mut self.frames);
            self.lower.input(now, &mut self.state.engine);
        }
        // After what has arrived: a thread that comes late finds the answer that a timer waits for in the device.
        self.state.engine.advance(now);
        self.lower.advance(now, &mut self.state.engine);
        self.follow_link(now);
        let has_news = !had_events && self.lower.has_events();
        let mut done = arrived + usize::from(has_news) + self.tasks.advance(now);
        if self.state.drain.is_some() {
            done += self.end_tasks(now);
        }
        self.take_events();
        done += self.take_mail();
        done += self.run();
        done += self.grant(arrived);
        done + self.transmit(now)
    }

    pub(super) const fn parts(&mut self) -> (&mut Tasks<F>, &mut SwarmState) {
        (&mut self.tasks, &mut self.state)
    }

    pub(super) const fn parts_to_see(&self) -> (&Tasks<F>, &SwarmState) {
        (&self.tasks, &self.state)
    }

    pub(super) fn drains_until(&self) -> Option<Instant> {
        self.state.drain.map(|drain| drain.ends)
    }

    pub(super) fn connections(&self) -> usize {
        self.state.engine.connections()
    }

    pub(super) const fn now(&self) -> Instant {
        self.tasks.now()
    }

    pub(super) const fn note_cut(&mut self, cut: u64) {
        self.counters.cut += cut;
    }

    pub(super) fn alarm(&self) -> &Alarm {
        &self.alarm
    }

    /// Its clock, which starts when it is asked for.
    pub(super) fn clock(&mut self) -> Clock {
        *self.clock.get_or_insert_with(Clock::start)
    }

    pub(super) const fn device_and_waiter(&mut self) -> (&mut D, &mut Waiter) {
        (&mut self.device, &mut self.waiter)
    }

    /// Polls the tasks that have events or mail, and then ready ones. Returns the number of polls.
    ///
    /// Woken tasks do not pass through the ready ring, unless they are more than a round may poll.
    fn run(&mut self) -> usize {
        if self.woken.is_empty() && self.tasks.ready() == 0 {
            return 0;
        }
        self.state.room = self.room();
        self.state.last = NOBODY;
        self.state.granting = false;
        let Self { tasks, state, woken, .. } = self;
        let (these, more) = woken.split_at(woken.len().min(RUN_LIMIT));
        tasks.wake_all(more);
        let mut polls = state.lend(|| tasks.run_these(these, fetch));
        if tasks.ready() > 0 {
            polls += state.lend(|| tasks.run(RUN_LIMIT));
        }
        woken.clear();
        polls
    }

    /// Starts the tasks of new connections, and notes which tasks have events.
    fn take_events(&mut self) {
        self.state.has_opened = false;
        while let Some(Ready { id, events }) = self.state.engine.next_ready() {
            let place = id.index();
            if events.has(Events::OPENED) {
                self.state.has_opened = true;
                if self.state.owners.noted(place).is_none() {
                    self.start(id, events);
                    continue;
                }
            } else if events.has(Events::CLOSED) && self.has_failed_to_open(id) {
                continue;
            }
            if events.has(Events::DEADLINE) {
                self.state.idle.set(place, 0);
            }
            self.woken.push(self.state.owners.of(place));
        }
    }

    /// Delivers mail, and notes which tasks have some. Returns the number of messages.
    fn take_mail(&mut self) -> usize {
        self.mail.iter().map(|mail| mail.deliver(&mut self.woken)).sum()
    }

    /// Starts the task of a connection that has opened.
    #[inline]
    fn start(&mut self, id: ConnId, events: Events) {
        let (engine, place) = (&self.state.engine, id.index());
        if !self.opening.is_empty() {
            self.opening.remove(&place);
        }
        let (local, peer) = engine.addresses(id);
        let listener = engine.listener_of(id);
        let is_too_late = self.state.drain.is_some() && events.has(Events::INCOMING);
        let slot = if is_too_late || place >= self.connections_max {
            None
        } else if self.tasks.contains(place) {
            self.spare_slot(place)
        } else {
            Some(place)
        };
        let Some(slot) = slot else {
            self.counters.refused += 1;
            return self.state.engine.abort(id);
        };
        let Self { start, state, tasks, .. } = self;
        let incoming = Incoming { conn: Conn::claim(state, id), peer, local, listener };
        // Its connection can be used here already. If this panics, that ends the one connection.
        let Ok(task) = catch_unwind(AssertUnwindSafe(|| state.lend(|| start(incoming)))) else {
            return tasks.note_panic();
        };
        if tasks.place_at(slot, task).is_ok() {
            self.woken.push(slot);
        }
    }

    /// A slot for the task of a connection in whose own slot another task goes on without a connection. The task is noted as the
    /// owner: call this only for a connection that is kept.
    #[cold]
    fn spare_slot(&mut self, place: u32) -> Option<u32> {
        let end = self.tasks.capacity() as u32;
        for _ in 0..SPARE_TRIES {
            let slot = self.next_spare;
            self.next_spare = if slot + 1 == end { self.connections_max } else { slot + 1 };
            if !self.tasks.contains(slot) {
                self.counters.displaced += 1;
                self.state.owners.set(place, slot);
                return Some(slot);
            }
        }
        None
    }

    /// Whether a connection that has ended never opened, and was asked for by [`open`](Self::open). It has no task then, and is
    /// closed here.
    fn has_failed_to_open(&mut self, id: ConnId) -> bool {
        let is_nobodys =
            self.state.owners.noted(id.index()).is_none() && self.opening.remove(&id.index()) == Some(id);
        if is_nobodys {
            self.counters.unopened += 1;
            self.state.engine.close(id);
        }
        is_nobodys
    }

    /// Wakes tasks that wait to send, in their order: as many as frames have arrived. So no more is sent than is answered, and
    /// the data under way stays in the cache. If no frame has arrived, or fewer tasks wait, a batch of tasks is woken.
    fn grant(&mut self, arrived: usize) -> usize {
        if self.state.senders.is_empty() {
            return 0;
        }
        let is_enough_for_all = self.state.senders.len() <= arrived;
        let most = if arrived == 0 || is_enough_for_all { arrived.max(GRANT_BATCH) } else { arrived };
        let most = most.min(self.room());
        let Self { tasks, state, woken, .. } = self;
        state.granting = true;
        let mut granted = 0;
        // A task that wants to send more than one message goes behind the others; if few wait, they go round several times.
        while granted < most && !state.senders.is_empty() {
            let count = state.senders.len().min(most - granted);
            state.senders.take(count, woken);
            (state.room, state.last) = (count, NOBODY);
            state.lend(|| tasks.run_these(woken, fetch));
            woken.clear();
            granted += count;
        }
        granted
    }
}

impl<F, S, D> Drop for Swarm<F, S, D> {
    /// Its own connections end with it. Its tasks may hold some of other swarms, which close them.
    fn drop(&mut self) {
        let Self { state, tasks, .. } = self;
        state.is_going = true;
        state.lend(|| tasks.clear());
    }
}

/// Asks for the cache lines of a task's connection, and of its place among the senders.
#[inline(always)]
fn fetch(task: u32) {
    let state = swarm_state();
    state.senders.prefetch(task);
    state.engine.prefetch(task);
}

/// Polls of woken tasks in one round, and of ready ones: a task that yields for ever must not keep the device waiting.
pub(super) const RUN_LIMIT: usize = 1024;

/// How many may send in a round in which nothing has arrived, or more than wait.
const GRANT_BATCH: usize = 64;

/// How long a device without room is left alone if it does not say that it has some again.
const ROOM_PATIENCE: Duration = Duration::from_millis(10);

/// Slots for tasks whose own slot is taken: this part of the connections, and some more.
const SPARE_SHARE: usize = 8;
const SPARE_MIN: usize = 64;

/// Spare slots that are looked at for one task: nearly all are free, unless very many tasks outlive their connections.
const SPARE_TRIES: usize = 64;
