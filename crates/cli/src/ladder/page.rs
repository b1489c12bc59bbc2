//! The page of the ladder: charts, a paragraph a rung, the tables.

use anywire::load::compare::{Comparison, Row};
use anywire::load::report::chart::{self, Bar, Group, Line};
use anywire::load::report::palette::{CLIENT, Colour, SERVER, TAIL, USUAL, style};
use anywire::load::report::{Chart, Page};
use anywire::load::rounds::Figures;
use anywire::load::text::{digits, time, whole};
use anywire_ladder::hand_over::{HandOver, HandOvers, Way};

use super::outcome::{self, COLUMNS, HAND_OVER_HEADINGS, Outcome};
use crate::candidates;

/// One file that needs nothing beside itself.
pub(super) fn page(outcome: &Outcome) -> String {
    let mut page = Page::new("anywire lab ladder: what a request costs on each I/O model");
    if let Some(comparison) = &outcome.comparison {
        rungs(&mut page, comparison);
    }
    if let Some(hand_over) = &outcome.hand_over {
        hand_overs(&mut page, hand_over);
    }
    page.finish(&serde_json::to_string_pretty(outcome).expect("an outcome holds only strings and numbers"))
}

fn rungs(page: &mut Page, comparison: &Comparison) {
    if let Some(interruption) = comparison.interruption() {
        page.warning(&interruption);
    }
    page.paragraph(&format!("{}.", outcome::plan(comparison)));
    page.paragraph(&format!("{}.", comparison.host.line()));
    let rows = &comparison.candidates;
    let chart = |title: &str, write: fn(f64) -> String, figures: &[(Figure, Colour, &str)]| Chart {
        title: title.to_owned(),
        legend: figures.iter().map(|(_, colour, name)| ((*colour).into(), (*name).to_owned())).collect(),
        svg: chart::bars(title, &groups(rows, write, figures)),
    };
    page.charts(vec![
        chart(
            "CPU of the server per request, us (less is better)",
            digits,
            &[
                (|all| all.server_cpu_us_per_request, SERVER, "all its threads, user and system"),
                (|all| all.server_system_cpu_us_per_request, CLIENT, "the part of it that the kernel took"),
            ],
        ),
        chart(
            "Requests per second (more is better)",
            whole,
            &[(|all| all.requests_per_second, SERVER, "answers per second")],
        ),
        chart(
            "System calls per request",
            digits,
            &[(|all| all.syscalls_per_request, SERVER, "all its threads")],
        ),
        chart(
            "Context switches per request",
            digits,
            &[
                (|all| all.voluntary_switches_per_request, SERVER, "it waited"),
                (|all| all.involuntary_switches_per_request, TAIL, "its core was taken"),
            ],
        ),
        chart(
            "Memory of an idle connection, bytes",
            whole,
            &[
                (|all| all.user_bytes_per_connection, SERVER, "of the server's process"),
                (|all| all.kernel_bytes_per_connection, CLIENT, "of the kernel, both ends"),
            ],
        ),
        chart(
            "Latency (less is better)",
            time,
            &[(|all| all.p50_us, USUAL, "p50"), (|all| all.p99_us, TAIL, "p99")],
        ),
    ]);
    for row in rows {
        page.heading(&row.name);
        page.paragraph(candidates::story(&row.name));
        page.paragraph(&format!("Calls per request: {}.", outcome::calls(row.syscalls_by_name.as_ref())));
        row.error_messages.iter().for_each(|message| page.warning(&message.to_string()));
    }
    let headings: Vec<_> = ["rung"].into_iter().chain(COLUMNS.iter().map(|column| column.heading)).collect();
    page.table("Medians", &headings, &rows.iter().map(outcome::cells).collect::<Vec<_>>());
    page.list(&comparison.remarks());
}

type Figure = fn(&Figures<f64>) -> Option<f64>;

fn groups(rows: &[Row], write: fn(f64) -> String, figures: &[(Figure, Colour, &str)]) -> Vec<Group> {
    let bars = |row: &Row| {
        let bar = |&(figure, colour, _): &(Figure, Colour, &str)| {
            figure(&row.medians).map(|value| Bar { value, label: write(value), colour })
        };
        figures.iter().filter_map(bar).collect()
    };
    rows.iter().map(|row| Group { name: row.name.clone(), bars: bars(row) }).collect()
}

fn hand_overs(page: &mut Page, all: &HandOvers) {
    page.heading("Handing a job to another thread");
    if all.interrupted {
        page.warning("This run was ended early: these are the rows until then.");
    }
    page.paragraph(&format!("Two threads pass jobs back and forth{}.", outcome::between(all)));
    let chart = |title: &str, write: fn(f64) -> String, figure: fn(&HandOver) -> Option<f64>| {
        let ways = || Way::ALL.into_iter().enumerate().map(|(index, way)| (way, style(index)));
        let points = |way: Way| {
            let of_way = all.rows.iter().filter(move |row| row.way == way);
            of_way.filter_map(|row| Some((row.in_flight as f64, figure(row)?))).collect()
        };
        let lines: Vec<_> = ways().map(|(way, style)| Line { points: points(way), style }).collect();
        Chart {
            title: title.to_owned(),
            legend: ways().map(|(way, style)| (style.into(), way.to_string())).collect(),
            svg: chart::lines(title, &lines, whole, write),
        }
    };
    page.charts(vec![
        chart("CPU of both threads per hand-over, by jobs in flight", time, |row| row.cpu_us_per_hand_over),
        chart("Median time of a hand-over, by jobs in flight", time, |row| row.p50_us),
    ]);
    for way in Way::ALL {
        page.heading(&way.to_string());
        page.paragraph(way.story());
    }
    let headings: Vec<_> = ["way", "in flight"].into_iter().chain(HAND_OVER_HEADINGS).collect();
    let cells = |row: &HandOver| {
        [row.way.to_string(), row.in_flight.to_string()]
            .into_iter()
            .chain(outcome::of_hand_over(row))
            .collect()
    };
    page.table("Hand-overs", &headings, &all.rows.iter().map(cells).collect::<Vec<_>>());
    page.list(&all.notes);
}
