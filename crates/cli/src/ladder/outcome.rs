//! What the ladder found out: a table, and JSON (`anywire.ladder/1`).

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;

use anywire::load::compare::{ComparePlan, Comparison, Placement, Row};
use anywire::load::rounds::Figures;
use anywire::load::text::{Columns, digits, known, whole};
use anywire::load::{Host, Tool};
use anywire_ladder::hand_over::{HandOver, HandOvers};
use serde::{Serialize, Serializer};

use crate::candidates;

/// The rungs as a comparison, and the hand-over of jobs; either may have been left out.
pub(super) struct Outcome {
    pub(super) comparison: Option<Comparison>,
    pub(super) hand_over: Option<HandOvers>,
    /// Whether it was ended early, in whichever part.
    pub(super) interrupted: bool,
}

impl Serialize for Outcome {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { comparison, hand_over, interrupted } = self;
        let rungs = comparison.iter().flat_map(|all| &all.candidates);
        let rungs = rungs.map(|row| Rung { row, story: candidates::story(&row.name) }).collect();
        let all = comparison.as_ref();
        Json {
            schema: "anywire.ladder/1",
            tool: Tool::this(),
            host: &all.map_or_else(Host::without_loops, |all| all.host.clone()),
            placement: all.map(|all| &all.placement),
            plan: all.map(|all| &all.plan),
            rungs,
            hand_over: hand_over.as_ref(),
            notes: all.map_or(&[], |all| &all.notes),
            interrupted: *interrupted,
        }
        .serialize(serializer)
    }
}

#[derive(Serialize)]
struct Json<'a> {
    schema: &'static str,
    tool: Tool,
    host: &'a Host,
    placement: Option<&'a Placement>,
    plan: Option<&'a ComparePlan>,
    rungs: Vec<Rung<'a>>,
    hand_over: Option<&'a HandOvers>,
    notes: &'a [String],
    interrupted: bool,
}

/// A row as in `compare`, and what the kernel does there.
#[derive(Serialize)]
struct Rung<'a> {
    #[serde(flatten)]
    row: &'a Row,
    story: &'a str,
}

impl fmt::Display for Outcome {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(comparison) = &self.comparison {
            writeln!(formatter, "{}", comparison.host.line())?;
            writeln!(formatter, "{}", plan(comparison))?;
            if let Some(interruption) = comparison.interruption() {
                writeln!(formatter, "{interruption}")?;
            }
            writeln!(formatter)?;
            let rows: Vec<_> = comparison.candidates.iter().map(cells).collect();
            for (range, what_they_are) in TABLES {
                let headings = COLUMNS[range.clone()].iter().map(|column| column.heading);
                let mut columns = Columns::new(1, &["rung"].into_iter().chain(headings).collect::<Vec<_>>());
                for row in &rows {
                    // The name stands before the figures.
                    let figures = &row[1..][range.clone()];
                    columns.row([&row[..1], figures].concat());
                }
                writeln!(formatter, "{}\n  {what_they_are}\n", columns.render())?;
            }
            writeln!(formatter, "system calls per request")?;
            let mut columns = Columns::new(2, &[]);
            for row in &comparison.candidates {
                columns.row(vec![row.name.clone(), calls(row.syscalls_by_name.as_ref())]);
            }
            writeln!(formatter, "{}", columns.render())?;
            for remark in comparison.remarks() {
                writeln!(formatter, "  {remark}")?;
            }
        }
        if let Some(all) = &self.hand_over {
            if self.comparison.is_some() {
                writeln!(formatter)?;
            }
            writeln!(formatter, "a job from thread to thread{}\n", between(all))?;
            if all.interrupted {
                writeln!(formatter, "interrupted: these are the rows until then\n")?;
            }
            let mut columns = Columns::new(
                2,
                &["in flight", "way"].into_iter().chain(HAND_OVER_HEADINGS).collect::<Vec<_>>(),
            );
            for row in &all.rows {
                columns.row(
                    [row.in_flight.to_string(), row.way.to_string()]
                        .into_iter()
                        .chain(of_hand_over(row))
                        .collect(),
                );
            }
            formatter.write_str(&columns.render())?;
            all.notes.iter().try_for_each(|note| writeln!(formatter, "\n  {note}"))?;
        }
        Ok(())
    }
}

