//! A comparison as text for a terminal: one line a candidate, bars of the CPU per request, notes.

use std::fmt;

use crate::compare::result::{Comparison, Row};
use crate::rounds::{Figures, Spread};
use crate::text::{Columns, bar, digits, known, whole};

impl fmt::Display for Comparison {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plan = &self.plan;
        writeln!(formatter, "{}", self.host.line())?;
        writeln!(
            formatter,
            "{}: {} connections, depth {}, {}-byte body, {} rounds of {} s, medians{}",
            plan.pace(),
            plan.connections,
            plan.depth,
            plan.body_bytes,
            plan.rounds,
            plan.duration_seconds,
            match (self.placement.server_core, self.placement.client_core) {
                (Some(server), Some(client)) => format!("; server on core {server}, client on core {client}"),
                _ => String::new(),
            },
        )?;
        if let Some(interruption) = self.interruption() {
            writeln!(formatter, "{interruption}")?;
        }
        if let Some(found) = self.saturation() {
            writeln!(formatter, "no verdict: {}", found.found)?;
        }
        writeln!(formatter)?;
        formatter.write_str(&figures(self))?;
        formatter.write_str(&spreads(&self.candidates))?;
        formatter.write_str(&rates(&self.candidates))?;
        writeln!(formatter, "\nCPU us per request: server \u{2588}, client \u{2591}")?;
        formatter.write_str(&bars(&self.candidates))?;
        writeln!(formatter)?;
        for remark in self.remarks() {
            writeln!(formatter, "  {remark}")?;
        }
        Ok(())
    }
}

fn figures(comparison: &Comparison) -> String {
    let rows = &comparison.candidates;
    // A column that says the same in each line says nothing.
    let by_protocol = rows.iter().any(|row| row.protocol != rows[0].protocol);
    let mut headings = vec!["candidate"];
    headings.extend(by_protocol.then_some("protocol"));
    headings.extend(COLUMNS.iter().map(|column| column.heading));
    let mut columns = Columns::new(1 + usize::from(by_protocol), &headings);
    for row in rows {
        let mut cells = vec![row.label()];
        cells.extend(by_protocol.then(|| row.protocol.clone()));
        cells.extend(COLUMNS.iter().map(|column| known((column.value)(&row.medians), column.write)));
        columns.row(cells);
    }
    columns.render()
}

/// How far the rounds lie apart; nothing if there is one.
fn spreads(rows: &[Row]) -> String {
    if rows.iter().all(|row| row.rounds.len() < 2) {
        return String::new();
    }
    let told = || COLUMNS.iter().filter(|column| column.has_spread);
    let headings: Vec<&str> = ["candidate"].into_iter().chain(told().map(|column| column.heading)).collect();
    let mut columns = Columns::new(1, &headings);
    for row in rows.iter().filter(|row| !row.rounds.is_empty()) {
        let spread = |column: &Column| {
            let spread = (column.spread)(&row.spread);
            spread.map_or_else(|| "-".to_owned(), |all| [all.min, all.max].map(column.write).join("-"))
        };
        columns.row([row.label()].into_iter().chain(told().map(spread)).collect());
    }
    format!("\nthe least and the most of the rounds\n{}", columns.render())
}

/// How the rate was kept; nothing in the closed mode.
fn rates(rows: &[Row]) -> String {
    let lines =
        rows.iter().filter_map(|row| Some(format!("  {}: {}\n", row.label(), row.rate.as_ref()?.line())));
    let lines: String = lines.collect();
    if lines.is_empty() { lines } else { format!("\nthe rate\n{lines}") }
}

/// Two bars for each candidate, on one scale: the CPU time per request of the server, and of the client.
fn bars(rows: &[Row]) -> String {
    let costs = |row: &Row| [row.medians.server_cpu_us_per_request, row.medians.client_cpu_us_per_request];
    let most = rows.iter().flat_map(costs).flatten().fold(0.0, f64::max);
    let name_width = rows.iter().map(|row| row.name.chars().count()).max().unwrap_or(0);
    let mut text = String::new();
    for row in rows {
        let [server, client] = costs(row);
        for (name, cost, light) in [(row.name.as_str(), server, false), ("", client, true)] {
            let Some(cost) = cost else { continue };
            let mut drawn = bar(cost / most, BAR_WIDTH);
            if light {
                drawn = "\u{2591}".repeat(drawn.chars().count());
            }
            text.push_str(&format!("  {name:<name_width$}  {drawn} {}\n", digits(cost)));
        }
    }
    text
}

/// A column of figures, in each table of a comparison.
pub(crate) struct Column {
    pub(crate) heading: &'static str,
    pub(crate) write: fn(f64) -> String,
    pub(crate) value: fn(&Figures<f64>) -> Option<f64>,
    pub(crate) spread: fn(&Figures<Spread>) -> Option<Spread>,
    /// Whether its spread stands in the terminal too, which has no room for all.
    has_spread: bool,
}

const fn column(
    heading: &'static str,
    write: fn(f64) -> String,
    value: fn(&Figures<f64>) -> Option<f64>,
    spread: fn(&Figures<Spread>) -> Option<Spread>,
) -> Column {
    Column { heading, write, value, spread, has_spread: false }
}

impl Column {
    const fn with_spread(self) -> Self {
        Self { has_spread: true, ..self }
    }
}

/// A share of a core as a percentage.
pub(crate) fn percent(share: f64) -> String {
    digits(share * 100.0)
}

pub(crate) static COLUMNS: [Column; 9] = [
    column("requests/s", whole, |all| all.requests_per_second, |all| all.requests_per_second).with_spread(),
    column("server us", digits, |all| all.server_cpu_us_per_request, |all| all.server_cpu_us_per_request)
        .with_spread(),
    column("core %", percent, |all| all.server_utilisation, |all| all.server_utilisation).with_spread(),
    column("client us", digits, |all| all.client_cpu_us_per_request, |all| all.client_cpu_us_per_request)
        .with_spread(),
    column("x limit", digits, |all| all.ratio_to_limit, |all| all.ratio_to_limit),
    column("calls", digits, |all| all.syscalls_per_request, |all| all.syscalls_per_request),
    column("p50 us", digits, |all| all.p50_us, |all| all.p50_us).with_spread(),
    column("p99 us", digits, |all| all.p99_us, |all| all.p99_us).with_spread(),
    column("max us", digits, |all| all.max_us, |all| all.max_us),
];

const BAR_WIDTH: usize = 40;
