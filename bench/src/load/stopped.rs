//! A server that is stopped (SIGSTOP) for six of ten seconds: the latencies that each generator tells, beside what they are by
//! arithmetic.
//!
//! Requests are due at a steady rate. One that was due while the server stood is answered when it goes on, so that its latency is
//! what was left of the stop. The share of all requests that waited for longer than a time is the rest of the stop, divided by the
//! whole time.

use std::process::Command;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use anywire_load::{Amount, Outcome, Plan, Protocol, Schedule};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};

use super::{ours, process};
use crate::check::start_checked;
use crate::generators::wrk;
use crate::options::Common;
use crate::report::{Bar, Bound};
use crate::servers;
use crate::table::{self, Table};

/// What a generator tells, in microseconds.
#[derive(Serialize)]
struct Told {
    p50_us: f64,
    p90_us: f64,
    p99_us: f64,
}

/// A generator and what it told.
#[derive(Serialize)]
pub(super) struct Row {
    name: &'static str,
    told: Option<Told>,
    failure: Option<String>,
}

type Way = (&'static str, fn(&str) -> Result<Command>, fn(&str) -> Result<Told>);

static WAYS: &[Way] = &[
    (
        "anywire",
        |url| {
            let plan = Plan {
                connections: CONNECTIONS,
                schedule: Some(Schedule::constant(PER_SECOND as f64)),
                warm_up: Duration::ZERO,
                amount: Amount::Duration(WHOLE),
                ..Plan::new(url)
            };
            ours::command(&plan)
        },
        |text| {
            let outcome: Outcome = serde_json::from_str(text)?;
            let told = outcome.latency.intended.context("nothing was answered")?;
            Ok(Told { p50_us: told.p50, p90_us: told.p90, p99_us: told.p99 })
        },
    ),
    (
        "oha -q --latency-correction",
        |url| {
            let mut command = Command::new("oha");
            command.args(["--no-tui", "--output-format", "json", "--latency-correction"]);
            command.args(["-q", &PER_SECOND.to_string(), "-c", &CONNECTIONS.to_string()]);
            command.args(["-z", &format!("{}s", WHOLE.as_secs()), url]);
            Ok(command)
        },
        |text| {
            #[derive(Deserialize)]
            #[serde(rename_all = "camelCase")]
            struct Said {
                latency_percentiles: Percentiles,
            }
            #[derive(Deserialize)]
            struct Percentiles {
                p50: f64,
                p90: f64,
                p99: f64,
            }
            let said = serde_json::from_str::<Said>(text)?.latency_percentiles;
            Ok(Told { p50_us: said.p50 * 1e6, p90_us: said.p90 * 1e6, p99_us: said.p99 * 1e6 })
        },
    ),
    (
        "wrk (closed)",
        |url| Ok(wrk::command(CONNECTIONS, WHOLE, url)),
        |text| {
            let [p50_us, p90_us, p99_us] = wrk::percentiles(text)?;
            Ok(Told { p50_us, p90_us, p99_us })
        },
    ),
];

/// Measures, prints, and judges.
pub(super) fn run(common: &Common, bars: &mut Vec<Bar>) -> Vec<Row> {
    let mut table = Table::new(&["generator", "p50, s", "p90, s", "p99, s"]);
    let seconds = |us: f64| table::figure(Some(us / 1e6), 3);
    table.row(
        ["by arithmetic".to_owned()].into_iter().chain(QUANTILES.map(|share| seconds(expected_us(share)))),
    );
    let mut rows = Vec::new();
    for &(name, command, read) in WAYS {
        let (told, failure) = match measure(common, command, read) {
            Ok(told) => (Some(told), None),
            Err(error) => (None, Some(format!("{error:#}"))),
        };
        let figures = told.as_ref().map_or([const { String::new() }; 3], |told| {
            [told.p50_us, told.p90_us, told.p99_us].map(seconds)
        });
        table.candidate(name, failure.as_deref(), figures);
        rows.push(Row { name, told, failure });
    }
    let ours = rows[0].told.as_ref().map(|told| [told.p50_us, told.p90_us, told.p99_us]);
    let off = ours.map(|ours| {
        let off = ours.into_iter().zip(QUANTILES).map(|(us, share)| (us / expected_us(share) - 1.0).abs());
        off.fold(0.0, f64::max)
    });
    bars.push(Bar::judge(format!("{NAME}: percentiles are off by"), Bound::AtMost(0.05), off));
    println!("\nA server that stands for 6 s of 10, {PER_SECOND} requests/s\n\n{}", table.text());
    rows
}

/// The latency that a share of the requests stayed at or below.
fn expected_us(share: f64) -> f64 {
    (STOP.as_secs_f64() - WHOLE.as_secs_f64() * (1.0 - share)) * 1e6
}

fn measure(
    common: &Common,
    command: fn(&str) -> Result<Command>,
    read: fn(&str) -> Result<Told>,
) -> Result<Told> {
    let (server, _) = start_checked(servers::named("limit")?, Protocol::Http1, common.server_core)?;
    let server_id = Pid::from_raw(server.id().cast_signed());
    let url = format!("http://{}/", server.address());
    let (ran, stopping) = thread::scope(|scope| {
        let stopping = scope.spawn(move || {
            thread::sleep((WHOLE - STOP) / 2);
            kill(server_id, Signal::SIGSTOP)?;
            thread::sleep(STOP);
            kill(server_id, Signal::SIGCONT)
        });
        let ran = command(&url).and_then(|command| process::run(command, WHOLE * 3));
        (ran, stopping.join())
    });
    match stopping {
        Ok(stopped) => stopped.context("stopping the server failed")?,
        Err(_) => bail!("stopping the server panicked"),
    }
    read(&ran?.text)
}

pub(super) const NAME: &str = "stopped";
const QUANTILES: [f64; 3] = [0.5, 0.9, 0.99];
const WHOLE: Duration = Duration::from_secs(10);
const STOP: Duration = Duration::from_secs(6);
const CONNECTIONS: usize = 64;
/// So few that what had to wait is answered in no time when the server goes on.
const PER_SECOND: u32 = 100;
