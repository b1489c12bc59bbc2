//! A run: all loops together, and the account of it.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anywire_loops::{Loops, Task, block_on};
use anywire_wire::udp::UdpError;

use super::engine::{Live, LoopPart, Tally};
use super::layers::Counters;
use super::outcome::{
    SCHEMA, UdpBalance, UdpBuffer, UdpCalls, UdpLatencies, UdpLoopShare, UdpOutcome, UdpPlanFacts, UdpRate,
    is_saturated,
};
use super::plan::{UdpLoadError, UdpPlan};
use crate::handles::Handles;
use crate::histogram::Latency;
use crate::host::{Host, Tool};

/// Sends as planned, and accounts for each datagram; what ends it early is in `handles`. Blocks until the end; not to be called on a loop.
///
/// # Errors
/// [`UdpLoadError`]. A service that is not there, and datagrams that the system refuses, are part of the outcome instead.
pub fn run(loops: &Loops, plan: UdpPlan, handles: Handles) -> Result<UdpOutcome, UdpLoadError> {
    block_on(start(loops, plan, handles)?.outcome())
}

/// Starts a plan on these loops; the run goes on by itself.
///
/// # Errors
/// The plan is wrong, and nothing was sent.
pub(crate) fn start(loops: &Loops, plan: UdpPlan, handles: Handles) -> Result<UdpRun, UdpLoadError> {
    plan.check()?;
    let stop = handles.stop;
    let plan = Arc::new(plan);
    // Not secret: it only has to differ from that of an earlier run.
    let run = RandomState::new().hash_one(std::process::id());
    let count = loops.len().min(plan.sockets());
    let begin = Instant::now() + START_AFTER + SOCKET_TAKES * plan.sockets() as u32;
    let before = Counters::read(&plan.target);
    let live: Vec<Arc<Live>> = (0..count).map(|_| Arc::default()).collect();
    let tasks: Vec<_> = loops
        .iter()
        .zip(&live)
        .enumerate()
        .map(|(number, (home, live))| {
            let (plan, stop, live) = (Arc::clone(&plan), stop.clone(), Arc::clone(live));
            let part = LoopPart { plan, stop, run, number, loops: count, begin, live };
            home.spawn(move || part.run())
        })
        .collect();
    Ok(UdpRun { loops: loops.clone(), plan, before, tasks, live: live.into() })
}

/// A run under way.
pub(crate) struct UdpRun {
    loops: Loops,
    plan: Arc<UdpPlan>,
    before: Counters,
    tasks: Vec<Task<Result<Tally, UdpError>>>,
    live: Arc<[Arc<Live>]>,
}

/// Looks at a run from any thread.
#[derive(Debug, Clone)]
pub(crate) struct UdpView(Arc<[Arc<Live>]>);

impl UdpView {
    /// Datagrams that were sent so far, and those that came back in time.
    pub(crate) fn counts(&self) -> (u64, u64) {
        let counts = self.0.iter().map(|one| one.counts());
        counts.fold((0, 0), |(sent, received), one| (sent + one.0, received + one.1))
    }
}

impl UdpRun {
    /// How it goes.
    pub(crate) fn view(&self) -> UdpView {
        UdpView(Arc::clone(&self.live))
    }

    /// The outcome, when the run has ended.
    pub(crate) async fn outcome(self) -> Result<UdpOutcome, UdpLoadError> {
        let Self { loops, plan, before, tasks, .. } = self;
        // All of them have ended before an error is returned.
        let mut parts = Vec::with_capacity(tasks.len());
        for task in tasks {
            parts.push(task.await);
        }
        let tallies = parts.into_iter().map(|part| Ok(part??)).collect::<Result<Vec<_>, UdpLoadError>>()?;
        let after = Counters::read(&plan.target);
        Ok(outcome(&loops, &plan, &tallies, &before, &after))
    }
}

