//! `load` says how it went, and exits with a code for it: the server died, never answered or answered badly, or this
//! process had no descriptors.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::{Command, Output, Stdio};

use crate::common::{Served, anywire, assert_refused, stderr, stdout, text};

/// The URL of a server that takes one connection, answers so many requests on it, and is gone.
fn server(answer: &'static [u8], answers: usize) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}/", listener.local_addr().expect("it is bound"));
    std::thread::spawn(move || {
        let (mut peer, _) = listener.accept().expect("the command connects");
        for _ in 0..answers {
            // At depth 1 a request comes alone, and it is short.
            if peer.read(&mut [0; 4096]).unwrap_or_default() == 0 || peer.write_all(answer).is_err() {
                return;
            }
        }
        drop(listener);
    });
    url
}

const GOOD: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
const BAD: &[u8] = b"HTTP/1.1 500 Broken\r\ncontent-length: 0\r\n\r\n";

fn load(url: &str, args: &[&str]) -> Output {
    anywire(&[&["load", url, "-c", "1", "--loops", "1", "--warm-up", "0"], args].concat())
}

#[test]
fn a_server_that_dies_while_a_time_is_measured() {
    let dir = tempfile::tempdir().expect("a directory for the page");
    let page = dir.path().join("page.html");
    let output = load(&server(GOOD, 20), &["-d", "1h", "--html", text(&page)]);
    assert_refused(&output, 18, " of 3600 s");
    let table = stdout(&output);
    assert!(table.contains("ended early, after ") && table.contains("20 answered"), "{table}");
    let page = std::fs::read_to_string(page).expect("the page was written");
    assert!(page.contains("ended early, after "), "the page does not say it");
}

#[test]
fn a_server_that_dies_before_all_requests_are_sent() {
    let output = load(&server(GOOD, 216), &["-n", "400", "--json", "-"]);
    assert_refused(&output, 18, " of 400 requests sent");
    let outcome: serde_json::Value =
        serde_json::from_str(&stdout(&output)).expect("the result is JSON alone");
    assert_eq!((&outcome["totals"]["answered"], &outcome["rate"]["given_up"]), (&216.into(), &true.into()));
    let (sent, unsent) = (&outcome["totals"]["sent"], &outcome["totals"]["unsent"]);
    assert_eq!(
        sent.as_u64().zip(unsent.as_u64()).map(|(sent, unsent)| sent + unsent),
        Some(400),
        "{outcome}"
    );
}

#[test]
fn a_host_that_nobody_knows_is_named() {
    let output = load("http://no-such-host.invalid/", &["-n", "10", "--connect-timeout", "100ms"]);
    assert_refused(&output, 1, "no-such-host.invalid");
}

/// Only the dial changes: the server reads the host of the URL.
#[test]
fn other_places_stand_for_those_of_the_url() {
    let served = Served::demo();
    let url = served.url("/");
    let port = url.trim_end_matches('/').rsplit(':').next().expect("it has a port");
    let (resolved, moved) = (format!("no-such-host.invalid:{port}:127.0.0.1"), format!("::127.0.0.1:{port}"));
    for (url, option, value) in [
        (format!("http://no-such-host.invalid:{port}/"), "--resolve", &resolved),
        ("http://no-such-host.invalid/".to_owned(), "--connect-to", &moved),
    ] {
        let output = load(&url, &["-n", "20", option, value]);
        assert!(output.status.success(), "{option}: {}", stderr(&output));
        assert!(stdout(&output).contains("20 answered"), "{option}: {}", stdout(&output));
    }
    let refused = load("http://h/", &["--resolve", "h"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(stderr(&refused).contains("HOST:PORT:ADDRESS"), "{}", stderr(&refused));
}

#[test]
fn http2_has_streams_and_its_own_column() {
    let served = Served::demo();
    let url = served.url("/");
    let output = load(&url, &["--http2", "--streams", "10", "-n", "500"]);
    let table = stdout(&output);
    assert!(output.status.success() && table.contains("500 answered"), "{table}{}", stderr(&output));
    assert!(table.contains("(http/2)") && table.contains("  streams  requests/s"), "{table}");
    let output = load(&url, &["--http2", "--streams", "3", "-n", "50", "--json", "-"]);
    let outcome: serde_json::Value =
        serde_json::from_str(&stdout(&output)).expect("the result is JSON alone");
    let (target, plan) = (&outcome["target"], &outcome["plan"]);
    assert_eq!((&target["protocol"], &plan["depth"]), (&"http/2".into(), &3.into()), "{outcome}");
    // Streams are not a pipeline.
    assert_eq!(load(&url, &["--streams", "3"]).status.code(), Some(2));
    assert_eq!(load(&url, &["--http2", "--streams", "3", "--depth", "3"]).status.code(), Some(2));
}

#[test]
fn http2_needs_a_server_that_takes_it() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}/", listener.local_addr().expect("it is bound"));
    // Until the test ends.
    std::thread::spawn(move || {
        for peer in listener.incoming() {
            let mut peer = peer.expect("the command connects");
            if peer.read(&mut [0; 4096]).is_ok() && peer.write_all(BAD).is_ok() {
                // Read to its end, so that the answer is not lost to a reset.
                let _ = peer.read_to_end(&mut Vec::new());
            }
        }
    });
    let output = load(&url, &["--http2", "-n", "10"]);
    assert_refused(&output, 1, "answered in HTTP/1");
    assert!(stderr(&output).contains("leave out --http2"), "{}", stderr(&output));
}

