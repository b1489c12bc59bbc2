//! A request of HTTP over each wire that stays within the machine: the server in a process of its own on the first core, the
//! load on the last.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use anywire_load::{Amount, Boundary, Handles, Plan, Protocol, run_observed};
use anywire_loops::{Loops, Pinning};
use anywire_sys::cpu;
use anywire_wire::Address;
use serde::Serialize;

use super::Options;
use crate::child::ServerChild;
use crate::measure::Cpu;
use crate::report::{Bar, Bound};
use crate::rounds::{Rounds, Spread, interleaved};
use crate::table::{self, Table};

/// What a request costs the server on one wire.
#[derive(Serialize)]
pub struct Row {
    wire: &'static str,
    cpu_us_per_request: Option<Spread>,
    requests_per_second: Option<Spread>,
    failure: Option<String>,
}

struct Sample {
    cpu_us: f64,
    rate: f64,
}

/// Measures all wires in rounds.
pub fn run(options: &Options, seed: u32, bars: &mut Vec<Bar>) -> Vec<Row> {
    let all = interleaved(&WIRES, options.rounds as usize, seed, |(name, address), round| {
        let sample = once(address, options.seconds)?;
        eprintln!("http, round {} {name:<13} {:.3} us, {:.0}/s", round + 1, sample.cpu_us, sample.rate);
        Ok(sample)
    });
    let index = |wanted: &str| WIRES.iter().position(|(name, _)| *name == wanted).expect("it is in the list");
    let ratio = all[index("shm")].ratio_to(&all[index("tcp")], |sample| sample.cpu_us);
    let what = "HTTP, CPU of the server for a request: shm / tcp".to_owned();
    bars.push(Bar::judge_ratio(what, Bound::AtMost(0.4), ratio));
    let row = |((name, _), rounds): (&(&'static str, _), Rounds<Sample>)| Row {
        wire: name,
        cpu_us_per_request: rounds.spread(|sample| Some(sample.cpu_us)),
        requests_per_second: rounds.spread(|sample| Some(sample.rate)),
        failure: rounds.failure,
    };
    let rows: Vec<_> = WIRES.iter().zip(all).map(row).collect();
    println!(
        "\nHTTP/1.1, {CONNECTIONS} connections, one request at a time on each\n\n{}",
        table(&rows).text()
    );
    rows
}

fn once(address: &str, seconds: u64) -> Result<Sample> {
    let cores = cpu::available_cores();
    let (first, last) = (cores[0], cores[cores.len() - 1]);
    let name = address.replace("NAME", &format!("@anywire-bench-{}", std::process::id()));
    let (child, via) = if name.is_empty() {
        let child = ServerChild::start("anywire", Protocol::Http1, first)?;
        let via: Address = format!("tcp:{}", child.address()).parse()?;
        (child, via)
    } else {
        let via: Address = name.parse()?;
        (ServerChild::start_at(&via, first)?, via)
    };
    let loops = Loops::builder().count(1).pinning(Pinning::Cores(vec![last])).start()?;
    let plan = Plan {
        connections: CONNECTIONS,
        via: Some(via),
        warm_up: Duration::from_millis(500),
        amount: Amount::Duration(Duration::from_secs(seconds)),
        ..Plan::new("http://localhost/")
    };
    let (family, mut used) = (child.family(), Vec::<Result<Cpu>>::new());
    let outcome = run_observed(&loops, plan, Handles::default(), |boundary| match boundary {
        Boundary::Measuring | Boundary::Measured => used.push(family.cpu()),
    })?;
    let [before, after] = <[_; 2]>::try_from(used).ok().context("the run was not measured to its end")?;
    let measured = &outcome.totals.measured;
    let errors = measured.errors.total();
    ensure!(errors == 0, "{errors} errors: {}", measured.errors.line());
    ensure!(measured.answered > 0, "nothing was answered");
    let cpu_us = after?.since(&before?).total_us() / measured.answered as f64;
    Ok(Sample { cpu_us, rate: outcome.rate.achieved.context("nothing was measured")? })
}

fn table(rows: &[Row]) -> Table {
    let mut table = Table::new(&["wire", "CPU us/request", "requests/s"]);
    for row in rows {
        if let Some(failure) = &row.failure {
            table.row([row.wire.to_owned(), "failed".to_owned()]);
            table.note(format!("{}: {failure}", row.wire));
            continue;
        }
        let rate = row.requests_per_second.map(|spread| spread.median);
        table.row([row.wire.to_owned(), table::spread(row.cpu_us_per_request, 2), table::thousands(rate)]);
    }
    table
}

/// Each wire and its address, with a name to be filled in; none for TCP, whose port the server chooses.
const WIRES: [(&str, &str); 4] =
    [("tcp", ""), ("unix", "unix:NAME"), ("shm", "shm:NAME"), ("shm, spinning", "shm:NAME?spin=200us")];

/// As `bench http-server` has them.
const CONNECTIONS: usize = 64;
