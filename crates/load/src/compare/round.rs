//! One candidate in one round: its server is started, loaded, sampled, and stopped.

use std::collections::BTreeMap;
use std::time::Duration;

use anywire_advice::{Chain, Message};
use anywire_loops::Loops;
use anywire_sys::memory;
use anywire_sys::process;
use anywire_sys::syscalls::CallsOfThreads;

use crate::compare::candidate::{Candidate, RunningServer, Settings};
use crate::compare::idle::Idle;
use crate::compare::result::Row;
use crate::compare::settings::Options;
use crate::engine::{self, Boundary};
use crate::errors::LoadError;
use crate::expect::Expect;
use crate::outcome::Outcome;
use crate::plan::{Amount, Plan};
use crate::rounds::{Figures, Part, Parts, Round, ServerThreads, in_time};
use crate::schedule::{Schedule, gap_seed};

/// What all rounds share.
pub(crate) struct Bench<'a> {
    pub(crate) loops: &'a Loops,
    pub(crate) options: &'a Options,
    pub(crate) settings: Settings,
    /// What the order of the candidates and random gaps are drawn from.
    pub(crate) seed: u32,
}

impl Bench<'_> {
    /// When the requests of a round leave.
    fn schedule(&self, round: usize) -> Option<Schedule> {
        let (gaps, seed) = (self.options.gaps, gap_seed(self.seed, round));
        self.options.rate.map(|rate| Schedule { gaps, seed, ..Schedule::constant(rate) })
    }
}

/// One candidate in one round.
pub(crate) struct Measured {
    pub(crate) round: Round,
    /// The measured load.
    pub(crate) part: Part,
}

/// Measures one candidate once; `None` if its server did not start, which its row then says.
pub(crate) fn measure(
    bench: &Bench<'_>,
    candidate: &Candidate,
    round: usize,
    row: &mut Row,
) -> Result<Option<Measured>, LoadError> {
    let running = match (candidate.start)(&bench.settings) {
        Ok(running) => running,
        Err(error) => {
            let error = Chain(error.as_ref());
            message(row, Message::read(format_args!("round {round}: starting failed: {error}")));
            return Ok(None);
        }
    };
    let memory = memory_of_connection(bench, candidate, &running, row)?;
    let idle = bench.options.connections - bench.options.loaded();
    let _idle = match Idle::open(
        bench.loops,
        &plan(bench, candidate, &running),
        &running.handles(&bench.options.stop),
        idle,
    )? {
        Ok(idle) => idle,
        Err(error) => {
            let text = format_args!("round {round}: opening {idle} idle connections failed: {error}");
            message(row, Message::read(text));
            return Ok(None);
        }
    };
    let part = load(bench, candidate, &running, round)?;
    if let Err(error) = &part.used {
        row.note(format!(
            "server_cpu_us_per_request is unknown: sampling the server's threads failed: {error}"
        ));
    }
    let mut result = Parts::of([&part]).round(round);
    let answered = result.answered;
    if answered > 0 {
        result.figures.user_bytes_per_connection = memory.user_bytes_per_connection;
        result.figures.kernel_bytes_per_connection = memory.kernel_bytes_per_connection;
        let loaded = bench.options.loaded();
        if result.connections_open != loaded as u64 {
            row.note(format!(
                "round {round}: only {} of {loaded} connections were open",
                result.connections_open
            ));
        }
    }
    row.never_open = row.never_open.max(part.outcome.totals.connections.never_open);
    add_messages(row, round, &part.outcome);
    if answered > 0 && !bench.options.syscall_duration.is_zero() && !bench.options.stop.is_stopped() {
        result.syscalls_by_name = syscalls(bench, candidate, &running, round, row)?;
        result.figures.syscalls_per_request =
            result.syscalls_by_name.as_ref().map(|calls| calls.values().fold(0.0, |sum, count| sum + count));
    }
    if let Some(remark) = (running.remark)() {
        row.note(remark);
    }
    Ok(Some(Measured { round: result, part }))
}

/// The measured load.
fn load(
    bench: &Bench<'_>,
    candidate: &Candidate,
    running: &RunningServer,
    round: usize,
) -> Result<Part, LoadError> {
    let options = bench.options;
    let plan = Plan {
        schedule: bench.schedule(round),
        warm_up: options.warm_up,
        amount: Amount::Duration(options.duration),
        ..plan(bench, candidate, running)
    };
    Part::measure(bench.loops, plan, running.handles(&bench.options.stop), &running.threads)
}

