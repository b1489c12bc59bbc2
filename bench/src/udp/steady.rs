//! Whether a rate is stood without a loss: on two loops by hash and by connection id, and on one loop beside it.
//!
//! The service counts what it receives and returns nothing, as one that takes measurements does. The loss is
//! what was sent less what it received, and the sender's cores receive no answers.
//!
//! The sender hands 64 datagrams of a flow to the kernel in one call (GSO), because with a call for each it takes a core for
//! itself, which a machine of two cores does not have to spare. The service has GRO off, so the kernel takes them apart again, and
//! each arrives alone.

use std::time::Duration;

use anyhow::{Context, Result};
use anywire_load::udp::{FLOW_OFFSET, UdpPlan, run as load};
use anywire_load::{Handles, Schedule};
use anywire_loops::Loops;
use anywire_server::udp::{Datagram, Replies, Steering, UdpOptions, UdpServer};
use serde::Serialize;

use super::Options;
use super::servers::RECEIVE_BUFFER;
use crate::report::{Bar, Bound};
use crate::table::Table;

/// The best of the runs of one set-up.
#[derive(Serialize)]
pub struct Row {
    name: &'static str,
    loops: usize,
    flows: usize,
    sent: u64,
    received: u64,
    lost: u64,
    /// Datagrams a second that were sent.
    rate: f64,
    /// Datagrams of each loop.
    datagrams_by_loop: Vec<u64>,
    /// CPU seconds of each loop.
    cpu_by_loop: Vec<f64>,
    dropped_by_system: u64,
}

struct Case {
    name: &'static str,
    loops: usize,
    flows: usize,
    sockets: usize,
    steering: Steering,
}

const CASES: [Case; 3] = [
    Case { name: "two loops, by hash", loops: 2, flows: 4096, sockets: 4096, steering: Steering::Flow },
    Case {
        name: "two loops, by connection id",
        loops: 2,
        flows: 64,
        sockets: 64,
        steering: Steering::Payload { offset: FLOW_OFFSET, width: 4 },
    },
    Case { name: "one loop", loops: 1, flows: 64, sockets: 64, steering: Steering::Flow },
];

/// Runs all set-ups, each up to three times until nothing is lost.
pub fn run(options: &Options, bars: &mut Vec<Bar>) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for case in &CASES {
        let mut best: Option<Row> = None;
        for attempt in 1..=RUNS {
            let row = once(options, case)?;
            eprintln!(
                "steady, {}, run {attempt}: {} of {} lost at {:.0}/s",
                case.name, row.lost, row.sent, row.rate
            );
            if best.as_ref().is_none_or(|best| row.lost < best.lost) {
                best = Some(row);
            }
            if best.as_ref().is_some_and(|best| best.lost == 0) {
                break;
            }
        }
        rows.extend(best);
    }
    println!(
        "\n{} datagrams/s of 200 bytes for {} s\n\n{}",
        options.steady_rate,
        options.steady_seconds,
        table(&rows).text()
    );
    for row in rows.iter().filter(|row| row.loops == 2) {
        let sent_enough = row.rate >= options.steady_rate * 0.99;
        bars.push(Bar::judge(
            format!("{}: lost", row.name),
            Bound::AtMost(0.0),
            sent_enough.then_some(row.lost as f64),
        ));
        bars.push(Bar::judge(
            format!("{}: CPU of the loops, largest to smallest", row.name),
            Bound::AtMost(1.1),
            largest_to_smallest(&row.cpu_by_loop),
        ));
    }
    Ok(rows)
}

fn once(options: &Options, case: &Case) -> Result<Row> {
    let service = Loops::start(case.loops)?;
    let udp = UdpOptions {
        receive_buffer_bytes: RECEIVE_BUFFER,
        steering: case.steering,
        offload: false,
        ..UdpOptions::default()
    };
    let sink = || |_: &Datagram<'_>, _: &mut Replies<'_>| {};
    let server = UdpServer::new(sink).listen("udp:127.0.0.1:0").options(udp).on(&service).start();
    let server = server.map_err(anyhow::Error::msg)?;
    let plan = UdpPlan {
        schedule: Schedule::constant(options.steady_rate),
        duration: Duration::from_secs(options.steady_seconds),
        flows: case.flows,
        sockets: Some(case.sockets),
        offload: true,
        // Nothing comes back.
        wait: Duration::from_millis(100),
        ..UdpPlan::new(&server.addresses()[0])?
    };
    let sender = Loops::start(1)?;
    let busy = |loops: &Loops| -> Vec<_> { loops.counters().iter().map(|one| one.cpu).collect() };
    let before = busy(&service);
    let outcome = load(&sender, plan, Handles::default())?;
    let cpu_by_loop =
        busy(&service).iter().zip(before).map(|(now, before)| (*now - before).as_secs_f64()).collect();
    let datagrams_by_loop = server.counters_by_loop().iter().map(|one| one.datagrams).collect();
    let counters = server.shutdown(Duration::from_secs(1)).wait().counters;
    Ok(Row {
        name: case.name,
        loops: case.loops,
        flows: case.flows,
        sent: outcome.sent,
        received: counters.datagrams,
        lost: outcome.sent.saturating_sub(counters.datagrams),
        rate: outcome.rate.sent.context("nothing was sent")?,
        datagrams_by_loop,
        cpu_by_loop,
        dropped_by_system: counters.dropped_by_system,
    })
}

fn largest_to_smallest(parts: &[f64]) -> Option<f64> {
    let (least, most) =
        (parts.iter().copied().fold(f64::INFINITY, f64::min), parts.iter().copied().fold(0.0, f64::max));
    (least > 0.0 && least.is_finite()).then(|| most / least)
}

fn table(rows: &[Row]) -> Table {
    let mut table = Table::new(&["service", "flows", "sent/s", "lost", "by loop", "CPU s by loop"]);
    let list = |texts: Vec<String>| texts.join(" / ");
    for row in rows {
        table.row([
            row.name.to_owned(),
            row.flows.to_string(),
            format!("{:.0}", row.rate),
            row.lost.to_string(),
            list(row.datagrams_by_loop.iter().map(u64::to_string).collect()),
            list(row.cpu_by_loop.iter().map(|seconds| format!("{seconds:.2}")).collect()),
        ]);
    }
    table
}

/// The best of three: other work of a small machine costs datagrams that a core could have taken.
const RUNS: usize = 3;
