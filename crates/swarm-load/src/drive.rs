//! The loop of a run: both ends run alternately on one thread, from the first SYN to the last figure.
//!
//! A run has four phases. All connections are opened. They line up in the order of the run; the clock stands still
//! meanwhile, or the first ones would get to send more often than the last. Then they warm up, and then they are measured.

use std::fmt;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anywire_load::Stop;
use anywire_load::text::grouped;
use anywire_stack::device::{Device, DeviceCounters};
use anywire_stack::swarm::{Incoming, Swarm};
use anywire_sys::{cpu, memory};
use anywire_tcp::{ConnectError, ConnectOptions, Counters, Engine, Instant as Moment};

use crate::book::book;
use crate::error::Error;
use crate::network::{client_address, options, server_address};
use crate::outcome::{Measured, Short};
use crate::plan::{Mode, Plan, SHORT_TUPLES};

/// One end, whatever its tasks are.
pub(crate) trait Side {
    /// A round; see [`Swarm::round`].
    fn round(&mut self, now: Moment) -> usize;
    fn engine(&mut self) -> &mut Engine;
    fn open(
        &mut self,
        from: SocketAddr,
        to: SocketAddr,
        options: ConnectOptions,
    ) -> Result<u32, ConnectError>;
    /// Bytes of the tasks and their rings.
    fn bytes(&self) -> usize;
    /// What passed through its end of the pair.
    fn traffic(&self) -> DeviceCounters;
}

impl<F, S, D> Side for Swarm<F, S, D>
where
    F: Future<Output = ()>,
    S: FnMut(Incoming) -> F,
    D: Device,
{
    fn round(&mut self, now: Moment) -> usize {
        Self::round(self, now)
    }

    fn engine(&mut self) -> &mut Engine {
        Self::engine(self)
    }

    fn open(
        &mut self,
        from: SocketAddr,
        to: SocketAddr,
        options: ConnectOptions,
    ) -> Result<u32, ConnectError> {
        Self::open(self, from, to, options).map(|id| id.index())
    }

    fn bytes(&self) -> usize {
        Self::bytes(self)
    }

    fn traffic(&self) -> DeviceCounters {
        self.device().counters()
    }
}

/// How a run goes, for any thread that asks.
#[derive(Debug, Default)]
pub struct Monitor {
    progress: Mutex<Progress>,
}

impl Monitor {
    /// How the run goes now.
    pub fn progress(&self) -> Progress {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn update(&self, update: impl FnOnce(&mut Progress)) {
        update(&mut self.progress.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

/// Where a run stands; `Display` says it in a line.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Progress {
    /// The part of the present phase that is done, 0 .. 1.
    pub share: f64,
    /// Its name; empty before the first.
    pub phase: &'static str,
    /// Connections that are open at both ends, or, if they are short, were.
    pub opened: u64,
    /// Messages completed in a second of this phase.
    pub rate: f64,
    /// Segments sent again.
    pub retransmits: u64,
    /// The times that 50 %, 99 % and 99.99 % of the measured messages took at most.
    pub percentiles: Option<[Duration; 3]>,
}

impl fmt::Display for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (rate, memory) = (grouped(self.rate as u64), memory::anonymous_bytes().unwrap_or(0) >> 20);
        write!(f, "{}: {} connections up, {rate}/s", self.phase, grouped(self.opened))?;
        if let Some([p50, p99, p9999]) = self.percentiles {
            write!(f, ", p50 {p50:.1?}, p99 {p99:.1?}, p99.99 {p9999:.1?}")?;
        }
        write!(f, ", {} retransmits, {memory} MiB", grouped(self.retransmits))
    }
}

/// A run under way.
pub(crate) struct Drive<'r> {
    plan: &'r Plan,
    client: &'r mut dyn Side,
    server: &'r mut dyn Side,
    monitor: &'r Monitor,
    stop: &'r Stop,
    clock: Clock,
    /// When this phase began, and how many messages were completed then.
    phase: (Instant, u64),
    /// Connections asked for.
    asked: u64,
    /// The next four-tuple of short connections.
    tuple: u32,
    rounds: u64,
}

impl<'r> Drive<'r> {
    pub(crate) fn new(
        plan: &'r Plan,
        client: &'r mut dyn Side,
        server: &'r mut dyn Side,
        monitor: &'r Monitor,
        stop: &'r Stop,
    ) -> Self {
        let (clock, phase) = (Clock::start(), (Instant::now(), 0));
        Self { plan, client, server, monitor, stop, clock, phase, asked: 0, tuple: 0, rounds: 0 }
    }

    /// Runs it to its end, or to the stop.
    pub(crate) fn run(&mut self) -> Result<Measured, Error> {
        self.begin("opening");
        if self.plan.stays() {
            self.open_all()?;
            self.line_up()?;
        }
        let opening_seconds = self.phase.0.elapsed().as_secs_f64();
        self.warm_up()?;
        Ok(Measured { opening_seconds, ..self.measure()? })
    }

