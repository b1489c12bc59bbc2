//! What makes the requests of `bench http-server`: one file each, and one line in [`GENERATORS`].

mod anywire;
pub(crate) mod h2load;
pub(crate) mod wrk;

use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use anywire_load::Protocol;
use clap::ValueEnum;
use serde::Serialize;

use crate::measure::{Cpu, CpuUsed, Family};

/// Which generator to use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Generator {
    /// anywire's own load engine: warms up first, checks each answer, times only the interval.
    Anywire,
    /// Debian's wrk, as a cross-check: no warm-up, so opening and closing the connections is in its figures.
    Wrk,
    /// nghttp2's h2load, of Debian's nghttp2-client: warms up first, checks the class of each status.
    H2load,
}

impl Generator {
    /// Runs the load. The window is open for the counted interval, or for a part of it.
    ///
    /// # Errors
    /// The generator failed, or fewer connections were open than asked.
    pub fn run(self, load: &Load, server: Family, window: &mut dyn Window) -> Result<Outcome> {
        ensure!(load.posts.is_none() || self == Self::Anywire, "only anywire's generator posts a body");
        match self {
            Self::Anywire => anywire::run(load, server, window),
            Self::Wrk => wrk::run(load, server, window),
            Self::H2load => h2load::run(load, server, window),
        }
    }

    /// The version that is used.
    pub fn version(self) -> String {
        match self {
            Self::Anywire => crate::versions::locked("anywire-load"),
            Self::Wrk => crate::versions::wrk(),
            Self::H2load => crate::versions::h2load(),
        }
    }
}

/// A closed loop: as many requests as answers come, with `depth` requests of each connection under way.
pub struct Load {
    /// The server.
    pub address: SocketAddr,
    /// The version of HTTP.
    pub http: Protocol,
    /// What is asked for.
    pub path: &'static str,
    /// JSON that each request posts, with the token that the servers ask for.
    pub posts: Option<&'static str>,
    /// The length of its body, in bytes.
    pub body_bytes: usize,
    /// Connections, all open before counting starts where the generator can.
    pub connections: usize,
    /// Requests under way on each connection.
    pub depth: usize,
    /// Time before counting starts.
    pub warm_up: Duration,
    /// Time that is counted.
    pub duration: Duration,
}

/// Looks at the server at two moments of a load.
pub trait Window {
    /// The first: all connections are open (if the generator knows), the load is steady.
    fn open(&mut self) -> Result<()>;
    /// The second.
    fn close(&mut self) -> Result<()>;
}

/// What a server's CPU does between the two.
pub struct CpuWindow {
    server: Family,
    before: Option<Cpu>,
    used: Option<CpuUsed>,
}

impl CpuWindow {
    /// On this server.
    pub fn on(server: Family) -> Self {
        Self { server, before: None, used: None }
    }

    /// The time that was used.
    ///
    /// # Errors
    /// The generator never closed the window.
    pub fn used(self) -> Result<CpuUsed> {
        self.used.context("the generator never closed the window")
    }
}

impl Window for CpuWindow {
    fn open(&mut self) -> Result<()> {
        self.before = Some(self.server.cpu()?);
        Ok(())
    }

    fn close(&mut self) -> Result<()> {
        let now = self.server.cpu()?;
        self.used = self.before.map(|before| now.since(&before));
        Ok(())
    }
}

/// What the generator saw in the counted interval.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// Answers that came.
    pub requests: u64,
    /// Requests that failed: sockets, timeouts, wrong status.
    pub errors: u64,
    /// Length of the interval.
    pub seconds: f64,
    /// Answers that came while the window was open.
    pub requests_in_window: f64,
    /// Connections that the server really held, counted among its descriptors.
    pub connections_open: usize,
    /// Latency in microseconds; a closed loop, so stalls hide requests.
    pub p50_us: Option<f64>,
    /// The same, exceeded by one in a hundred.
    pub p99_us: Option<f64>,
}

/// Counts the server's connections while something else runs on this thread. `before` is its number of sockets without
/// load; the count is taken after `delay`.
fn count_connections<T>(
    server: Family,
    before: usize,
    delay: Duration,
    during: impl FnOnce() -> Result<T>,
) -> Result<(T, usize)> {
    thread::scope(|scope| {
        let counting = scope.spawn(move || {
            thread::sleep(delay);
            server.sockets()
        });
        let done = during()?;
        let sockets = counting.join().ok().context("counting the server's connections panicked")??;
        Ok((done, sockets.saturating_sub(before)))
    })
}
