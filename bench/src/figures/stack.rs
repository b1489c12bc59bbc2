//! The stack on devices, beside the kernel.

use super::markdown::{count, spread, table};
use super::{NULL, Results, items};

/// What gets through a line that delays and loses.
pub(super) fn throughput(results: &Results) -> String {
    let result = results.of("stack-throughput");
    let rows = items(&result["alone"]).map(|row| {
        let text = |key: &str| row[key].as_str().unwrap_or_default().to_owned();
        let flows = count(&row["flows"]);
        vec![text("loss"), flows, text("way"), spread(&row["megabytes"]), spread(&row["ratio"])]
    });
    let alone = table(&["lost", "flows", "way", "MB/s", "/ Linux to Linux"], rows);
    let shared = &result["shared"];
    let shared_row = ["ours", "linux", "share"].map(|key| spread(&shared[key])).to_vec();
    alone + "\n" + &table(&["two flows of ours, MB/s", "two of Linux, MB/s", "ours / Linux"], [shared_row])
}

/// Bulk over TAP.
pub(super) fn bulk(results: &Results) -> String {
    let rows = items(&results.of("stack-bulk")["rows"]).map(|row| {
        let way = row["way"].as_str().unwrap_or_default().to_owned();
        vec![way, spread(&row["megabytes"]), spread(&row["ratio"])]
    });
    table(&["way", "MB/s", "/ iperf3"], rows)
}

/// HTTP over AF_XDP.
pub(super) fn http(results: &Results) -> String {
    let rows = items(&results.of("stack-http")["rows"]).map(|row| {
        let text = |key: &str| row[key].as_str().unwrap_or_default().to_owned();
        vec![
            text("connections"),
            text("server"),
            spread(&row["busy_us"]),
            spread(&row["softirq_us"]),
            count(row["requests_per_second"].get("median").unwrap_or(&NULL)),
            spread(&row["p50_us"]),
            spread(&row["ratio"]),
        ]
    });
    let headings =
        ["load", "server", "core busy, us a request", "softirq", "requests/s", "p50, us", "/ raw epoll loop"];
    table(&headings, rows)
}

/// Floods.
pub(super) fn floods(results: &Results) -> String {
    let rows = items(&results.of("stack-floods")["rows"]).map(|row| {
        let figures =
            ["packets_per_second", "dropped", "flooded", "kept", "grown_mib"].map(|key| spread(&row[key]));
        [row["flood"].as_str().unwrap_or_default().to_owned()].into_iter().chain(figures).collect()
    });
    let headings =
        ["flood", "packets/s", "requests/s, dropped by XDP", "requests/s, on the stack", "kept", "MiB more"];
    table(&headings, rows)
}
