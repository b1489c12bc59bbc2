//! `ab` and `diff`: two servers, or two stored results, and an exit code for the one that is slower.

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::Output;

use serde_json::Value;

use crate::common::{Served, anywire, assert_refused, stderr, stdout, text};

/// Rounds so short that nothing is to be read from their figures.
const SHORT: [&str; 10] = ["--rounds", "5", "-d", "20ms", "--turn", "10ms", "--warm-up", "0", "-c", "2"];

fn ab(a: &str, b: &str, more: &[&str]) -> Output {
    anywire(&[&["ab", a, b], &SHORT[..], more].concat())
}

fn json(path: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(path).expect("it was written")).expect("it is JSON")
}

#[test]
fn two_servers_take_turns_and_the_result_has_all_forms() {
    let dir = tempfile::tempdir().expect("a directory for the results");
    let (file, page) = (dir.path().join("ab.json"), dir.path().join("ab.html"));
    let (a, b) = (Served::demo(), Served::demo());
    let pid_file = dir.path().join("b.pid");
    fs::write(&pid_file, format!("{}\n", b.child.id())).expect("it can be written");
    let pid = a.child.id().to_string();
    let forms = ["--json", text(&file), "--html", text(&page), "--seed", "77"];
    let pids = ["--pid-a", &pid, "--pid-b", text(&pid_file)];
    let output = ab(&a.url("/"), &b.url("/"), &[&forms[..], &pids[..]].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    let table = stdout(&output);
    let first = table.lines().next().unwrap_or_default();
    let verdicts = ["B is faster than A: ", "B is slower than A: ", "no difference shown", "no verdict on B"];
    assert!(verdicts.iter().any(|verdict| first.starts_with(verdict)), "{table}");
    assert!(table.contains("5 of 5 rounds") && table.contains("by seed 77"), "{table}");
    for metric in ["requests/s", "p50", "p99", "p99.9", "server CPU/request", "client CPU/request"] {
        assert!(table.lines().any(|line| line.trim_start().starts_with(metric)), "{metric} in {table}");
    }
    let result = json(&file);
    assert_eq!((&result["schema"], &result["plan"]["seed"]), (&"anywire.ab/1".into(), &77.into()));
    for side in result["sides"].as_array().expect("both sides") {
        let rounds = side["rounds"].as_array().expect("a list");
        assert_eq!(rounds.len(), 5);
        assert!(rounds.iter().all(|round| round["server_cpu_us_per_request"].is_number()), "{side}");
    }
    assert!(fs::read_to_string(&page).expect("it was written").contains("<svg"));
}

/// The rounds of both results are made by hand: what a busy machine measures decides nothing.
#[test]
fn a_regression_beyond_what_was_allowed_is_exit_code_3() {
    let dir = tempfile::tempdir().expect("a directory for the results");
    let path = |name: &str| dir.path().join(name);
    let (a, b) = (Served::demo(), Served::demo());
    let output = ab(&a.url("/"), &b.url("/"), &["--json", text(&path("measured.json"))]);
    assert!(output.status.success(), "{}", stderr(&output));
    for (name, rate) in [("fast.json", 1000.0), ("slow.json", 400.0)] {
        let mut result = json(&path("measured.json"));
        for side in result["sides"].as_array_mut().expect("both sides") {
            for (place, round) in side["rounds"].as_array_mut().expect("a list").iter_mut().enumerate() {
                *round = serde_json::json!({
                    "round": place + 1, "requests_per_second": rate + place as f64, "answered": 100, "errors": 0,
                    "connections_open": 2,
                });
            }
        }
        fs::write(path(name), result.to_string()).expect("it can be written");
    }
    let diff = |old: &str, new: &str, more: &[&str]| {
        anywire(&[&["diff", text(&path(old)), text(&path(new))], more].concat())
    };
    let output = diff("fast.json", "slow.json", &["--fail-on-regression", "50%"]);
    assert_refused(&output, 3, "slower by more than 50 %: A requests/s -");
    assert!(
        stdout(&output).starts_with("A (new) is slower than A (old)"),
        "the result is printed all the same"
    );
    // The other way round it is none, a smaller one was allowed, and nobody asked without the option.
    for (old, new, more) in [
        ("slow.json", "fast.json", &["--fail-on-regression", "50%"][..]),
        ("fast.json", "slow.json", &["--fail-on-regression", "70%"]),
        ("fast.json", "slow.json", &[]),
    ] {
        let output = diff(old, new, more);
        assert!(output.status.success(), "{}", stderr(&output));
    }
}

#[test]
fn a_gate_does_not_open_for_a_server_that_fails() {
    let served = Served::demo();
    let url = served.url("/");
    // Gone, and not there long enough to be given up in a turn; and there, with nothing but errors.
    let gone = TcpListener::bind("127.0.0.1:0").and_then(|port| port.local_addr()).expect("a free port");
    for bad in [format!("http://{gone}/"), served.url("/no-such-path")] {
        let short = ["--rounds", "5", "-d", "50ms", "--turn", "50ms", "--warm-up", "0", "-c", "2"];
        for gate in [&["--fail-on-regression", "5%"][..], &[]] {
            let output = anywire(&[&["ab", &url, &bad], &short[..], gate].concat());
            assert_refused(&output, 1, "not one answer of B was good: ");
            assert!(stdout(&output).starts_with("no verdict on B"), "the result is printed all the same");
        }
    }
}

#[test]
fn no_time_of_ab_is_a_panic() {
    for args in [
        &["-d", "4294967296ms", "--turn", "1ms"][..],
        &["-d", "1e19s"],
        &["-d", "1e19s", "--warm-up", "1e19s", "--turn", "1e19s"],
    ] {
        let output = anywire(&[&["ab", "localhost:9", "localhost:9"], args].concat());
        assert_refused(&output, 2, "ms of duration, allowed is 1 to 86400000");
    }
    let served = Served::demo();
    let url = served.url("/");
    assert!(ab(&url, &url, &["--restart-a", "true", "--restart-within", "1e19s"]).status.success());
}

#[test]
fn each_side_is_started_anew_before_each_round() {
    let dir = tempfile::tempdir().expect("a directory for the notes");
    let notes = dir.path().join("notes");
    let served = Served::demo();
    let url = served.url("/");
    let note = |side: &str| format!("echo {side} >> {}", notes.display());
    let output = ab(&url, &url, &["--restart-a", &note("a"), "--restart-b", &note("b")]);
    assert!(output.status.success(), "{}", stderr(&output));
    let notes = fs::read_to_string(notes).expect("the commands have run");
    let count = |side: &str| notes.lines().filter(|line| *line == side).count();
    assert_eq!((count("a"), count("b")), (5, 5), "{notes}");
}

#[test]
fn a_server_that_does_not_come_up_again_is_said_with_what_its_command_printed() {
    let served = Served::demo();
    let url = served.url("/");
    let output = ab(&url, &url, &["--restart-b", "echo the reason; exit 7"]);
    assert_refused(&output, 1, "\"echo the reason; exit 7\" ended with exit status: 7; it printed:");
    assert!(stderr(&output).contains("\nthe reason"), "{}", stderr(&output));
    // Its command ends well, and nobody answers.
    let gone = TcpListener::bind("127.0.0.1:0").and_then(|port| port.local_addr()).expect("a free port");
    let args = ["--restart-b", "true", "--restart-within", "100ms"];
    let output = ab(&url, &format!("http://{gone}/"), &args);
    assert_refused(&output, 1, "\"true\" was run, and ");
}

#[test]
fn a_server_against_itself_gives_a_noise_limit() {
    let dir = tempfile::tempdir().expect("a directory for the results");
    let (trial, other) = (dir.path().join("trial.json"), dir.path().join("other.json"));
    let (a, b) = (Served::demo(), Served::demo());
    let output = ab(&a.url("/"), &a.url("/"), &["--json", text(&trial)]);
    assert!(stdout(&output).contains("what differs is noise"), "{}", stdout(&output));
    let output = ab(&a.url("/"), &b.url("/"), &["--json", text(&other), "--noise", text(&trial)]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(json(&other)["contrast"]["noise_from"], "a comparison of a server with itself");
    let output = ab(&a.url("/"), &b.url("/"), &["--noise", text(&other)]);
    assert_refused(&output, 2, "no 'ab' of a server against itself");
}

#[test]
fn stored_results_are_compared_or_refused_with_a_reason() {
    let dir = tempfile::tempdir().expect("a directory for the results");
    let path = |name: &str| dir.path().join(name);
    let (a, b) = (Served::demo(), Served::demo());
    for (name, connections) in [("old.json", "2"), ("new.json", "2"), ("wide.json", "3")] {
        let output = ab(&a.url("/"), &b.url("/"), &["--json", text(&path(name))][..]);
        assert!(output.status.success(), "{}", stderr(&output));
        let mut result = json(&path(name));
        result["plan"]["load"]["connections"] = connections.parse::<u64>().expect("a number").into();
        fs::write(path(name), result.to_string()).expect("it can be written");
    }
    let diff = |old: &str, new: &str, more: &[&str]| {
        anywire(&[&["diff", text(&path(old)), text(&path(new))], more].concat())
    };
    let page = path("diff.html");
    let output = diff("old.json", "new.json", &["--html", text(&page), "--json", "-"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let result: Value = serde_json::from_str(&stdout(&output)).expect("the result is JSON alone");
    assert_eq!(
        (&result["schema"], result["pairs"].as_array().map(Vec::len)),
        (&"anywire.diff/1".into(), Some(2))
    );
    assert!(fs::read_to_string(page).expect("it was written").contains("<svg"));
    // The same files give the same result.
    assert_eq!(stdout(&diff("old.json", "new.json", &["--json", "-"])), stdout(&output));

    assert_refused(&diff("old.json", "wide.json", &[]), 2, "connections 2 -> 3");
    assert!(stderr(&diff("old.json", "wide.json", &[])).contains("--force"));
    assert!(stdout(&diff("old.json", "wide.json", &["--force"])).contains("were compared all the same"));

    let whole = fs::read_to_string(path("old.json")).expect("it is there");
    for (name, contents, code, found) in [
        ("cut.json", &whole[..whole.len() / 2], 26, "it ends in the middle of its JSON"),
        ("empty.json", "", 26, "it ends in the middle of its JSON"),
        ("page.json", "<!doctype html>", 26, "it is no JSON (line 1, column 1)"),
        ("other.json", "{\"schema\": \"k6/1\"}", 2, "it is of the schema \"k6/1\""),
        ("later.json", "{\"schema\": \"anywire.ab/2\"}", 2, "which is later than this tool"),
        ("half.json", "{\"schema\": \"anywire.ab/1\"}", 26, "is not complete: missing field"),
        ("none.json", "{}", 26, "it is JSON without a schema"),
    ] {
        fs::write(path(name), contents).expect("it can be written");
        assert_refused(&diff(name, "new.json", &[]), code, found);
        assert_refused(&diff("old.json", name, &[]), code, found);
    }
    assert_refused(&diff("missing.json", "new.json", &[]), 26, "missing.json failed");
    assert_refused(&diff("old.json", "new.json", &["--html", "/no/such/folder/x"]), 23, "/no/such/folder/x");
}

#[test]
fn arguments_that_make_no_sense_are_refused_before_anything_is_sent() {
    let usage = |args: &[&str]| {
        let output = anywire(&[&["ab", "localhost:1", "localhost:1"], args].concat());
        assert_eq!(output.status.code(), Some(2), "{args:?}: {}", stderr(&output));
        stderr(&output)
    };
    assert!(usage(&["--rounds", "4"]).contains("5..="));
    assert!(usage(&["--fail-on-regression", "fast"]).contains("such as 5%"));
    assert!(usage(&["--noise=-1%"]).contains("no percentage"));
    assert!(usage(&["--pid-a", "0"]).contains("begin at 1"));
    assert!(usage(&["-c", "0"]).contains("--connections"));
    let output = anywire(&["ab", "localhost:1", "localhost:1", "--noise", "/no/such/file"]);
    assert_refused(&output, 26, "/no/such/file");
}
