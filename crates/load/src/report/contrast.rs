//! The pages of `ab` and `diff`: the verdict, both sides in each metric, every round.

use crate::ab::AbOutcome;
use crate::contrast::{Contrast, METRICS, Metric};
use crate::diff::DiffOutcome;
use crate::report::chart::{self, Strip};
use crate::report::page::{Chart, Page};
use crate::report::palette::{SERVER, USUAL};
use crate::report::rate;
use crate::rounds::{FixedRate, Round};
use crate::statistics::{Verdict, median};
use crate::text::{capitalised, grouped, known};

/// The page of two servers that took turns.
pub fn ab(outcome: &AbOutcome) -> String {
    let [a, b] = outcome.sides.each_ref();
    let mut page = Page::new(&format!("anywire ab: {} against {}", b.name, a.name));
    verdict(&mut page, &outcome.contrast, &a.name, &b.name);
    if outcome.interrupted || outcome.failed.is_some() {
        page.warning("It was ended early: the figures are of the rounds until then.");
    }
    for side in [a, b] {
        if let Some(target) = &side.target {
            page.paragraph(&format!(
                "{}: {} over {} ({}).",
                side.name, target.url, target.address, target.protocol
            ));
        }
    }
    for side in [a, b] {
        for remark in side.rate.iter().flat_map(FixedRate::remarks) {
            page.warning(&format!("{}: {remark}.", side.name));
        }
    }
    page.paragraph(&format!("{}. {}.", outcome.host.line(), capitalised(&outcome.plan_line())));
    let rates =
        [a, b].map(|side| Some((side.name.clone(), side.rate.as_ref()?, &side.medians, &side.spread)));
    rate::table(&mut page, rates.into_iter().flatten());
    contrast(&mut page, &outcome.contrast, (&a.name, &a.rounds), (&b.name, &b.rounds));
    page.list(&outcome.remarks());
    page.paragraph(&format!("{}.", outcome.contrast.explanation()));
    page.finish(&outcome.to_json())
}

/// The page of two stored results.
pub fn diff(outcome: &DiffOutcome) -> String {
    let mut page = Page::new("anywire diff: the new result against the old one");
    for pair in &outcome.pairs {
        let [old, new] = outcome.names(pair);
        verdict(&mut page, &pair.contrast, &old, &new);
    }
    for pair in &outcome.pairs {
        if outcome.pairs.len() > 1 {
            page.heading(&pair.name);
        }
        let [old, new] = outcome.names(pair);
        contrast(&mut page, &pair.contrast, (&old, &pair.old), (&new, &pair.new));
    }
    page.list(&outcome.remarks());
    if let Some(pair) = outcome.pairs.first() {
        page.paragraph(&format!("{}.", pair.contrast.explanation()));
    }
    page.finish(&outcome.to_json())
}

/// The sentence that must not be missed.
fn verdict(page: &mut Page, contrast: &Contrast, a: &str, b: &str) {
    let sentence = format!("{}.", contrast.sentence(a, b));
    match contrast.verdict {
        Some(Verdict::NoDifferenceShown | Verdict::Faster) => page.paragraph(&sentence),
        Some(Verdict::Slower) | None => page.warning(&sentence),
    }
}

/// Charts and tables of both sides.
fn contrast(page: &mut Page, contrast: &Contrast, a: (&str, &[Round]), b: (&str, &[Round])) {
    let is_told = |metric: &&Metric| contrast.metrics.iter().any(|one| one.name == metric.name);
    let metrics: Vec<&Metric> = METRICS.iter().filter(is_told).collect();
    let charts = metrics.iter().filter_map(|metric| {
        let strips: Vec<Strip> =
            [a, b].iter().filter_map(|(name, rounds)| strip(metric, name, rounds)).collect();
        let unit = if metric.name.ends_with("_us_per_request") || metric.name.ends_with("_us") {
            ", us"
        } else {
            ""
        };
        let title = format!("{}{unit} in each round", metric.title);
        (strips.iter().any(|strip| strip.values.len() > 1)).then(|| Chart {
            svg: chart::strips(&title, &strips, if metric.is_of_server { SERVER } else { USUAL }),
            legend: vec![(SERVER.into(), "a dot a round, a stroke at the median".to_owned())],
            title,
        })
    });
    page.charts(charts.collect());
    page.table("Medians and verdicts", &Contrast::headings(a.0, b.0), &contrast.rows());
    let mut headings = vec!["side", "round"];
    headings.extend(metrics.iter().map(|metric| metric.title));
    headings.extend(["answers", "errors"]);
    let rows = [a, b].into_iter().flat_map(|(name, rounds)| rounds.iter().map(move |round| (name, round)));
    let rows: Vec<Vec<String>> = rows
        .map(|(name, round)| {
            let mut cells = vec![name.to_owned(), round.round.to_string()];
            cells.extend(metrics.iter().map(|metric| known(metric.of(round), metric.write)));
            cells.extend([round.answered, round.errors].map(grouped));
            cells
        })
        .collect();
    if !rows.is_empty() {
        page.table("Rounds", &headings, &rows);
    }
}

fn strip(metric: &Metric, name: &str, rounds: &[Round]) -> Option<Strip> {
    let values: Vec<f64> = rounds.iter().filter_map(|round| metric.of(round)).collect();
    median(&values).map(|median| Strip { name: name.to_owned(), values, median })
}
