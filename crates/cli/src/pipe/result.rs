//! The result of a run, as a table and as JSON.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use anywire::load::text::{Columns, counted, digits, grouped, time, whole};
use anywire::wire::DialError;
use serde::Serialize;

use super::connection::Counts;
use super::run::Plan;
use crate::explain;
use crate::failure::{Code, Failure};

/// What has come of all requests.
#[derive(Debug, Serialize)]
pub(super) struct PipeResult {
    schema: &'static str,
    url: String,
    address: String,
    /// Connections side by side.
    connections: usize,
    /// Those that were opened, with those that took another's place.
    opened: u64,
    /// Requests of the plan.
    requests: u64,
    /// Those of which each byte was sent.
    sent: u64,
    /// Those with an answer, which was matched in order.
    matched: u64,
    /// Those without.
    missing: u64,
    seconds: f64,
    matched_per_second: f64,
    /// Whether it was ended early.
    interrupted: bool,
    bytes_out: u64,
    bytes_in: u64,
    /// Writes and reads that the wire took and gave something in.
    writes: u64,
    reads: u64,
    statuses: BTreeMap<u16, u64>,
    /// What went wrong, and on how many connections.
    faults: BTreeMap<String, u64>,
}

impl PipeResult {
    pub(super) fn of(plan: &Plan, all: &[Counts], took: Duration, interrupted: bool) -> Self {
        let sum = |count: fn(&Counts) -> u64| all.iter().map(count).sum::<u64>();
        let (mut statuses, mut faults) = (BTreeMap::new(), BTreeMap::new());
        for counts in all {
            counts.statuses.iter().for_each(|(status, count)| *statuses.entry(*status).or_default() += count);
            counts
                .faults
                .iter()
                .for_each(|(fault, count)| *faults.entry(fault.clone()).or_default() += count);
        }
        let requests = plan.per_connection.saturating_mul(plan.connections as u64);
        let matched = sum(|counts| counts.answered);
        let seconds = took.as_secs_f64();
        Self {
            schema: "anywire.pipe/1",
            url: plan.url.clone(),
            address: plan.address.to_string(),
            connections: plan.connections,
            opened: sum(|counts| counts.opened),
            requests,
            sent: sum(|counts| counts.sent),
            matched,
            missing: requests - matched,
            seconds,
            matched_per_second: matched as f64 / seconds.max(f64::MIN_POSITIVE),
            interrupted,
            bytes_out: sum(|counts| counts.bytes_out),
            bytes_in: sum(|counts| counts.bytes_in),
            writes: sum(|counts| counts.writes),
            reads: sum(|counts| counts.reads),
            statuses,
            faults,
        }
    }

    /// A missing answer is a failure. The result has been printed.
    pub(super) fn judge(&self, dial: Option<&DialError>) -> Result<(), Failure> {
        if self.missing == 0 && self.faults.is_empty() {
            return Ok(());
        }
        if self.opened == 0
            && let Some(error) = dial
        {
            return Err(explain::dial(error));
        }
        let most = self.faults.iter().max_by_key(|(_, count)| **count).map(|(fault, _)| fault.as_str());
        let fault = most.unwrap_or("the run ended early");
        let Self { url, missing, requests, .. } = self;
        if *missing == 0 {
            let failure = Failure::new(Code::Answer, format_args!("piping {url}: {fault}"));
            return Err(failure.help("the server is at fault: it must answer each request once"));
        }
        let answers = format!("{} of {} answers are missing", grouped(*missing), grouped(*requests));
        Err(Failure::new(Code::Partial, format_args!("piping {url}: {answers}: {fault}")).help(HELP))
    }
}

impl fmt::Display for PipeResult {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut columns = Columns::new(2, &[]);
        let mut row = |name: &str, text: String| columns.row(vec![name.to_owned(), text]);
        let missing = match self.missing {
            0 => String::new(),
            missing => format!(", {} missing", grouped(missing)),
        };
        let [requests, sent, matched] = [self.requests, self.sent, self.matched].map(grouped);
        row("requests", format!("{sent} of {requests} sent, {matched} answered in order{missing}"));
        let statuses: Vec<String> =
            self.statuses.iter().map(|(status, count)| format!("{} x {status}", grouped(*count))).collect();
        row("statuses", if statuses.is_empty() { "none".to_owned() } else { statuses.join(", ") });
        let rate = whole(self.matched_per_second);
        row("time", format!("{}, {rate} answers/s", time(self.seconds * 1e6)));
        row("connections", format!("{} side by side, {} opened", self.connections, grouped(self.opened)));
        row("bytes", format!("{} out, {} in", grouped(self.bytes_out), grouped(self.bytes_in)));
        let per = |count: u64| digits(self.matched as f64 / count.max(1) as f64);
        let (writes, reads) = (counted(self.writes, "write"), counted(self.reads, "read"));
        row(
            "calls",
            format!("{writes}, {reads} ({} answers a write, {} a read)", per(self.writes), per(self.reads)),
        );
        for (fault, count) in &self.faults {
            row("fault", format!("{fault} ({})", counted(*count, "connection")));
        }
        writeln!(formatter, "{} over {} (http/1.1)", self.url, self.address)?;
        formatter.write_str(&columns.render())
    }
}

const HELP: &str = "see the server's log; if it closes a connection after some requests, --reconnect takes a new one before that";
