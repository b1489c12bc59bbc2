//! The outcome of a run as text for a terminal.

use std::fmt;

use crate::figures::{COLUMNS, Quantity, STATISTICS};
use crate::histogram::LatencySummary;
use crate::outcome::{Connections, Outcome, Requests, TargetFacts, Totals};
use crate::protocol::Protocol;
use crate::rounds::Figures;
use crate::text::{Columns, counted, digits, grouped, known, time, whole};

impl fmt::Display for Outcome {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (plan, totals) = (&self.plan, &self.totals);
        let TargetFacts { url, address, protocol, .. } = &self.target;
        writeln!(formatter, "{} {url} over {address} ({protocol})", plan.method)?;
        let early = self.rate.interrupted || self.rate.given_up;
        let amount = match (plan.duration_seconds, plan.requests) {
            (Some(seconds), _) if early => format!("{} of {seconds} s", digits(self.rate.seconds)),
            (Some(seconds), _) => format!("{seconds} s"),
            (None, requests) if early => {
                format!(
                    "{} of {} requests",
                    grouped(totals.measured.sent),
                    grouped(requests.unwrap_or_default())
                )
            }
            (None, requests) => format!("{} requests", grouped(requests.unwrap_or_default())),
        };
        writeln!(
            formatter,
            "{}; {} on {}, {amount} after {} s of warm-up ({} answers)",
            self.mode_line(),
            counted(plan.connections as u64, "connection"),
            counted(self.loops.len() as u64, "loop"),
            plan.warm_up_seconds,
            grouped(totals.warm_up.answered),
        )?;
        for remark in self.remarks() {
            writeln!(formatter, "{remark}")?;
        }
        writeln!(formatter)?;
        if let Some(search) = &self.search {
            writeln!(formatter, "{}", search.found())?;
            search.why().map_or(Ok(()), |why| writeln!(formatter, "{why}"))?;
            writeln!(formatter, "\n{}", search.table())?;
        }
        formatter.write_str(&self.result_line())?;
        if !self.steps.is_empty() {
            writeln!(formatter)?;
            formatter.write_str(&self.steps_table())?;
        }
        writeln!(formatter)?;
        formatter.write_str(&self.latency_lines())?;
        writeln!(formatter)?;
        let mut columns = Columns::new(2, &[]);
        self.counts().into_iter().for_each(|row| columns.row(row));
        if let Some(limit) = self.limit() {
            columns.row(["limit", limit].map(str::to_owned).to_vec());
        }
        self.event_rows().into_iter().chain(self.cookie_rows()).for_each(|row| columns.row(row));
        formatter.write_str(&columns.render())?;
        formatter.write_str(&self.request_table())?;
        if self.thresholds.is_empty() {
            return Ok(());
        }
        writeln!(formatter)?;
        let mut columns = Columns::new(3, &[]);
        self.thresholds.iter().for_each(|threshold| columns.row(threshold.cells()));
        formatter.write_str(&columns.render())
    }
}

