//! `bench pipelined`: 100 connections of HTTP/1 with 100 requests each, one by one and pipelined, through anywire's client.
//!
//! On loopback the CPU time of the client's thread counts. Through a relay that holds each byte back for a while, as a long way does,
//! the time until all are answered counts.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use anywire_client::{Client, Limits};
use anywire_load::Protocol;
use anywire_loops::Loops;
use clap::Args;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use serde::Serialize;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

use crate::check::start_checked;
use crate::report::{self, Bar, Bound, Machine};
use crate::rounds::{Seed, Spread, interleaved};
use crate::servers;
use crate::table::{self, Table};

/// Options of `bench pipelined`.
#[derive(Args)]
pub struct Options {
    /// Rounds; in each both ways are measured once.
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    #[command(flatten)]
    seed: Seed,
    /// The result's file.
    #[arg(long, value_name = "FILE", default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/results/pipelined.json"))]
    json: PathBuf,
}

/// Runs the comparison, prints its table, writes its file.
///
/// # Errors
/// A call fails, or the result cannot be written.
pub fn run(options: &Options) -> Result<()> {
    let machine = Machine::here();
    println!("{}", machine.line());
    let seed = options.seed.chosen();
    let (server, _) = start_checked(servers::named("anywire")?, Protocol::Http1, 0)?;
    let relay = relay(server.address())?;
    let mut rows = Vec::new();
    let mut bars = Vec::new();
    for (name, address, bound) in [("loopback", server.address(), 4.0), ("10 ms each way", relay, 10.0)] {
        let all = interleaved(&[false, true], options.rounds as usize, seed, |is_pipelined, round| {
            let sample = measure(address, *is_pipelined)?;
            let way = if *is_pipelined { "pipelined" } else { "one by one" };
            eprintln!(
                "{name} round {} {way:<10} {:.2} us of CPU, {:.1} ms",
                round + 1,
                sample.cpu_us,
                sample.ms
            );
            Ok(sample)
        });
        let [one_by_one, pipelined] = [&all[0], &all[1]];
        let is_cpu = name == "loopback";
        let figure = |sample: &Sample| if is_cpu { sample.cpu_us } else { sample.ms };
        let what = if is_cpu { "CPU a request" } else { "time of all" };
        let times = one_by_one.ratio_to(pipelined, figure);
        bars.push(Bar::judge_ratio(
            format!("{name}: {what}, one by one / pipelined"),
            Bound::AtLeast(bound),
            times,
        ));
        for (way, rounds) in [("one by one", one_by_one), ("pipelined", pipelined)] {
            rows.push(Row {
                name,
                way,
                cpu_us: rounds.spread(|sample| Some(sample.cpu_us)),
                ms: rounds.spread(|sample| Some(sample.ms)),
                failure: rounds.failure.clone(),
            });
        }
    }
    let mut table = Table::new(&["way", "CPU us/request", "all answered after, ms"]);
    for row in &rows {
        let figures = [table::spread(row.cpu_us, 2), table::spread(row.ms, 1)];
        table.candidate(&format!("{}, {}", row.name, row.way), row.failure.as_deref(), figures);
    }
    println!("\n{CONNECTIONS} connections, {EACH} requests each\n\n{}", table.text());
    println!("\n{}", report::bars_table(&bars).text());
    let rounds = options.rounds;
    let result = Results { schema: report::SCHEMA, bench: "pipelined", machine, rounds, seed, rows, bars };
    report::write(&options.json, &result)
}

struct Sample {
    cpu_us: f64,
    ms: f64,
}

