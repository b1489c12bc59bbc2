//! Pages with long names and large figures fit the window of a phone, a laptop and a large screen, in light and dark.

use anywire_load::Stored;
use anywire_load::contrast::{Contrast, Noise};
use anywire_load::diff::{DiffOutcome, diff};
use anywire_load::report::chart::{self, Bar, Group, Line, Strip};
use anywire_load::report::palette::{SERVER, style};
use anywire_load::report::{Chart, Page};
use anywire_load::text::{time, whole};

use crate::support::layout::Medium;
use crate::support::{browser, layout, sample, sides};

#[test]
fn of_a_result() {
    let Some(browser) = browser::installed() else { return };
    let pages = vec![
        ("comparison", anywire_load::report::comparison(&large_comparison())),
        ("comparison at a rate", anywire_load::report::comparison(&at_a_rate(large_comparison()))),
        ("load", anywire_load::report::outcome(&large_outcome())),
        ("load of all kinds", anywire_load::report::outcome(&of_all_kinds(large_outcome()))),
        ("ab", anywire_load::report::ab(&large_ab())),
        ("diff", anywire_load::report::diff(&large_diff())),
    ];
    #[cfg(feature = "udp")]
    let pages = [pages, udp_pages().into()].concat();
    assert_eq!(layout::faults(&browser, &pages, &[Medium::Screen]), Vec::<String>::new());
}

#[test]
fn of_charts_with_any_figures() {
    let Some(browser) = browser::installed() else { return };
    let mut page = Page::new("charts");
    let mut charts = Vec::new();
    for (name, most) in [("small", 1e-3), ("usual", 123.4), ("large", 1.8e19)] {
        let long = [name, "wide", &"W".repeat(90)].join("-");
        let bar = |value: f64| Bar { value, label: whole(value), colour: SERVER };
        let groups = [
            Group { name: long.clone(), bars: vec![bar(most), bar(most / 3.0)] },
            Group { name: long.clone(), bars: vec![] },
        ];
        let values = vec![most, most * 0.983, most * 1.013];
        let strips: Vec<_> = [long, "short".to_owned()]
            .map(|name| Strip { name, values: values.clone(), median: most })
            .into_iter()
            .collect();
        let lines: Vec<_> = (0..15)
            .map(|index| Line {
                points: (0..24).map(|step| (2_f64.powi(step), most / f64::from(index + step + 1))).collect(),
                style: style(index as usize),
            })
            .collect();
        let legend = || (0..15).map(|index| (style(index).into(), format!("line {index}"))).collect();
        let chart = |title: &str, svg| Chart { title: title.to_owned(), legend: legend(), svg };
        charts.extend([
            chart("bars", chart::bars("bars", &groups)),
            chart("strips", chart::strips("strips", &strips, SERVER)),
            chart("lines", chart::lines("lines", &lines, whole, whole)),
            chart("lines of times", chart::lines("lines of times", &lines, whole, time)),
            chart("lines of powers", chart::lines("lines of powers", &lines, whole, chart::power)),
        ]);
    }
    page.charts(charts);
    assert_eq!(
        layout::faults(&browser, &[("charts", page.finish("{}"))], &[Medium::Screen]),
        Vec::<String>::new()
    );
}

