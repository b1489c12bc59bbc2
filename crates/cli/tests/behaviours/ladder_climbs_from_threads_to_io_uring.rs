//! `anywire lab ladder`: a row for each I/O model with the keys of `compare`, calls by name, and the hand-over of jobs.

use crate::common::{anywire, stderr, stdout, text};
use anywire_sys::cpu;
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};
use serde_json::Value;

/// Climbs for a short time, or for longer on a machine that is too busy for any answer in that time.
fn ladder(args: &[&str]) -> Value {
    let climb = |duration| {
        anywire(&[&["ladder", "--rounds", "1", "--duration", duration], args, &["--json", "-"]].concat())
    };
    let mut short = ["300ms", "3s"].into_iter().map(climb);
    let answered = short.find(|output| !stderr(output).contains("no request was answered"));
    let output = answered.unwrap_or_else(|| climb("30s"));
    assert!(output.status.success(), "{}", stderr(&output));
    serde_json::from_str(&stdout(&output)).expect("the result is JSON alone")
}

/// Figures that need a permission: there, or the notes say why not.
fn known_or_noted(row: &Value, key: &str) {
    let notes = row["notes"].as_array().map_or(0, Vec::len);
    assert!(
        row[key].is_number() || row[key].is_object() || (row[key].is_null() && notes > 0),
        "{key} in {row}"
    );
}

