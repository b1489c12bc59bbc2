//! The loop of a run: both ends take turns on one thread, from the first SYN to the last figure.
//!
//! Phases: all connections are opened; they line up in the order of the run (the clock stands still
//! meanwhile, or those in front would get more turns than those behind); a warm-up; the measured part.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use anywire::load::Stop;
use anywire_stack::device::{Device, DeviceCounters};
use anywire_stack::swarm::{Conn, Swarm};
use anywire_sys::cpu;
use anywire_tcp::{ConnectError, ConnectOptions, Counters, Engine, Instant as Moment};

use super::book::{BOOK, Book};
use super::network::{client_address, server_address};
use super::options::{Mode, Options, SHORT_TUPLES};
use crate::failure::{Code, Failure};

/// One end, whatever its tasks are.
pub(super) trait Side {
    /// A round; see [`Swarm::turn`].
    fn turn(&mut self, now: Moment) -> usize;
    fn engine(&mut self) -> &mut Engine;
    fn open(&mut self, from: SocketAddr, to: SocketAddr) -> Result<u32, ConnectError>;
    /// Bytes of the tasks and their rings.
    fn bytes(&self) -> usize;
    /// What passed through its port of the switch.
    fn traffic(&self) -> DeviceCounters;
}

impl<F, S, D> Side for Swarm<F, S, D>
where
    F: Future<Output = ()>,
    S: FnMut(Conn) -> F,
    D: Device,
{
    fn turn(&mut self, now: Moment) -> usize {
        Self::turn(self, now)
    }

    fn engine(&mut self) -> &mut Engine {
        Self::engine(self)
    }

    fn open(&mut self, from: SocketAddr, to: SocketAddr) -> Result<u32, ConnectError> {
        let options = ConnectOptions { no_nagle: true, ..ConnectOptions::default() };
        Self::open(self, from, to, options).map(|id| id.index())
    }

    fn bytes(&self) -> usize {
        Self::bytes(self)
    }

    fn traffic(&self) -> DeviceCounters {
        self.device().counters()
    }
}

/// What a run says of itself while it goes, for whoever shows it.
#[derive(Debug, Default)]
pub(super) struct Live {
    pub(super) phase: AtomicU8,
    /// Connections that are open at both ends, or, if they are short, were.
    pub(super) opened: AtomicU64,
    pub(super) completed: AtomicU64,
    pub(super) retransmits: AtomicU64,
    /// The percentiles so far, in words.
    pub(super) percentiles: Mutex<String>,
}

/// Where a run is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Phase {
    Opening,
    WarmUp,
    Measuring,
    Ending,
}

/// What was counted in the measured part.
#[derive(Debug)]
pub(super) struct Measured {
    pub(super) seconds: f64,
    pub(super) cpu_seconds: f64,
    pub(super) completed: u64,
    /// Of both engines, in this part.
    pub(super) frames: u64,
    pub(super) retransmits: u64,
    pub(super) timeouts: u64,
    /// Of the clients' engine, in this part.
    pub(super) closed: u64,
    pub(super) time_wait_reused: u64,
    pub(super) time_wait_evicted: u64,
    /// At the end.
    pub(super) time_waits: u64,
    /// For the whole run: opening took this long.
    pub(super) opening_seconds: f64,
    pub(super) interrupted: bool,
}

/// A run under way.
pub(super) struct Drive<'r> {
    pub(super) options: &'r Options,
    pub(super) client: &'r mut dyn Side,
    pub(super) server: &'r mut dyn Side,
    pub(super) live: &'r Live,
    pub(super) stop: &'r Stop,
    clock: Clock,
    /// Connections asked for.
    asked: u64,
    /// The next four-tuple of short connections.
    tuple: u32,
    rounds: u64,
}

impl<'r> Drive<'r> {
    pub(super) fn new(
        options: &'r Options,
        client: &'r mut dyn Side,
        server: &'r mut dyn Side,
        live: &'r Live,
        stop: &'r Stop,
    ) -> Self {
        Self { options, client, server, live, stop, clock: Clock::start(), asked: 0, tuple: 0, rounds: 0 }
    }

    /// Runs it to its end, or to the stop.
    pub(super) fn run(&mut self) -> Result<Measured, Failure> {
        let start = Instant::now();
        if self.options.stays() {
            self.open_all()?;
            self.line_up()?;
        }
        let opening_seconds = start.elapsed().as_secs_f64();
        self.warm_up()?;
        let mut measured = self.measure()?;
        measured.opening_seconds = opening_seconds;
        Ok(measured)
    }

