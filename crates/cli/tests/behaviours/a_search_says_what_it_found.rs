//! `load --search`: what was found and tried is in each form of the result, and the exit code follows from it.
//!
//! A machine that is busy with something else may have the load generator be the limit at any rate. The result says so, and then nothing of
//! the server is known here either.

use std::io::Read;
use std::net::TcpStream;

use rustix::process::Signal;
use serde_json::Value;

use crate::common::{Served, anywire, assert_refused, ended_at_its_first_word, stderr, stdout, text};
use crate::peer::{Peer, say};

/// A server that answers so many requests on each connection, and the others with 503: what it bears follows from the number of requests
/// of a run.
fn bears(requests: usize) -> Peer {
    Peer::of_http1(move |stream: &mut TcpStream| {
        for number in 1.. {
            let status = if number <= requests { "200 OK" } else { "503 Busy" };
            say(stream, format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n"));
            if !matches!(stream.read(&mut [0; 4096]), Ok(1..)) {
                return;
            }
        }
    })
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).expect("it is JSON")
}

#[test]
fn no_rate_holds_beyond_what_the_server_bears() {
    // 40 requests in 0.1 s.
    let (server, folder) = (bears(40), tempfile::tempdir().expect("a folder"));
    let files = ["a.json", "a.html"].map(|name| folder.path().join(name));
    let [result, page] = files.each_ref().map(|path| text(path));
    let url = server.url();
    let args =
        ["load", &url, "-c", "1", "-d", "100ms", "--confirm", "100ms", "--warm-up", "0", "--loops", "1"];
    let more =
        ["--search=100:1600", "--rate", "100", "--json", result, "--html", page, "--require", "status.5xx=0"];
    let output = anywire(&[&args[..], &more].concat());
    let (said, table) = (stderr(&output), stdout(&output));
    let outcome = json(&std::fs::read_to_string(result).expect("it was written"));
    let found = &outcome["search"];
    let code = match found["end"].as_str() {
        Some("found" | "highest") => 0,
        Some("nothing_held") => 3,
        Some("generator") => 4,
        other => panic!("{other:?}: {said}"),
    };
    assert_eq!(output.status.code(), Some(code), "{said}");
    let trials = found["trials"].as_array().expect("a list");
    for trial in trials {
        let target = trial["target"].as_f64().expect("a rate");
        assert!((100.0..=1600.0).contains(&target), "{trial}");
        // A run of which all left in time had too many for this server.
        assert!(target <= 400.0 || trial["verdict"] != "held", "{trial}");
        assert_eq!(trial["reason"].is_null(), trial["verdict"] == "held", "{trial}");
    }
    assert!(found["highest_rate"].as_f64().is_none_or(|rate| rate <= 400.0), "{found}");
    assert_eq!(found["confirmed"], !found["highest_rate"].is_null(), "{found}");
    // A line for each run while it goes on, and a row for each in the table and on the page.
    let lines = said.lines().filter(|line| line.contains("/s sent")).count();
    let rows = |stage: &str| table.lines().filter(|line| line.starts_with(&format!("  {stage} "))).count();
    assert_eq!((lines, rows("search") + rows("confirm")), (trials.len(), trials.len()), "{said}\n{table}");
    let page = std::fs::read_to_string(page).expect("it was written");
    assert!(page.contains("Runs of the search"));
    if code == 0 {
        assert!(table.contains("highest rate that keeps to status.5xx=0: "), "{table}");
        assert!(table.contains("status.5xx=0: broken, asked = 0, found "), "{table}");
    }
}

#[test]
fn what_holds_at_no_rate_is_told_with_its_reason() {
    let served = Served::demo();
    let url = served.url("/");
    let args =
        ["load", &url, "-c", "1", "-d", "100ms", "--warm-up", "0", "--search=50:50", "--require", "p99<1ns"];
    let output = anywire(&args);
    let is_limited = stderr(&output).contains("the load generator was the limit");
    match is_limited {
        true => assert_refused(&output, 4, "no rate was found that holds"),
        false => assert_refused(
            &output,
            3,
            "no rate keeps to p99<1ns: not even 50.0/s; at 50.0/s it does not hold: p99<1ns: broken",
        ),
    }
}

#[test]
fn a_server_that_is_not_there_ends_the_search() {
    let gone = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port").local_addr().expect("bound");
    let output = anywire(&["load", &format!("http://{gone}/"), "-c", "1", "-d", "200ms", "--search"]);
    assert_refused(&output, 1, "no request was answered");
    assert!(stdout(&output).contains("no rate was found that holds: the server did not answer"));
}

#[test]
fn a_signal_keeps_what_was_tried() {
    let served = Served::demo();
    let url = served.url("/");
    let output = ended_at_its_first_word(&["load", &url, "-c", "1", "-d", "1h", "--search"], Signal::INT);
    assert_eq!(output.status.code(), Some(130), "{}", stderr(&output));
    let found = &json(&stdout(&output))["search"];
    assert_eq!(found["end"], "interrupted");
    assert_eq!(found["trials"][0]["verdict"], "not_judged", "{found}");
}

#[test]
fn options_that_do_not_go_together_are_refused_before_the_run() {
    for (args, said) in [
        (&["--search", "--ramp", "1:2"][..], "cannot be used with"),
        (&["--search", "-n", "5"], "cannot be used with"),
        (&["--search", "--rounds", "2"], "cannot be used with"),
        (&["--search=5:1"], "the first of them is the lower one"),
        (&["--search=100"], "write the lowest and the highest rate"),
        (&["--search", "--precision", "0"], "write a share"),
        (&["--search=10:20", "--rate", "5"], "it is not between 10 and 20"),
        (&["--repeats", "2"], "--search"),
        (&["--confirm", "1m"], "--search"),
    ] {
        let output = anywire(&[&["load", "localhost:1"], args].concat());
        assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
        assert!(stderr(&output).contains(said), "{said:?} was expected in: {}", stderr(&output));
    }
}
