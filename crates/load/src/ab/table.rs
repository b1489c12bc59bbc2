//! The outcome of `ab` as text for a terminal: the verdict first, then the metrics, then what is to be said.

use std::fmt;

use crate::ab::outcome::{AbOutcome, AbSide};
use crate::contrast::{Contrast, METRICS};
use crate::rounds::Spread;
use crate::text::{Columns, digits};

impl fmt::Display for AbOutcome {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b] = self.sides.each_ref();
        writeln!(formatter, "{}", self.contrast.sentence(&a.name, &b.name))?;
        for side in [a, b] {
            if let Some(target) = &side.target {
                writeln!(
                    formatter,
                    "{}: {} over {} ({})",
                    side.name, target.url, target.address, target.protocol
                )?;
            }
        }
        for line in [a, b].into_iter().filter_map(AbSide::rate_line) {
            writeln!(formatter, "{line}")?;
        }
        writeln!(formatter, "{}", self.host.line())?;
        writeln!(formatter, "{}\n", self.plan_line())?;
        let mut columns = Columns::new(1, &Contrast::headings(&a.name, &b.name));
        self.contrast.rows().into_iter().for_each(|row| columns.row(row));
        formatter.write_str(&columns.render())?;
        formatter.write_str(&spreads(a, b))?;
        writeln!(formatter)?;
        for remark in self.remarks() {
            writeln!(formatter, "  {remark}")?;
        }
        writeln!(formatter, "  {}", self.contrast.explanation())
    }
}

/// How far the rounds of each side lie apart, by the metrics of the table; nothing if there is one round.
fn spreads(a: &AbSide, b: &AbSide) -> String {
    if a.rounds.len().max(b.rounds.len()) < 2 {
        return String::new();
    }
    let mut columns = Columns::new(1, &["metric", &a.name, &b.name]);
    for metric in &METRICS {
        let spread = |side: &AbSide| metric.spread(&side.rounds);
        let (of_a, of_b) = (spread(a), spread(b));
        if of_a.is_none() && of_b.is_none() {
            continue;
        }
        let ends = |of: Option<Spread>| {
            of.map_or_else(|| "-".to_owned(), |of| [of.min, of.max].map(metric.write).join(" .. "))
        };
        columns.row(vec![metric.title.to_owned(), ends(of_a), ends(of_b)]);
    }
    format!("\nthe least and the most of the rounds\n{}", columns.render())
}

impl AbOutcome {
    /// How it was measured, in a line.
    pub(crate) fn plan_line(&self) -> String {
        let plan = &self.plan;
        let load = plan.load.as_ref().map_or_else(String::new, |load| {
            let mode = match &load.schedule {
                Some(schedule) => {
                    format!("{}: {}, latencies from the intended time, ", load.mode, schedule.pace())
                }
                None => format!("{}: ", load.mode),
            };
            format!("{mode}{} connections, depth {}; ", load.connections, load.depth)
        });
        let seconds = plan.load.as_ref().and_then(|load| load.duration_seconds).unwrap_or_default();
        format!(
            "{load}{} of {} rounds, in each {} s of either side in {} turns, ABBA or BAAB by seed {}",
            self.sides[0].rounds.len(),
            plan.rounds,
            digits(seconds),
            plan.turns,
            plan.seed,
        )
    }
}
