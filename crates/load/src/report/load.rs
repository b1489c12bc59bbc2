//! The page of a load run.

use crate::outcome::Outcome;
use crate::report::chart::{self, Bar, Group};
use crate::report::page::{Chart, Page};
use crate::report::palette::{SERVER, Style, USUAL};
use crate::require::Threshold;
use crate::text::{counted, digits, grouped, known, time, whole};

/// A page with the percentile curve and the share of each loop.
pub fn outcome(outcome: &Outcome) -> String {
    let plan = &outcome.plan;
    let mut page = Page::new(&format!("anywire load: {} {}", plan.method, outcome.target.url));
    for remark in outcome.remarks() {
        page.warning(&remark);
    }
    if outcome.generator.limited_by.is_some() {
        page.warning("The generator was busy all the time: the server can perhaps do more.");
    }
    page.paragraph(&format!(
        "Closed: stalls hide requests. {}, {} {}, over {} ({}); {} s measured after {} s of warm-up.",
        counted(plan.connections as u64, "connection"),
        outcome.depth_name(),
        plan.depth,
        outcome.target.address,
        outcome.target.protocol,
        digits(outcome.rate.seconds),
        plan.warm_up_seconds,
    ));
    page.paragraph(&format!("{}.", outcome.host.line()));
    let mut charts = Vec::new();
    if let Some(latency) = &outcome.latency.send {
        let line = Style::solid(USUAL);
        charts.push(Chart {
            title: "Latency by percentile".to_owned(),
            legend: vec![(line.into(), "from send to the whole answer".to_owned())],
            svg: chart::curve("Latency by percentile", &[(latency, line)]),
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
            bars: vec![Bar { value: share.requests as f64, label: grouped(share.requests), colour: SERVER }],
        })
        .collect();
    charts.push(Chart {
        title: "Answers by loop".to_owned(),
        legend: vec![(SERVER.into(), "answers".to_owned())],
        svg: chart::bars("Answers by loop", &groups),
    });
    page.charts(charts);
    if !outcome.thresholds.is_empty() {
        let rows: Vec<_> = outcome.thresholds.iter().map(Threshold::cells).collect();
        page.table("Thresholds", &["asked", "verdict", "why"], &rows);
    }
    figures(&mut page, outcome);
    let warm_up = &outcome.totals.warm_up;
    let mut counts = outcome.counts();
    counts.push(vec!["warm-up".to_owned(), warm_up.line()]);
    counts.push(vec!["errors in the warm-up".to_owned(), warm_up.errors.line()]);
    page.table("Counts", &["what", "how many"], &counts);
    page.finish(&outcome.to_json())
}

fn figures(page: &mut Page, outcome: &Outcome) {
    let mut row = vec![outcome.plan.depth.to_string(), known(outcome.rate.achieved, whole)];
    match &outcome.latency.send {
        Some(latency) => {
            let percentiles = [latency.min, latency.mean, latency.p50, latency.p90, latency.p99];
            row.extend(percentiles.into_iter().chain([latency.p99_9, latency.p99_99, latency.max]).map(time));
        }
        None => row.extend(std::iter::repeat_n("unknown".to_owned(), 8)),
    }
    row.push(known(outcome.generator.cpu_us_per_request, digits));
    let headings = [
        outcome.depth_name(),
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
