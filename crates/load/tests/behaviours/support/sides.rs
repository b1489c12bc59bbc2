//! Two sides that were compared, made by hand: at a fixed rate, with a note, an error, and names that try to be markup.

use anywire_load::ab::{AbOutcome, AbPlan, AbSide, SCHEMA};
use anywire_load::contrast::{Contrast, Noise};
use anywire_load::rounds::{Figures, FixedRate, Round};
use anywire_load::{ErrorKind, Gaps, Schedule, Tool};

use super::sample;

/// Ten rounds of either side, the second one a tenth slower.
pub(crate) fn ab() -> AbOutcome {
    let base = sample::outcome();
    let sides = [side("a <b>name</b>", 1.0), side("another one", 1.1)];
    let [a, b] = sides.each_ref();
    let mut load = base.plan;
    (load.mode, load.schedule) = ("open".to_owned(), Some(Schedule::constant(10_000.0)));
    AbOutcome {
        schema: SCHEMA.to_owned(),
        tool: Tool::this(),
        host: base.host,
        plan: AbPlan { load: Some(load), rounds: 10, turns: 10, seed: 4_294_967_295 },
        is_trial: false,
        contrast: Contrast::of(&a.rounds, &b.rounds, true, &Noise::default(), 1),
        sides,
        interrupted: true,
        failed: Some("round 11: B: connecting failed: refused".to_owned()),
    }
}

fn side(name: &str, factor: f64) -> AbSide {
    let round = |round: usize| {
        let here = factor * (1.0 + 0.01 * (round * 7 % 5) as f64);
        let figures = Figures {
            requests_per_second: Some(10_000.0 / factor),
            server_cpu_us_per_request: Some(31.0 * here),
            server_utilisation: Some(0.31 * here),
            client_cpu_us_per_request: Some(8.0 * here),
            p50_us: Some(120.0 * here),
            p99_us: Some(900.0 * here),
            p99_9_us: Some(2_500.0 * here),
            max_us: Some(40_000.0 * here),
            ..Figures::default()
        };
        Round { round, figures, answered: 20_000, connections_open: 64, ..Round::default() }
    };
    let rounds: Vec<Round> = (1..=10).map(round).collect();
    AbSide {
        name: name.to_owned(),
        target: Some(sample::outcome().target),
        medians: Figures::medians(&rounds),
        spread: Figures::spreads(&rounds),
        rate: Some(FixedRate {
            target: 10_000.0,
            gaps: Gaps::Even,
            intended: 200_000,
            rate_ratio: Some(0.912),
            own_lag_p99_us: Some(31.2),
            own_lag_max_us: Some(1_203.0),
            limited_by: Some("connections".to_owned()),
            saturated: Some(false),
            reasons: Vec::new(),
        }),
        rounds,
        never_open: 0,
        errors: std::collections::BTreeMap::from([(ErrorKind::Close, 3)]).into(),
        answered: 200_000,
        error_messages: vec!["the peer closed: </script><script>alert(1)</script>".to_owned()],
        notes: vec!["in some turns fewer than 64 connections were open".to_owned()],
    }
}