/// All requests, by one loop.
fn measure(address: SocketAddr, is_pipelined: bool) -> Result<Sample> {
    let loops = Loops::start(1)?;
    let limits = Limits { connections_per_origin: CONNECTIONS, ..Limits::default() };
    let builder = Client::builder().on(&loops).limits(limits);
    let client = if is_pipelined { builder.pipelining(EACH) } else { builder }.build();
    let url = format!("http://{address}/");
    let all = loops.get(0).spawn(move || async move {
        // Opens the connections.
        answered(&client, &url, false).await?;
        let (start, usage) = (Instant::now(), getrusage(UsageWho::RUSAGE_THREAD)?);
        answered(&client, &url, is_pipelined).await?;
        let (elapsed, after) = (start.elapsed(), getrusage(UsageWho::RUSAGE_THREAD)?);
        let micros = |usage: &nix::sys::resource::Usage| {
            (usage.user_time().num_microseconds() + usage.system_time().num_microseconds()) as f64
        };
        let cpu_us = (micros(&after) - micros(&usage)) / (CONNECTIONS * EACH) as f64;
        anyhow::Ok(Sample { cpu_us, ms: elapsed.as_secs_f64() * 1e3 })
    });
    all.wait()?
}

/// So many tasks make their calls, all at once or each after the last one.
async fn answered(client: &Client, url: &str, at_once: bool) -> Result<()> {
    let tasks: Vec<_> = (0..CONNECTIONS)
        .flat_map(|_| {
            let (tasks, calls) = if at_once { (EACH, 1) } else { (1, EACH) };
            (0..tasks).map(move |_| calls)
        })
        .map(|calls| {
            let (client, url) = (client.clone(), url.to_owned());
            anywire_loops::spawn(async move {
                for _ in 0..calls {
                    let bytes = client.get(&url).send().await?.bytes().await?;
                    ensure!(bytes == servers::BODY.as_bytes(), "another body came");
                }
                Ok(())
            })
        })
        .collect();
    for task in tasks {
        task.await??;
    }
    Ok(())
}

/// Where connections are relayed to the server, each byte [`HELD_BACK`] later, both ways.
fn relay(server: SocketAddr) -> Result<SocketAddr> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).context("the relay has no port")?;
    let address = listener.local_addr()?;
    // It ends with the process.
    std::thread::spawn(move || {
        runtime.block_on(async {
            while let Ok((near, _)) = listener.accept().await {
                tokio::spawn(async move {
                    let far = TcpStream::connect(server).await?;
                    near.set_nodelay(true)?;
                    far.set_nodelay(true)?;
                    let ((near_in, near_out), (far_in, far_out)) = (near.into_split(), far.into_split());
                    tokio::join!(later(near_in, far_out), later(far_in, near_out));
                    std::io::Result::Ok(())
                });
            }
        });
    });
    Ok(address)
}

/// Passes bytes on, each so much later.
async fn later(mut from: impl AsyncReadExt + Unpin, mut to: impl AsyncWriteExt + Unpin) {
    let (kept, mut due) = mpsc::unbounded_channel::<(tokio::time::Instant, Vec<u8>)>();
    let read = async move {
        let mut bytes = vec![0; 64 << 10];
        while let Ok(count @ 1..) = from.read(&mut bytes).await {
            if kept.send((tokio::time::Instant::now() + HELD_BACK, bytes[..count].to_vec())).is_err() {
                return;
            }
        }
    };
    let write = async move {
        while let Some((at, bytes)) = due.recv().await {
            tokio::time::sleep_until(at).await;
            if to.write_all(&bytes).await.is_err() {
                return;
            }
        }
        // The other side may have gone first.
        let _ = to.shutdown().await;
    };
    tokio::join!(read, write);
}

#[derive(Serialize)]
struct Row {
    name: &'static str,
    way: &'static str,
    cpu_us: Option<Spread>,
    ms: Option<Spread>,
    failure: Option<String>,
}

#[derive(Serialize)]
struct Results {
    schema: &'static str,
    bench: &'static str,
    machine: Machine,
    rounds: u32,
    seed: u32,
    rows: Vec<Row>,
    bars: Vec<Bar>,
}

const CONNECTIONS: usize = 100;
const EACH: usize = 100;
const HELD_BACK: Duration = Duration::from_millis(10);
