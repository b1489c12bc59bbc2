//! From what the loops counted to one outcome: counts are added, histograms merged, shares computed.

use std::collections::BTreeMap;
use std::time::Duration;

use anywire_loops::Loops;

use crate::engine::{Columns, LoopCost, LoopResult, RunEnd, Watched};
use crate::host::{Host, Tool};
use crate::outcome::{
    Generator, LoopShare, Outcome, PacingFacts, PlanFacts, Rate, SCHEMA, Step, TargetFacts, Totals,
    WireFigures,
};
use crate::pacer::Pacer;
use crate::plan::{Amount, Plan, Prepared};
use crate::requests;
use crate::saturated::{self, BUSY_MAX, CONNECTIONS, Facts};

/// Puts the loops' results together.
pub(crate) fn outcome(
    loops: &Loops,
    plan: &Plan,
    prepared: &Prepared,
    results: &[LoopResult],
    end: RunEnd,
) -> Outcome {
    let mut totals = Totals::default();
    let mut columns = plan.schedule.map_or_else(Columns::new, |all| Columns::with_parts(all.shape.parts()));
    for one in results {
        totals.merge(&one.totals);
        columns.merge(&one.columns);
    }
    if let Amount::Requests(requests) = plan.amount {
        totals.unsent = Some(requests.saturating_sub(totals.measured.sent + totals.measured.shed));
    }
    let due = results.iter().filter_map(|one| one.open.as_ref()).flat_map(|open| &open.intended).sum::<u64>();
    let sent_in_time: u64 =
        results.iter().filter_map(|one| one.open.as_ref()).map(|open| open.sent_in_time).sum();
    if let (Some(_), Amount::Duration(_)) = (plan.schedule, plan.amount) {
        totals.unsent = Some(due.saturating_sub(totals.measured.sent + totals.measured.shed));
    }
    // After the last request of the plan nothing is left either, and that is its end.
    let is_done = matches!(plan.amount, Amount::Requests(_)) && totals.unsent == Some(0);
    let given_up = end == RunEnd::NothingLeft && !is_done;
    let elapsed = results.iter().map(|one| one.measured).max().unwrap_or_default();
    let answered = totals.measured.answered;
    let schedule_seconds = schedule_time(results, elapsed).map(|time| time.as_secs_f64());
    let (counted, seconds) = match schedule_seconds {
        Some(seconds) => (sent_in_time, seconds),
        None => (answered, elapsed.as_secs_f64()),
    };
    let busiest = results.iter().map(|one| one.totals.measured.answered).max().unwrap_or_default();
    let mean = answered as f64 / results.len().max(1) as f64;
    let shares: Vec<LoopShare> = loops
        .iter()
        .zip(results)
        .enumerate()
        .map(|(id, (one, share))| loop_share(id, one.core(), share))
        .collect();
    Outcome {
        schema: SCHEMA.to_owned(),
        tool: Tool::this(),
        host: Host::of(loops),
        target: TargetFacts {
            url: plan.url.clone(),
            wire: prepared.address.scheme().to_owned(),
            address: prepared.address.to_string(),
            protocol: plan.protocol.to_string(),
        },
        plan: plan_facts(plan, prepared),
        rate: Rate {
            target: plan.schedule.map(|schedule| schedule.shape.mean() * plan.share()),
            intended: schedule_seconds.map(|_| due),
            rate_ratio: (schedule_seconds.is_some() && due > 0).then(|| sent_in_time as f64 / due as f64),
            achieved: (!elapsed.is_zero()).then(|| counted as f64 / seconds),
            schedule_seconds,
            seconds: elapsed.as_secs_f64(),
            interrupted: end == RunEnd::Stopped,
            given_up,
        },
        generator: by_schedule(generator(results, &shares, answered), plan, results, &columns, due),
        latency: columns.latencies(),
        wire: wire(results),
        steps: steps(plan, results, &columns),
        loops: shares,
        requests: requests::by_request(prepared.script.as_deref(), results),
        events: requests::events(results),
        cookies: requests::cookies(results.iter().filter_map(|one| one.cookies)),
        balance: (answered > 0).then(|| busiest as f64 / mean),
        agents: Vec::new(),
        thresholds: Vec::new(),
        search: None,
        rounds: Vec::new(),
        command: None,
        intervals: Vec::new(),
        totals,
    }
}

