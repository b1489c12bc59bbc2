//! A constant rate: how exactly it is kept, and by how much requests leave late, beside a loop that only waits.

use std::time::Duration;

use anyhow::{Context, Result};
use anywire_load::{Amount, Outcome, Plan, Protocol, Schedule};
use serde::Serialize;

use super::{bare, ours, process};
use crate::check::start_checked;
use crate::options::Common;
use crate::report::{Bar, Bound};
use crate::rounds::{Rounds, Spread, interleaved};
use crate::servers;
use crate::table::{self, Table};

/// One round.
#[derive(Serialize)]
struct Sample {
    /// Answers a second without a rate.
    capacity: f64,
    /// Half of it.
    rate: f64,
    /// What was sent a second, divided by that.
    rate_ratio: f64,
    lag_p99_us: f64,
    bare_p99_us: f64,
}

/// What is found out in all rounds.
#[derive(Serialize)]
pub(super) struct Steady {
    capacity: Option<Spread>,
    rate_ratio: Option<Spread>,
    lag_p99_us: Option<Spread>,
    bare_p99_us: Option<Spread>,
    failure: Option<String>,
    samples: Vec<Sample>,
}

/// Measures, prints, and judges.
pub(super) fn run(common: &Common, seed: u32, bars: &mut Vec<Bar>) -> Steady {
    let mut all = interleaved(&[()], common.rounds as usize, seed, |(), _| measure(common));
    let rounds = all.pop().unwrap_or(Rounds { samples: Vec::new(), failure: None });
    let spread = |figure: fn(&Sample) -> f64| rounds.spread(|sample| Some(figure(sample)));
    let off = spread(|sample| (sample.rate_ratio - 1.0).abs());
    bars.push(Bar::judge_ratio(format!("{NAME}: the rate is off by"), Bound::AtMost(0.001), off));
    let times = spread(|sample| sample.lag_p99_us / sample.bare_p99_us);
    bars.push(Bar::judge_ratio(
        format!("{NAME}: p99 of the generator's lag / that of a bare loop"),
        Bound::AtMost(1.2),
        times,
    ));
    let steady = Steady {
        capacity: spread(|sample| sample.capacity),
        rate_ratio: spread(|sample| sample.rate_ratio),
        lag_p99_us: spread(|sample| sample.lag_p99_us),
        bare_p99_us: spread(|sample| sample.bare_p99_us),
        failure: rounds.failure,
        samples: rounds.samples,
    };
    let mut table =
        Table::new(&["generator", "capacity", "rate / intended", "lag p99, us", "bare loop p99, us"]);
    let figures = [
        table::spread(steady.capacity, 0),
        table::spread(steady.rate_ratio, 4),
        table::spread(steady.lag_p99_us, 2),
        table::spread(steady.bare_p99_us, 2),
    ];
    table.candidate("anywire", steady.failure.as_deref(), figures);
    println!("\n{CONNECTIONS} connections at half of what they can do\n\n{}", table.text());
    steady
}

fn measure(common: &Common) -> Result<Sample> {
    let (server, _) = start_checked(servers::named("limit")?, Protocol::Http1, common.server_core)?;
    let time = Duration::from_secs(common.seconds);
    let closed = Plan {
        connections: CONNECTIONS,
        amount: Amount::Duration(time),
        ..Plan::new(format!("http://{}/", server.address()))
    };
    let outcome = |plan: &Plan| {
        let ran = process::run(ours::command(plan)?, time * 3 + Duration::from_secs(20))?;
        anyhow::Ok(serde_json::from_str::<Outcome>(&ran.text)?)
    };
    let capacity = outcome(&closed)?.rate.achieved.context("nothing was answered")?;
    let rate = (capacity / 2.0).round();
    let open = Plan { schedule: Some(Schedule::constant(rate)), ..closed };
    let outcome = outcome(&open)?;
    let bare = process::run(bare::command(rate, time)?, time * 3)?;
    Ok(Sample {
        capacity,
        rate,
        rate_ratio: outcome.rate.rate_ratio.context("the rate is unknown")?,
        // What waits for a connection is late because of the server.
        lag_p99_us: outcome.generator.lag.context("the lag is unknown")?.p99,
        bare_p99_us: bare.text.trim().parse()?,
    })
}

pub(super) const NAME: &str = "steady";
const CONNECTIONS: usize = 64;
