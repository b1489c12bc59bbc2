//! What one side does in a round: one load, or several that take turns with those of the other side, summed up.

use std::io;
use std::time::Duration;

use anywire_loops::Loops;
use anywire_sys::cpu::{ContextSwitches, CpuTime};

use crate::engine::{self, Boundary};
use crate::errors::{ErrorCounts, LoadError};
use crate::handles::Handles;
use crate::histogram::Latency;
use crate::outcome::Outcome;
use crate::plan::Plan;
use crate::rounds::fixed_rate::add_summary;
use crate::rounds::round::{Figures, Round};
use crate::rounds::sample::{Sample, ServerThreads, Used};

/// One measured load, and what the server's threads used in it.
pub(crate) struct Part {
    pub(crate) outcome: Outcome,
    /// `None` if nobody knows the threads.
    pub(crate) used: io::Result<Option<Used>>,
}

impl Part {
    /// Loads a server, and samples its threads at both ends of the measured part.
    pub(crate) fn measure(
        loops: &Loops,
        plan: Plan,
        handles: Handles,
        threads: &ServerThreads,
    ) -> Result<Self, LoadError> {
        let mut before = None;
        let mut used = Ok(None);
        let outcome = engine::run_observed(loops, plan, handles, |boundary| match boundary {
            Boundary::Measuring => before = Some(Sample::take(threads)),
            // A run that ends before its measured part has nothing before it.
            Boundary::Measured => used = before.take().map_or(Ok(None), |before| since(before, threads)),
        })?;
        Ok(Self { outcome, used })
    }

    /// The errors by kind. Those of the warm-up count too: a server that fails in it is not one that works.
    pub(crate) fn errors(&self) -> ErrorCounts {
        let totals = &self.outcome.totals;
        let mut errors = totals.measured.errors;
        errors.merge(&totals.warm_up.errors);
        errors
    }
}

fn since(before: io::Result<Option<Sample>>, threads: &ServerThreads) -> io::Result<Option<Used>> {
    let Some(before) = before? else { return Ok(None) };
    Ok(Sample::take(threads)?.map(|now| now.since(&before)))
}

/// The parts of a round, summed up. What is unknown of one part is unknown of all.
pub(crate) struct Parts {
    answered: u64,
    /// The requests that rate and CPU time are divided by.
    in_time: u64,
    errors: u64,
    seconds: f64,
    /// The time that the rate is divided by.
    rate_seconds: f64,
    latency: Option<Latency>,
    client: Option<CpuTime>,
    /// What of it was spent in spinning.
    spun: Duration,
    /// The whole CPU time of the server's threads.
    server: Option<Duration>,
    /// Its two parts.
    split: Option<CpuTime>,
    switches: ContextSwitches,
    threads: usize,
    connections_open: u64,
}

impl Parts {
    pub(crate) fn of<'p>(parts: impl IntoIterator<Item = &'p Part>) -> Self {
        let mut all = Self {
            answered: 0,
            in_time: 0,
            errors: 0,
            seconds: 0.0,
            rate_seconds: 0.0,
            latency: Some(Latency::new()),
            client: Some(CpuTime::default()),
            spun: Duration::ZERO,
            server: Some(Duration::ZERO),
            split: Some(CpuTime::default()),
            switches: ContextSwitches::default(),
            threads: 0,
            connections_open: u64::MAX,
        };
        parts.into_iter().for_each(|part| all.add(part));
        all
    }

    fn add(&mut self, part: &Part) {
        let Outcome { totals, rate, latency, .. } = &part.outcome;
        self.answered += totals.measured.answered;
        self.in_time += in_time(&part.outcome);
        self.errors += part.errors().total();
        self.seconds += rate.seconds;
        self.rate_seconds += rate.schedule_seconds.unwrap_or(rate.seconds);
        self.connections_open = self.connections_open.min(totals.connections.open_at_start);
        // A part without an answer adds no latency.
        add_summary(&mut self.latency, latency.intended.as_ref().or(latency.send.as_ref()));
        let pacing = part.outcome.generator.pacing.as_ref();
        self.spun += pacing.map_or(Duration::ZERO, |pacing| micros(pacing.spun_us));
        let client = cpu_of(&part.outcome);
        self.client = self.client.zip(client).map(|(all, of_part)| all + of_part);
        let used = part.used.as_ref().ok().and_then(Option::as_ref);
        self.server = self.server.zip(used).map(|(all, used)| all + used.cpu);
        let split = used.zip(client).and_then(|(used, client)| used.split(client));
        self.split = self.split.zip(split).map(|(all, of_part)| all + of_part);
        if let Some(used) = used {
            self.switches = self.switches + used.switches;
            self.threads = self.threads.max(used.threads);
        }
    }

    /// The round of this number. Without an answer it has no figures: a rate of 0 would stand in the medians as if it had been
    /// measured.
    pub(crate) fn round(&self, number: usize) -> Round {
        let round = Round {
            round: number,
            answered: self.answered,
            errors: self.errors,
            connections_open: if self.connections_open == u64::MAX { 0 } else { self.connections_open },
            ..Round::default()
        };
        if self.answered == 0 || self.in_time == 0 {
            return round;
        }
        let per_request = |count: f64| count / self.in_time as f64;
        let each = |time: Duration| per_request(time.as_nanos() as f64 / 1000.0);
        let at = |quantile: f64| {
            let found = self.latency.as_ref().and_then(|latency| latency.quantile(quantile));
            found.map(|latency| latency.as_nanos() as f64 / 1000.0)
        };
        let of_server = |count: f64| self.server.map(|_| count);
        let figures = Figures {
            requests_per_second: (self.rate_seconds > 0.0).then(|| self.in_time as f64 / self.rate_seconds),
            server_cpu_us_per_request: self.server.map(each),
            server_user_cpu_us_per_request: self.split.map(|split| each(split.user)),
            server_system_cpu_us_per_request: self.split.map(|split| each(split.system)),
            server_utilisation: self
                .server
                .filter(|_| self.seconds > 0.0)
                .map(|server| server.as_secs_f64() / self.seconds),
            client_cpu_us_per_request: self.client.map(|all| each(all.total().saturating_sub(self.spun))),
            voluntary_switches_per_request: of_server(per_request(self.switches.voluntary as f64)),
            involuntary_switches_per_request: of_server(per_request(self.switches.involuntary as f64)),
            threads: of_server(self.threads as f64),
            p50_us: at(0.5),
            p99_us: at(0.99),
            p99_9_us: at(0.999),
            max_us: at(1.0),
            ..Figures::default()
        };
        Round { figures, ..round }
    }
}

/// The requests that the CPU time of a part was spent on: those that were answered in it. By a schedule, answers still come
/// after its time, and of a server that is behind very many: those that left in time stand for them.
pub(crate) fn in_time(outcome: &Outcome) -> u64 {
    let of_schedule = outcome.rate.rate_ratio.zip(outcome.rate.intended);
    of_schedule.map_or(outcome.totals.measured.answered, |(ratio, intended)| {
        (ratio * intended as f64).round() as u64
    })
}

/// CPU time of the client in the measured part.
fn cpu_of(outcome: &Outcome) -> Option<CpuTime> {
    let generator = &outcome.generator;
    Some(CpuTime { user: micros(generator.cpu_user_us?), system: micros(generator.cpu_sys_us?) })
}

fn micros(us: f64) -> Duration {
    Duration::from_secs_f64(us / 1e6)
}
