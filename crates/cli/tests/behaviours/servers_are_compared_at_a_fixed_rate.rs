//! `ab --rate` and `compare --rate`: the result says at which rate, what it cost each server, and whether the generator kept it.

use std::fs;
use std::process::Output;

use serde_json::Value;

use crate::common::{Served, anywire, stderr, stdout, text};

/// What the command ends with: a machine that is too busy for the rate gives no verdict, and says so.
fn assert_ended(output: &Output, sides: &Value) {
    let sides = sides.as_array().expect("a list of servers");
    let is_saturated = sides.iter().any(|side| side["rate"]["saturated"] == Value::Bool(true));
    assert_eq!(output.status.code(), Some(if is_saturated { 4 } else { 0 }), "{}", stderr(output));
    assert_eq!(stderr(output).contains("help: use more loops"), is_saturated, "{}", stderr(output));
}

#[test]
fn two_servers_take_turns() {
    let dir = tempfile::tempdir().expect("a directory for the results");
    let (file, page) = (dir.path().join("ab.json"), dir.path().join("ab.html"));
    let (a, b) = (Served::demo(), Served::demo());
    let (pid_a, pid_b) = (a.child.id().to_string(), b.child.id().to_string());
    let short =
        ["--rounds", "5", "-d", "20ms", "--turn", "20ms", "--warm-up", "0", "-c", "2", "--rate", "0.5k"];
    let more = ["--pid-a", &pid_a, "--pid-b", &pid_b, "--json", text(&file), "--html", text(&page)];
    let output = anywire(&[&["ab", &a.url("/"), &b.url("/")], &short[..], &more].concat());
    let result: Value =
        serde_json::from_str(&fs::read_to_string(&file).expect("it was written")).expect("it is JSON");
    assert_ended(&output, &result["sides"]);
    let load = &result["plan"]["load"];
    assert_eq!(
        (&load["mode"], &load["schedule"]["shape"]["constant"]["per_second"]),
        (&"open".into(), &500.0.into())
    );
    for side in result["sides"].as_array().expect("both sides") {
        // Ten are due in each turn of 20 ms.
        assert_eq!(side["rate"]["intended"], 50, "{side}");
        assert!(side["server_utilisation"].as_f64() > Some(0.0), "{side}");
        assert!(side["spread"]["server_utilisation"]["max"].as_f64() >= side["server_utilisation"].as_f64());
    }
    let table = stdout(&output);
    assert!(table.contains("open: 500 requests/s in even gaps, latencies from the intended time"), "{table}");
    assert!(table.contains("left in time, own lag p99") && table.contains("% of a core ("), "{table}");
    assert!(stderr(&output).contains("take turns at 500 requests/s"), "{}", stderr(&output));
    assert!(fs::read_to_string(&page).expect("it was written").contains("At the fixed rate"));
}

#[test]
fn servers_stand_beside_the_limit() {
    let served = Served::demo();
    let server = format!("ours={}#{}", served.url("/"), served.child.id());
    let args =
        ["compare", &server, "--wires", "limit", "--rate", "500", "--rounds", "2", "-d", "50ms", "-c", "2"];
    let output = anywire(&[&args[..], &["--json", "-"]].concat());
    let result: Value = serde_json::from_str(&stdout(&output)).expect("the result is JSON alone");
    assert_ended(&output, &result["candidates"]);
    assert_eq!((&result["plan"]["mode"], &result["plan"]["rate"]), (&"open".into(), &500.0.into()));
    for row in result["candidates"].as_array().expect("both") {
        assert_eq!(row["rate"]["intended"], 50, "{row}");
        assert!(row["server_utilisation"].as_f64() > Some(0.0), "{row}");
    }
}

#[test]
fn what_is_no_rate_is_refused() {
    for command in [&["ab", "localhost:1", "localhost:1"][..], &["compare", "--wires", "tcp"]] {
        for rate in ["NaN", "0", "fast"] {
            let output = anywire(&[command, &["--rate", rate]].concat());
            assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
            assert!(stderr(&output).contains("a second"), "{}", stderr(&output));
        }
    }
}