#[test]
fn a_server_that_never_answers() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}/", listener.local_addr().expect("it is bound"));
    let args = ["load", &url, "-c", "1", "-n", "5", "--warm-up", "1h", "--timeout", "50ms"];
    let output = anywire(&args);
    assert_refused(&output, 1, "no answer came within 50 ms");
    let table = stdout(&output);
    assert!(table.contains("warm-up, which is in no figure: 8 requests sent, 0 answered"), "{table}");
    assert!(table.contains("errors: 8 timeout"), "{table}");
}

#[test]
fn answers_that_are_all_errors() {
    let output = load(&server(BAD, 10), &["-n", "10"]);
    assert_refused(&output, 1, "none of the 10 answers was good");
    assert!(stdout(&output).contains("10 x 500"), "{}", stdout(&output));
}

#[test]
fn errors_among_good_answers_are_counted_and_no_failure() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}/", listener.local_addr().expect("it is bound"));
    std::thread::spawn(move || {
        let (mut peer, _) = listener.accept().expect("the command connects");
        for answer in [GOOD, BAD].iter().cycle() {
            if peer.read(&mut [0; 4096]).unwrap_or_default() == 0 || peer.write_all(answer).is_err() {
                return;
            }
        }
    });
    let output = load(&url, &["-n", "10"]);
    // A loop that waited for its core is told beside it.
    let said = stderr(&output);
    let last = said.lines().rfind(|line| !line.contains(" WARN "));
    assert!(output.status.success() && last.is_some_and(|line| line.ends_with("depth 1")), "{said}");
    assert!(stdout(&output).contains("5 status"), "{}", stdout(&output));
}

#[test]
fn a_process_without_descriptors_says_so_from_the_first_one_on() {
    let port = TcpListener::bind("127.0.0.1:0").and_then(|port| port.local_addr()).expect("a free port");
    for limit in 5..16 {
        let program = env!("CARGO_BIN_EXE_anywire");
        let script = format!(
            "ulimit -n {limit} && exec {program} load http://{port}/ -c 1 -n 1 --loops 1 --no-screen"
        );
        let output = Command::new("sh").args(["-c", &script]).output().expect("sh runs");
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{limit} descriptors: {said}");
        assert!(said.contains("error: ") && !said.contains("panicked"), "{limit} descriptors: {said}");
    }
}

#[test]
fn a_process_without_descriptors() {
    let served = Served::demo();
    let script = format!(
        "ulimit -n 30 && exec {} load http://{}/ -c 64 -n 200 --warm-up 0 --loops 1 --json -",
        env!("CARGO_BIN_EXE_anywire"),
        served.authority(),
    );
    let output =
        Command::new("sh").args(["-c", &script]).stdin(Stdio::null()).output().expect("there is a shell");
    assert_refused(&output, 18, "out of file descriptors");
    assert!(stderr(&output).contains("ulimit -n"), "{}", stderr(&output));
    let outcome: serde_json::Value =
        serde_json::from_str(&stdout(&output)).expect("the result is JSON alone");
    let errors = &outcome["totals"]["errors"];
    assert!(errors["descriptors"].as_u64() > Some(0) && errors["connect"] == 0, "{errors}");
}

