//! The stack on devices, beside the kernel.

use serde_json::Value;

use super::markdown::{count, figure, median, spread, table};
use super::{NULL, Results, items};

/// When the stack is worth it: the kernel's figures divided by ours or the other way round, so that more than 1 is better with the stack.
pub(super) fn worth(results: &Results) -> String {
    let mut rows = Vec::new();
    let http = &results.of("stack-http")["rows"];
    let of = |load: &Value, server: &str| {
        items(http).find(|row| row["connections"] == *load && row["server"] == server).unwrap_or(&NULL)
    };
    for ours in items(http).filter(|row| row["server"] == "anywire, stack:xdp") {
        let (load, kernel) = (&ours["connections"], of(&ours["connections"], "anywire, tcp"));
        let gain =
            |above: &Value, below: &Value| figure(median(above).zip(median(below)).map(|(a, b)| a / b));
        rows.push(vec![
            format!("HTTP over a veth, {}", load.as_str().unwrap_or_default()),
            gain(&kernel["busy_us"], &ours["busy_us"]),
            gain(&ours["requests_per_second"], &kernel["requests_per_second"]),
            gain(&kernel["p50_us"], &ours["p50_us"]),
        ]);
    }
    let dash = || figure(None);
    let transfers =
        items(&results.of("stack-throughput")["alone"]).filter(|row| row["way"] != "Linux to Linux");
    for row in transfers {
        let text = |key: &str| row[key].as_str().unwrap_or_default();
        let what = format!("a transfer over 20 ms, lost: {}, {}", text("loss"), text("way"));
        rows.push(vec![what, dash(), figure(median(&row["ratio"])), dash()]);
    }
    for row in items(&results.of("stack-bulk")["rows"])
        .filter(|row| row["way"].as_str().is_some_and(|way| !way.ends_with("kernel to kernel")))
    {
        let what = format!("bulk over TAP, {}", row["way"].as_str().unwrap_or_default());
        rows.push(vec![what, dash(), figure(median(&row["ratio"])), dash()]);
    }
    table(&["what", "less of the server's core", "more a second", "sooner (p50)"], rows)
}

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
            ["packets_per_second", "elsewhere", "flooded", "kept", "grown_mib"].map(|key| spread(&row[key]));
        [row["flood"].as_str().unwrap_or_default().to_owned()].into_iter().chain(figures).collect()
    });
    let headings =
        ["flood", "packets/s", "requests/s, flood elsewhere", "requests/s, on the stack", "kept", "MiB more"];
    table(&headings, rows)
}