#[test]
fn a_page_that_does_not_fit_would_be_seen() {
    let Some(browser) = browser::installed() else { return };
    let html = anywire_load::report::outcome(&sample::outcome());
    let faults = [
        ("the page is wider", "<main>", "<main><p style='width:3000px;max-width:none'>a</p>"),
        ("wider than the window", "<main>", "<main style='margin-left:-200px'>"),
        (
            "no keyboard scrolls it",
            "<main>",
            "<main><div style='overflow-x:auto'><p style='width:3000px;max-width:none'>a</p></div>",
        ),
        (
            "figures are off the screen",
            "</style>",
            ".many,.many tbody{display:table!important}.many tr{display:table-row!important}\
             .many td{display:table-cell;white-space:nowrap!important}</style>",
        ),
        ("one text on another", "<main>", "<main><p>first</p><p style='margin-top:-24px'>second</p>"),
        ("cut", "text-anchor=\"end\"", "text-anchor=\"end\" transform=\"translate(-50)\""),
        ("too pale", "--faint:", "--faint:#aaaaaa;--other:"),
        ("too small", "figure{", "figure{width:200px;"),
    ];
    let pages: Vec<_> = faults
        .map(|(fault, instead_of, put_in)| {
            assert!(html.contains(instead_of), "{instead_of}");
            (fault, html.replacen(instead_of, put_in, 9))
        })
        .into_iter()
        .collect();
    let found = layout::faults(&browser, &pages, &[Medium::Screen]);
    for (fault, ..) in faults {
        let told = |line: &String| {
            line.contains(&format!(": {fault} at ")) && line.contains(&format!(": {fault}: "))
        };
        assert!(found.iter().any(told), "{fault} is not in {found:?}");
    }
}

/// Letters as wide as can be, and no place to break the line.
fn long_name(first: &str) -> String {
    format!("{first}-{}", "WM".repeat(60))
}

fn large_comparison() -> anywire_load::compare::Comparison {
    let mut all = sample::comparison();
    for (index, row) in all.candidates.iter_mut().enumerate() {
        row.name = long_name(&format!("candidate{index}"));
        row.protocol = "http/2 by prior knowledge".to_owned();
        let large = |figures: &mut anywire_load::rounds::Figures<f64>| {
            figures.requests_per_second = figures.requests_per_second.map(|value| value * 1e9);
            figures.server_cpu_us_per_request = figures.server_cpu_us_per_request.map(|value| value * 1e7);
            figures.max_us = Some(86_400e6);
            figures.syscalls_per_request = Some(123_456.7);
        };
        large(&mut row.medians);
        row.rounds.iter_mut().for_each(|round| {
            large(&mut round.figures);
            round.answered = u64::MAX;
        });
        row.error_messages.push(long_name("starting failed:").into());
    }
    all.notes.push(long_name("note"));
    all.host.cpu = Some(long_name("cpu"));
    all
}

/// At a fixed rate, as `ab` can be, too.
fn at_a_rate(mut all: anywire_load::compare::Comparison) -> anywire_load::compare::Comparison {
    (all.plan.mode, all.plan.rate) = ("open".to_owned(), Some(1e8));
    let rate = sides::ab().sides[0].rate.clone();
    for row in &mut all.candidates {
        row.rate.clone_from(&rate);
        row.medians.server_utilisation = Some(127.5);
        row.spread.server_utilisation = Some(anywire_load::rounds::Spread { min: 125.0, max: 128.0 });
    }
    all
}

fn large_ab() -> anywire_load::ab::AbOutcome {
    let mut all = sides::ab();
    for (index, side) in all.sides.iter_mut().enumerate() {
        side.name = long_name(&format!("side{index}"));
        side.notes.push(long_name("note"));
        side.medians.server_utilisation = Some(127.5);
        if let Some(rate) = &mut side.rate {
            (rate.target, rate.own_lag_max_us) = (1e8, Some(86_400e6));
        }
        for round in &mut side.rounds {
            round.answered = u64::MAX;
            round.figures.requests_per_second = round.figures.requests_per_second.map(|rate| rate * 1e9);
            round.figures.p99_9_us = Some(86_400e6);
        }
    }
    let [a, b] = all.sides.each_ref();
    all.contrast = Contrast::of(&a.rounds, &b.rounds, true, &Noise::default(), 1);
    all
}

/// Several servers, what differs beside them, and servers that are only in one of the results.
fn large_diff() -> DiffOutcome {
    let (mut old, mut new) = (large_comparison(), large_comparison());
    old.candidates.remove(0);
    new.candidates.remove(1);
    new.host.cpu = Some(long_name("other"));
    new.plan.connections = 1_000_000;
    let [old, new] = [old, new].map(|one| Stored::from_json(&one.to_json()).unwrap());
    diff(&old, &new, &Noise::default(), 1, true).unwrap()
}