#[test]
fn help_tells_the_exit_codes() {
    let help = stdout(&anywire(&["load", "--help"]));
    let (_, codes) = help.split_once("Exit codes: ").expect("they are told");
    for code in [
        "0 measured",
        "1 could not",
        "2 bad",
        "3 a threshold",
        "18 the run",
        "23 result",
        "26 data",
        "130 and 143",
    ] {
        let words = codes.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains(code), "{code:?} in {codes}");
    }
}

#[test]
fn a_rate_is_kept_and_told_in_three_columns() {
    let served = Served::demo();
    let url = served.url("/");
    // No verdict on a machine that is busy otherwise is a result too.
    let ended = |output: &Output| matches!(output.status.code(), Some(0 | 4));
    let output = load(&url, &["--rate", "1k", "-n", "200", "--poisson", "--seed", "7", "--json", "-"]);
    assert!(ended(&output), "{}", stderr(&output));
    let outcome: serde_json::Value =
        serde_json::from_str(&stdout(&output)).expect("the result is JSON alone");
    assert_eq!((&outcome["plan"]["mode"], &outcome["plan"]["schedule"]["seed"]), (&"open".into(), &7.into()));
    for column in ["intended", "send", "lag"] {
        assert_eq!(outcome["latency"][column]["count"], 200, "{column}: {outcome}");
    }
    let saturated = outcome["generator"]["saturated"].as_bool().expect("it is known");
    assert_eq!(output.status.code(), Some(if saturated { 4 } else { 0 }));

    let output = load(&url, &["--step", "100:300:2", "-d", "400ms"]);
    let table = stdout(&output);
    assert!(
        ended(&output) && table.contains("open: from 100 requests/s to 300 requests/s in 2 steps"),
        "{table}"
    );
    assert!(table.contains("lag p99") && table.contains("own lag"), "{table}");
}

#[test]
fn a_generator_that_was_the_limit_gives_no_verdict() {
    let served = Served::demo();
    // No loop sends so many.
    let output = load(&served.url("/"), &["--rate", "100M", "-d", "200ms", "--require", "errors<1"]);
    let limited_by_server = stdout(&output).contains("all connections were busy");
    assert!(limited_by_server || output.status.code() == Some(4), "{}{}", stdout(&output), stderr(&output));
    if output.status.code() == Some(4) {
        assert!(stdout(&output).contains("saturated: ") && stdout(&output).contains("not judged"));
        assert!(stderr(&output).contains("help: use more loops"), "{}", stderr(&output));
    }
}

#[test]
fn a_server_that_is_too_slow_for_a_rate_is_judged_by_who_asks() {
    let run = |args: &[&str]| {
        // It answers one request, so that all that follow wait for the second answer.
        let url = one_answer();
        load(&url, &[&["--rate", "20", "-d", "1s", "--json", "-"], args].concat())
    };
    let output = run(&[]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let outcome: serde_json::Value = serde_json::from_str(&stdout(&output)).expect("JSON alone");
    assert_eq!(outcome["generator"]["limited_by"], "connections", "{outcome}");
    assert!(outcome["totals"]["unsent"].as_u64() > Some(0), "{outcome}");
    assert_refused(&run(&["--require", "rate_ratio>=0.99"]), 3, "rate_ratio");
}

/// The URL of a server that answers the first request of a connection alone, and keeps the connection.
fn one_answer() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}/", listener.local_addr().expect("it is bound"));
    std::thread::spawn(move || {
        let (mut peer, _) = listener.accept().expect("the command connects");
        if peer.read(&mut [0; 4096]).is_ok_and(|count| count > 0) && peer.write_all(GOOD).is_ok() {
            // Until the command has left.
            let _ = peer.read_to_end(&mut Vec::new());
        }
    });
    url
}

#[test]
fn rates_that_are_none_are_bad_arguments() {
    for (args, word) in [
        (&["--rate", "NaN"][..], "a second"),
        (&["--rate", "0"], "a second"),
        (&["--rate=-5"], "a second"),
        (&["--ramp", "5"], "two rates"),
        (&["--step", "1:2:1"], "steps"),
        (&["--poisson"], "--poisson needs a schedule"),
        (&["--deadline", "1s"], "--deadline needs a schedule"),
        (&["--rate", "5", "--ramp", "1:2"], "cannot be used with"),
        (&["--ramp", "1:2", "-n", "5"], "cannot be used with"),
        (&["--new-connection-every", "0"], "0"),
    ] {
        let output = anywire(&[&["load", "localhost:1"], args].concat());
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(stderr(&output).contains(word), "{args:?}: {}", stderr(&output));
    }
}
