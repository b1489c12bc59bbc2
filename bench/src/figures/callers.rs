//! Clients beyond the load of `http-client`: bursts, and requests in a row.

use super::markdown::{count, figure, median, spread, table};
use super::{Results, items};

/// One thread that makes calls at once, and waits for one more.
pub(super) fn bursts(results: &Results) -> String {
    let result = results.of("bursts");
    let names: Vec<&str> =
        items(&result["candidates"]).filter_map(|candidate| candidate["name"].as_str()).collect();
    let mut headings = vec!["calls at once".to_owned()];
    headings.extend(names.iter().flat_map(|name| [format!("`{name}`, requests/s"), "p99, us".to_owned()]));
    let headings: Vec<_> = headings.iter().map(String::as_str).collect();
    let rows = items(&result["scenarios"]).map(|scenario| {
        let figures = names.iter().flat_map(|name| {
            let row = super::find(&scenario["rows"], "name", name);
            let rate =
                median(&row["requests_per_second"]).map(|rate| serde_json::Value::from(rate.round() as u64));
            [rate.as_ref().map_or_else(|| figure(None), count), figure(median(&row["p99_us"]))]
        });
        [count(&scenario["count"])].into_iter().chain(figures).collect()
    });
    table(&headings, rows)
}

/// One by one and pipelined.
pub(super) fn pipelined(results: &Results) -> String {
    let rows = items(&results.of("pipelined")["rows"]).map(|row| {
        let text = |key: &str| row[key].as_str().unwrap_or_default().to_owned();
        vec![text("name"), text("way"), spread(&row["cpu_us"]), spread(&row["ms"])]
    });
    table(&["way", "requests", "CPU us a request", "all answered after, ms"], rows)
}
