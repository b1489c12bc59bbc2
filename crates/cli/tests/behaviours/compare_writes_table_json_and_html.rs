//! `anywire compare --quick`: a few seconds, a table, JSON with the promised names, and a page with charts.

use std::process::Output;

use crate::common::{Served, anywire, stderr, stdout, text};

/// Compares in as short a time as answers every candidate: on a busy machine some get no turn in the shortest.
#[track_caller]
fn compared(args: &[&str]) -> Output {
    for duration in ["100ms", "400ms", "2s", "10s"] {
        let output = anywire(&[&["compare", "--quick", "--duration", duration], args].concat());
        let said = [stdout(&output), stderr(&output)].concat();
        if !said.contains("no request was answered") && !said.contains("no candidate answered") {
            assert!(output.status.success(), "{said}");
            return output;
        }
    }
    panic!("10 s are too short");
}

#[test]
fn compare_writes_table_json_and_html() {
    let dir = tempfile::tempdir().expect("a directory for the results");
    let (json, html) = (dir.path().join("compare.json"), dir.path().join("compare.html"));
    let output = compared(&["--rounds", "2", "--json", text(&json), "--html", text(&html)]);

    let comparison = std::fs::read_to_string(&json).expect("the JSON was written");
    let comparison: serde_json::Value = serde_json::from_str(&comparison).expect("it is JSON");
    assert_eq!(comparison["schema"], "anywire.compare/1");
    assert!(comparison["host"]["cores"].is_u64(), "{comparison}");
    let rows = comparison["candidates"].as_array().expect("a list of candidates");
    let wires: Vec<&str> = rows.iter().filter_map(|row| row["name"].as_str()).collect();
    assert_eq!(wires, ["limit", "tcp", "unix", "stack", "shm"]);
    for row in rows {
        for key in [
            "requests_per_second",
            "server_cpu_us_per_request",
            "client_cpu_us_per_request",
            "p50_us",
            "p99_us",
            "max_us",
            "ratio_to_limit",
        ] {
            assert!(row[key].as_f64() > Some(0.0), "{key} in {row}");
        }
        // Counting them is not allowed everywhere; the row then says why not.
        let counted = &row["syscalls_per_request"];
        let notes = row["notes"].as_array().map_or(0, Vec::len);
        assert!(counted.is_f64() || (counted.is_null() && notes > 0), "{row}");
        assert_eq!(row["errors"]["connect"], 0, "{row}");
    }
    assert!(!stdout(&output).contains("protocol"), "{}", stdout(&output));
    for name in ["limit", "tcp", "unix", "stack", "shm"] {
        assert!(
            stdout(&output).lines().any(|line| line.trim_start().starts_with(name)),
            "{}",
            stdout(&output)
        );
    }
    let page = std::fs::read_to_string(&html).expect("the page was written");
    assert!(
        page.contains("<svg") && !page.contains("src=\"http"),
        "no chart, or a page that loads something"
    );
}

#[test]
fn tls_stands_beside_clear_text() {
    let folder = tempfile::tempdir().expect("a folder");
    let json = folder.path().join("result.json");
    let args = ["--rounds", "1", "-c", "4", "--json", text(&json)];
    let wires = ["--wires", "tcp,tls,tls+unix", "--protocols", "h1,h2"];
    let output = compared(&[&args[..], &wires].concat());
    let result: serde_json::Value =
        serde_json::from_slice(&std::fs::read(&json).expect("it was written")).expect("it is JSON");
    // The candidates with the longest names.
    let table = stdout(&output);
    let heading = table.lines().find(|line| line.contains("  requests/s  "));
    assert!(heading.is_some_and(|heading| heading.chars().count() <= 120), "{table}");
    let rows = result["candidates"].as_array().expect("a list");
    let names: Vec<_> = rows.iter().filter_map(|row| row["name"].as_str()).collect();
    assert_eq!(names, ["tcp", "tcp/h2", "tls", "tls/h2", "tls+unix", "tls+unix/h2"]);
    for row in rows {
        assert!(row["requests_per_second"].as_f64().is_some_and(|rate| rate > 0.0), "{row}");
    }
}