#[test]
fn every_rung_has_its_row_and_its_page() {
    let dir = tempfile::tempdir().expect("a directory for the results");
    let (json, html) = (dir.path().join("ladder.json"), dir.path().join("ladder.html"));
    let short = ["ladder", "--quick", "--duration", "100ms"];
    let output = anywire(&[&short[..], &["--json", text(&json), "--html", text(&html)]].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    let result = std::fs::read_to_string(&json).expect("the JSON was written");
    let result: Value = serde_json::from_str(&result).expect("it is JSON");
    assert_eq!(result["schema"], "anywire.ladder/1");
    let rows = result["rungs"].as_array().expect("a list of rungs");
    let names: Vec<&str> = rows.iter().filter_map(|row| row["name"].as_str()).collect();
    let foreign = ["blocking", "scan", "select", "poll", "epoll", "io_uring"];
    assert_eq!(names[..6], foreign);
    for own in ["tcp", "unix", "stack"] {
        assert!(names[6..].contains(&own), "{names:?}");
    }
    for row in rows {
        if row["name"] == "io_uring" && row["requests_per_second"].is_null() {
            // Not every system offers it; the row says why.
            assert!(row["error_messages"][0].as_str().is_some_and(|why| why.contains("io_uring")), "{row}");
            continue;
        }
        for key in ["requests_per_second", "server_cpu_us_per_request", "p50_us", "p99_us", "ratio_to_limit"]
        {
            assert!(row[key].as_f64() > Some(0.0), "{key} in {row}");
        }
        for key in ["syscalls_per_request", "syscalls_by_name", "user_bytes_per_connection"] {
            known_or_noted(row, key);
        }
        let part = |key: &str| row[key].as_f64().unwrap_or_else(|| panic!("{key} in {row}"));
        let (user, system) =
            (part("server_user_cpu_us_per_request"), part("server_system_cpu_us_per_request"));
        let both = part("server_cpu_us_per_request");
        // The medians of two rounds are means, which add up.
        assert!((user + system - both).abs() < 0.01 * both, "{row}");
        for key in ["voluntary_switches_per_request", "involuntary_switches_per_request"] {
            assert!(row[key].as_f64() >= Some(0.0), "{key} in {row}");
        }
        let threads = if row["name"] == "blocking" { 65.0 } else { 1.0 };
        assert_eq!(row["threads"], threads, "{row}");
        assert!(row["story"].as_str().is_some_and(|story| story.len() > 80), "{row}");
        assert!(stdout(&output).contains(row["name"].as_str().expect("text")));
    }
    let ways = result["hand_over"]["rows"].as_array().expect("the second table");
    for way in ["pipe", "futex", "futex_if_asleep"] {
        assert_eq!(ways.iter().filter(|row| row["way"] == way).count(), 3, "{ways:?}");
    }
    let table = stdout(&output);
    // The figures stand right below their headings, so that a table is as wide as those.
    let headings =
        table.lines().filter(|line| line.starts_with("  rung ") || line.starts_with("  in flight "));
    let widths: Vec<_> = headings.map(str::len).collect();
    assert!(widths.len() == 3 && widths.iter().all(|&width| width <= 80), "{widths:?} in {table}");
    let page = std::fs::read_to_string(&html).expect("the page was written");
    assert_eq!(page.matches("<svg role=").count(), 8);
    assert!(
        !page.contains("src=\"http") && page.contains("<h2>io_uring</h2>"),
        "no paragraph, or it loads something"
    );
}

#[test]
fn idle_connections_are_open_and_not_loaded() {
    let result = ladder(&["--rungs", "scan,poll,epoll,unix,stack", "--connections", "200", "--active", "1"]);
    assert_eq!((&result["plan"]["connections"], &result["plan"]["active"]), (&200.into(), &1.into()));
    assert!(result["hand_over"].is_null());
    let rows = result["rungs"].as_array().expect("a list of rungs");
    assert_eq!(rows.len(), 5);
    for row in rows {
        assert!(row["requests_per_second"].as_f64() > Some(0.0), "{row}");
        assert_eq!(row["rounds"][0]["connections_open"], 1, "{row}");
    }
    // All sockets are asked for each request that comes.
    if let Some(calls) = rows[0]["syscalls_by_name"]["recvfrom"].as_f64() {
        assert!(calls > 100.0, "{calls} recvfrom per request");
    }
}

#[test]
fn more_connections_than_select_can_watch_are_explained() {
    let result = ladder(&["--rungs", "select,poll", "--connections", "1100", "--active", "1"]);
    let [select, poll] = &result["rungs"].as_array().expect("a list")[..] else { panic!("two rungs") };
    assert!(select["requests_per_second"].is_null());
    let why = select["error_messages"][0].as_str().expect("a message");
    assert!(why.contains("1100 connections do not fit") && why.contains("FD_SETSIZE"), "{why}");
    assert!(poll["requests_per_second"].as_f64() > Some(0.0), "{poll}");
}

#[test]
fn where_io_uring_is_forbidden_the_rung_says_so_and_the_others_are_measured() {
    let result = ladder_without(IO_URING_SETUP, &["--rungs", "epoll,io_uring", "-c", "4"]);
    let [epoll, uring] = &result["rungs"].as_array().expect("a list")[..] else { panic!("two rungs") };
    assert!(epoll["requests_per_second"].as_f64() > Some(0.0), "{epoll}");
    let why = uring["error_messages"][0].as_str().expect("a message");
    assert!(why.contains("io_uring") && why.contains("forbids"), "{why}");
}

#[test]
fn where_counting_is_forbidden_the_columns_say_so() {
    let result = ladder_without(PERF_EVENT_OPEN, &["--rungs", "epoll,hand-over", "-c", "4"]);
    let epoll = &result["rungs"][0];
    assert!(epoll["requests_per_second"].as_f64() > Some(0.0), "{epoll}");
    assert!(epoll["syscalls_per_request"].is_null() && epoll["syscalls_by_name"].is_null(), "{epoll}");
    let names_it = |notes: &Value| notes.to_string().contains("CAP_PERFMON");
    assert!(names_it(&epoll["notes"]), "{epoll}");
    let hand_over = &result["hand_over"];
    assert!(hand_over["rows"][0]["syscalls_per_hand_over"].is_null(), "{hand_over}");
    assert!(names_it(&hand_over["notes"]), "{hand_over}");
}

#[test]
fn on_one_core_nothing_is_pinned_and_nothing_spins() {
    let result = std::thread::spawn(|| {
        // The process that is started inherits the thread's cores.
        let core = cpu::available_cores()[0];
        cpu::pin_current_thread(core).expect("it is among ours");
        ladder(&["--rungs", "epoll,tcp,hand-over", "-c", "4"])
    });
    let result = result.join().expect("it does not panic");
    assert!(result["placement"]["server_core"].is_null(), "{result}");
    assert!(result["notes"].to_string().contains("one core only"), "{result}");
    for row in result["rungs"].as_array().expect("a list of rungs") {
        assert!(row["requests_per_second"].as_f64() > Some(0.0), "{row}");
    }
    let hand_over = &result["hand_over"];
    let rows = hand_over["rows"].as_array().expect("the second table");
    assert!(!rows.is_empty() && rows.iter().all(|row| row["way"] != "spin"), "{hand_over}");
    assert!(hand_over["notes"].to_string().contains("spinning is left out"), "{hand_over}");
}

#[test]
fn the_hand_over_can_be_measured_alone() {
    let result = ladder(&["--quick", "--rungs", "hand-over"]);
    assert_eq!(result["rungs"].as_array().map(Vec::len), Some(0));
    assert!(result["host"]["kernel"].is_string() && result["interrupted"] == false, "{result}");
    assert!(result["hand_over"]["rows"].as_array().is_some_and(|rows| rows.len() >= 9), "{result}");
}

#[test]
fn what_is_asked_wrongly_is_said() {
    for (args, words) in [
        (&["ladder", "--rungs", "kqueue"][..], ["kqueue", "io_uring, tcp"]),
        (&["ladder", "-c", "2", "--active", "3"], ["3 of 2", "--active"]),
        (&["ladder", "-c", "0"], ["--connections <N>", "1..=100000"]),
        (&["ladder", "-c", "100001"], ["--connections <N>", "1..=100000"]),
        (&["ladder", "--active", "0"], ["--active <N>", "1..=100000"]),
    ] {
        let output = anywire(args);
        assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
        assert!(words.iter().all(|word| stderr(&output).contains(word)), "{}", stderr(&output));
    }
}

/// Climbs in a process in which one system call fails, as in a container's seccomp profile.
fn ladder_without(call: i64, args: &'static [&str]) -> Value {
    let restricted = std::thread::spawn(move || {
        // The process that is started inherits the thread's filter.
        let arch = std::env::consts::ARCH.try_into().expect("an architecture that seccomp knows");
        let rules = [(call, Vec::new())].into();
        let filter = SeccompFilter::new(rules, SeccompAction::Allow, SeccompAction::Errno(EPERM), arch);
        let program: BpfProgram = filter.expect("one rule").try_into().expect("a short program");
        seccompiler::apply_filter(&program).expect("a thread may restrict itself");
        ladder(args)
    });
    restricted.join().expect("it does not panic")
}

const IO_URING_SETUP: i64 = 425;
const PERF_EVENT_OPEN: i64 = if cfg!(target_arch = "x86_64") { 298 } else { 241 };
const EPERM: u32 = 1;
