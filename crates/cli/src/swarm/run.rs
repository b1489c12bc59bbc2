//! A run over a network in this process, from its options to its result: one thread runs it, this one shows
//! how it goes.

use std::future::Future;
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use anywire::load::Stop;
use anywire_stack::swarm::{Conn, Swarm, Tasks};
use anywire_sys::{cpu, memory};

use super::book::{BOOK, Record};
use super::drive::{Drive, Live, Measured, Phase, Side};
use super::network::Network;
use super::options::{Mode, Options};
use super::outcome::{Found, MemoryOutcome, Outcome};
use super::tasks::grouped;
use super::{http, roles};
use crate::failure::{Code, Failure};
use crate::output;
use crate::progress::Progress;
use crate::signals::Signals;

impl Options {
    /// Runs it, and prints the result.
    pub(super) fn run(self) -> Result<(), Failure> {
        self.check()?;
        match self.mode {
            Mode::Echo => self.run_with(roles::echo_client, roles::echo_server),
            Mode::Push => self.run_with(roles::push_client, roles::push_server),
            Mode::Short => self.run_with(roles::short_client, roles::echo_server),
            Mode::Http => self.run_with(http::client, http::server),
        }
    }

    fn run_with<C, S>(
        &self,
        client: impl Fn(Conn) -> C + Send,
        server: impl Fn(Conn) -> S + Send,
    ) -> Result<(), Failure>
    where
        C: Future<Output = ()>,
        S: Future<Output = ()>,
    {
        self.check_memory(Tasks::<C>::TASK_BYTES + Tasks::<S>::TASK_BYTES)?;
        let (live, stop) = (Live::default(), Stop::new());
        let signals = Signals::stop(stop.clone())?;
        let progress = Progress::start(u64::from(self.connections));
        progress.say(&format!(
            "running {} connections on core {}",
            grouped(self.connections.into()),
            self.core()
        ));
        let (end, ended) = mpsc::channel::<()>();
        let outcome = std::thread::scope(|scope| {
            let run = scope.spawn(|| {
                // Dropped with the thread, so that nobody waits for one that panicked.
                let _end = end;
                self.measure(client, server, &live, &stop)
            });
            self.watch(&progress, &live, &ended);
            run.join()
        });
        progress.finish();
        let outcome = match outcome {
            Ok(outcome) => outcome,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        let outcome = match outcome {
            Ok(outcome) => outcome,
            Err(failure) => {
                signals.check()?;
                return Err(failure);
            }
        };
        self.print(&outcome)?;
        signals.check()?;
        judge(&outcome)
    }

    /// The whole run, on its core.
    fn measure<C, S>(
        &self,
        client: impl Fn(Conn) -> C,
        server: impl Fn(Conn) -> S,
        live: &Live,
        stop: &Stop,
    ) -> Result<Outcome, Failure>
    where
        C: Future<Output = ()>,
        S: Future<Output = ()>,
    {
        cpu::pin_current_thread(self.core()).map_err(|error| Failure::of(Code::Usage, &error))?;
        BOOK.with(|book| book.open(self.payload, self.shuffle()));
        let before = Resident::now();
        let network = Network::new(self)?;
        let most =
            if self.stays() { self.connections as usize } else { 2 * self.connections as usize + 65_536 };
        let failed = |error: std::io::Error| Failure::of(Code::Failed, &error);
        let mut client = Swarm::new(network.client, network.client_device, most, client).map_err(failed)?;
        let mut server = Swarm::new(network.server, network.server_device, most, server).map_err(failed)?;
        let measured: Measured = Drive::new(self, &mut client, &mut server, live, stop).run()?;
        let memory = self.memory(
            &before,
            [&mut client, &mut server],
            [Tasks::<C>::TASK_BYTES, Tasks::<S>::TASK_BYTES],
        );
        let (corrupt, failed) = BOOK.with(|book| (book.corrupt.get(), book.ended_early.get()));
        // The tasks write down what they know.
        drop((client, server));
        let (latency, kept) = BOOK.with(|book| book.take());
        Ok(Outcome::new(self, Found { measured, memory, latency, kept, corrupt, failed }))
    }

    fn memory(&self, before: &Resident, ends: [&mut dyn Side; 2], task_bytes: [usize; 2]) -> MemoryOutcome {
        let now = Resident::now();
        let resident_bytes = now.bytes.saturating_sub(before.bytes);
        let huge_page_bytes = now.huge_page_bytes.saturating_sub(before.huge_page_bytes);
        let mut sum = [0; 6];
        for end in ends {
            let engine = end.engine().memory();
            let tasks = end.bytes();
            let parts = [engine.blocks, engine.table, engine.segments, engine.timers, engine.others, tasks];
            for (sum, part) in sum.iter_mut().zip(parts) {
                *sum += part as u64;
            }
        }
        let computed_bytes: u64 = sum.iter().sum();
        let [blocks_bytes, table_bytes, segments_bytes, timers_bytes, others_bytes, tasks_bytes] = sum;
        MemoryOutcome {
            resident_bytes,
            huge_page_bytes,
            pages: match huge_page_bytes * 10 {
                huge if huge >= resident_bytes * 9 => "huge",
                huge if huge < resident_bytes => "small",
                _ => "mixed",
            },
            computed_bytes,
            computed_bytes_per_endpoint: computed_bytes as f64 / f64::from(self.connections) / 2.0,
            blocks_bytes,
            table_bytes,
            segments_bytes,
            timers_bytes,
            others_bytes,
            tasks_bytes,
            client_task_bytes: task_bytes[0],
            server_task_bytes: task_bytes[1],
            test_bytes_per_connection: if self.stays() { size_of::<Record>() } else { size_of::<u32>() },
        }
    }

    /// Shows how it goes, until the run has ended: on a terminal always anew, elsewhere a line now and then.
    fn watch(&self, progress: &Progress, live: &Live, ended: &mpsc::Receiver<()>) {
        let mut last = (Instant::now(), 0);
        let mut rate = 0.0;
        let mut said = Instant::now();
        let mut measuring_since: Option<Instant> = None;
        while ended.recv_timeout(LOOK_EVERY) == Err(RecvTimeoutError::Timeout) {
            let completed = live.completed.load(Relaxed);
            if last.0.elapsed() >= RATE_EVERY {
                rate = (completed - last.1) as f64 / last.0.elapsed().as_secs_f64();
                last = (Instant::now(), completed);
            }
            let opened = live.opened.load(Relaxed);
            if progress.is_bar() {
                // As many as are open, and then as much as has passed of the time that is measured.
                let phase = live.phase.load(Relaxed);
                let share = if phase == Phase::Opening as u8 || phase == Phase::WarmUp as u8 {
                    opened as f64 / f64::from(self.connections)
                } else {
                    let began = *measuring_since.get_or_insert_with(Instant::now);
                    began.elapsed().as_secs_f64() / self.duration.as_secs_f64()
                };
                let done = (share.min(1.0) * f64::from(self.connections)) as u64;
                progress.show(done, || self.line(live, rate));
            } else if said.elapsed() >= SAY_EVERY {
                said = Instant::now();
                progress.say(&self.line(live, rate));
            }
        }
    }

    fn line(&self, live: &Live, rate: f64) -> String {
        let phase = live.phase.load(Relaxed);
        let opened = grouped(live.opened.load(Relaxed));
        let memory = memory::anonymous_bytes().unwrap_or(0) >> 20;
        if phase == Phase::Opening as u8 {
            return format!("opening: {opened} connections up, {memory} MiB");
        }
        let what = if phase == Phase::WarmUp as u8 { "warming up" } else { "measuring" };
        let percentiles = live.percentiles.lock().map(|text| text.clone()).unwrap_or_default();
        let retransmits = grouped(live.retransmits.load(Relaxed));
        let comma = if percentiles.is_empty() { "" } else { ", " };
        format!(
            "{what}: {opened} connections up, {}/s{comma}{percentiles}, {retransmits} retransmits, {memory} MiB",
            grouped(rate.round() as u64)
        )
    }

    fn print(&self, outcome: &Outcome) -> Result<(), Failure> {
        if self.json.as_deref() != Some(Path::new("-")) {
            output::print(outcome.to_string().as_bytes())?;
        }
        let Some(path) = &self.json else { return Ok(()) };
        let json = serde_json::to_string_pretty(outcome).expect("an outcome holds only strings and numbers");
        output::write(path, &json)
    }
}

/// A run that delivered nothing, or anything else than what was sent, has failed.
fn judge(outcome: &Outcome) -> Result<(), Failure> {
    if outcome.corrupt() > 0 {
        let message = format!("{} payloads were not what was sent", grouped(outcome.corrupt()));
        return Err(Failure::new(Code::Failed, message).help("please report it, with the options"));
    }
    if outcome.echoes() == 0 {
        let message = "nothing was completed in the time that was measured";
        return Err(Failure::new(Code::Failed, message).help("measure for longer (--duration)"));
    }
    Ok(())
}

/// Memory of this process, as the kernel counts it.
struct Resident {
    bytes: u64,
    huge_page_bytes: u64,
}

impl Resident {
    fn now() -> Self {
        Self {
            bytes: memory::anonymous_bytes().unwrap_or(0),
            huge_page_bytes: memory::huge_page_bytes().unwrap_or(0),
        }
    }
}

/// How often the progress is drawn anew.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// How long a rate is that is shown.
const RATE_EVERY: Duration = Duration::from_millis(500);
/// How often a line is written where there is no terminal.
const SAY_EVERY: Duration = Duration::from_secs(2);