#[test]
fn http2_stands_beside_http1_on_each_wire() {
    let dir = tempfile::tempdir().expect("a directory for the page");
    let page = dir.path().join("page.html");
    let args = ["--rounds", "1", "-c", "4", "--depth", "5", "--wires", "limit,tcp,unix"];
    let json = dir.path().join("compare.json");
    let results = ["--protocols", "h1,h2", "--html", text(&page), "--json", text(&json)];
    let output = compared(&[&args[..], &results].concat());
    let table = stdout(&output);
    assert!(table.contains("  protocol  requests/s") && table.contains("  tcp/h2       http/2"), "{table}");
    let comparison: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(&json).expect("it was written")).expect("it is JSON");
    let rows = comparison["candidates"].as_array().expect("a list of candidates");
    let named = |key: &str| rows.iter().map(|row| row[key].as_str().expect("text")).collect::<Vec<_>>();
    assert_eq!(named("name"), ["limit", "tcp", "tcp/h2", "unix", "unix/h2"]);
    assert_eq!(named("protocol"), ["http/1.1", "http/1.1", "http/2", "http/1.1", "http/2"]);
    for row in rows {
        assert!(row["requests_per_second"].as_f64() > Some(0.0), "{row}");
        assert_eq!(row["error_messages"].as_array().map(Vec::len), Some(0), "{row}");
    }
    let page = std::fs::read_to_string(&page).expect("the page was written");
    assert!(
        page.contains("tcp/h2</th>") && page.contains("http/2</td>"),
        "the page does not tell them apart"
    );
    let wrong = anywire(&["compare", "--protocols", "h3"]);
    assert!(wrong.status.code() == Some(2) && stderr(&wrong).contains("h1, h2"), "{}", stderr(&wrong));
}

#[test]
fn a_body_of_another_length_is_answered_by_all() {
    let output = compared(&["--rounds", "1", "--body", "5000", "-c", "4", "--seed", "7", "--json", "-"]);
    let comparison: serde_json::Value =
        serde_json::from_str(&stdout(&output)).expect("the result is JSON alone");
    assert_eq!((&comparison["plan"]["body_bytes"], &comparison["plan"]["seed"]), (&5000.into(), &7.into()));
    for row in comparison["candidates"].as_array().expect("a list of candidates") {
        assert!(row["requests_per_second"].as_f64() > Some(0.0), "{row}");
        assert_eq!(row["errors"]["check"], 0, "{row}");
    }
}

#[test]
fn a_place_that_cannot_be_written_to_ends_it_before_it_begins() {
    let dir = tempfile::tempdir().expect("a directory for the results");
    let (good, bad) = (dir.path().join("good.json"), dir.path().join("missing/bad.html"));
    let output = anywire(&["compare", "--quick", "--json", text(&good), "--html", text(&bad)]);
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(23), "{said}");
    assert!(said.contains("bad.html") && !said.contains("comparing"), "{said}");
    assert!(stdout(&output).is_empty() && !good.exists(), "nothing was measured");
}

#[test]
fn servers_that_run_by_themselves_stand_beside_the_wires() {
    let (one, other) = (Served::demo(), Served::demo());
    let first = format!("first={}#{}", one.url("/"), one.child.id());
    let second = other.authority().to_owned();
    let short = ["--rounds", "1", "-c", "4", "--json", "-"];
    let output = compared(&[&[&first, &second, "--wires", "limit"], &short[..]].concat());
    let comparison: serde_json::Value =
        serde_json::from_str(&stdout(&output)).expect("the result is JSON alone");
    let rows = comparison["candidates"].as_array().expect("a list of candidates");
    let names: Vec<_> = rows.iter().filter_map(|row| row["name"].as_str()).collect();
    assert_eq!(names, ["limit", "first", &second]);
    for row in rows {
        assert!(row["requests_per_second"].as_f64() > Some(0.0), "{row}");
        assert_eq!(row["error_messages"].as_array().map(Vec::len), Some(0), "{row}");
    }
    assert!(rows[1]["server_cpu_us_per_request"].as_f64() > Some(0.0), "{}", rows[1]);
    assert!(rows[2]["server_cpu_us_per_request"].is_null(), "its process was not named: {}", rows[2]);
    // Without wires there are the servers alone.
    let table = stdout(&compared(&[&first, "--rounds", "1", "-c", "2"]));
    assert!(table.contains("first (tcp)") && !table.contains("limit (tcp)"), "{table}");
    let wrong = anywire(&["compare", "localhost:1#nginx"]);
    assert!(wrong.status.code() == Some(2) && stderr(&wrong).contains("#4711"), "{}", stderr(&wrong));
}
