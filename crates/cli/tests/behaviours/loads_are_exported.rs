//! `load` writes intervals, CSV and Prometheus text, each to its place; one that cannot be written costs none of the others.

use serde_json::Value;

use crate::common::{Served, anywire, assert_refused, stderr, stdout, text};

#[test]
fn all_forms_are_of_one_result() {
    let served = Served::demo();
    let folder = tempfile::tempdir().expect("a folder");
    let places = ["a.json", "a.html", "a.ndjson", "a.csv", "a.prom"].map(|name| folder.path().join(name));
    let [json, html, intervals, csv, prometheus] = places.each_ref().map(|path| text(path));
    let url = served.url("/");
    let args = ["load", &url, "-d", "350ms", "--warm-up", "0", "-c", "2", "--interval", "100ms"];
    let more =
        ["--json", json, "--html", html, "--intervals", intervals, "--csv", csv, "--prometheus", prometheus];
    let output = anywire(&[&args[..], &more].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stdout(&output).contains("requests/s"), "the table is printed, too");
    let read = |path: &str| std::fs::read_to_string(path).expect("it was written");
    let outcome: Value = serde_json::from_str(&read(json)).expect("it is JSON");
    let answered = outcome["totals"]["answered"].as_u64().expect("a count");
    let lines = read(intervals);
    let of_line =
        |line: &str| serde_json::from_str::<Value>(line).expect("each line is JSON")["answered"].as_u64();
    assert_eq!(lines.lines().filter_map(of_line).sum::<u64>(), answered);
    assert!(lines.lines().count() > 1, "{lines}");
    assert!(read(csv).contains(&format!(",{answered},")));
    assert!(read(prometheus).contains(&format!(
        "anywire_load_answered_total{{url=\"{url}\",protocol=\"http/1.1\"}} {answered}\n"
    )));
    assert!(read(html).contains("<svg"));
}

#[test]
fn intervals_on_stdout_are_alone_there() {
    let served = Served::demo();
    let output = anywire(&["load", &served.url("/"), "-n", "200", "-c", "2", "--intervals", "-"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let lines = stdout(&output);
    let answered = lines.lines().map(|line| {
        serde_json::from_str::<Value>(line).expect("each line is JSON")["answered"].as_u64().expect("a count")
    });
    assert_eq!(answered.sum::<u64>(), 200);
}

#[test]
fn places_are_checked_before_the_load() {
    let folder = tempfile::tempdir().expect("a folder");
    let (one, missing) = (folder.path().join("one"), folder.path().join("missing/one"));
    let (one, missing) = (text(&one), text(&missing));
    let load = |more: &[&str]| anywire(&[&["load", "localhost:1"], more].concat());
    assert_refused(&load(&["--csv", one, "--prometheus", one]), 2, "both --csv and --prometheus name it");
    assert_refused(&load(&["--json", "-", "--intervals", "-"]), 2, "both --json and --intervals name it");
    assert_refused(&load(&["--intervals", missing]), 23, "writing ");
    assert_eq!(load(&["--interval", "1ms"]).status.code(), Some(2));
}

#[test]
fn a_full_disk_costs_only_what_it_holds() {
    let served = Served::demo();
    let folder = tempfile::tempdir().expect("a folder");
    let json = folder.path().join("a.json");
    for option in ["--intervals", "--csv", "--prometheus", "--html"] {
        let output = anywire(&[
            "load",
            &served.url("/"),
            "-n",
            "20",
            "-c",
            "1",
            "--json",
            text(&json),
            option,
            "/dev/full",
        ]);
        assert_refused(&output, 23, "writing /dev/full failed");
        assert!(stdout(&output).contains("20 answered"), "{option}: {}", stdout(&output));
        let outcome: Value =
            serde_json::from_str(&std::fs::read_to_string(&json).expect("written")).expect("JSON");
        assert_eq!(outcome["totals"]["answered"], 20, "{option}");
        std::fs::remove_file(&json).expect("it is there");
    }
}

#[test]
fn a_full_disk_is_said_by_each_command_that_writes_a_result() {
    let (served, folder) = (Served::demo(), tempfile::tempdir().expect("a folder"));
    let (url, stored) = (served.url("/"), folder.path().join("stored.json"));
    let stored = text(&stored);
    let load = ["load", &url, "-n", "20", "-c", "1"];
    assert!(anywire(&[&load[..], &["--json", stored]].concat()).status.success());
    // So short that nothing is to be read from the figures: each writes them all the same.
    let short = ["--rounds", "5", "-d", "20ms", "--turn", "10ms", "--warm-up", "0", "-c", "2"];
    let commands: [Vec<&str>; 5] = [
        load.to_vec(),
        [&["ab", &url, &url], &short[..]].concat(),
        vec!["diff", stored, stored],
        vec!["compare", "--quick", "--rounds", "1", "--duration", "50ms", "-c", "2", "--wires", "tcp"],
        vec!["probe", &url, "-n", "8", "-c", "1", "--pipeline", "2"],
    ];
    for command in commands {
        let output = anywire(&[&command[..], &["--json", "/dev/full"]].concat());
        assert_refused(&output, 23, "writing /dev/full failed");
        assert!(!stdout(&output).is_empty(), "{command:?}: the result itself was printed");
    }
}
