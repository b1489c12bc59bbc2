//! Load generators beside each other.

use super::markdown::{code, count, figure, median, spread, table};
use super::{Results, items};

/// What a request costs each of them, and how many it can send.
pub(super) fn costs(results: &Results) -> String {
    let scenarios = items(&results.of("load")["scenarios"]);
    let rows = scenarios.flat_map(|scenario| {
        items(&scenario["rows"]).map(|row| {
            vec![
                scenario["what"].as_str().unwrap_or_default().to_owned(),
                code(&row["name"]),
                count(&row["depth"]),
                spread(&row["cpu_us_per_request"]),
                spread(&row["requests_per_second"]),
                figure(median(&row["resident_bytes"]).map(|bytes| bytes / f64::from(1 << 20))),
            ]
        })
    });
    table(&["load", "generator", "depth", "CPU us a request", "requests/s", "MiB"], rows)
}

/// How well a rate is kept at half of what the connections can do.
pub(super) fn steady(results: &Results) -> String {
    let steady = &results.of("load")["steady"];
    let cells = ["rate_ratio", "lag_p99_us", "bare_p99_us"].map(|key| spread(&steady[key]));
    let titles = ["sent / intended", "lag, p99, us", "lag of a bare loop, p99, us"];
    table(&titles, [cells.to_vec()])
}

/// What each of them tells of a server that stands for 6 s of 10.
pub(super) fn stopped(results: &Results) -> String {
    let rows = items(&results.of("load")["stopped"]).map(|row| {
        let seconds = |key: &str| figure(row["told"][key].as_f64().map(|us| us / 1e6));
        [code(&row["name"])].into_iter().chain(["p50_us", "p90_us", "p99_us"].map(seconds)).collect()
    });
    table(&["generator", "p50, s", "p90, s", "p99, s"], rows)
}
