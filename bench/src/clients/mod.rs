//! The clients that are compared: one file each, and one line in [`CLIENTS`].
//!
//! A client runs in a process of its own (`bench call NAME`), pinned to one core. It keeps a number of requests in flight,
//! reads each body to its end, checks status and length, and prints how many were answered within the timed interval
//! and what CPU time its whole process used in it.

mod anywire;
mod bursts;
mod h2load;
mod hyper_util;
mod java;
mod reqwest;
mod threads;
mod wrk;

use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use anywire_load::Protocol;
use nix::sys::resource::{Usage, UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use serde::{Deserialize, Serialize};

pub use bursts::{BURST_MAX, Bursts};

use crate::servers::BODY;

/// Every client that can be measured. Over each version the first is what the others are divided by.
pub static CLIENTS: &[Client] = &[
    wrk::CLIENT,
    h2load::CLIENT,
    anywire::CLIENT,
    threads::CLIENT,
    hyper_util::CLIENT,
    reqwest::CLIENT,
    java::RESTCLIENT,
    java::JAVA,
];

/// One candidate of `bench http-client`.
pub struct Client {
    /// Its name on the command line and in results.
    pub name: &'static str,
    /// The version that was built in, or that is installed.
    pub version: fn() -> String,
    /// How it is set, in one line, so that a reader can object.
    pub settings: &'static str,
    /// The versions of HTTP by which it is measured.
    pub protocols: &'static [Protocol],
    /// Time before counting starts: connections open, caches warm.
    pub warm_up: Duration,
    /// Where it runs.
    pub cores: Cores,
    /// Runs the plan and returns its cost.
    pub call: fn(&Plan) -> Result<Tally>,
    /// Makes bursts, if it is part of `bench bursts`.
    pub bursts: Option<MakesBursts>,
}

/// Makes the bursts of a plan, and tells the cost of each count.
pub type MakesBursts = fn(&Bursts) -> Result<Vec<Tally>>;

/// Where a client runs.
#[derive(Clone, Copy, PartialEq)]
pub enum Cores {
    /// On one core, which the server does not have.
    One,
    /// On all cores, one of which is the server's, too.
    All,
}

/// What a client shall do.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Plan {
    /// The server.
    pub address: SocketAddr,
    /// Over HTTP/2.
    pub http2: bool,
    /// Connections.
    pub connections: usize,
    /// Requests in flight at any time, the same number on each connection.
    pub in_flight: usize,
    /// Time before counting starts.
    pub warm_up: Duration,
    /// Time that is counted.
    pub duration: Duration,
}

/// How many calls anywire's client shall make, for instructions to be counted.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Counted {
    /// The server.
    pub address: SocketAddr,
    /// Over HTTP/2.
    pub http2: bool,
    /// Connections.
    pub connections: usize,
    /// Requests in flight at any time.
    pub in_flight: usize,
    /// Calls in all.
    pub requests: u64,
}

/// What a client did in the counted interval.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Tally {
    /// Answers read to their end.
    pub requests: u64,
    /// Requests that failed or were answered wrongly, over the whole run.
    pub errors: u64,
    /// Length of the interval.
    pub seconds: f64,
    /// CPU time of the process in user code, microseconds.
    pub user_us: f64,
    /// CPU time of the process in the kernel, microseconds.
    pub system_us: f64,
    /// The time within which 99 of 100 answers came, where it is measured.
    #[serde(default)]
    pub p99_us: Option<f64>,
}

/// The client of this name.
///
/// # Errors
/// No such client: the message lists those there are.
pub fn named(name: &str) -> Result<&'static Client> {
    let Some(client) = CLIENTS.iter().find(|client| client.name == name) else {
        let names: Vec<_> = CLIENTS.iter().map(|client| client.name).collect();
        bail!("no client is named `{name}`; there are: {}", names.join(", "));
    };
    Ok(client)
}

/// Body of `bench burst NAME PLAN`: prints a list of [`Tally`] as JSON.
///
/// # Errors
/// The client could not be set up.
pub fn burst(name: &str, plan: &str) -> Result<()> {
    let plan: Bursts = serde_json::from_str(plan).context("the plan is no JSON of a plan")?;
    let bursts = named(name)?.bursts.with_context(|| format!("`{name}` makes no bursts"))?;
    println!("{}", serde_json::to_string(&bursts(&plan)?)?);
    Ok(())
}

/// Body of `bench call NAME PLAN`: prints a [`Tally`] as JSON.
///
/// # Errors
/// The client could not be set up, or nothing was answered.
pub fn call(name: &str, plan: &str) -> Result<()> {
    let plan: Plan = serde_json::from_str(plan).context("the plan is no JSON of a plan")?;
    let tally = (named(name)?.call)(&plan)?;
    ensure!(tally.requests > 0, "`{name}` got no answer in {} s", tally.seconds);
    println!("{}", serde_json::to_string(&tally)?);
    Ok(())
}

/// Body of `bench count PLAN`: makes so many calls and ends.
///
/// # Errors
/// The client could not be set up, or a call failed.
pub fn count(plan: &str) -> Result<()> {
    let plan: Counted = serde_json::from_str(plan).context("the plan is no JSON of a plan")?;
    anywire::count(&plan)
}

/// Counts answers, and reads the clock and the CPU time at both ends of the interval.
#[derive(Default)]
struct Meter {
    requests: AtomicU64,
    errors: AtomicU64,
    /// How long answers took, microseconds, if that is measured.
    latencies: Mutex<Vec<u32>>,
}

impl Meter {
    fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    fn errors(&self) -> u64 {
        self.errors.load(Ordering::Relaxed)
    }

    /// One request ended: with an answer of this status and body length, or not.
    fn count(&self, end: Result<(u16, usize)>) {
        self.count_of(end, BODY.len());
    }

    /// One request ended, whose answer has so many bytes if it is right.
    fn count_of(&self, end: Result<(u16, usize)>, length: usize) {
        match end {
            Ok((200, bytes)) if bytes == length => self.requests.fetch_add(1, Ordering::Relaxed),
            other => {
                if self.errors.fetch_add(1, Ordering::Relaxed) == 0 {
                    eprintln!("the first request that failed: {other:?}");
                }
                0
            }
        };
    }

    /// Waits for the warm-up and the interval of the plan on a tokio runtime and tells what happened in the latter.
    async fn interval(&self, plan: &Plan) -> Result<Tally> {
        tokio::time::sleep(plan.warm_up).await;
        let (before, usage, start) = (self.requests(), usage_of_process()?, Instant::now());
        tokio::time::sleep(plan.duration).await;
        let (after, usage_after, seconds) =
            (self.requests(), usage_of_process()?, start.elapsed().as_secs_f64());
        Ok(Tally {
            requests: after - before,
            errors: self.errors(),
            seconds,
            user_us: user_us(&usage_after) - user_us(&usage),
            system_us: system_us(&usage_after) - system_us(&usage),
            p99_us: None,
        })
    }
}

/// Before counting starts: connections open, caches warm.
const WARM_UP: Duration = Duration::from_secs(1);

fn usage_of_process() -> Result<Usage> {
    Ok(getrusage(UsageWho::RUSAGE_SELF)?)
}

fn user_us(usage: &Usage) -> f64 {
    usage.user_time().num_microseconds() as f64
}

fn system_us(usage: &Usage) -> f64 {
    usage.system_time().num_microseconds() as f64
}
