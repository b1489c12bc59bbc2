//! `anywire lab ipc` has a row for each way, size and pattern, and says of each how its ends wait.

use crate::common::{anywire, stdout};
use serde_json::Value;

/// The rows of a run.
fn rows(args: &[&str]) -> Vec<Value> {
    // Long enough for both ends to have their turns on a busy machine.
    let args = [&["ipc", "--duration", "60ms", "--json", "-"], args].concat();
    let outcome: Value = serde_json::from_str(&stdout(&anywire(&args))).expect("JSON");
    assert_eq!(outcome["schema"], "anywire.ipc/1");
    assert!(outcome["host"]["cores"].is_u64());
    outcome["rows"].as_array().expect("rows").clone()
}

fn way(row: &Value) -> &str {
    row["way"].as_str().expect("each row names its way")
}

#[test]
fn all_ways_that_do_not_spin_are_measured() {
    let rows = rows(&["--sizes", "1,100,64k"]);
    assert_eq!(rows.len(), 7 * 3 * 2);
    for row in &rows {
        let found = &row["found"];
        assert!(found["messages"].as_u64().is_some_and(|count| count > 0), "{row}");
        assert_ne!(row["waits"], "spins");
        let median = found["round_trip_us"]["p50"].as_f64();
        assert_eq!(median.is_some_and(|median| median > 0.0), row["pattern"] == "ping-pong", "{row}");
    }
}

#[test]
fn ways_that_spin_are_asked_for_and_need_two_cores() {
    let args = ["--ways", "shm-spin-loop,shm-spin,line", "--sizes", "100"];
    let here = anywire(&["ipc", "--spin", "--duration", "5ms", "--sizes", "100", "--ways", "line"]);
    if here.status.code() == Some(2) {
        crate::skipped::say("this machine has one core");
        return;
    }
    let rows = rows(&args);
    let seen: Vec<_> =
        rows.iter().map(|row| (way(row), row["pattern"].as_str().expect("a pattern"))).collect();
    let expected = [
        ("shm-spin-loop", "ping-pong"),
        ("shm-spin", "ping-pong"),
        ("line", "ping-pong"),
        ("shm-spin-loop", "stream"),
        ("shm-spin", "stream"),
    ];
    assert_eq!(seen, expected);
    assert!(rows.iter().all(|row| row["waits"] == "spins" && row["found"]["messages"].as_u64() > Some(0)));
}

#[test]
fn a_packet_that_is_too_long_is_no_failure() {
    let rows = rows(&["--ways", "seqpacket", "--sizes", "16m", "--patterns", "ping-pong"]);
    assert_eq!(rows.len(), 1);
    assert!(rows[0]["found"].is_null() && rows[0]["why_not"].is_string(), "{}", rows[0]);
}

#[test]
fn the_table_and_the_page_have_them_too() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let page = folder.path().join("ipc.html");
    let page = page.to_str().expect("it is text");
    let output = stdout(&anywire(&["ipc", "--duration", "5ms", "--ways", "unix,shm-loop", "--html", page]));
    assert!(output.contains("shm-loop  parks") && output.contains("unix      blocks"), "{output}");
    let page = std::fs::read_to_string(page).expect("it was written");
    assert!(
        page.matches("<svg role=").count() == 2
            && page.contains("anywire.ipc/1")
            && page.contains("shm-loop")
    );
}
