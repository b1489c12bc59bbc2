//! `anywire serve` under wrk: nothing but good answers.

use crate::common::{Served, has, run};

#[test]
fn serve_stands_wrk() {
    if !has("wrk") {
        return;
    }
    let served = Served::demo();
    let report = run("wrk", &["-t1", "-c16", "-d1s", &served.url("/")]);
    assert!(report.contains("Requests/sec:"), "{report}");
    assert!(!report.contains("Non-2xx") && !report.contains("Socket errors"), "{report}");
    let large = run("wrk", &["-t1", "-c4", "-d1s", &served.url("/bytes/1000000")]);
    assert!(!large.contains("Non-2xx") && !large.contains("Socket errors"), "{large}");
}
