//! The charts of the page of a load run.

use crate::figures::COLUMNS;
use crate::intervals::IntervalFigures;
use crate::outcome::Outcome;
use crate::report::chart::{self, Bar, Group, Line, Moment};
use crate::report::page::Chart;
use crate::report::palette::{CLIENT, SERVER, Style, TAIL, USUAL};
use crate::search::{SearchFigures, TrialLatency};
use crate::text::{grouped, time, whole};

/// All charts for which there are figures.
pub(super) fn all(outcome: &Outcome) -> Vec<Chart> {
    let mut charts: Vec<Chart> = heat_map(&outcome.intervals).into_iter().collect();
    charts.extend(percentiles(outcome));
    charts.extend(rate(&outcome.intervals));
    charts.extend(errors(&outcome.intervals));
    charts.push(loops(outcome));
    charts
}

/// The latencies of the runs of a search over their rates: where the curve turns up, the service is at its limit.
pub(super) fn by_rate(search: &SearchFigures) -> Option<Chart> {
    let mut runs: Vec<_> =
        search.trials.iter().filter_map(|trial| Some((trial.target, trial.latency?))).collect();
    runs.sort_by(|(one, _), (other, _)| one.total_cmp(other));
    if runs.len() < 2 {
        return None;
    }
    let (usual, tail) = (Style::solid(USUAL), Style::dashed(TAIL));
    let line = |of: fn(&TrialLatency) -> f64, style| Line {
        points: runs.iter().map(|(rate, latency)| (*rate, of(latency))).collect(),
        style,
    };
    let title = "Latency by requests per second";
    let lines = [line(|all| all.p50, usual), line(|all| all.p99, tail)];
    Some(Chart {
        title: title.to_owned(),
        legend: vec![(usual.into(), "p50".to_owned()), (tail.into(), "p99".to_owned())],
        svg: chart::lines(title, &lines, whole, time),
    })
}

/// How the latencies spread in each interval, with two percentiles above them.
fn heat_map(intervals: &[IntervalFigures]) -> Option<Chart> {
    // One column says no more than the percentiles do.
    if intervals.len() < 2 {
        return None;
    }
    let moments: Vec<Moment<'_>> = intervals
        .iter()
        .filter_map(|interval| {
            let bands = &interval.latency.as_ref()?.bands;
            Some(Moment { begun: interval.t - interval.seconds, ended: interval.t, bands })
        })
        .collect();
    let percentile = |value: fn(&crate::IntervalLatency) -> f64, style| Line {
        points: intervals
            .iter()
            .filter_map(|interval| Some((middle(interval), value(interval.latency.as_ref()?))))
            .collect(),
        style,
    };
    let (usual, tail) = (Style::solid(USUAL), Style::dashed(TAIL));
    Some(Chart {
        title: "Latency over time".to_owned(),
        legend: vec![
            (SERVER.into(), "the darker, the more responses of that moment".to_owned()),
            (usual.into(), "p50".to_owned()),
            (tail.into(), "p99".to_owned()),
        ],
        svg: chart::heat_map(
            "Latency over time",
            &moments,
            SERVER,
            &[percentile(|latency| latency.p50, usual), percentile(|latency| latency.p99, tail)],
        ),
    })
}

/// The percentile curves of the latencies that a request has.
fn percentiles(outcome: &Outcome) -> Option<Chart> {
    let styles = [
        ("intended", Style::solid(USUAL)),
        ("send", Style::dashed(CLIENT)),
        ("lag", Style::dotted(SERVER)),
        ("server", Style::dashed(TAIL)),
    ];
    let mut known = Vec::new();
    for (name, style) in styles {
        let Some(column) = COLUMNS.iter().find(|column| column.name == name) else { continue };
        if let Some(summary) = (column.value)(outcome) {
            known.push((column.heading, summary, style));
        }
    }
    if known.is_empty() {
        return None;
    }
    let lines: Vec<_> = known.iter().map(|(_, summary, style)| (*summary, *style)).collect();
    Some(Chart {
        title: "Latency by percentile".to_owned(),
        legend: known.iter().map(|(heading, _, style)| ((*style).into(), (*heading).to_owned())).collect(),
        svg: chart::curve("Latency by percentile", &lines),
    })
}

/// Responses a second, and what was asked for.
fn rate(intervals: &[IntervalFigures]) -> Option<Chart> {
    let line = |value: fn(&IntervalFigures) -> Option<f64>, style| Line {
        points: intervals.iter().filter_map(|one| Some((middle(one), value(one)?))).collect(),
        style,
    };
    let (asked, achieved) = (Style::dashed(CLIENT), Style::solid(SERVER));
    let (target, lines) = (line(|one| one.target, asked), line(|one| one.achieved, achieved));
    if lines.points.len() < 2 {
        return None;
    }
    let mut legend = vec![(achieved.into(), "responses".to_owned())];
    let mut all = vec![lines];
    if !target.points.is_empty() {
        legend.push((asked.into(), "asked for".to_owned()));
        all.push(target);
    }
    let title = "Responses per second";
    Some(Chart { title: title.to_owned(), legend, svg: chart::over_time(title, &all, whole) })
}

/// Errors a second; nothing without an error.
fn errors(intervals: &[IntervalFigures]) -> Option<Chart> {
    let points: Vec<_> = intervals
        .iter()
        .filter(|one| one.seconds > 0.0)
        .map(|one| (middle(one), one.errors as f64 / one.seconds))
        .collect();
    if points.len() < 2 || points.iter().all(|(_, errors)| *errors == 0.0) {
        return None;
    }
    let (title, style) = ("Errors per second", Style::solid(TAIL));
    Some(Chart {
        title: title.to_owned(),
        legend: vec![(style.into(), "errors of all kinds".to_owned())],
        svg: chart::over_time(title, &[Line { points, style }], whole),
    })
}

fn loops(outcome: &Outcome) -> Chart {
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
    Chart {
        title: "Answers by loop".to_owned(),
        legend: vec![(SERVER.into(), "answers".to_owned())],
        svg: chart::bars("Answers by loop", &groups),
    }
}

fn middle(interval: &IntervalFigures) -> f64 {
    interval.t - interval.seconds / 2.0
}
