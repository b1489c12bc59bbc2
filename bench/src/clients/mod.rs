//! The clients that are compared: one file each, and one line in [`CLIENTS`].
//!
//! A client runs in a process of its own (`bench call NAME`), pinned to one core. It keeps a number of requests in flight,
//! reads each body to its end, checks status and length, and prints how many were answered within the timed interval
//! and what CPU time its whole process used in it.

mod anywire;
mod h2load;
mod hyper_util;
mod reqwest;
mod wrk;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use anywire_load::Protocol;
use nix::sys::resource::{Usage, UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use serde::{Deserialize, Serialize};

use crate::servers::BODY;

/// Every client that can be measured. Over each version the first is what the others are divided by.
pub static CLIENTS: &[Client] =
    &[wrk::CLIENT, h2load::CLIENT, anywire::CLIENT, hyper_util::CLIENT, reqwest::CLIENT];

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
    /// Runs the plan and returns its cost.
    pub call: fn(&Plan) -> Result<Tally>,
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

/// Counts answers, and reads the clock and the CPU time at both ends of the interval.
#[derive(Default)]
struct Meter {
    requests: AtomicU64,
    errors: AtomicU64,
}

impl Meter {
    /// One request ended: with an answer of this status and body length, or not.
    fn count(&self, end: Result<(u16, usize)>) {
        match end {
            Ok((200, bytes)) if bytes == BODY.len() => self.requests.fetch_add(1, Ordering::Relaxed),
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
        let (before, usage, start) =
            (self.requests.load(Ordering::Relaxed), usage_of_process()?, Instant::now());
        tokio::time::sleep(plan.duration).await;
        let (after, usage_after, seconds) =
            (self.requests.load(Ordering::Relaxed), usage_of_process()?, start.elapsed().as_secs_f64());
        Ok(Tally {
            requests: after - before,
            errors: self.errors.load(Ordering::Relaxed),
            seconds,
            user_us: user_us(&usage_after) - user_us(&usage),
            system_us: system_us(&usage_after) - system_us(&usage),
        })
    }
}

fn usage_of_process() -> Result<Usage> {
    Ok(getrusage(UsageWho::RUSAGE_SELF)?)
}

fn user_us(usage: &Usage) -> f64 {
    usage.user_time().num_microseconds() as f64
}

fn system_us(usage: &Usage) -> f64 {
    usage.system_time().num_microseconds() as f64
}
