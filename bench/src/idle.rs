//! The memory of an idle connection: many connections that have each made a request, or a hundred, and then nothing.
//!
//! They are opened one after the other by this process, so the server never has two requests at once and holds no more
//! buffers than it wants to. What counts is the growth of the server's resident memory; the kernel's share of a
//! connection is in nobody's resident memory.

use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use anywire_load::Protocol;
use serde::Serialize;

use crate::browser::Browser;
use crate::check::{Connection, PATIENCE, start_checked};
use crate::measure::Family;
use crate::rounds::{Rounds, Spread, interleaved};
use crate::servers::Server;
use crate::table::{self, Table};

/// The scenario's name.
pub fn name(http: Protocol) -> &'static str {
    if http == Protocol::Http2 { "h2-idle" } else { "idle" }
}

/// What all servers used.
#[derive(Serialize)]
pub struct IdleResult {
    /// The work, in words.
    pub what: String,
    connections: usize,
    rows: Vec<Row>,
}

#[derive(Serialize)]
struct Row {
    name: &'static str,
    resident_bytes_per_connection: Option<Spread>,
    anonymous_bytes_per_connection: Option<Spread>,
    failure: Option<String>,
}

/// How much a server grew by each connection.
pub struct Growth {
    /// All its memory.
    pub resident_bytes: f64,
    /// Heap and stacks.
    pub anonymous_bytes: f64,
}

/// Measures each server in interleaved rounds, three at most: memory varies little.
pub fn measure_all(
    chosen: &[&'static Server],
    http: Protocol,
    rounds: u32,
    core: usize,
    seed: u32,
) -> IdleResult {
    let all = interleaved(chosen, rounds.min(3) as usize, seed, |server, round| {
        let sample = measure(server, http, core)?;
        eprintln!(
            "{} round {} {:<13} {:.0} bytes a connection",
            name(http),
            round + 1,
            server.name,
            sample.resident_bytes
        );
        Ok(sample)
    });
    let row = |(server, rounds): (&&'static Server, Rounds<Growth>)| Row {
        name: server.name,
        resident_bytes_per_connection: rounds.spread(|sample| Some(sample.resident_bytes)),
        anonymous_bytes_per_connection: rounds.spread(|sample| Some(sample.anonymous_bytes)),
        failure: rounds.failure,
    };
    let (connections, after) = match http {
        Protocol::Http2 => (BROWSERS, format!("{REQUESTS_OF_BROWSER} requests of a browser")),
        _ => (CONNECTIONS, "one request".to_owned()),
    };
    IdleResult {
        what: format!("{connections} idle connections, each after {after}: user memory a connection"),
        connections,
        rows: chosen.iter().zip(all).map(row).collect(),
    }
}

impl IdleResult {
    /// Median of one server.
    pub fn resident_bytes_per_connection(&self, name: &str) -> Option<f64> {
        let row = self.rows.iter().find(|row| row.name == name)?;
        row.resident_bytes_per_connection.map(|spread| spread.median)
    }

    /// As a table.
    pub fn table(&self) -> Table {
        let mut table = Table::new(&["server", "resident bytes", "of these heap and stacks"]);
        for row in &self.rows {
            table.candidate(
                row.name,
                row.failure.as_deref(),
                [
                    table::spread(row.resident_bytes_per_connection, 0),
                    table::spread(row.anonymous_bytes_per_connection, 0),
                ],
            );
        }
        table
    }
}

fn measure(server: &Server, http: Protocol, core: usize) -> Result<Growth> {
    let (child, _) = start_checked(server, http, core)?;
    let address = child.address();
    match http {
        Protocol::Http2 => growth(child.family(), BROWSERS, || browse(tcp(address)?)),
        _ => growth(child.family(), CONNECTIONS, || {
            let mut connection = Connection::open(address)?;
            connection.send(1)?;
            connection.answer()?;
            Ok(connection)
        }),
    }
}

fn tcp(address: SocketAddr) -> Result<TcpStream> {
    let stream = TcpStream::connect(address).with_context(|| format!("connecting to {address} failed"))?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    Ok(stream)
}

/// A connection of HTTP/2 after the requests of a browser.
///
/// # Errors
/// The server does not answer them.
pub fn browse<S: std::io::Read + std::io::Write>(stream: S) -> Result<Browser<S>> {
    let mut browser = Browser::open(stream)?;
    (0..REQUESTS_OF_BROWSER).try_for_each(|_| browser.ask())?;
    Ok(browser)
}

/// What each of so many connections that rest costs a server.
///
/// # Errors
/// A connection fails, or does not stay open.
pub fn growth<C>(server: Family, count: usize, mut connect: impl FnMut() -> Result<C>) -> Result<Growth> {
    let (memory, sockets) = (server.memory()?, server.sockets()?);
    let mut connections = Vec::with_capacity(count);
    for number in 1..=count {
        connections.push(connect().with_context(|| format!("on connection {number}"))?);
    }
    // What a server frees after an answer, or after a while of rest, shall count in its favour.
    thread::sleep(REST);
    let now = server.memory()?;
    let open = server.sockets()?.saturating_sub(sockets);
    ensure!(open >= count, "only {open} of {count} connections stayed open");
    let per_connection = |now: u64, before: u64| now.saturating_sub(before) as f64 / count as f64;
    Ok(Growth {
        resident_bytes: per_connection(now.resident_bytes, memory.resident_bytes),
        anonymous_bytes: per_connection(now.anonymous_bytes, memory.anonymous_bytes),
    })
}

/// Below 20,000, the descriptors that a process has on the machine the project is measured on.
const CONNECTIONS: usize = 15_000;
/// Of HTTP/2, and of those with TLS: fewer, since each makes many requests, or a handshake.
pub const BROWSERS: usize = 3000;
const REQUESTS_OF_BROWSER: usize = 100;
const REST: Duration = Duration::from_secs(1);
