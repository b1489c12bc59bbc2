//! One load, all servers: CPU time and system calls per request in interleaved rounds.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use anywire_load::Protocol;
use serde::Serialize;

use crate::check::start_checked;
use crate::generators::{CpuWindow, Generator, Load, Outcome, Window};
use crate::measure::{Family, SystemCalls};
use crate::rounds::{Rounds, Spread, interleaved};
use crate::servers::Server;
use crate::table::{self, Table};

/// A load under which the servers are compared.
pub struct Scenario {
    /// Its name on the command line and in results.
    pub name: &'static str,
    /// The work, in words.
    pub what: &'static str,
    /// The version of HTTP.
    pub http: Protocol,
    /// What is asked for, and the length of its body.
    pub path: &'static str,
    /// JSON that each request posts; without it a request is a `GET`.
    pub posts: Option<&'static str>,
    /// The servers that answer it; all, if none is named.
    pub servers: &'static [&'static str],
    /// In bytes.
    pub body_bytes: usize,
    /// Connections.
    pub connections: usize,
    /// Requests under way on each.
    pub depth: usize,
}

/// How a scenario is measured.
pub struct Settings {
    /// Rounds; in each every server is measured once.
    pub rounds: u32,
    /// Seconds of load a measurement.
    pub seconds: u64,
    /// What makes the load.
    pub generator: Generator,
    /// The core of the servers.
    pub server_core: usize,
    /// The seed of the order of the servers within each round.
    pub seed: u32,
}

impl Scenario {
    /// Measures each server.
    pub fn measure(&self, chosen: &[&Server], settings: &Settings) -> ScenarioResult {
        let answers = |server: &&&Server| self.servers.is_empty() || self.servers.contains(&server.name);
        let chosen: Vec<_> = chosen.iter().filter(answers).copied().collect();
        let chosen = &chosen[..];
        let rounds = interleaved(chosen, settings.rounds as usize, settings.seed, |server, round| {
            let sample = self.sample(server, settings)?;
            eprintln!(
                "{} round {}/{} {:<13} {:.3} us/request, {:.0} requests/s",
                self.name,
                round + 1,
                settings.rounds,
                server.name,
                sample.cpu_us_per_request,
                sample.requests_per_second
            );
            Ok(sample)
        });
        // In a phase of its own, since a trace point costs time on each call.
        let system_calls = chosen.iter().zip(&rounds).map(|(server, rounds)| match &rounds.failure {
            Some(failure) => Err(failure.clone()),
            None => self.system_calls_per_request(server, settings).map_err(|error| format!("{error:#}")),
        });
        let system_calls = system_calls.collect();
        ScenarioResult::new(self, chosen, rounds, system_calls)
    }

    fn sample(&self, server: &Server, settings: &Settings) -> Result<Sample> {
        let (child, answer_bytes) = start_checked(server, self.http, settings.server_core)?;
        let mut window = CpuWindow::on(child.family());
        let load = self.load(child.address(), settings.seconds);
        let outcome = settings.generator.run(&load, child.family(), &mut window)?;
        self.accept(&outcome)?;
        let used = window.used()?;
        let requests = outcome.requests_in_window;
        Ok(Sample {
            cpu_us_per_request: used.total_us() / requests,
            user_us_per_request: used.user_us / requests,
            system_us_per_request: used.system_us / requests,
            requests_per_second: outcome.requests as f64 / outcome.seconds,
            answer_bytes,
            outcome,
        })
    }

    fn system_calls_per_request(&self, server: &Server, settings: &Settings) -> Result<f64> {
        let (child, _) = start_checked(server, self.http, settings.server_core)?;
        let mut window = SystemCallWindow { server: child.family(), counting: None, count: None };
        let outcome = settings.generator.run(&self.load(child.address(), 1), child.family(), &mut window)?;
        Ok(window.count.context("the generator never closed the window")? as f64 / outcome.requests_in_window)
    }

    fn load(&self, address: SocketAddr, seconds: u64) -> Load {
        Load {
            address,
            http: self.http,
            path: self.path,
            posts: self.posts,
            body_bytes: self.body_bytes,
            connections: self.connections,
            depth: self.depth,
            warm_up: WARM_UP,
            duration: Duration::from_secs(seconds),
        }
    }

    /// Refuses a measurement in which a side did not carry out its plan.
    fn accept(&self, outcome: &Outcome) -> Result<()> {
        let (open, asked) = (outcome.connections_open, self.connections);
        ensure!(open >= asked, "only {open} of {asked} connections were open at the server");
        ensure!(outcome.requests > 0, "no request was answered");
        ensure!(outcome.errors == 0, "{} of {} requests failed", outcome.errors, outcome.requests);
        Ok(())
    }
}

/// One measurement: one server, one round.
#[derive(Serialize)]
struct Sample {
    cpu_us_per_request: f64,
    user_us_per_request: f64,
    system_us_per_request: f64,
    requests_per_second: f64,
    answer_bytes: usize,
    outcome: Outcome,
}

