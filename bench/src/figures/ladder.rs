//! The I/O models of Linux, on a busy server and on a quiet one.

use serde_json::Value;

use super::markdown::{count, figure, percent, table};
use super::{Results, find, items};

/// What a request costs on each rung.
pub(super) fn rungs(results: &Results) -> String {
    let [busy, quiet] = both(results);
    let headings = [
        "rung",
        "busy: us/req",
        "sys",
        "x epoll",
        "calls",
        "waits",
        "quiet: us/req",
        "x epoll",
        "calls",
        "waits",
    ];
    let rows = items(&busy["rungs"]).map(|row| {
        let name = row["name"].as_str().unwrap_or_default();
        let number = |row: &Value, key: &str| figure(row[key].as_f64());
        let [all, system] =
            ["server_cpu_us_per_request", "server_system_cpu_us_per_request"].map(|key| row[key].as_f64());
        let mut cells = vec![name.to_owned(), figure(all)];
        cells.push(percent(all.zip(system).map(|(all, system)| system / all)));
        let others = ["ratio_to_limit", "syscalls_per_request", "voluntary_switches_per_request"];
        cells.extend(others.map(|key| number(row, key)));
        let quiet = find(&quiet["rungs"], "name", name);
        cells.push(number(quiet, "server_cpu_us_per_request"));
        cells.extend(others.map(|key| number(quiet, key)));
        cells
    });
    table(&headings, rows)
}

/// What an idle connection holds on each rung.
pub(super) fn memory(results: &Results) -> String {
    let [busy, _] = both(results);
    let rows = items(&busy["rungs"]).map(|row| {
        let name = row["name"].as_str().unwrap_or_default();
        let keys = ["user_bytes_per_connection", "kernel_bytes_per_connection"];
        let bytes = keys.map(|key| count(&row[key]));
        [name.to_owned()].into_iter().chain(bytes).collect()
    });
    table(&["rung", "of the process, bytes", "of the kernel for both ends, bytes"], rows)
}

/// A job from thread to thread.
pub(super) fn hand_overs(results: &Results) -> String {
    let [busy, _] = both(results);
    let rows = items(&busy["hand_over"]["rows"]).map(|row| {
        let way = row["way"].as_str().unwrap_or_default().to_owned();
        let number = |key: &str| figure(row[key].as_f64());
        let figures = ["cpu_us_per_hand_over", "syscalls_per_hand_over", "p50_us"].map(number);
        [count(&row["in_flight"]), way].into_iter().chain(figures).collect()
    });
    table(&["in flight", "way", "CPU us", "system calls", "median us"], rows)
}

fn both(results: &Results) -> [&Value; 2] {
    ["ladder", "ladder-idle"].map(|name| results.of(name))
}