/// System calls of the server's threads per answer, from a short load of its own: the tracepoint costs time at each call
/// and would stand in the CPU figures.
fn syscalls(
    bench: &Bench<'_>,
    candidate: &Candidate,
    running: &RunningServer,
    round: usize,
    row: &mut Row,
) -> Result<Option<BTreeMap<String, f64>>, LoadError> {
    // Before its connections are opened, so that threads of connections are counted with the one that starts them.
    let threads: Vec<i32> = match &running.threads {
        ServerThreads::Here(threads) => threads().into_iter().take(1).collect(),
        // One that has ended says so in the figures of its CPU time.
        ServerThreads::Of(pid) => {
            process::threads_of(*pid).unwrap_or_default().into_iter().map(|thread| thread.tid).collect()
        }
        ServerThreads::Unknown => Vec::new(),
    };
    if threads.is_empty() {
        return Ok(None);
    }
    let mut counter = match CallsOfThreads::new(threads) {
        Ok(counter) => counter,
        Err(error) => {
            row.note(format!("syscalls_per_request is unknown: {}", Chain(&error)));
            return Ok(None);
        }
    };
    let options = bench.options;
    let plan = Plan {
        schedule: bench.schedule(round),
        warm_up: options.syscall_duration / 5,
        amount: Amount::Duration(options.syscall_duration),
        ..plan(bench, candidate, running)
    };
    let mut counted = Ok(BTreeMap::new());
    let outcome =
        engine::run_observed(bench.loops, plan, running.handles(&bench.options.stop), |boundary| {
            match boundary {
                Boundary::Measuring => counted = counter.enable().map(|()| BTreeMap::new()),
                Boundary::Measured => {
                    if counted.is_ok() {
                        counted = counter.disable().and_then(|()| counter.read());
                    }
                }
            }
        })?;
    let answered = in_time(&outcome);
    match counted {
        Ok(calls) if answered > 0 => {
            let per_answer = |(name, calls): (&str, u64)| (name.to_owned(), calls as f64 / answered as f64);
            Ok(Some(calls.into_iter().map(per_answer).collect()))
        }
        Ok(_) => {
            // Whoever stopped it knows why.
            if options.stop.is_stopped() {
                return Ok(None);
            }
            row.note("syscalls_per_request is unknown: no answer came while they were counted".to_owned());
            Ok(None)
        }
        Err(error) => {
            row.note(format!("syscalls_per_request is unknown: reading the counter failed: {error}"));
            Ok(None)
        }
    }
}

/// How much memory an idle connection takes: the growth of this process and of the kernel while some are open.
fn memory_of_connection(
    bench: &Bench<'_>,
    candidate: &Candidate,
    running: &RunningServer,
    row: &mut Row,
) -> Result<Figures<f64>, LoadError> {
    let count = bench.options.memory_connections;
    if count == 0 || bench.options.stop.is_stopped() {
        return Ok(Figures::default());
    }
    let plan = || plan(bench, candidate, running);
    // Accepting goes in order, so one that is answered shows that those before it have been accepted. The first makes
    // room for what all share.
    let answered = || {
        let one = Plan { connections: 1, warm_up: Duration::ZERO, amount: Amount::Requests(1), ..plan() };
        engine::run_observed(bench.loops, one, running.handles(&bench.options.stop), |_| {}).map(drop)
    };
    let sizes = || {
        memory::release_free();
        [memory::anonymous_bytes().ok(), memory::allocated_bytes(), memory::kernel_bytes().ok()]
    };
    answered()?;
    let before = sizes();
    let idle = match Idle::open(bench.loops, &plan(), &running.handles(&bench.options.stop), count)? {
        Ok(idle) => idle,
        Err(error) => {
            row.note(format!("memory of a connection is unknown: opening {count} failed: {error}"));
            return Ok(Figures::default());
        }
    };
    answered()?;
    let after = sizes();
    let [resident, allocated, kernel] =
        [0, 1, 2].map(|index| Some(after[index]?.checked_sub(before[index]?)? as f64 / count as f64));
    // What lies in memory that was held before, freed by an earlier server, makes nothing grow but the allocator's count.
    let user = resident.into_iter().chain(allocated).reduce(f64::max);
    if idle.has_memory_here() {
        row.note(
            "user_bytes_per_connection is unknown: the client's end of this wire is in this process too"
                .to_owned(),
        );
    }
    Ok(Figures {
        user_bytes_per_connection: user.filter(|_| !idle.has_memory_here()),
        // Without sockets the kernel has nothing for it; what grew is others'.
        kernel_bytes_per_connection: kernel.filter(|_| !idle.has_memory_here()),
        ..Figures::default()
    })
}

fn plan(bench: &Bench<'_>, candidate: &Candidate, running: &RunningServer) -> Plan {
    let options = bench.options;
    Plan {
        via: running.via.clone(),
        protocol: candidate.protocol,
        connections: options.loaded(),
        depth: options.depth,
        expect: Expect {
            body_bytes: (!candidate.runs_by_itself).then_some(options.body_bytes as u64),
            ..Expect::default()
        },
        ..Plan::new(&running.url)
    }
}

/// Says what the errors were.
fn add_messages(row: &mut Row, round: usize, outcome: &Outcome) {
    let totals = &outcome.totals;
    for sample in totals.measured.error_samples.iter().chain(&totals.warm_up.error_samples) {
        message(row, Message::read(sample));
    }
    // Whether the generator was the limit is told of all rounds together, and rounds are short by intent.
    let of_round = [outcome.saturation().map(|message| message.to_string()), outcome.coarseness()];
    let remarks =
        outcome.remarks().into_iter().filter(|remark| !of_round.iter().flatten().any(|one| one == remark));
    for remark in remarks.filter(|_| !outcome.rate.interrupted) {
        message(row, format!("round {round}: {remark}").into());
    }
}

/// Adds a message, unless it is there already or the row is full.
fn message(row: &mut Row, message: Message) {
    if row.error_messages.len() < MESSAGES_MAX && !row.error_messages.contains(&message) {
        row.error_messages.push(message);
    }
}

/// The most messages of one row.
const MESSAGES_MAX: usize = 20;