    /// Opens all connections, so many at a time that neither end has to refuse any.
    fn open_all(&mut self) -> Result<(), Failure> {
        self.phase(Phase::Opening);
        let count = self.options.connections;
        let mut heard = (0, Instant::now());
        loop {
            let opened = self.client.engine().counters().opened.min(self.server.engine().counters().accepted);
            while self.asked < u64::from(count) && self.asked < opened + OPENING_MAX {
                let from = client_address(self.asked as u32);
                self.client.open(from, server_address(self.options)).map_err(|error| unopened(&error))?;
                self.asked += 1;
            }
            self.round();
            if opened == u64::from(count) && BOOK.with(|book| book.waiting.get()) == count {
                return Ok(());
            }
            if opened > heard.0 {
                heard = (opened, Instant::now());
            } else if heard.1.elapsed() > OPENING_PATIENCE {
                let message = format!("opening connections: {opened} of {count} are open, and no more come");
                return Err(Failure::new(Code::Failed, message).help("less --loss, or fewer --connections"));
            }
            self.look(|_| ())?;
            if self.stop.is_stopped() {
                return Err(Failure::silent(Code::Interrupted));
            }
        }
    }

    /// Lets everybody take their place in the ring. Only the end that begins has turns, so that nothing comes
    /// back before the last one has its place; what finds no room waits.
    fn line_up(&mut self) -> Result<(), Failure> {
        let now = self.clock.now();
        let stands = Instant::now();
        let mut heard = (0, Instant::now());
        loop {
            let begun = BOOK.with(|book| book.begun.get());
            if begun == self.options.connections {
                break;
            }
            if begun > heard.0 {
                heard = (begun, Instant::now());
            } else if heard.1.elapsed() > LINE_PATIENCE {
                let message = format!("starting: {begun} of {} connections began", self.options.connections);
                return Err(
                    Failure::new(Code::Failed, message).help("the others were lost: please report it")
                );
            }
            match self.options.mode {
                Mode::Push => self.server.turn(now),
                _ => self.client.turn(now),
            };
        }
        self.clock.stood(stands.elapsed());
        Ok(())
    }

    fn warm_up(&mut self) -> Result<(), Failure> {
        self.phase(Phase::WarmUp);
        let start = Instant::now();
        let first = BOOK.with(|book| book.completed.get());
        loop {
            self.reopen()?;
            self.round();
            let completed = BOOK.with(|book| book.completed.get()) - first;
            if completed >= u64::from(self.options.connections) && start.elapsed() >= self.options.warm_up {
                return Ok(());
            }
            self.look(|_| ())?;
            if self.stop.is_stopped() {
                return Err(Failure::silent(Code::Interrupted));
            }
        }
    }

    fn measure(&mut self) -> Result<Measured, Failure> {
        self.phase(Phase::Measuring);
        BOOK.with(Book::measure);
        let cpu_used = || cpu::current_thread_cpu().map_or(0.0, |cpu| cpu.total().as_secs_f64());
        let (start, cpu_before, completed_before) = (Instant::now(), cpu_used(), self.completed());
        let (client, server) = (*self.client.engine().counters(), *self.server.engine().counters());
        let mut shown = start;
        while start.elapsed() < self.options.duration && !self.stop.is_stopped() {
            for _ in 0..ROUNDS_A_LOOK {
                self.reopen()?;
                self.round();
            }
            self.look(|drive| {
                if shown.elapsed() > SHOW_EVERY {
                    shown = Instant::now();
                    drive.show_percentiles();
                }
            })?;
        }
        let (seconds, cpu_seconds) = (start.elapsed().as_secs_f64(), cpu_used() - cpu_before);
        BOOK.with(|book| book.close(self.clock.now().as_micros() as u32));
        self.phase(Phase::Ending);
        let (client_after, server_after) =
            (*self.client.engine().counters(), *self.server.engine().counters());
        let both =
            |of: fn(&Counters) -> u64| of(&client_after) - of(&client) + of(&server_after) - of(&server);
        Ok(Measured {
            seconds,
            cpu_seconds,
            frames: both(|counters| counters.frames_sent),
            retransmits: both(|counters| counters.retransmits),
            timeouts: both(|counters| counters.timeouts),
            closed: client_after.closed - client.closed,
            time_wait_reused: both(|counters| counters.time_wait_reused),
            time_wait_evicted: both(|counters| counters.time_wait_evicted),
            time_waits: (self.client.engine().in_time_wait() + self.server.engine().in_time_wait()) as u64,
            completed: self.completed() - completed_before,
            opening_seconds: 0.0,
            interrupted: self.stop.is_stopped(),
        })
    }