struct SystemCallWindow {
    server: Family,
    counting: Option<SystemCalls>,
    count: Option<u64>,
}

impl Window for SystemCallWindow {
    fn open(&mut self) -> Result<()> {
        self.counting = Some(self.server.count_system_calls()?);
        Ok(())
    }

    fn close(&mut self) -> Result<()> {
        self.count = self.counting.take().map(SystemCalls::finish).transpose()?;
        Ok(())
    }
}

/// What all servers took under one load.
#[derive(Serialize)]
pub struct ScenarioResult {
    /// The scenario's name.
    pub name: &'static str,
    /// The work, in words.
    pub what: &'static str,
    protocol: String,
    connections: usize,
    depth: usize,
    rows: Vec<Row>,
}

/// What one server took.
#[derive(Serialize)]
pub struct Row {
    name: &'static str,
    cpu_us_per_request: Option<Spread>,
    user_us_per_request: Option<Spread>,
    system_us_per_request: Option<Spread>,
    requests_per_second: Option<Spread>,
    p50_us: Option<Spread>,
    p99_us: Option<Spread>,
    /// CPU per request divided by the limit's, round by round.
    ratio_to_limit: Option<Spread>,
    /// anywire's CPU per request divided by this one's, round by round.
    pub anywire_to_this: Option<Spread>,
    /// Counted in one run of its own.
    pub system_calls_per_request: Option<f64>,
    system_calls_unknown_because: Option<String>,
    answer_bytes: Option<usize>,
    failure: Option<String>,
    samples: Vec<Sample>,
}

impl ScenarioResult {
    fn new(
        scenario: &Scenario,
        chosen: &[&Server],
        rounds: Vec<Rounds<Sample>>,
        system_calls: Vec<Result<f64, String>>,
    ) -> Self {
        let place = |name: &str| chosen.iter().position(|server| server.name == name);
        let ratio = |above: Option<usize>, below: Option<usize>| {
            rounds[above?].ratio_to(&rounds[below?], |sample| sample.cpu_us_per_request)
        };
        let ratios: Vec<_> = (0..chosen.len())
            .map(|index| (ratio(Some(index), place(BASELINE)), ratio(place(OURS), Some(index))))
            .collect();
        let rows = chosen.iter().zip(rounds).zip(ratios).zip(system_calls);
        let rows = rows.map(|(((server, rounds), (ratio_to_limit, anywire_to_this)), system_calls)| Row {
            name: server.name,
            cpu_us_per_request: rounds.spread(|sample| Some(sample.cpu_us_per_request)),
            user_us_per_request: rounds.spread(|sample| Some(sample.user_us_per_request)),
            system_us_per_request: rounds.spread(|sample| Some(sample.system_us_per_request)),
            requests_per_second: rounds.spread(|sample| Some(sample.requests_per_second)),
            p50_us: rounds.spread(|sample| sample.outcome.p50_us),
            p99_us: rounds.spread(|sample| sample.outcome.p99_us),
            ratio_to_limit,
            anywire_to_this,
            system_calls_per_request: system_calls.as_ref().ok().copied(),
            system_calls_unknown_because: system_calls.err(),
            answer_bytes: rounds.samples.first().map(|sample| sample.answer_bytes),
            failure: rounds.failure,
            samples: rounds.samples,
        });
        Self {
            name: scenario.name,
            what: scenario.what,
            protocol: scenario.http.to_string(),
            connections: scenario.connections,
            depth: scenario.depth,
            rows: rows.collect(),
        }
    }

    /// The row of one server.
    pub fn row(&self, name: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.name == name)
    }

    /// As a table.
    pub fn table(&self) -> Table {
        let mut table = Table::new(&[
            "server",
            "CPU us/request",
            "user",
            "system",
            "ratio to limit",
            "anywire / it",
            "syscalls/request",
            "requests/s",
            "p50 us",
            "p99 us",
            "answer bytes",
        ]);
        let median = |spread: Option<Spread>| spread.map(|spread| spread.median);
        for row in &self.rows {
            table.candidate(
                row.name,
                row.failure.as_deref(),
                [
                    table::spread(row.cpu_us_per_request, 2),
                    table::figure(median(row.user_us_per_request), 2),
                    table::figure(median(row.system_us_per_request), 2),
                    table::spread(row.ratio_to_limit, 2),
                    table::figure(median(row.anywire_to_this), 2),
                    table::figure(row.system_calls_per_request, 2),
                    table::thousands(median(row.requests_per_second)),
                    table::figure(median(row.p50_us), 0),
                    table::figure(median(row.p99_us), 0),
                    table::figure(row.answer_bytes.map(|bytes| bytes as f64), 0),
                ],
            );
        }
        table
    }
}

/// Whom everybody is divided by.
pub const BASELINE: &str = "limit";
/// Whom the bars are about.
pub const OURS: &str = "anywire";
/// Before counting starts: caches warm, the frequency up.
pub const WARM_UP: Duration = Duration::from_secs(1);