/// The same with what a search, steps, rounds and agents add.
fn of_all_kinds(outcome: anywire_load::Outcome) -> anywire_load::Outcome {
    let steps = (0..12).map(|part| anywire_load::Step {
        begin_seconds: f64::from(part) * 7_200.0,
        end_seconds: f64::from(part + 1) * 7_200.0,
        target: 1e8,
        intended: u64::MAX / 12,
        sent: u64::MAX / 13,
        answered: u64::MAX / 14,
        latency: outcome.latency.clone(),
    });
    let agents = (0..9).map(|index| anywire_load::agents::AgentShare {
        agent: anywire_load::agents::Agent {
            index,
            address: format!("tcp:{}:65535", "agent-of-a-long-name.".repeat(11)),
            host: None,
            lost: (index == 3).then(|| long_name("it did not answer")),
            clock_ahead_seconds: 0.0,
            round_trip_us: 86_400e6,
        },
        connections: 1_000_000,
        answered: (index != 3).then_some(u64::MAX / 9),
        errors: Some(0),
        rate: Some(outcome.rate),
        generator: Some(outcome.generator.clone()),
    });
    let mut search = sample::search();
    search.required = (0..9).map(|number| format!("p99{{{}}}<5ms", long_name(&number.to_string()))).collect();
    search.trials = search.trials.iter().cycle().take(100).cloned().collect();
    for trial in &mut search.trials {
        (trial.target, trial.sent) = (1e8, u64::MAX);
        trial.reason = trial.reason.as_ref().map(|_| long_name("p99<5ms"));
    }
    let rounds = sides::ab().sides[0].rounds.clone();
    let (steps, agents) = (steps.collect(), agents.collect());
    anywire_load::Outcome { steps, agents, search: Some(search), rounds, ..outcome }
}

fn large_outcome() -> anywire_load::Outcome {
    let mut outcome = sample::outcome();
    outcome.target.url = format!("http://localhost:8080/{}", "W".repeat(300));
    outcome.target.address = format!("unix:/{}", "w".repeat(107));
    outcome.rate.achieved = Some(123_456_789_012.0);
    outcome.totals.bytes_in = u64::MAX;
    outcome.totals.measured.sent = u64::MAX;
    outcome.totals.measured.error_samples[0].message = long_name("the peer");
    for share in &mut outcome.loops {
        share.requests = u64::MAX / 2;
    }
    outcome.requests = (0..3)
        .map(|number| anywire_load::RequestFigures {
            name: format!("GET /{number}/{}", "W".repeat(300)),
            answered: u64::MAX / (number + 1),
            bad: u64::MAX / 7,
            statuses: (100..600).map(|status| (status, u64::from(status) << 40)).collect(),
            latency: outcome.latency.send.clone(),
        })
        .collect();
    outcome.totals.statuses = (100..600).map(|status| (status, u64::from(status) << 40)).collect();
    outcome
}

#[cfg(feature = "udp")]
fn udp_pages() -> [(&'static str, String); 2] {
    let mut outcome = sample::udp();
    outcome.target = format!("unixgram:/{}", "w".repeat(107));
    outcome.plan.datagrams_per_second = 1e12;
    outcome.sent = u64::MAX;
    outcome.refused_because = Some(long_name("because"));
    outcome.loss_by_layer.socket_there = Some(u64::MAX);
    let trial = anywire_load::udp::Trial {
        stage: anywire_load::search::Stage::Confirm,
        datagrams_per_second: 1e15,
        sent: u64::MAX,
        lost: u64::MAX,
        held: Some(false),
        kept: Some(true),
    };
    let search = anywire_load::udp::SearchOutcome {
        loss_max: 0.001,
        highest_rate: Some(1e15),
        confirmed: true,
        limited_by_sender: true,
        interrupted: false,
        trials: vec![trial; 3],
        outcome: outcome.clone(),
    };
    [("udp", anywire_load::report::udp(&outcome)), ("search", anywire_load::report::udp_search(&search))]
}
