//! One candidate in one round: its server is started, loaded, sampled, and stopped.

use anywire_http::Chain;
use anywire_loops::Loops;
use anywire_sys::cpu::CpuTime;
use anywire_sys::syscalls::SyscallCounter;

use crate::compare::candidate::{Candidate, RunningServer, Settings};
use crate::compare::result::{Figures, RoundResult, Row};
use crate::compare::settings::Options;
use crate::engine::{self, Boundary};
use crate::errors::LoadError;
use crate::outcome::Outcome;
use crate::plan::{Amount, Expect, Plan};

/// What all rounds share.
pub(crate) struct Bench<'a> {
    pub(crate) loops: &'a Loops,
    pub(crate) options: &'a Options,
    pub(crate) settings: Settings,
}

/// Measures one candidate once; `None` if its server did not start, which its row then says.
pub(crate) fn measure(
    bench: &Bench<'_>,
    candidate: &Candidate,
    round: usize,
    row: &mut Row,
) -> Result<Option<RoundResult>, LoadError> {
    let running = match (candidate.start)(&bench.settings) {
        Ok(running) => running,
        Err(error) => {
            message(row, format!("round {round}: starting failed: {}", Chain(error.as_ref())));
            return Ok(None);
        }
    };
    let (outcome, server_cpu) = load(bench, candidate, &running, row)?;
    let answered = outcome.totals.measured.answered;
    let mut result = RoundResult {
        round,
        answered,
        errors: outcome.totals.measured.errors.total(),
        connections_open: outcome.totals.connections.open_at_start,
        ..RoundResult::default()
    };
    // Without an answer there are no figures; a rate of 0 would stand in the medians as if it had been measured.
    if answered > 0 {
        let latency = outcome.latency.send.as_ref();
        result.figures = Figures {
            requests_per_second: Some(outcome.rate.achieved),
            server_cpu_us_per_request: server_cpu
                .map(|cpu| cpu.total().as_nanos() as f64 / 1000.0 / answered as f64),
            client_cpu_us_per_request: outcome.generator.cpu_us_per_request,
            p50_us: latency.map(|latency| latency.p50),
            p99_us: latency.map(|latency| latency.p99),
            max_us: latency.map(|latency| latency.max),
            ..Figures::default()
        };
        if result.connections_open != bench.options.connections as u64 {
            row.note(format!(
                "round {round}: only {} of {} connections were open",
                result.connections_open, bench.options.connections
            ));
        }
    }
    add_errors(row, round, &outcome);
    if answered > 0 && !bench.options.syscall_duration.is_zero() && !bench.options.stop.is_stopped() {
        result.figures.syscalls_per_request = syscalls(bench, candidate, &running, row)?;
    }
    Ok(Some(result))
}

/// The measured load, and the CPU time of the server's thread in it.
fn load(
    bench: &Bench<'_>,
    candidate: &Candidate,
    running: &RunningServer,
    row: &mut Row,
) -> Result<(Outcome, Option<CpuTime>), LoadError> {
    let options = bench.options;
    let plan = Plan {
        warm_up: options.warm_up,
        amount: Amount::Duration(options.duration),
        ..plan(bench, candidate, running)
    };
    let mut before = None;
    let mut after = None;
    let outcome = engine::run_observed(bench.loops, plan, |boundary| match boundary {
        Boundary::Measuring => before = Some((running.cpu)()),
        Boundary::Measured => after = Some((running.cpu)()),
    })?;
    let cpu = match (before, after) {
        (Some(Ok(before)), Some(Ok(after))) => Some(after - before),
        (Some(Err(error)), _) | (_, Some(Err(error))) => {
            row.note(format!(
                "server_cpu_us_per_request is unknown: sampling the server's thread failed: {error}"
            ));
            None
        }
        _ => None,
    };
    Ok((outcome, cpu))
}

/// System calls of the server's thread per answer, from a short load of its own: the tracepoint costs time at each call
/// and would stand in the CPU figures.
fn syscalls(
    bench: &Bench<'_>,
    candidate: &Candidate,
    running: &RunningServer,
    row: &mut Row,
) -> Result<Option<f64>, LoadError> {
    let counter = match SyscallCounter::for_thread(running.thread) {
        Ok(counter) => counter,
        Err(error) => {
            row.note(format!("syscalls_per_request is unknown: {}", Chain(&error)));
            return Ok(None);
        }
    };
    let options = bench.options;
    let plan = Plan {
        warm_up: options.syscall_duration / 5,
        amount: Amount::Duration(options.syscall_duration),
        ..plan(bench, candidate, running)
    };
    let mut counted = Ok(0);
    let outcome = engine::run_observed(bench.loops, plan, |boundary| match boundary {
        Boundary::Measuring => counted = counter.reset_and_enable().map(|()| 0),
        Boundary::Measured => {
            if counted.is_ok() {
                counted = counter.disable().and_then(|()| counter.read());
            }
        }
    })?;
    let answered = outcome.totals.measured.answered;
    match counted {
        Ok(calls) if answered > 0 => Ok(Some(calls as f64 / answered as f64)),
        Ok(_) => Ok(None),
        Err(error) => {
            row.note(format!("syscalls_per_request is unknown: reading the counter failed: {error}"));
            Ok(None)
        }
    }
}

fn plan(bench: &Bench<'_>, candidate: &Candidate, running: &RunningServer) -> Plan {
    let options = bench.options;
    Plan {
        via: running.via.clone(),
        #[cfg(feature = "tls")]
        tls: running.tls.clone(),
        protocol: candidate.protocol,
        connections: options.connections,
        depth: options.depth,
        expect: Expect { status: None, body_bytes: Some(options.body_bytes as u64) },
        stop: options.stop.clone(),
        ..Plan::new(&running.url)
    }
}

/// Errors of the warm-up count too: a candidate that fails in it is not one that works.
fn add_errors(row: &mut Row, round: usize, outcome: &Outcome) {
    let totals = &outcome.totals;
    row.errors.merge(&totals.measured.errors);
    row.errors.merge(&totals.warm_up.errors);
    for sample in totals.measured.error_samples.iter().chain(&totals.warm_up.error_samples) {
        message(row, format!("{}: {}", sample.kind, sample.message));
    }
    for remark in outcome.remarks().into_iter().filter(|_| !outcome.rate.interrupted) {
        message(row, format!("round {round}: {remark}"));
    }
}

/// Adds a message, unless it is there already or the row is full.
fn message(row: &mut Row, message: String) {
    if row.error_messages.len() < MESSAGES_MAX && !row.error_messages.contains(&message) {
        row.error_messages.push(message);
    }
}

/// The most messages of one row.
const MESSAGES_MAX: usize = 20;
