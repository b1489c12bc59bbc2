//! The page of a load run.

use crate::outcome::Outcome;
use crate::report::chart::{self, ChartError, Group};
use crate::report::page::{Chart, Page};
use crate::report::palette::{SERVER, USUAL};
use crate::text::{digits, grouped, known, time};

/// A page with the percentile curve and the share of each loop.
///
/// # Errors
///
/// A chart could not be drawn.
pub fn outcome(outcome: &Outcome) -> Result<String, ChartError> {
    let plan = &outcome.plan;
    let mut page = Page::new(&format!("anywire load: {} {}", plan.method, outcome.target.url));
    for remark in outcome.remarks() {
        page.warning(&remark);
    }
    if outcome.generator.limited_by.is_some() {
        page.warning("The generator was busy all the time: the server can perhaps do more.");
    }
    page.paragraph(&format!(
        "Closed: stalls hide requests. {} connections, depth {}, over {}; {} s measured after {} s of warm-up.",
        plan.connections,
        plan.depth,
        outcome.target.address,
        digits(outcome.rate.seconds),
        plan.warm_up_seconds,
    ));
    page.paragraph(&format!("{}.", outcome.host.line()));
    let mut charts = Vec::new();
    if let Some(latency) = &outcome.latency.send {
        charts.push(Chart {
            title: "Latency by percentile",
            legend: vec![(USUAL, "from send to the whole answer")],
            svg: chart::curve("Latency by percentile", &latency.curve, latency.count, USUAL)?,
        });
    }
    let groups: Vec<Group> = outcome
        .loops
        .iter()
        .map(|share| Group {
            name: share.core.map_or_else(
                || format!("loop {}", share.id),
                |core| format!("loop {} on core {core}", share.id),
            ),
            bars: vec![(share.requests as f64, grouped(share.requests), SERVER)],
        })
        .collect();
    charts.push(Chart {
        title: "Answers by loop",
        legend: vec![(SERVER, "answers")],
        svg: chart::bars("Answers by loop", &groups)?,
    });
    page.charts(charts);
    figures(&mut page, outcome);
    counts(&mut page, outcome);
    let samples = &outcome.totals.error_samples;
    page.list(&samples.iter().map(|one| format!("first {}: {}", one.kind, one.message)).collect::<Vec<_>>());
    Ok(page.finish(&outcome.to_json()))
}

fn figures(page: &mut Page, outcome: &Outcome) {
    let mut row = vec![outcome.plan.depth.to_string(), grouped(outcome.rate.achieved.round() as u64)];
    match &outcome.latency.send {
        Some(latency) => {
            let percentiles = [latency.min, latency.mean, latency.p50, latency.p90, latency.p99];
            row.extend(percentiles.into_iter().chain([latency.p99_9, latency.p99_99, latency.max]).map(time));
        }
        None => row.extend(std::iter::repeat_n("unknown".to_owned(), 8)),
    }
    row.push(known(outcome.generator.cpu_us_per_request, digits));
    let headings = [
        "depth",
        "requests/s",
        "min",
        "mean",
        "p50",
        "p90",
        "p99",
        "p99.9",
        "p99.99",
        "max",
        "client CPU us/request",
    ];
    page.table("Result", &headings, &[row]);
}

fn counts(page: &mut Page, outcome: &Outcome) {
    let totals = &outcome.totals;
    let connections = &totals.connections;
    let mut rows: Vec<Vec<String>> = [
        ("sent", totals.sent),
        ("answered", totals.answered),
        ("timed out", totals.timed_out),
        ("unanswered at a close", totals.unanswered_at_close),
        ("on their way at the end", totals.unanswered_at_end),
        ("bytes out", totals.bytes_out),
        ("bytes in", totals.bytes_in),
        ("connections opened", connections.opened),
        ("connections open at the start", connections.open_at_start),
        ("connections open at the end", connections.open_at_end),
        ("connections lost", connections.lost),
        ("connections given up", connections.given_up),
    ]
    .into_iter()
    .map(|(name, count)| vec![name.to_owned(), grouped(count)])
    .collect();
    rows.extend(
        totals.statuses.iter().map(|(status, count)| vec![format!("status {status}"), grouped(*count)]),
    );
    if let Some(unsent) = totals.unsent {
        rows.push(vec!["never sent".to_owned(), grouped(unsent)]);
    }
    rows.push(vec!["errors".to_owned(), totals.errors.line()]);
    let warm_up = &totals.warm_up;
    rows.extend(
        [
            ("sent in the warm-up", warm_up.sent),
            ("answered in the warm-up", warm_up.answered),
            ("timed out in the warm-up", warm_up.timed_out),
            ("warm-up, unanswered at a close", warm_up.unanswered_at_close),
            ("warm-up, on their way at the end", warm_up.unanswered_at_end),
        ]
        .into_iter()
        .map(|(name, count)| vec![name.to_owned(), grouped(count)]),
    );
    rows.push(vec!["errors in the warm-up".to_owned(), warm_up.errors.line()]);
    page.table("Counts", &["what", "how many"], &rows);
}
