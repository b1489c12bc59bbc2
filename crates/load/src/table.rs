//! The outcome of a run as text for a terminal.

use std::fmt;

use crate::histogram::LatencySummary;
use crate::outcome::Outcome;
use crate::text::{Columns, digits, grouped, known, time};

impl fmt::Display for Outcome {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (plan, totals) = (&self.plan, &self.totals);
        writeln!(formatter, "{} {} over {}", plan.method, self.target.url, self.target.address)?;
        let early = self.rate.interrupted || self.rate.given_up;
        let amount = match (plan.duration_seconds, plan.requests) {
            (Some(seconds), _) if early => format!("{} of {seconds} s", digits(self.rate.seconds)),
            (Some(seconds), _) => format!("{seconds} s"),
            (None, requests) if early => {
                format!("{} of {} requests", grouped(totals.sent), grouped(requests.unwrap_or_default()))
            }
            (None, requests) => format!("{} requests", grouped(requests.unwrap_or_default())),
        };
        writeln!(
            formatter,
            "closed: stalls hide requests; {} connections on {} {}, {amount} after {} s of warm-up ({} answers)",
            plan.connections,
            self.loops.len(),
            if self.loops.len() == 1 { "loop" } else { "loops" },
            plan.warm_up_seconds,
            grouped(totals.warm_up.answered),
        )?;
        for remark in self.remarks() {
            writeln!(formatter, "{remark}")?;
        }
        writeln!(formatter)?;
        formatter.write_str(&self.result_line())?;
        writeln!(formatter)?;
        let connections = &totals.connections;
        let mut columns = Columns::new(2, &[]);
        let mut line = |name: &str, text: String| columns.row(vec![name.to_owned(), text]);
        line(
            "requests",
            format!(
                "{} sent{}, {} answered, {} timed out, {} lost at a close, {} on their way at the end{}",
                grouped(totals.sent),
                totals
                    .unsent
                    .filter(|unsent| *unsent > 0)
                    .map_or_else(String::new, |unsent| { format!(" and {} never sent", grouped(unsent)) }),
                grouped(totals.answered),
                grouped(totals.timed_out),
                grouped(totals.unanswered_at_close),
                grouped(totals.unanswered_at_end),
                totals.oldest_unanswered_us.map_or_else(String::new, |us| format!(" (oldest {})", time(us))),
            ),
        );
        let statuses: Vec<String> =
            totals.statuses.iter().map(|(status, count)| format!("{} x {status}", grouped(*count))).collect();
        line("statuses", if statuses.is_empty() { "none".to_owned() } else { statuses.join(", ") });
        line("errors", totals.errors.line());
        for sample in &totals.error_samples {
            line("", format!("first {}: {}", sample.kind, sample.message));
        }
        line(
            "connections",
            format!(
                "{} opened, {} open at the start, {} at the end, {} lost, {} given up",
                connections.opened,
                connections.open_at_start,
                connections.open_at_end,
                connections.lost,
                connections.given_up,
            ),
        );
        line("bytes", format!("{} out, {} in", grouped(totals.bytes_out), grouped(totals.bytes_in)));
        for share in &self.loops {
            line(
                &format!("loop {}", share.id),
                format!(
                    "{} answers, {} connections, {} of a core{}",
                    grouped(share.requests),
                    share.connections,
                    known(share.busy, |busy| format!("{:.0} %", busy * 100.0)),
                    share.core.map_or_else(String::new, |core| format!(", on core {core}")),
                ),
            );
        }
        if self.generator.limited_by.is_some() {
            line("limit", "the generator was busy all the time: the server can perhaps do more".to_owned());
        }
        formatter.write_str(&columns.render())
    }
}

impl Outcome {
    /// The figures in one line under headings; the depth stands beside them, since plain and pipelined figures must
    /// never be taken for one another.
    fn result_line(&self) -> String {
        let headings =
            ["depth", "requests/s", "p50", "p90", "p99", "p99.9", "max", "client CPU us/request", "errors"];
        let mut columns = Columns::new(0, &headings);
        let latency = |field: fn(&LatencySummary) -> f64| known(self.latency.send.as_ref().map(field), time);
        columns.row(vec![
            self.plan.depth.to_string(),
            grouped(self.rate.achieved.round() as u64),
            latency(|send| send.p50),
            latency(|send| send.p90),
            latency(|send| send.p99),
            latency(|send| send.p99_9),
            latency(|send| send.max),
            known(self.generator.cpu_us_per_request, digits),
            grouped(self.totals.errors.total()),
        ]);
        columns.render()
    }
}