    /// Opens all connections, so many at a time that neither end has to refuse any.
    fn open_all(&mut self) -> Result<(), Error> {
        let all = self.plan.connections;
        let mut heard = Heard::start();
        loop {
            let opened = self.client.engine().counters().opened.min(self.server.engine().counters().accepted);
            while self.asked < u64::from(all) && self.asked < opened + OPENING_MAX {
                let from = client_address(self.asked as u32);
                self.client
                    .open(from, server_address(self.plan), options(self.plan))
                    .map_err(Error::Connect)?;
                self.asked += 1;
            }
            self.round();
            if opened == u64::from(all) && book(|book| book.waiting.get()) == all {
                return Ok(());
            }
            if heard.nothing_for(OPENING_PATIENCE, opened) {
                return Err(Error::Unopened { opened, all });
            }
            self.look()?;
        }
    }

    /// Lets each connection take its place in the ring. Only the end that begins runs, so that no answer comes back
    /// before the last connection has its place.
    fn line_up(&mut self) -> Result<(), Error> {
        let (now, begin) = (self.clock.now(), Instant::now());
        let (mut heard, all) = (Heard::start(), self.plan.connections);
        loop {
            let begun = book(|book| book.begun.get());
            if begun == all {
                break;
            }
            if heard.nothing_for(LINE_PATIENCE, begun.into()) {
                return Err(Error::Unstarted { begun, all });
            }
            match self.plan.mode {
                Mode::Push | Mode::Group => self.server.round(now),
                _ => self.client.round(now),
            };
        }
        self.clock.stood += begin.elapsed();
        Ok(())
    }

    fn warm_up(&mut self) -> Result<(), Error> {
        let (start, first) = self.begin("warming up");
        let all = first + u64::from(self.plan.connections);
        while completed() < all || start.elapsed() < self.plan.warm_up {
            self.look()?;
            self.reopen()?;
            self.round();
        }
        Ok(())
    }

    fn measure(&mut self) -> Result<Measured, Error> {
        let (start, completed_before) = self.begin("measuring");
        book(|book| book.measuring.set(true));
        let cpu_used = || cpu::current_thread_cpu().map_or(0.0, |cpu| cpu.total().as_secs_f64());
        let (cpu_before, [client, server]) = (cpu_used(), self.counters());
        let mut shown = start;
        while start.elapsed() < self.plan.duration && !self.stop.is_stopped() {
            for _ in 0..ROUNDS_A_LOOK {
                self.reopen()?;
                self.round();
            }
            self.note_progress()?;
            if shown.elapsed() > SHOW_EVERY {
                shown = Instant::now();
                let percentiles = book(|book| [0.5, 0.99, 0.9999].map(|share| book.quantile(share)));
                self.monitor.update(|progress| progress.percentiles = Some(percentiles));
            }
        }
        // The CPU time first: no thread has used more of its core than there was.
        let cpu_seconds = cpu_used() - cpu_before;
        let seconds = start.elapsed().as_secs_f64();
        book(|book| book.close(self.clock.now().as_micros() as u32));
        let [client_after, server_after] = self.counters();
        let both =
            |of: fn(&Counters) -> u64| of(&client_after) - of(&client) + of(&server_after) - of(&server);
        let short = (!self.plan.stays()).then(|| Short {
            connections_per_second: (client_after.closed - client.closed) as f64 / seconds,
            time_wait_seconds: self.plan.time_wait.as_secs_f64(),
            time_waits: (self.client.engine().in_time_wait() + self.server.engine().in_time_wait()) as u64,
            time_wait_reused: both(|counters| counters.time_wait_reused),
            time_wait_evicted: both(|counters| counters.time_wait_evicted),
        });
        Ok(Measured {
            seconds,
            interrupted: self.stop.is_stopped(),
            echoes: completed() - completed_before,
            retransmits: both(|counters| counters.retransmits),
            timeouts: both(|counters| counters.timeouts),
            keep_alive_probes: both(|counters| counters.keep_alives),
            short,
            opening_seconds: 0.0,
            cpu_seconds,
            frames: both(|counters| counters.frames_sent),
        })
    }

    /// Begins a phase. Returns when that is, and how many messages are completed.
    fn begin(&mut self, name: &'static str) -> (Instant, u64) {
        self.monitor.update(|progress| progress.phase = name);
        self.phase = (Instant::now(), completed());
        self.phase
    }

    /// Runs the end that has more to receive. This keeps both queues short, and an end receives only as much as it can
    /// answer.
    #[inline]
    fn round(&mut self) {
        let now = self.clock.now();
        let (client, server) = (self.client.traffic(), self.server.traffic());
        let (for_client, for_server) =
            (server.frames_out - client.frames_in, client.frames_out - server.frames_in);
        if for_server > for_client {
            self.server.round(now);
        } else if self.client.round(now) == 0 && for_server == 0 {
            // Nothing is on its way; the server may have timers, or something to say of its own.
            self.server.round(now);
        }
        self.rounds += 1;
    }