/// The time of the requests that a schedule has sent: it lasts until the next one would be due, on any loop. Else the rate of few
/// would be that of one more. `None` without a schedule, and if nothing was measured.
fn schedule_time(results: &[LoopResult], elapsed: Duration) -> Option<Duration> {
    let next = results.iter().filter_map(|one| one.open.as_ref()?.next_due).min()?;
    // A loop without a connection has none that is due.
    let next = if next == Pacer::NEVER { Duration::ZERO } else { next };
    (!elapsed.is_zero()).then(|| elapsed.max(next))
}

fn plan_facts(plan: &Plan, prepared: &Prepared) -> PlanFacts {
    let (duration_seconds, requests) = match plan.amount {
        Amount::Duration(time) => (Some(time.as_secs_f64()), None),
        Amount::Requests(requests) => (None, Some(requests)),
    };
    PlanFacts {
        mode: if plan.schedule.is_some() { "open" } else { "closed" }.to_owned(),
        // Of this generator's part, if there are several.
        schedule: plan.schedule.map(|all| all.scaled(plan.share())),
        deadline_seconds: plan.deadline.map(|deadline| deadline.as_secs_f64()),
        reuse: plan.schedule.map(|_| plan.reuse),
        requests_per_connection: plan.requests_per_connection,
        method: prepared.script.as_ref().map_or_else(|| plan.method.to_string(), |script| script.methods()),
        request_bytes: prepared.request_bytes,
        connections: plan.connections,
        depth: plan.depth,
        duration_seconds,
        requests,
        warm_up_seconds: plan.warm_up.as_secs_f64(),
        timeout_seconds: plan.timeout.as_secs_f64(),
    }
}

fn loop_share(id: usize, core: Option<usize>, share: &LoopResult) -> LoopShare {
    let busy = match share.cpu {
        Some(cpu) if !share.measured.is_zero() => {
            Some(cpu.total().as_secs_f64() / share.measured.as_secs_f64())
        }
        _ => None,
    };
    LoopShare {
        id,
        core,
        requests: share.totals.measured.answered,
        connections: share.totals.connections.open_at_end,
        busy,
    }
}

/// What the kernel saw on all loops.
fn wire(results: &[LoopResult]) -> WireFigures {
    let watched = results.iter().filter_map(|one| one.wire).reduce(|mut all: Watched, one| {
        all.merge(&one);
        all
    });
    watched.map(|watched| watched.figures()).unwrap_or_default()
}

fn generator(results: &[LoopResult], shares: &[LoopShare], answered: u64) -> Generator {
    // A loop without connections may see the end of a short run before its beginning, and has used nothing in it. One that
    // cannot tell its time makes the sum unknown.
    let measured = results.iter().filter(|one| !one.measured.is_zero());
    let cpu = measured.map(|one| one.cpu).collect::<Option<Vec<_>>>();
    let Some(cpu) = cpu.filter(|cpu| !cpu.is_empty()) else { return Generator::default() };
    let user_us: f64 = cpu.iter().map(|cpu| cpu.user.as_nanos() as f64 / 1000.0).sum();
    let system_us: f64 = cpu.iter().map(|cpu| cpu.system.as_nanos() as f64 / 1000.0).sum();
    let full = shares.iter().any(|share| share.busy.is_some_and(|busy| busy > BUSY_MAX));
    let cost = results.iter().filter_map(|one| one.cost.clone()).reduce(|mut all: LoopCost, one| {
        all.merge(&one);
        all
    });
    let cost = cost.unwrap_or_default();
    let calls = cost.calls.filter(|_| answered > 0);
    let calls: Option<BTreeMap<String, f64>> = calls.map(|calls| {
        calls.into_iter().map(|(name, count)| (name.to_owned(), count as f64 / answered as f64)).collect()
    });
    Generator {
        voluntary_switches: cost.switches.map(|switches| switches.voluntary),
        involuntary_switches: cost.switches.map(|switches| switches.involuntary),
        syscalls_per_request: calls.as_ref().map(|calls| calls.values().sum()),
        syscalls_by_name: calls,
        cpu_user_us: Some(user_us),
        cpu_sys_us: Some(system_us),
        cpu_us_per_request: (answered > 0).then(|| (user_us + system_us) / answered as f64),
        limited_by: full.then(|| "generator".to_owned()),
        ..Generator::default()
    }
}