/// How the rungs were loaded, in a line.
pub(super) fn plan(comparison: &Comparison) -> String {
    let plan = &comparison.plan;
    let idle = plan.connections - plan.active;
    let placement = match (comparison.placement.server_core, comparison.placement.client_core) {
        (Some(server), Some(client)) => format!("; server on core {server}, client on core {client}"),
        _ => String::new(),
    };
    format!(
        "{} connections{}, depth {}, {}-byte body, {} rounds of {} s, medians{placement}",
        plan.connections,
        if idle > 0 { format!(", {idle} of them idle") } else { String::new() },
        plan.depth,
        plan.body_bytes,
        plan.rounds,
        plan.duration_seconds,
    )
}

/// On which cores the two threads were.
pub(super) fn between(all: &HandOvers) -> String {
    all.cores.map_or_else(String::new, |[first, second]| format!(": cores {first} and {second}"))
}

/// A line of the table of rungs, in text and on the page.
pub(super) fn cells(row: &Row) -> Vec<String> {
    let figures = COLUMNS.iter().map(|column| known((column.value)(&row.medians), column.write));
    [row.name.clone()].into_iter().chain(figures).collect()
}

/// The calls of a request by name, the most frequent first.
pub(super) fn calls(by_name: Option<&BTreeMap<String, f64>>) -> String {
    let Some(by_name) = by_name else { return "unknown".to_owned() };
    let mut calls: Vec<_> = by_name.iter().filter(|(_, count)| **count >= LEAST_CALLS).collect();
    calls.sort_by(|one, other| other.1.total_cmp(one.1));
    if calls.is_empty() {
        return format!("none (below {LEAST_CALLS})");
    }
    calls.into_iter().map(|(name, count)| format!("{name} {}", digits(*count))).collect::<Vec<_>>().join(", ")
}

/// A line of the table of hand-overs, behind way and number.
pub(super) fn of_hand_over(row: &HandOver) -> Vec<String> {
    vec![
        whole(row.hand_overs_per_second),
        known(row.cpu_us_per_hand_over, digits),
        known(row.syscalls_per_hand_over, digits),
        known(row.p50_us, digits),
        known(row.p99_us, digits),
    ]
}

/// A column of the table of rungs.
pub(super) struct Column {
    pub(super) heading: &'static str,
    write: fn(f64) -> String,
    value: fn(&Figures<f64>) -> Option<f64>,
}

const fn column(
    heading: &'static str,
    write: fn(f64) -> String,
    value: fn(&Figures<f64>) -> Option<f64>,
) -> Column {
    Column { heading, write, value }
}

pub(super) const COLUMNS: [Column; 12] = [
    column("requests/s", whole, |all| all.requests_per_second),
    column("us/req", digits, |all| all.server_cpu_us_per_request),
    column("sys %", whole, |all| {
        all.server_system_cpu_us_per_request
            .zip(all.server_cpu_us_per_request)
            .map(|(system, both)| 100.0 * system / both)
    }),
    column("x epoll", digits, |all| all.ratio_to_limit),
    column("calls", digits, |all| all.syscalls_per_request),
    column("waits", digits, |all| all.voluntary_switches_per_request),
    column("preempts", digits, |all| all.involuntary_switches_per_request),
    column("threads", whole, |all| all.threads),
    column("user/conn", whole, |all| all.user_bytes_per_connection),
    column("kernel/conn", whole, |all| all.kernel_bytes_per_connection),
    column("p50 us", digits, |all| all.p50_us),
    column("p99 us", digits, |all| all.p99_us),
];

/// The columns as text, in tables that a terminal of 80 columns shows unbroken.
const TABLES: [(Range<usize>, &str); 2] = [
    (0..8, "calls, waits and preempts: of a request"),
    (8..COLUMNS.len(), "user and kernel memory: bytes of an idle connection"),
];

pub(super) const HAND_OVER_HEADINGS: [&str; 5] = ["hand-overs/s", "CPU us", "calls", "p50 us", "p99 us"];

/// Rarer calls are the sampling's own, or of the start.
const LEAST_CALLS: f64 = 0.005;
