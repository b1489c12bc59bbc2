//! The page of a comparison.

use crate::compare::{Comparison, Row, Spread};
use crate::report::chart::{self, ChartError, Group, Strip};
use crate::report::page::{Chart, Page};
use crate::report::palette::{CLIENT, Colour, SERVER, TAIL, USUAL};
use crate::text::{digits, grouped, known, time};

/// A page with charts of the CPU per request, the rates, the latencies and the spread over the rounds.
///
/// # Errors
///
/// A chart could not be drawn.
pub fn comparison(comparison: &Comparison) -> Result<String, ChartError> {
    let plan = &comparison.plan;
    let mut page = Page::new("anywire compare: what a request costs");
    if comparison.interrupted {
        page.warning("This comparison was ended early: it holds the whole rounds until then.");
    }
    page.paragraph(&format!(
        "{} connections, depth {}, {}-byte body, {} rounds of {} s; medians.",
        plan.connections, plan.depth, plan.body_bytes, plan.rounds, plan.duration_seconds,
    ));
    page.paragraph(&format!("{}{}.", comparison.host.line(), placement(comparison)));
    let rows = &comparison.candidates;
    page.charts(vec![
        Chart {
            title: "CPU per request, us (less is better)",
            legend: vec![(SERVER, "server"), (CLIENT, "client")],
            svg: chart::bars(
                "CPU per request",
                &groups(
                    rows,
                    digits,
                    &[
                        (|row| row.server_cpu_us_per_request, SERVER),
                        (|row| row.client_cpu_us_per_request, CLIENT),
                    ],
                ),
            )?,
        },
        Chart {
            title: "Requests per second (more is better)",
            legend: vec![(SERVER, "answers per second")],
            svg: chart::bars(
                "Requests per second",
                &groups(
                    rows,
                    |rate| grouped(rate.round() as u64),
                    &[(|row| row.requests_per_second, SERVER)],
                ),
            )?,
        },
        Chart {
            title: "Latency (less is better)",
            legend: vec![(USUAL, "p50"), (TAIL, "p99")],
            svg: chart::bars(
                "Latency",
                &groups(rows, time, &[(|row| row.p50_us, USUAL), (|row| row.p99_us, TAIL)]),
            )?,
        },
        Chart {
            title: "Server CPU per request in each round, us",
            legend: vec![(SERVER, "a dot a round, a stroke at the median")],
            svg: chart::strips("Spread over the rounds", &strips(rows), SERVER)?,
        },
    ]);
    medians(&mut page, comparison);
    rounds(&mut page, rows);
    page.list(&comparison.remarks());
    Ok(page.finish(&comparison.to_json()))
}

type Figure = fn(&Row) -> Option<f64>;

/// The name of a row with its wire, unless the name says it already.
fn label(row: &Row) -> String {
    if row.name == row.wire { row.name.clone() } else { format!("{} ({})", row.name, row.wire) }
}

fn groups(rows: &[Row], write: impl Fn(f64) -> String, figures: &[(Figure, Colour)]) -> Vec<Group> {
    rows.iter()
        .map(|row| Group {
            name: label(row),
            bars: figures
                .iter()
                .filter_map(|(figure, colour)| figure(row).map(|value| (value, write(value), *colour)))
                .collect(),
        })
        .collect()
}

fn strips(rows: &[Row]) -> Vec<Strip> {
    rows.iter()
        .filter_map(|row| {
            let values = row.rounds.iter().filter_map(|round| round.server_cpu_us_per_request).collect();
            row.server_cpu_us_per_request.map(|median| Strip { name: label(row), values, median })
        })
        .collect()
}

fn placement(comparison: &Comparison) -> String {
    match (comparison.placement.server_core, comparison.placement.client_core) {
        (Some(server), Some(client)) => format!("; server on core {server}, client on core {client}"),
        _ => "; server and client not pinned".to_owned(),
    }
}

fn medians(page: &mut Page, comparison: &Comparison) {
    let spread = |value: Option<f64>, spread: Option<Spread>, write: fn(f64) -> String| match (value, spread)
    {
        (Some(value), Some(spread)) => {
            format!("{} ({} \u{2013} {})", write(value), write(spread.min), write(spread.max))
        }
        _ => "unknown".to_owned(),
    };
    let whole: fn(f64) -> String = |rate| grouped(rate.round() as u64);
    let rows: Vec<Vec<String>> = comparison
        .candidates
        .iter()
        .map(|row| {
            vec![
                row.name.clone(),
                row.wire.clone(),
                comparison.plan.depth.to_string(),
                spread(row.requests_per_second, row.spread.requests_per_second, whole),
                spread(row.server_cpu_us_per_request, row.spread.server_cpu_us_per_request, digits),
                spread(row.client_cpu_us_per_request, row.spread.client_cpu_us_per_request, digits),
                spread(row.ratio_to_limit, row.spread.ratio_to_limit, digits),
                spread(row.syscalls_per_request, row.spread.syscalls_per_request, digits),
                spread(row.p50_us, row.spread.p50_us, time),
                spread(row.p99_us, row.spread.p99_us, time),
                spread(row.max_us, row.spread.max_us, time),
                row.errors.line(),
            ]
        })
        .collect();
    let headings = [
        "candidate",
        "wire",
        "depth",
        "requests/s",
        "server us/req",
        "client us/req",
        "x limit",
        "calls/req",
        "p50",
        "p99",
        "max",
        "errors",
    ];
    page.table("Medians (least \u{2013} most over the rounds)", &headings, &rows);
}

fn rounds(page: &mut Page, rows: &[Row]) {
    let cells = |row: &Row| -> Vec<Vec<String>> {
        row.rounds
            .iter()
            .map(|round| {
                vec![
                    row.name.clone(),
                    round.round.to_string(),
                    known(round.requests_per_second, |rate| grouped(rate.round() as u64)),
                    known(round.server_cpu_us_per_request, digits),
                    known(round.client_cpu_us_per_request, digits),
                    known(round.ratio_to_limit, digits),
                    known(round.syscalls_per_request, digits),
                    known(round.p50_us, time),
                    known(round.p99_us, time),
                    known(round.max_us, time),
                    grouped(round.answered),
                    round.errors.to_string(),
                    round.connections_open.to_string(),
                ]
            })
            .collect()
    };
    let headings = [
        "candidate",
        "round",
        "requests/s",
        "server us",
        "client us",
        "x limit",
        "calls",
        "p50",
        "p99",
        "max",
        "answers",
        "errors",
        "connections",
    ];
    let lines: Vec<Vec<String>> = rows.iter().flat_map(cells).collect();
    page.table("Rounds", &headings, &lines);
}
