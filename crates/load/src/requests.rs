//! What became of each request of a script, and of the events in streamed bodies, as parts of an outcome.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::engine::{EventTimes, LoopResult, RequestShare};
use crate::histogram::LatencySummary;
use crate::outcome::Outcome;
use crate::script::{Compiled, CookieFigures};
use crate::text::{Columns, grouped, known, time};

/// What became of one request of a script, in the measured part.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RequestFigures {
    /// Its name: of the script, or its method and target.
    pub name: String,
    /// Those whose whole response came.
    pub answered: u64,
    /// Answers that were not as expected: errors of the kinds `status` and `check`.
    pub bad: u64,
    /// Answers by status.
    pub statuses: BTreeMap<u16, u64>,
    /// From the write of a request to the read of its whole response; `null` without a response, and if the script has more
    /// requests than [`ScriptLimits::requests_with_latency`](crate::script::ScriptLimits::requests_with_latency).
    pub latency: Option<LatencySummary>,
}

/// Events in streamed bodies, in the measured part.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EventFigures {
    /// How many came.
    pub count: u64,
    /// Answers of which at least one came.
    pub streams: u64,
    /// From the send of a request to its first event; `null` without an event.
    pub first: Option<LatencySummary>,
    /// Between two events of an answer; `null` without two. Those that came in one read have no time between them.
    pub gap: Option<LatencySummary>,
}

/// The figures of each request; empty for a script of one, of which the totals say all.
pub(crate) fn by_request(script: Option<&Compiled>, results: &[LoopResult]) -> Vec<RequestFigures> {
    let Some(script) = script else { return Vec::new() };
    let mut shares: Vec<RequestShare> = Vec::new();
    for one in results {
        match shares.is_empty() {
            true => shares.clone_from(&one.requests),
            false => shares.iter_mut().zip(&one.requests).for_each(|(share, other)| share.merge(other)),
        }
    }
    let figures = script.requests.iter().zip(shares).map(|(request, share)| RequestFigures {
        name: request.name.clone(),
        answered: share.answered,
        bad: share.bad,
        statuses: share.statuses,
        latency: share.latency.and_then(|latency| latency.summary()),
    });
    figures.collect()
}

/// The figures of events, if they were timed.
pub(crate) fn events(results: &[LoopResult]) -> Option<EventFigures> {
    let all = results.iter().filter_map(|one| one.events.clone()).reduce(|mut all, other| {
        all.merge(&other);
        all
    });
    let EventTimes { count, streams, first, gap } = all?;
    Some(EventFigures { count, streams, first: first.summary(), gap: gap.summary() })
}

/// What became of the cookies of all loops or machines, if any kept them.
pub(crate) fn cookies(parts: impl Iterator<Item = CookieFigures>) -> Option<CookieFigures> {
    parts.reduce(|mut all, part| {
        all.merge(&part);
        all
    })
}

impl Outcome {
    /// The requests of the script under headings, the most answered first; empty without any. For the table and for the page.
    pub(crate) fn request_rows(&self) -> Vec<Vec<String>> {
        let mut requests: Vec<&RequestFigures> = self.requests.iter().collect();
        requests.sort_by_key(|request| std::cmp::Reverse(request.answered));
        let rows = requests.into_iter().map(|RequestFigures { name, answered, bad, statuses, latency }| {
            let at = |field: fn(&LatencySummary) -> f64| known(latency.as_ref().map(field), time);
            let statuses: Vec<String> =
                statuses.iter().map(|(status, count)| format!("{} x {status}", grouped(*count))).collect();
            vec![
                shortened(name),
                grouped(*answered),
                grouped(*bad),
                at(|latency| latency.p50),
                at(|latency| latency.p99),
                at(|latency| latency.max),
                statuses.join(", "),
            ]
        });
        rows.collect()
    }

    /// The requests of the script as a table of their own, after an empty line; nothing without any.
    pub(crate) fn request_table(&self) -> String {
        let rows = self.request_rows();
        if rows.is_empty() {
            return String::new();
        }
        let mut columns = Columns::new(1, &REQUEST_HEADINGS);
        let more = rows.len().saturating_sub(ROWS_MAX);
        rows.into_iter().take(ROWS_MAX).for_each(|row| columns.row(row));
        let more = if more > 0 {
            format!("and {more} more requests, which are in the JSON\n")
        } else {
            String::new()
        };
        format!("\n{}{more}", columns.render())
    }

    /// The events as rows of a name and a text; nothing if they were not timed.
    pub(crate) fn event_rows(&self) -> Vec<Vec<String>> {
        let Some(EventFigures { count, streams, first, gap }) = &self.events else { return Vec::new() };
        let shown = |latency: &Option<LatencySummary>| {
            latency.as_ref().map_or_else(
                || "-".to_owned(),
                |latency| {
                    format!("p50 {}, p99 {}, max {}", time(latency.p50), time(latency.p99), time(latency.max))
                },
            )
        };
        let row = |name: &str, text: String| vec![name.to_owned(), text];
        vec![
            row("events", format!("{} in {} answers", grouped(*count), grouped(*streams))),
            row("first event", shown(first)),
            row("gap", shown(gap)),
        ]
    }
}

impl Outcome {
    /// The cookies as a row of a name and a text; nothing if none were kept.
    pub(crate) fn cookie_rows(&self) -> Option<Vec<String>> {
        let CookieFigures { kept, ended, refused, over_limit } = self.cookies?;
        let parts = [
            (kept, "kept"),
            (ended, "removed by the server"),
            (refused, "refused"),
            (over_limit, "over the limit"),
        ];
        let parts = parts.iter().filter(|(count, what)| *count > 0 || *what == "kept");
        let text: Vec<String> = parts.map(|(count, what)| format!("{} {what}", grouped(*count))).collect();
        Some(vec!["cookies".to_owned(), text.join(", ")])
    }
}

/// So much of a name as fits into a column.
fn shortened(name: &str) -> String {
    match name.char_indices().nth(NAME_MAX) {
        Some((end, _)) => format!("{}...", &name[..end]),
        None => name.to_owned(),
    }
}

/// Above the columns of [`Outcome::request_rows`].
pub(crate) const REQUEST_HEADINGS: [&str; 7] = ["request", "answers", "bad", "p50", "p99", "max", "statuses"];
const NAME_MAX: usize = 48;
const ROWS_MAX: usize = 30;
