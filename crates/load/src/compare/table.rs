//! A comparison as text for a terminal: one line a candidate, bars of the CPU per request, notes.

use std::fmt;

use crate::compare::result::{Comparison, Row, Spread};
use crate::text::{Columns, bar, digits, grouped, known};

impl fmt::Display for Comparison {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plan = &self.plan;
        writeln!(formatter, "{}", self.host.line())?;
        writeln!(
            formatter,
            "{} connections, depth {}, {}-byte body, {} rounds of {} s, medians{}",
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
        if self.interrupted {
            let rounds = self.candidates.iter().map(|row| row.rounds.len()).max().unwrap_or(0);
            writeln!(formatter, "interrupted: {rounds} whole rounds")?;
        }
        writeln!(formatter)?;
        formatter.write_str(&figures(self))?;
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
    let headings = [
        "candidate",
        "wire",
        "depth",
        "requests/s",
        "server us/req",
        "min-max",
        "client us/req",
        "x limit",
        "calls/req",
        "p50 us",
        "p99 us",
        "max us",
    ];
    let mut columns = Columns::new(2, &headings);
    for row in &comparison.candidates {
        columns.row(vec![
            row.name.clone(),
            row.wire.clone(),
            comparison.plan.depth.to_string(),
            known(row.requests_per_second, |rate| grouped(rate.round() as u64)),
            known(row.server_cpu_us_per_request, digits),
            spread(row.spread.server_cpu_us_per_request),
            known(row.client_cpu_us_per_request, digits),
            known(row.ratio_to_limit, |ratio| format!("{ratio:.2}")),
            known(row.syscalls_per_request, digits),
            known(row.p50_us, digits),
            known(row.p99_us, digits),
            known(row.max_us, digits),
        ]);
    }
    columns.render()
}

fn spread(spread: Option<Spread>) -> String {
    spread.map_or_else(|| "-".to_owned(), |spread| format!("{}-{}", digits(spread.min), digits(spread.max)))
}

/// Two bars for each candidate, on one scale: the CPU time per request of the server, and of the client.
fn bars(rows: &[Row]) -> String {
    let costs = |row: &Row| [row.server_cpu_us_per_request, row.client_cpu_us_per_request];
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

const BAR_WIDTH: usize = 40;
