//! The memory of an idle connection: many connections that have each made one request, and then nothing.
//!
//! They are opened one after the other by this process, so the server never has two requests at once and holds no more
//! buffers than it wants to. What counts is the growth of the server's resident memory; the kernel's share of a
//! connection is in nobody's resident memory.

use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use anywire_load::Protocol;
use serde::Serialize;

use crate::check::{Connection, start_checked};
use crate::rounds::{Rounds, Spread, interleaved};
use crate::servers::Server;
use crate::table::{self, Table};

/// The scenario's name.
pub const NAME: &str = "idle";

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

struct Sample {
    resident_bytes: f64,
    anonymous_bytes: f64,
}

/// Measures each server in interleaved rounds, three at most: memory varies little.
pub fn measure_all(chosen: &[&'static Server], rounds: u32, core: usize, seed: u32) -> IdleResult {
    let all = interleaved(chosen, rounds.min(3) as usize, seed, |server, round| {
        let sample = measure(server, core)?;
        eprintln!(
            "{NAME} round {} {:<13} {:.0} bytes a connection",
            round + 1,
            server.name,
            sample.resident_bytes
        );
        Ok(sample)
    });
    let row = |(server, rounds): (&&'static Server, Rounds<Sample>)| Row {
        name: server.name,
        resident_bytes_per_connection: rounds.spread(|sample| Some(sample.resident_bytes)),
        anonymous_bytes_per_connection: rounds.spread(|sample| Some(sample.anonymous_bytes)),
        failure: rounds.failure,
    };
    IdleResult {
        what: format!("{CONNECTIONS} idle connections, each after one request: user memory a connection"),
        connections: CONNECTIONS,
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
            if let Some(failure) = &row.failure {
                table.row([row.name.to_owned(), "failed".to_owned()]);
                table.note(format!("{}: {failure}", row.name));
                continue;
            }
            table.row([
                row.name.to_owned(),
                table::spread(row.resident_bytes_per_connection, 0),
                table::spread(row.anonymous_bytes_per_connection, 0),
            ]);
        }
        table
    }
}

fn measure(server: &Server, core: usize) -> Result<Sample> {
    let (child, _) = start_checked(server, Protocol::Http1, core)?;
    let (memory, sockets) = (child.family().memory()?, child.family().sockets()?);
    let mut connections = Vec::with_capacity(CONNECTIONS);
    for number in 1..=CONNECTIONS {
        let mut connection = Connection::open(child.address())?;
        connection.send(1)?;
        connection.answer().with_context(|| format!("on connection {number}"))?;
        connections.push(connection);
    }
    // What a server frees after an answer, or after a while of rest, shall count in its favour.
    thread::sleep(REST);
    let now = child.family().memory()?;
    let open = child.family().sockets()?.saturating_sub(sockets);
    ensure!(open >= CONNECTIONS, "only {open} of {CONNECTIONS} connections stayed open");
    let per_connection = |now: u64, before: u64| now.saturating_sub(before) as f64 / CONNECTIONS as f64;
    Ok(Sample {
        resident_bytes: per_connection(now.resident_bytes, memory.resident_bytes),
        anonymous_bytes: per_connection(now.anonymous_bytes, memory.anonymous_bytes),
    })
}

/// Below 20,000, the descriptors that a process has on the machine the project is measured on.
const CONNECTIONS: usize = 15_000;
const REST: Duration = Duration::from_secs(1);
