//! The page of a comparison.

use crate::compare::{COLUMNS, Column, Comparison, Row, percent};
use crate::report::chart::{self, Bar, Group, Strip};
use crate::report::page::{Chart, Page};
use crate::report::palette::{CLIENT, Colour, SERVER, TAIL, USUAL};
use crate::report::rate;
use crate::rounds::{Figures, FixedRate, Spread};
use crate::text::{capitalised, digits, grouped, known, time, whole};

/// A page with charts of the CPU per request, the rates, the latencies and the spread over the rounds.
pub fn comparison(comparison: &Comparison) -> String {
    let plan = &comparison.plan;
    let mut page = Page::new("anywire compare: what a request costs");
    if let Some(interruption) = comparison.interruption() {
        page.warning(&interruption);
    }
    page.paragraph(&format!(
        "{}: {} connections, depth {}, {}-byte body, {} rounds of {} s; medians.",
        capitalised(&plan.pace()),
        plan.connections,
        plan.depth,
        plan.body_bytes,
        plan.rounds,
        plan.duration_seconds,
    ));
    page.paragraph(&format!("{}{}.", comparison.host.line(), placement(comparison)));
    let rows = &comparison.candidates;
    for row in rows {
        for remark in row.rate.iter().flat_map(FixedRate::remarks) {
            page.warning(&format!("{}: {remark}.", row.name));
        }
    }
    page.charts(vec![
        Chart {
            title: "CPU per request, us (less is better)".to_owned(),
            legend: vec![(SERVER.into(), "server".to_owned()), (CLIENT.into(), "client".to_owned())],
            svg: chart::bars(
                "CPU per request",
                &groups(
                    rows,
                    digits,
                    &[
                        (|all| all.server_cpu_us_per_request, SERVER),
                        (|all| all.client_cpu_us_per_request, CLIENT),
                    ],
                ),
            ),
        },
        // At one rate for all that rate tells nothing, and how busy it makes each server does.
        match plan.rate {
            Some(rate) => Chart {
                title: format!("Server CPU at {} requests/s, % of a core (less is better)", whole(rate)),
                legend: vec![(SERVER.into(), "of a core".to_owned())],
                svg: chart::bars(
                    "Server CPU",
                    &groups(
                        rows,
                        |share| format!("{} %", percent(share)),
                        &[(|all| all.server_utilisation, SERVER)],
                    ),
                ),
            },
            None => Chart {
                title: "Requests per second (more is better)".to_owned(),
                legend: vec![(SERVER.into(), "answers per second".to_owned())],
                svg: chart::bars(
                    "Requests per second",
                    &groups(rows, whole, &[(|all| all.requests_per_second, SERVER)]),
                ),
            },
        },
        Chart {
            title: match plan.rate {
                Some(_) => "Latency from the intended time (less is better)".to_owned(),
                None => "Latency (less is better)".to_owned(),
            },
            legend: vec![(USUAL.into(), "p50".to_owned()), (TAIL.into(), "p99".to_owned())],
            svg: chart::bars(
                "Latency",
                &groups(rows, time, &[(|all| all.p50_us, USUAL), (|all| all.p99_us, TAIL)]),
            ),
        },
        Chart {
            title: "Server CPU per request in each round, us".to_owned(),
            legend: vec![(SERVER.into(), "a dot a round, a stroke at the median".to_owned())],
            svg: chart::strips("Spread over the rounds", &strips(rows), SERVER),
        },
    ]);
    let rates =
        rows.iter().filter_map(|row| Some((row.label(), row.rate.as_ref()?, &row.medians, &row.spread)));
    rate::table(&mut page, rates);
    medians(&mut page, comparison);
    rounds(&mut page, rows);
    page.list(&comparison.remarks());
    page.finish(&comparison.to_json())
}

type Figure = fn(&Figures<f64>) -> Option<f64>;

fn groups(rows: &[Row], write: impl Fn(f64) -> String, figures: &[(Figure, Colour)]) -> Vec<Group> {
    rows.iter()
        .map(|row| Group {
            name: row.label(),
            bars: figures
                .iter()
                .filter_map(|(figure, colour)| {
                    figure(&row.medians).map(|value| Bar { value, label: write(value), colour: *colour })
                })
                .collect(),
        })
        .collect()
}

fn strips(rows: &[Row]) -> Vec<Strip> {
    rows.iter()
        .filter_map(|row| {
            let values =
                row.rounds.iter().filter_map(|round| round.figures.server_cpu_us_per_request).collect();
            row.medians.server_cpu_us_per_request.map(|median| Strip { name: row.label(), values, median })
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
    let mut headings = vec!["candidate", "wire", "protocol", "depth"];
    headings.extend(COLUMNS.iter().map(|column| column.heading));
    headings.push("errors");
    let cells = |row: &Row| {
        let figure =
            |Column { write, value, spread, .. }: &Column| match (value(&row.medians), spread(&row.spread)) {
                (Some(value), Some(Spread { min, max })) => {
                    format!("{}\n{} \u{2013} {}", write(value), write(min), write(max))
                }
                _ => "unknown".to_owned(),
            };
        let depth = comparison.plan.depth.to_string();
        let names = [row.name.clone(), row.wire.clone(), row.protocol.clone(), depth];
        names.into_iter().chain(COLUMNS.iter().map(figure)).chain([row.errors.line()]).collect()
    };
    let rows: Vec<Vec<String>> = comparison.candidates.iter().map(cells).collect();
    page.table("Medians (least \u{2013} most over the rounds)", &headings, &rows);
}

fn rounds(page: &mut Page, rows: &[Row]) {
    let mut headings = vec!["candidate", "round"];
    headings.extend(COLUMNS.iter().map(|column| column.heading));
    headings.extend(["answers", "errors", "connections"]);
    let mut lines = Vec::new();
    for row in rows {
        for round in &row.rounds {
            let mut cells = vec![row.name.clone(), round.round.to_string()];
            cells.extend(COLUMNS.iter().map(|column| known((column.value)(&round.figures), column.write)));
            cells.extend([round.answered, round.errors, round.connections_open].map(grouped));
            lines.push(cells);
        }
    }
    page.table("Rounds", &headings, &lines);
}