    /// Opens a connection for each short one that is over, as many at a time as the plan says.
    fn reopen(&mut self) -> Result<(), Error> {
        if self.plan.stays() {
            return Ok(());
        }
        let over = completed() + book(|book| book.ended_early.get());
        let opened = self.client.engine().counters().opened;
        let goal = (over + u64::from(self.plan.connections)).min(opened + OPENING_MAX);
        // All of them before the first is opened: their addresses are translated side by side, and not one after the other.
        for step in 0..goal.saturating_sub(self.asked).min(OPENING_MAX) as u32 {
            let coming = client_address((self.tuple + TUPLES_AHEAD + step) % SHORT_TUPLES);
            self.client.engine().prefetch_connect(coming, server_address(self.plan));
        }
        let mut in_use = 0;
        while self.asked < goal && in_use < IN_USE_MAX {
            let from = client_address(self.tuple);
            self.tuple = (self.tuple + 1) % SHORT_TUPLES;
            match self.client.open(from, server_address(self.plan), options(self.plan)) {
                Ok(index) => {
                    self.asked += 1;
                    book(|book| {
                        let mut asked_at = book.asked_at.borrow_mut();
                        if asked_at.len() <= index as usize {
                            asked_at.resize(index as usize + 1, 0);
                        }
                        asked_at[index as usize] = self.clock.last.as_micros() as u32;
                    });
                }
                // An earlier connection still has this four-tuple: try the next one.
                Err(ConnectError::InUse) => in_use += 1,
                // Connections that are being closed hold all places.
                Err(ConnectError::TooMany) => return Ok(()),
                Err(error) => return Err(Error::Connect(error)),
            }
        }
        Ok(())
    }

    /// Now and then, before the measured part: notes how it goes, and whether to stop.
    fn look(&mut self) -> Result<(), Error> {
        if self.rounds.is_multiple_of(ROUNDS_A_LOOK) {
            self.note_progress()?;
        }
        if self.stop.is_stopped() { Err(Error::Stopped) } else { Ok(()) }
    }

    /// Notes how it goes. Connections that should stay and have ended are an error.
    fn note_progress(&mut self) -> Result<(), Error> {
        let [client, server] = self.counters();
        let (begun, before) = self.phase;
        let (seconds, opened) = (begun.elapsed().as_secs_f64(), client.opened.min(server.accepted));
        self.monitor.update(|progress| {
            progress.share = match progress.phase {
                "measuring" => seconds / self.plan.duration.as_secs_f64(),
                _ => opened as f64 / f64::from(self.plan.connections),
            };
            progress.opened = opened;
            progress.rate = (completed() - before) as f64 / seconds;
            progress.retransmits = client.retransmits + server.retransmits;
        });
        let (timed_out, reset) = (client.timed_out + server.timed_out, client.reset + server.reset);
        if self.plan.stays() && book(|book| book.ended_early.get()) + timed_out + reset > 0 {
            return Err(Error::Ended { timed_out, reset });
        }
        Ok(())
    }

    /// The counters of both engines.
    fn counters(&mut self) -> [Counters; 2] {
        [*self.client.engine().counters(), *self.server.engine().counters()]
    }
}

fn completed() -> u64 {
    book(|book| book.completed.get())
}

/// When a count rose last.
struct Heard {
    count: u64,
    at: Instant,
}

impl Heard {
    fn start() -> Self {
        Self { count: 0, at: Instant::now() }
    }

    /// Whether the count, which is this now, has not risen for so long.
    fn nothing_for(&mut self, patience: Duration, count: u64) -> bool {
        if count > self.count {
            *self = Self { count, at: Instant::now() };
        }
        self.at.elapsed() > patience
    }
}

/// The clock of both engines. It can stand still.
struct Clock {
    start: Instant,
    stood: Duration,
    last: Moment,
}

impl Clock {
    fn start() -> Self {
        Self { start: Instant::now(), stood: Duration::ZERO, last: Moment::default() }
    }

    #[inline]
    fn now(&mut self) -> Moment {
        self.last = Moment::from_micros((self.start.elapsed() - self.stood).as_micros() as u64);
        self.last
    }
}

/// Connections that are being opened at a time: fewer than either end remembers half open.
const OPENING_MAX: u64 = 1024;
/// How long nothing may happen while connections are opened: a lost SYN is sent again after 1, 3, 7, 15, 31
/// s.
const OPENING_PATIENCE: Duration = Duration::from_secs(100);
const LINE_PATIENCE: Duration = Duration::from_secs(10);
/// Four-tuples that are tried in one round before time is given for closing them.
const IN_USE_MAX: u32 = 64;
/// How many four-tuples ahead their places in the table are fetched into the cache.
const TUPLES_AHEAD: u32 = 16;
/// Rounds between two looks at the time and the counters.
const ROUNDS_A_LOOK: u64 = 128;
/// How often the percentiles are made anew.
const SHOW_EVERY: Duration = Duration::from_millis(500);
