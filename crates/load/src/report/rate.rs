//! The table of how a fixed rate was kept by each side, and what it took of its server.

use crate::compare::percent;
use crate::report::page::Page;
use crate::rounds::{Figures, FixedRate, Spread};
use crate::text::{digits, known, time, whole};

/// Adds it: a row for each side that has a rate, with its medians and spreads; nothing in the closed mode.
pub(super) fn table<'r>(
    page: &mut Page,
    sides: impl IntoIterator<Item = (String, &'r FixedRate, &'r Figures<f64>, &'r Figures<Spread>)>,
) {
    let rows: Vec<Vec<String>> = sides.into_iter().map(cells).collect();
    if !rows.is_empty() {
        let headings = [
            "side",
            "requests/s asked",
            "left in time",
            "server CPU of a core",
            "own lag p99",
            "own lag max",
        ];
        page.table("At the fixed rate", &headings, &rows);
    }
}

fn cells(
    (name, rate, medians, spread): (String, &FixedRate, &Figures<f64>, &Figures<Spread>),
) -> Vec<String> {
    let busy = match (medians.server_utilisation, spread.server_utilisation) {
        (Some(share), Some(Spread { min, max })) => {
            format!("{} %\n{} \u{2013} {} %", percent(share), percent(min), percent(max))
        }
        _ => "unknown".to_owned(),
    };
    // A rate below one a second has digits behind the point.
    let target = if rate.target < 100.0 { digits(rate.target) } else { whole(rate.target) };
    vec![
        name,
        target,
        known(rate.rate_ratio, |ratio| format!("{} %", percent(ratio))),
        busy,
        known(rate.own_lag_p99_us, time),
        known(rate.own_lag_max_us, time),
    ]
}
