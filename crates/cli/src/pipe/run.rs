//! The run: all connections, on their loops.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anywire::http::HeadLimits;
use anywire::load::{Stop, text};
use anywire::loops::{Loops, TaskError};
use anywire::wire::{Address, DialError, DialOptions, Dialer};
use tokio::sync::Semaphore;

use super::connection::{self, Counts};
use super::requests::Requests;
use super::result::PipeResult;
use crate::failure::{Code, Failure};
use crate::progress::{self, Progress};
use crate::signals::Signals;

/// What is to be done.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) url: String,
    pub(super) address: Address,
    pub(super) dial: DialOptions,
    pub(super) requests: Requests,
    pub(super) connections: usize,
    pub(super) per_connection: u64,
    pub(super) reconnect: Option<u64>,
    pub(super) depth: Option<u64>,
    pub(super) timeout: Duration,
    pub(super) head: HeadLimits,
    pub(super) keeps_answers: bool,
}

/// What has come of it.
pub(super) struct Ended {
    pub(super) result: PipeResult,
    /// The answers as they came, one connection after the other.
    pub(super) answers: Vec<u8>,
    /// Why there was no connection.
    pub(super) dial: Option<DialError>,
    pub(super) signals: Signals,
}

pub(super) fn run(plan: Plan, loops: usize) -> Result<Ended, Failure> {
    let stop = Stop::new();
    let signals = Signals::stop(stop.clone())?;
    let loops = Loops::start(loops).map_err(|error| Failure::of(Code::Failed, &error))?;
    let plan = Arc::new(plan);
    let asked = plan.per_connection.saturating_mul(plan.connections as u64);
    let progress = Progress::start(asked);
    let connections = text::counted(plan.connections as u64, "connection");
    let requests = text::counted(plan.per_connection, "request");
    progress.say(&format!("piping {}: {connections}, {requests} each", plan.url));
    let answered = Arc::new(AtomicU64::new(0));
    let begun = Instant::now();
    let show = || {
        let answered = answered.load(Ordering::Relaxed);
        progress.show(answered, || format!("{} answers", text::grouped(answered)));
    };
    let all = progress::during(show, || on_loops(&loops, &plan, &answered, &stop));
    let took = begun.elapsed();
    progress.finish();
    let mut all = all.map_err(|error| Failure::of(Code::Failed, &error))?;
    let answers = all.iter_mut().flat_map(|counts| std::mem::take(&mut counts.answers)).collect();
    let dial = all.iter_mut().find_map(|counts| counts.dial.take());
    Ok(Ended { result: PipeResult::of(&plan, &all, took, stop.is_stopped()), answers, dial, signals })
}

/// Each connection has its place among the loops. The counts are in the order of the connections.
fn on_loops(
    loops: &Loops,
    plan: &Arc<Plan>,
    answered: &Arc<AtomicU64>,
    stop: &Stop,
) -> Result<Vec<Counts>, TaskError> {
    let count = loops.len();
    let tasks: Vec<_> = loops
        .iter()
        .enumerate()
        .map(|(index, one)| {
            let (plan, answered, stop) = (plan.clone(), answered.clone(), stop.clone());
            one.spawn(move || on_loop(plan, answered, stop, index, count))
        })
        .collect();
    let mut all = Vec::with_capacity(plan.connections);
    for task in tasks {
        all.extend(task.wait()?);
    }
    all.sort_by_key(|(index, _)| *index);
    Ok(all.into_iter().map(|(_, counts)| counts).collect())
}

/// The connections of one loop, each with its number.
async fn on_loop(
    plan: Arc<Plan>,
    answered: Arc<AtomicU64>,
    stop: Stop,
    index: usize,
    loops: usize,
) -> Vec<(usize, Counts)> {
    let dialer = Rc::new(Dialer::new(plan.dial.clone()));
    let dials = Rc::new(Semaphore::new(DIALS));
    let all: Vec<_> = (index..plan.connections)
        .step_by(loops)
        .map(|number| {
            let (plan, dialer, dials) = (plan.clone(), dialer.clone(), dials.clone());
            let (answered, stop) = (answered.clone(), stop.clone());
            anywire::loops::spawn(async move {
                let mut counts = Counts::default();
                tokio::select! {
                    biased;
                    () = stop.stopped() => {}
                    () = connection::run(&plan, &dialer, &dials, &answered, &mut counts) => {}
                }
                (number, counts)
            })
        })
        .collect();
    let mut counted = Vec::with_capacity(all.len());
    for one in all {
        // One that panicked has counted nothing, and the loop has logged it.
        counted.extend(one.await);
    }
    counted
}

/// Connections that a loop makes at a time: servers have a queue for those that they have yet to accept.
const DIALS: usize = 32;