/// Adds how the schedule was kept.
fn by_schedule(
    generator: Generator,
    plan: &Plan,
    results: &[LoopResult],
    columns: &Columns,
    due: u64,
) -> Generator {
    let Some(open) = &columns.open else { return generator };
    let loops: Vec<_> = results.iter().filter_map(|one| one.open.as_ref()).collect();
    let sent: u64 = loops.iter().map(|one| one.sent_in_time).sum();
    let (lag, latency) = (open.own_lag.summary(), columns.latencies().intended);
    let busy: Vec<_> = results.iter().map(saturated::busy).collect();
    let is_behind_connections = loops.iter().any(|one| saturated::is_behind_connections(one));
    let facts = Facts {
        rate_ratio: (due > 0).then(|| sent as f64 / due as f64),
        own_lag: lag.as_ref(),
        latency: latency.as_ref(),
        busy: &busy,
        is_behind_connections,
    };
    let reasons = facts.reasons();
    let full = busy.iter().flatten().any(|busy| *busy > BUSY_MAX).then_some("generator");
    let spun: f64 = loops.iter().map(|one| one.pacing.spun.as_secs_f64() * 1e6).sum();
    Generator {
        saturated: (due > 0).then_some(!reasons.is_empty()),
        reasons,
        max_schedule_lag_us: lag.as_ref().map(|lag| lag.max),
        lag,
        pacing: loops.iter().map(|one| one.pacing.timer).find(|timer| !timer.is_empty()).map(|timer| {
            PacingFacts { timer: timer.to_owned(), spin_us: plan.spin.as_secs_f64() * 1e6, spun_us: spun }
        }),
        // The share of its time that a loop used has its spinning in it, which limits nothing.
        limited_by: full.or(is_behind_connections.then_some(CONNECTIONS)).map(str::to_owned),
        ..generator
    }
}

/// The parts of the time, if the rate changes.
fn steps(plan: &Plan, results: &[LoopResult], columns: &Columns) -> Vec<Step> {
    let (Some(schedule), Some(open), Some(time)) = (&plan.schedule, &columns.open, plan.amount.time()) else {
        return Vec::new();
    };
    let intended = |part: usize| {
        let loops = results.iter().filter_map(|one| one.open.as_ref());
        loops.filter_map(|open| open.intended.get(part)).sum()
    };
    let at = |part: usize| time.as_secs_f64() * part as f64 / open.steps.len() as f64;
    let steps = open.steps.iter().enumerate().map(|(part, step)| Step {
        begin_seconds: at(part),
        end_seconds: at(part + 1),
        target: schedule.shape.rate_of_part(part as u32) * plan.share(),
        intended: intended(part),
        sent: step.sent,
        answered: step.answered,
        latency: step.latencies(),
    });
    steps.collect()
}

#[cfg(test)]
mod tests {
    use anywire_sys::cpu::CpuTime;

    use super::*;

    /// One second of a loop that used so many ms of its core.
    fn second(cpu_ms: u64) -> LoopResult {
        let cpu = CpuTime { user: Duration::from_millis(cpu_ms), system: Duration::ZERO };
        LoopResult {
            totals: Totals::default(),
            columns: Columns::new(),
            requests: Vec::new(),
            events: None,
            cookies: None,
            measured: Duration::from_secs(1),
            cpu: Some(cpu),
            cost: None,
            wire: None,
            open: None,
        }
    }

    fn limited_by(results: &[LoopResult]) -> Option<String> {
        let shares: Vec<LoopShare> =
            results.iter().enumerate().map(|(id, one)| loop_share(id, None, one)).collect();
        generator(results, &shares, 1).limited_by
    }

    #[test]
    fn a_loop_above_95_percent_of_a_core_is_the_limit() {
        assert_eq!(limited_by(&[second(200), second(960)]).as_deref(), Some("generator"));
        assert_eq!(limited_by(&[second(950), second(940)]), None);
    }

    #[test]
    fn cpu_that_is_unknown_limits_nothing() {
        let unknown = LoopResult { cpu: None, ..second(0) };
        assert_eq!(limited_by(&[second(990), unknown]), None);
    }

    #[test]
    fn a_loop_that_saw_no_measured_part_has_used_nothing() {
        let unseen = || LoopResult { cpu: None, measured: Duration::ZERO, ..second(0) };
        let used = |results: &[LoopResult]| generator(results, &[], 1000).cpu_us_per_request;
        assert_eq!(used(&[second(200), unseen()]), Some(200.0));
        assert_eq!(used(&[unseen(), unseen()]), None);
    }
}