impl Outcome {
    /// The counts as rows of a name and a text, for the table and for the page.
    pub(crate) fn counts(&self) -> Vec<Vec<String>> {
        let Totals { measured, unsent, bytes_out, bytes_in, connections, addresses, statuses, .. } =
            &self.totals;
        let mut rows = Vec::new();
        let mut row = |name: &str, text: String| rows.push(vec![name.to_owned(), text]);
        let unsent =
            unsent.filter(|unsent| *unsent > 0).map(|unsent| format!(", and {} never sent", grouped(unsent)));
        row("requests", format!("{}{}", measured.line(), unsent.unwrap_or_default()));
        let statuses: Vec<String> =
            statuses.iter().map(|(status, count)| format!("{} x {status}", grouped(*count))).collect();
        row("statuses", if statuses.is_empty() { "none".to_owned() } else { statuses.join(", ") });
        row("errors", measured.errors.line());
        for sample in &measured.error_samples {
            row("", format!("first {sample}"));
        }
        let Connections { opened, open_at_start, open_at_end, lost, finished, given_up, never_open, .. } =
            connections;
        let never_open = if *never_open > 0 { format!(", {never_open} never open") } else { String::new() };
        row(
            "connections",
            format!(
                "{opened} opened, {open_at_start} open at the start, {open_at_end} at the end, {finished} finished, \
                 {lost} lost, {given_up} given up{never_open}"
            ),
        );
        // One address says nothing that the target does not.
        if addresses.len() > 1 {
            let shares: Vec<_> = addresses
                .iter()
                .map(|(address, count)| format!("{} to {address}", grouped(*count)))
                .collect();
            row("addresses", shares.join(", "));
        }
        if let Some(rates) = Figures::spreads(&self.rounds).requests_per_second {
            let (count, [least, most]) = (self.rounds.len(), [rates.min, rates.max].map(whole));
            let text = format!(
                "{count} rounds, {least} to {most} requests/s; the figures are of the one in the middle"
            );
            row("rounds", text);
        }
        row("bytes", format!("{} out, {} in", grouped(*bytes_out), grouped(*bytes_in)));
        if let Some(segments) = self.wire.segments_per_response {
            let expected = known(self.wire.expected_segments_per_response, digits);
            let again = known(self.wire.retransmits.map(|count| count as f64), whole);
            let trip = known(self.wire.round_trip_us, time);
            row(
                "wire",
                format!(
                    "{} data segments a response ({expected} expected), {again} sent again, round trip {trip}",
                    digits(segments),
                ),
            );
        }
        if let Some(calls) = &self.generator.syscalls_by_name {
            let each: Vec<_> =
                calls.iter().map(|(name, count)| format!("{} {name}", digits(*count))).collect();
            row("system calls", format!("{} a response", each.join(", ")));
        }
        for share in &self.agents {
            row(&format!("agent {}", share.agent.index), share.line());
        }
        rows.extend(self.pacing_rows());
        let mut row = |name: &str, text: String| rows.push(vec![name.to_owned(), text]);
        for share in &self.loops {
            row(
                &format!("loop {}", share.id),
                format!(
                    "{} answers, {}, {} of a core{}",
                    grouped(share.requests),
                    counted(share.connections, "connection"),
                    known(share.busy, |busy| format!("{:.0} %", busy * 100.0)),
                    share.core.map_or_else(String::new, |core| format!(", on core {core}")),
                ),
            );
        }
        rows
    }

    /// When requests left, and from when latencies count.
    fn mode_line(&self) -> String {
        match &self.plan.schedule {
            None => "closed: stalls hide requests".to_owned(),
            Some(schedule) => format!("open: {schedule}, latencies from when a request should have left"),
        }
    }