    /// A turn for the end that has more to receive: so neither queue grows, and nobody takes in what it
    /// cannot answer.
    #[inline]
    fn round(&mut self) {
        let now = self.clock.now();
        let (client, server) = (self.client.traffic(), self.server.traffic());
        let (for_client, for_server) =
            (server.frames_out - client.frames_in, client.frames_out - server.frames_in);
        if for_server > for_client {
            self.server.turn(now);
        } else if self.client.turn(now) == 0 && for_server == 0 {
            // Nothing is on its way; the server may have timers, or something to say of its own.
            self.server.turn(now);
        }
        self.rounds += 1;
    }

    /// Opens a connection for each short one that is over, as many at a time as the options say.
    fn reopen(&mut self) -> Result<(), Failure> {
        if self.options.stays() {
            return Ok(());
        }
        let (completed, ended_early) = BOOK.with(|book| (book.completed.get(), book.ended_early.get()));
        let opened = self.client.engine().counters().opened;
        let goal = (completed + ended_early + u64::from(self.options.connections)).min(opened + OPENING_MAX);
        // All of them before the first is opened: their addresses are translated side by side, and not one after the other.
        for step in 0..goal.saturating_sub(self.asked).min(OPENING_MAX) as u32 {
            let coming = client_address((self.tuple + TUPLES_AHEAD + step) % SHORT_TUPLES);
            self.client.engine().prefetch_connect(coming, server_address(self.options));
        }
        let mut in_use = 0;
        while self.asked < goal && in_use < IN_USE_MAX {
            let from = client_address(self.tuple);
            self.tuple = (self.tuple + 1) % SHORT_TUPLES;
            match self.client.open(from, server_address(self.options)) {
                Ok(index) => {
                    self.asked += 1;
                    let now = self.clock.last.as_micros() as u32;
                    BOOK.with(|book| {
                        let mut asked_at = book.asked_at.borrow_mut();
                        if asked_at.len() <= index as usize {
                            asked_at.resize(index as usize + 1, 0);
                        }
                        asked_at[index as usize] = now;
                    });
                }
                // Of an earlier round, and not closed yet: the next one.
                Err(ConnectError::InUse) => in_use += 1,
                // Those that are being closed have the places.
                Err(ConnectError::TooMany) => return Ok(()),
                Err(error) => return Err(unopened(&error)),
            }
        }
        Ok(())
    }

    fn completed(&self) -> u64 {
        BOOK.with(|book| book.completed.get())
    }

    /// Says how it goes, now and then, and does something else then.
    fn look(&mut self, also: impl FnOnce(&Self)) -> Result<(), Failure> {
        if self.live.phase.load(Relaxed) != Phase::Measuring as u8
            && !self.rounds.is_multiple_of(ROUNDS_A_LOOK)
        {
            return Ok(());
        }
        let (client, server) = (*self.client.engine().counters(), *self.server.engine().counters());
        self.live.opened.store(client.opened.min(server.accepted), Relaxed);
        self.live.completed.store(self.completed(), Relaxed);
        self.live.retransmits.store(client.retransmits + server.retransmits, Relaxed);
        also(self);
        let ended_early = BOOK.with(|book| book.ended_early.get());
        let (timed_out, reset) = (client.timed_out + server.timed_out, client.reset + server.reset);
        if self.options.stays() && ended_early + timed_out + reset > 0 {
            let message =
                format!("connections that should stay have ended: {timed_out} timed out, {reset} were reset");
            return Err(
                Failure::new(Code::Failed, message).help("less --loss; without any, please report it")
            );
        }
        Ok(())
    }

    fn show_percentiles(&self) {
        let at = |share| BOOK.with(|book| book.quantile(share)).unwrap_or_default();
        let text = format!("p50 {:.1?}, p99 {:.1?}, p99.99 {:.1?}", at(0.5), at(0.99), at(0.9999));
        if let Ok(mut percentiles) = self.live.percentiles.lock() {
            *percentiles = text;
        }
    }

    fn phase(&self, phase: Phase) {
        self.live.phase.store(phase as u8, Relaxed);
    }
}

fn unopened(error: &ConnectError) -> Failure {
    Failure::new(Code::Failed, format_args!("opening a connection failed: {error}")).help("please report it")
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
        let micros = (self.start.elapsed() - self.stood).as_micros() as u64;
        self.last = Moment::from_micros(micros);
        self.last
    }

    fn stood(&mut self, time: Duration) {
        self.stood += time;
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
/// Rounds between two looks at the time and at what others want to know.
const ROUNDS_A_LOOK: u64 = 128;
/// How often the percentiles are made anew.
const SHOW_EVERY: Duration = Duration::from_millis(500);
