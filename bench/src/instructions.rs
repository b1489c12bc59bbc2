//! Instructions of a request in the server, and of a call in the client, counted by valgrind's callgrind: figures that do not depend on
//! the machine, nor on what else it does.
//!
//! Either end runs as a process of its own under callgrind, and the other one beside it as ever. A figure is what many requests cost more
//! than few, so that starting, connecting and ending are not in it.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use anywire_load::Protocol;
use clap::Args;
use serde::Serialize;

use crate::child::{self, Announcement, ServerChild};
use crate::clients::Counted;
use crate::options::Output;
use crate::report::{self, Bar, Bound, Machine};
use crate::table::{Table, figure};

/// Options of `bench instructions`.
#[derive(Args)]
pub struct Options {
    #[command(flatten)]
    output: Output,
}

/// What is counted.
struct Row {
    what: &'static str,
    side: Side,
    http: Protocol,
    connections: usize,
    /// Requests in flight on each connection.
    streams: usize,
    bar: f64,
}

#[derive(Clone, Copy, PartialEq)]
enum Side {
    Server,
    Client,
}

const ROWS: [Row; 5] = [
    Row {
        what: "server, HTTP/1.1, 64 connections",
        side: Side::Server,
        http: Protocol::Http1,
        connections: 64,
        streams: 1,
        bar: 3100.0,
    },
    Row {
        what: "server, HTTP/2, 64 connections, 1 stream",
        side: Side::Server,
        http: Protocol::Http2,
        connections: 64,
        streams: 1,
        bar: 7000.0,
    },
    Row {
        what: "server, HTTP/2, 64 connections, 16 streams",
        side: Side::Server,
        http: Protocol::Http2,
        connections: 64,
        streams: 16,
        bar: 4400.0,
    },
    Row {
        what: "client, HTTP/1.1, 64 connections",
        side: Side::Client,
        http: Protocol::Http1,
        connections: 64,
        streams: 1,
        bar: 8400.0,
    },
    Row {
        what: "client, HTTP/2, 1 connection, 64 streams",
        side: Side::Client,
        http: Protocol::Http2,
        connections: 1,
        streams: 64,
        bar: 10_000.0,
    },
];

#[derive(Serialize)]
struct Outcome {
    schema: &'static str,
    bench: &'static str,
    machine: Machine,
    rows: Vec<OutcomeRow>,
    bars: Vec<Bar>,
}

#[derive(Serialize)]
struct OutcomeRow {
    what: &'static str,
    instructions: Option<f64>,
    failure: Option<String>,
}

/// Counts all rows, prints them, and writes the result.
///
/// # Errors
/// The result cannot be written. A row that cannot be counted says why instead.
pub fn run(options: &Options) -> Result<()> {
    let rows: Vec<_> = ROWS
        .iter()
        .map(|row| {
            let counted = row.count();
            eprintln!("{}: {counted:.0?}", row.what);
            OutcomeRow {
                what: row.what,
                instructions: counted.as_ref().ok().copied(),
                failure: counted.err().map(|error| format!("{error:#}")),
            }
        })
        .collect();
    let judged = ROWS.iter().zip(&rows).map(|(row, outcome)| {
        Bar::judge(format!("{}: instructions", row.what), Bound::AtMost(row.bar), outcome.instructions)
    });
    let bars: Vec<_> = judged.collect();
    let mut table = Table::new(&["a request in the", "instructions"]);
    for row in &rows {
        table.candidate(row.what, row.failure.as_deref(), [figure(row.instructions, 0)]);
    }
    println!("{}\n{}", table.text(), report::bars_table(&bars).text());
    let outcome =
        Outcome { schema: report::SCHEMA, bench: "instructions", machine: Machine::here(), rows, bars };
    report::write(&options.output.file("instructions.json"), &outcome)
}

impl Row {
    /// Instructions of a request.
    fn count(&self) -> Result<f64> {
        let few = self.fewest(FEW)?;
        let many = self.fewest(FEW + COUNTED)?;
        Ok((many - few) / COUNTED as f64)
    }

    /// The fewest of three runs: on a machine that is busy, threads that watch others now and then have more to do.
    fn fewest(&self, requests: u64) -> Result<f64> {
        let mut fewest = f64::INFINITY;
        for _ in 0..3 {
            fewest = fewest.min(self.collected(requests)?);
        }
        Ok(fewest)
    }

    fn collected(&self, requests: u64) -> Result<f64> {
        let mut attempt = self.attempt(requests);
        // Where valgrind places the vDSO, a look at it sometimes fails: another run places it elsewhere.
        for _ in 0..4 {
            if attempt.is_ok() {
                break;
            }
            attempt = self.attempt(requests);
        }
        attempt
    }

    fn attempt(&self, requests: u64) -> Result<f64> {
        match self.side {
            Side::Server => {
                let (server, address) = self.serve()?;
                let sent = self.load(requests, &address);
                // Its standard input closes, which ends it.
                let counted = collected_by(server)?;
                sent.map(|()| counted)
            }
            Side::Client => {
                let server = ServerChild::start("anywire", self.http, SERVER_CORE)?;
                let plan = Counted {
                    address: server.address(),
                    http2: self.http == Protocol::Http2,
                    connections: self.connections,
                    in_flight: self.connections * self.streams,
                    requests,
                };
                let mut client = child::under_callgrind("count", CLIENT_CORE)?;
                client.arg("anywire").arg(serde_json::to_string(&plan)?);
                collected_by(piped(&mut client)?)
            }
        }
    }

    /// A server under callgrind, and where it listens.
    fn serve(&self) -> Result<(Child, String)> {
        let mut server = child::under_callgrind("serve", SERVER_CORE)?;
        server.arg("anywire").args((self.http == Protocol::Http2).then_some("--http2"));
        let mut server = piped(&mut server)?;
        let stdout = server.stdout.take().context("the server's process has no standard output")?;
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line)?;
        match serde_json::from_str(&line).with_context(|| format!("the server said: {}", line.trim()))? {
            Announcement::Listening(address) => Ok((server, format!("http://{address}/"))),
            Announcement::Failed(reason) => bail!("{reason}"),
        }
    }

    fn load(&self, requests: u64, url: &str) -> Result<()> {
        let mut h2load = Command::new("h2load");
        h2load.arg("-t1").arg(format!("-c{}", self.connections)).arg(format!("-m{}", self.streams));
        h2load.args((self.http == Protocol::Http1).then_some("--h1"));
        let output = h2load
            .arg(format!("-n{requests}"))
            .arg(url)
            .output()
            .context("starting `h2load` failed; Debian's package is named nghttp2-client")?;
        let said = String::from_utf8_lossy(&output.stdout);
        ensure!(said.contains(&format!(" {requests} succeeded,")), "h2load says: {said}");
        Ok(())
    }
}

fn piped(command: &mut Command) -> Result<Child> {
    let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().context("starting `valgrind` failed; it is a package of Debian")
}

/// Waits for a process under callgrind: the instructions of all its threads.
fn collected_by(process: Child) -> Result<f64> {
    let output = process.wait_with_output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "it failed under callgrind: {}", said.trim());
    let count = said.lines().find_map(|line| line.split_once("Collected : ")?.1.trim().parse().ok());
    count.with_context(|| format!("callgrind does not say what it collected: {said}"))
}

/// Enough for each connection to have made a hundred.
const FEW: u64 = 6400;
/// And so many more are counted.
const COUNTED: u64 = 25_600;
const SERVER_CORE: usize = 0;
const CLIENT_CORE: usize = 1;
