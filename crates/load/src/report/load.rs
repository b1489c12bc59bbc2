//! The page of a load run: what must be known first, charts, tables, how to repeat it.

use crate::figures::{COLUMNS, FIGURES, STATISTICS};
use crate::outcome::Outcome;
use crate::report::load_charts;
use crate::report::page::Page;
use crate::requests::REQUEST_HEADINGS;
use crate::require::{Threshold, Verdict};
use crate::search::{End, TRIAL_HEADINGS, Trial};
use crate::text::{capitalised, counted, digits, known, time};

/// A page with the verdicts, charts of the latencies, rates and loops, all figures, and the command that made it.
pub fn outcome(outcome: &Outcome) -> String {
    let mut page = Page::new(&format!("anywire load: {} {}", outcome.plan.method, outcome.target.url));
    limit(&mut page, outcome);
    verdicts(&mut page, outcome);
    about(&mut page, outcome);
    page.charts(load_charts::all(outcome));
    result(&mut page, outcome);
    latencies(&mut page, outcome);
    per_response(&mut page, outcome);
    requests(&mut page, outcome);
    counts(&mut page, outcome);
    if let Some(command) = &outcome.command {
        page.code("To repeat it", command);
    }
    page.finish(&outcome.to_json())
}

/// What a reader must know before any figure, and whether the run kept to what was required.
fn verdicts(page: &mut Page, outcome: &Outcome) {
    for remark in outcome.remarks() {
        page.warning(&remark);
    }
    if let Some(limit) = outcome.limit() {
        page.warning(&format!("{}.", capitalised(limit)));
    }
    if outcome.thresholds.is_empty() {
        return;
    }
    let broken = outcome.thresholds.iter().filter(|one| one.verdict == Verdict::Broken).count() as u64;
    let judged = outcome.thresholds.iter().any(|one| one.verdict != Verdict::NotJudged);
    match broken {
        0 if judged => page.good("All thresholds held."),
        0 => page.warning("No threshold was judged."),
        broken => page.warning(&format!("{} broke.", counted(broken, "threshold"))),
    }
    let rows: Vec<_> = outcome.thresholds.iter().map(Threshold::cells).collect();
    page.table("Thresholds", &["asked", "verdict", "why"], &rows);
}

/// What a search has found, and its runs.
fn limit(page: &mut Page, outcome: &Outcome) {
    let Some(search) = &outcome.search else { return };
    match search.confirmed {
        true => page.good(&sentence(&search.found())),
        false => page.warning(&sentence(&search.found())),
    }
    match search.why() {
        Some(why) if search.end == End::Found => page.paragraph(&sentence(&why)),
        Some(why) => page.warning(&sentence(&why)),
        None => {}
    }
    page.charts(load_charts::by_rate(search).into_iter().collect());
    let rows: Vec<_> = search.trials.iter().map(Trial::cells).collect();
    page.table("Runs of the search", &TRIAL_HEADINGS, &rows);
}

/// What the text says in lines, as a sentence of a page.
fn sentence(line: &str) -> String {
    let mut letters = line.chars();
    let first = letters.next().map(|letter| letter.to_uppercase().to_string()).unwrap_or_default();
    format!("{first}{}.", letters.as_str())
}

/// What was loaded, how, and where.
fn about(page: &mut Page, outcome: &Outcome) {
    let plan = &outcome.plan;
    page.paragraph(&format!(
        "{} {}, {} {}, over {} ({}); {} s measured after {} s of warm-up.",
        mode(&plan.mode),
        counted(plan.connections as u64, "connection"),
        outcome.depth_name(),
        plan.depth,
        outcome.target.address,
        outcome.target.protocol,
        digits(outcome.rate.seconds),
        plan.warm_up_seconds,
    ));
    let governor =
        outcome.host.governor.as_ref().map_or_else(String::new, |name| format!(", governor {name}"));
    page.paragraph(&format!(
        "{}{governor}; {} {} with {}.",
        outcome.host.line(),
        outcome.tool.name,
        outcome.tool.version,
        counted(outcome.host.loops as u64, "loop"),
    ));
}

fn mode(mode: &str) -> String {
    match mode {
        "closed" => "Closed: stalls hide requests.".to_owned(),
        other => format!("Mode {other}."),
    }
}

/// The figures in one row; the depth stands beside them, since plain and pipelined ones must never be taken for one another.
fn result(page: &mut Page, outcome: &Outcome) {
    let mut headings = vec![outcome.depth_name()];
    let mut row = vec![outcome.plan.depth.to_string()];
    for path in ["rate.achieved", "totals.errors", "generator.cpu_us_per_request", "balance"] {
        let Some(figure) = FIGURES.iter().find(|figure| figure.path == path) else { continue };
        headings.push(figure.heading);
        row.push(
            (figure.value)(outcome).map_or_else(|| "unknown".to_owned(), |value| figure.unit.write(value)),
        );
    }
    page.table("Result", &headings, &[row]);
}

/// A row for each set of latencies, and for each class of statuses.
fn latencies(page: &mut Page, outcome: &Outcome) {
    let mut headings = vec!["from"];
    headings.extend(STATISTICS.iter().map(|statistic| statistic.name));
    headings.push("count");
    let mut rows = Vec::new();
    for column in COLUMNS {
        let Some(summary) = (column.value)(outcome) else { continue };
        let mut row = vec![format!("{}\n{}", column.heading, column.meaning)];
        row.extend(STATISTICS.iter().map(|statistic| time((statistic.value)(summary))));
        row.push(crate::text::grouped(summary.count));
        rows.push(row);
    }
    if rows.is_empty() {
        return page.paragraph("Latencies are unknown: no request was answered.");
    }
    page.table("Latencies", &headings, &rows);
}

/// What a response took here and on the wire.
fn per_response(page: &mut Page, outcome: &Outcome) {
    let rows: Vec<Vec<String>> = FIGURES
        .iter()
        .filter(|figure| figure.is_per_response())
        .map(|figure| {
            let value = known((figure.value)(outcome), |value| figure.unit.write(value));
            let value = if value == "-" { format!("unknown: {}", figure.unknown) } else { value };
            vec![format!("{}\n{}", figure.heading, figure.meaning), value]
        })
        .collect();
    page.table("Per response", &["what", "how much"], &rows);
}

/// What became of each request of a script.
fn requests(page: &mut Page, outcome: &Outcome) {
    let mut rows = outcome.request_rows();
    if rows.is_empty() {
        return;
    }
    let more = rows.len().saturating_sub(REQUESTS_MAX);
    rows.truncate(REQUESTS_MAX);
    page.table("Requests", &REQUEST_HEADINGS, &rows);
    if more > 0 {
        page.paragraph(&format!("And {}, which are in the JSON.", counted(more as u64, "more request")));
    }
}

fn counts(page: &mut Page, outcome: &Outcome) {
    let warm_up = &outcome.totals.warm_up;
    let mut counts = outcome.counts();
    counts.push(vec!["warm-up".to_owned(), warm_up.line()]);
    counts.push(vec!["errors in the warm-up".to_owned(), warm_up.errors.line()]);
    counts.extend(outcome.event_rows());
    counts.extend(outcome.cookie_rows());
    page.table("Counts", &["what", "how many"], &counts);
}

/// Requests that a page shows; beyond them nobody reads on.
const REQUESTS_MAX: usize = 200;