fn outcome(
    loops: &Loops,
    plan: &UdpPlan,
    tallies: &[Tally],
    before: &Counters,
    after: &Counters,
) -> UdpOutcome {
    let sum = |of: fn(&Tally) -> u64| tallies.iter().map(of).sum::<u64>();
    let (sent, received, late) = (sum(|one| one.sent), sum(|one| one.received), sum(|one| one.late));
    let missing = sent.saturating_sub(received + late);
    // More corrupt ones than are missing are copies of others.
    let corrupt = sum(|one| one.corrupt).min(missing);
    let copies = sum(|one| one.corrupt) - corrupt;
    let on_their_way = sum(|one| one.on_their_way).min(missing - corrupt);
    let lost = missing - corrupt - on_their_way;
    let layers = after.since(before, sum(|one| one.dropped_here), sum(|one| one.no_room), &plan.target);
    // Of several generators each sees what all of them lost: whose it was is known of the whole alone.
    let is_alone = plan.place.1 <= 1;
    let intended = sum(|one| one.intended);
    let longest = |of: fn(&Tally) -> Duration| tallies.iter().map(of).max().unwrap_or_default().as_secs_f64();
    let (seconds, planned) = (longest(|one| one.sending), longest(|one| one.planned));
    let per_second = |count: u64| ratio(count as f64, seconds);
    // Fewer than were due, or in more time than they should have taken.
    let kept = ratio(sent as f64, sum(|one| one.due) as f64)
        .zip(ratio(planned, seconds))
        .map(|(kept, in_time)| kept.min(in_time));
    let (receive, messages) = (sum(|one| one.receive_calls), sum(|one| one.messages));
    let came = (received + late + sum(|one| one.duplicated)) as f64;
    let latency = |of: fn(&Tally) -> &Latency| {
        let mut all = Latency::new();
        tallies.iter().for_each(|one| all.merge(of(one)));
        all.summary()
    };
    let shares: Vec<_> = loops
        .iter()
        .zip(tallies)
        .map(|(one, tally)| UdpLoopShare {
            id: one.id().index(),
            core: one.core(),
            sent: tally.sent,
            received: tally.received,
            cpu_seconds: tally.busy.map(|busy| busy.as_secs_f64()),
        })
        .collect();
    let received_of: Vec<_> = shares.iter().map(|one| Some(one.received as f64)).collect();
    let cpu_of: Vec<_> = shares.iter().map(|one| one.cpu_seconds).collect();
    UdpOutcome {
        schema: SCHEMA.to_owned(),
        tool: Tool::this(),
        host: Host::of(loops),
        target: plan.target.to_string(),
        plan: UdpPlanFacts {
            datagrams_per_second: plan.schedule.shape.mean() * plan.share(),
            // Of this generator's part, if there are several.
            schedule: Some(plan.schedule.scaled(plan.share())),
            duration_seconds: plan.duration.as_secs_f64(),
            bytes: plan.bytes,
            flows: plan.flows,
            sockets: plan.sockets(),
            wait_seconds: plan.wait.as_secs_f64(),
            offload: plan.offload,
        },
        intended,
        sent,
        refused: sum(|one| one.refused),
        refused_because: tallies.iter().find_map(|one| one.first_error.clone()),
        received,
        lost,
        on_their_way,
        loss: ratio(lost as f64, sent as f64),
        loss_by_layer: if is_alone { layers.of(lost) } else { layers },
        late,
        duplicated: sum(|one| one.duplicated) + copies,
        reordered: sum(|one| one.reordered),
        reorder_extent_max: tallies.iter().map(|one| one.extent_max).max().unwrap_or(0),
        corrupt,
        foreign: sum(|one| one.foreign),
        unreachable: sum(|one| one.unreachable),
        rate: UdpRate {
            sent: per_second(sent),
            received: per_second(received),
            kept,
            saturated: kept.map(|kept| is_saturated(kept, seconds - planned)),
            lag_us_max: tallies.iter().filter_map(|one| one.lag_max).max().map(|lag| lag.as_secs_f64() * 1e6),
            seconds,
            interrupted: tallies.iter().any(|one| one.was_stopped),
        },
        latency: UdpLatencies {
            intended: latency(|one| &one.from_intended),
            sent: latency(|one| &one.from_sent),
        },
        calls: UdpCalls {
            send: sum(|one| one.send_calls),
            receive,
            datagrams_per_send: ratio(sent as f64, sum(|one| one.send_calls) as f64),
            datagrams_per_receive: ratio(came, receive as f64),
            datagrams_per_message: ratio(came, messages as f64),
        },
        receive_buffer: UdpBuffer {
            asked_bytes: plan.receive_buffer_bytes,
            given_bytes: tallies.iter().map(|one| one.receive_buffer_bytes).min().unwrap_or(0),
        },
        loops: shares,
        balance: UdpBalance {
            received_max_to_mean: max_to_mean(&received_of),
            cpu_max_to_mean: max_to_mean(&cpu_of),
        },
        agents: Vec::new(),
    }
}

/// The share of nothing is unknown.
pub(super) fn ratio(part: f64, whole: f64) -> Option<f64> {
    (whole > 0.0).then(|| part / whole)
}

pub(super) fn max_to_mean(parts: &[Option<f64>]) -> Option<f64> {
    let parts: Vec<f64> = parts.iter().copied().collect::<Option<_>>()?;
    let sum: f64 = parts.iter().sum();
    (sum > 0.0).then(|| parts.iter().fold(0.0, |most: f64, part| most.max(*part)) * parts.len() as f64 / sum)
}

/// Until the first datagram is sent: all loops begin together.
const START_AFTER: Duration = Duration::from_millis(20);
const SOCKET_TAKES: Duration = Duration::from_micros(50);