    /// What limited the run, if it was not the server.
    pub(crate) fn limit(&self) -> Option<&'static str> {
        Some(match self.generator.limited_by.as_deref()? {
            "connections" => {
                "all connections were busy: the server is slower than the rate, or they are too few"
            }
            _ => "the generator was busy all the time: the server can perhaps do more",
        })
    }

    /// How the schedule was kept, in rows as those of [`Self::counts`].
    fn pacing_rows(&self) -> Vec<Vec<String>> {
        let generator = &self.generator;
        let mut rows = Vec::new();
        let mut row = |name: &str, text: String| rows.push(vec![name.to_owned(), text]);
        if let (Some(ratio), Some(intended)) = (self.rate.rate_ratio, self.rate.intended) {
            row("schedule", format!("{} due, {:.2} % left in time", grouped(intended), ratio * 100.0));
        }
        if let Some(lag) = &generator.lag {
            let [p50, p99, max] = [lag.p50, lag.p99, lag.max].map(time);
            row("own lag", format!("p50 {p50}, p99 {p99}, max {max} (of requests that had a connection)"));
        }
        if let Some(pacing) = &generator.pacing {
            let [spin, spun] = [pacing.spin_us, pacing.spun_us].map(time);
            row(
                "pacing",
                format!("{}, and a spin for the last {spin}, which took {spun} of CPU", pacing.timer),
            );
        }
        rows
    }

    /// The parts of a rate that changes, each with its own latencies.
    fn steps_table(&self) -> String {
        let headings = [
            "from",
            "to",
            "requests/s",
            "due",
            "sent",
            "answered",
            "p50",
            "p90",
            "p99",
            "p99.9",
            "max",
            "lag p99",
        ];
        let mut columns = Columns::new(0, &headings);
        for step in &self.steps {
            let intended = step.latency.intended.as_ref();
            let latency = |field: fn(&LatencySummary) -> f64| known(intended.map(field), time);
            columns.row(vec![
                time(step.begin_seconds * 1e6),
                time(step.end_seconds * 1e6),
                digits(step.target),
                grouped(step.intended),
                grouped(step.sent),
                grouped(step.answered),
                latency(|all| all.p50),
                latency(|all| all.p90),
                latency(|all| all.p99),
                latency(|all| all.p99_9),
                latency(|all| all.max),
                known(step.latency.lag.as_ref().map(|lag| lag.p99), time),
            ]);
        }
        columns.render()
    }

    /// What the depth counts.
    pub(crate) fn depth_name(&self) -> &'static str {
        let is_http2 = self.target.protocol == Protocol::Http2.to_string();
        if is_http2 { Protocol::Http2.depth_name() } else { Protocol::Http1.depth_name() }
    }

    /// The figures in one line under headings; the depth stands beside them, since plain and pipelined figures must
    /// never be taken for one another.
    fn result_line(&self) -> String {
        let cpu = "client CPU us/request";
        let headings = [self.depth_name(), "requests/s", "p50", "p90", "p99", "p99.9", "max", cpu, "errors"];
        let mut columns = Columns::new(0, &headings);
        let trusted = (Quantity::column(self).value)(self).filter(|_| self.steps.is_empty());
        let latency = |field: fn(&LatencySummary) -> f64| known(trusted.map(field), time);
        columns.row(vec![
            self.plan.depth.to_string(),
            known(self.rate.achieved, whole),
            latency(|send| send.p50),
            latency(|send| send.p90),
            latency(|send| send.p99),
            latency(|send| send.p99_9),
            latency(|send| send.max),
            known(self.generator.cpu_us_per_request, digits),
            grouped(self.totals.measured.errors.total()),
        ]);
        columns.render()
    }

    /// A line for each set of latencies that was recorded: which one a percentile comes from is said beside it.
    fn latency_lines(&self) -> String {
        let mut headings = vec!["latency"];
        let shown = ["p50", "p90", "p99", "p99.9", "max"];
        headings.extend(shown);
        let mut columns = Columns::new(1, &headings);
        for column in COLUMNS {
            let Some(summary) = (column.value)(self) else { continue };
            let statistics = STATISTICS.iter().filter(|one| shown.contains(&one.name));
            let figures = statistics.map(|one| time((one.value)(summary)));
            columns.row(std::iter::once(column.heading.to_owned()).chain(figures).collect());
        }
        columns.render()
    }
}

impl Requests {
    /// What became of them, in a line.
    pub(crate) fn line(&self) -> String {
        let Self { sent, answered, timed_out, reset, unanswered_at_close, unanswered_at_end, .. } = *self;
        let unless_none = |count: u64, what: &str| match count {
            0 => String::new(),
            count => format!("{} {what}, ", grouped(count)),
        };
        // No more can have been sent again than was sent: the rest found no connection that took them.
        let again = if self.sent_again <= sent { "sent again" } else { "taken back to be sent again" };
        let (again, reset) = (unless_none(self.sent_again, again), unless_none(reset, "reset"));
        let shed = unless_none(self.shed, "shed");
        let [sent, answered, timed_out, lost, left] =
            [sent, answered, timed_out, unanswered_at_close, unanswered_at_end].map(grouped);
        let oldest =
            self.oldest_unanswered_us.map(|us| format!(" (oldest {})", time(us))).unwrap_or_default();
        format!(
            "{sent} sent, {shed}{again}{answered} answered, {timed_out} timed out, {reset}{lost} lost at a close, {left} on their way at \
             the end{oldest}"
        )
    }
}
