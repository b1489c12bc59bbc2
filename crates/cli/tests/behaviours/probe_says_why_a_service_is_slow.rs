//! `anywire probe` prints its verdicts with their cure, as text and as JSON, and exits with a code for them.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use rustix::process::Signal;
use serde_json::Value;

use crate::common::{Served, anywire, assert_refused, ended_at_its_first_word, stderr, stdout, text};

/// The authority of a server that sends head and body in two writes.
fn splitting() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let authority = listener.local_addr().expect("it is bound").to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || split(stream));
        }
    });
    authority
}

fn split(mut stream: TcpStream) {
    stream.set_nodelay(true).expect("a socket");
    let mut part = [0; 16 << 10];
    while let Ok(count @ 1..) = stream.read(&mut part) {
        // Requests come whole: they are short.
        for request in part[..count].split_inclusive(|byte| *byte == b'\n').filter(|line| line == b"\r\n") {
            let _ = request;
            let sent = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n");
            // HEAD comes alone, and its answer has no body.
            let body: &[u8] = if part.starts_with(b"HEAD ") { b"" } else { b"hi" };
            if sent.and_then(|()| stream.write_all(body)).is_err() {
                return;
            }
        }
    }
}

#[test]
fn a_verdict_has_three_parts_and_a_code() {
    let authority = splitting();
    let output = anywire(&["probe", &authority]);
    let said = stdout(&output);
    assert!(output.status.success(), "{}", stderr(&output));
    for part in [
        "warning split_write: ",
        "takes 2 data segments where 1 would do",
        "\n  why     ",
        "\n  change  ",
        "writev",
    ] {
        assert!(said.contains(part), "{part:?} in {said}");
    }
    assert_refused(
        &anywire(&["probe", &authority, "--fail-on", "warning"]),
        3,
        "1 verdict of severity warning or above: split_write",
    );
    assert_eq!(anywire(&["probe", &authority, "--fail-on", "problem"]).status.code(), Some(0));
}

#[test]
fn the_json_has_all_fields() {
    let dir = tempfile::tempdir().expect("a directory for the result");
    let path = dir.path().join("probe.json");
    let output = anywire(&["probe", &splitting(), "-n", "20", "--timeout", "60s", "--json", text(&path)]);
    assert!(stdout(&output).contains("split_write"), "the text is printed as well");
    let outcome: Value =
        serde_json::from_str(&std::fs::read_to_string(&path).expect("it was written")).expect("JSON");
    assert_eq!(
        (&outcome["schema"], &outcome["verdicts"][0]["class"]),
        (&"anywire.probe/1".into(), &"split_write".into())
    );
    for field in ["evidence", "why", "change", "severity"] {
        assert!(outcome["verdicts"][0][field].is_string(), "{field}: {outcome:#}");
    }
    // What was not asked for is there, and unknown.
    for field in [
        "server",
        "listeners",
        "listen_drops",
        "tls",
        "http2",
        "slow_path",
        "large",
        "slow_reader",
        "clock",
        "server_timing",
    ] {
        assert!(outcome.get(field).is_some_and(Value::is_null), "{field}: {outcome:#}");
    }
    assert_eq!(outcome["latency"]["count"], 19, "{outcome:#}");
}

#[test]
fn http2_alone() {
    let served = Served::demo();
    let output = anywire(&["probe", "--http2", &served.url("/"), "--json", "-"]);
    let outcome: Value =
        serde_json::from_str(&stdout(&output)).unwrap_or_else(|_| panic!("no JSON: {}", stderr(&output)));
    assert_eq!(
        (&outcome["http2"]["status"], &outcome["verdicts"][0]["class"]),
        (&200.into(), &"clean".into()),
        "{outcome:#}"
    );
    assert!(outcome["http2"]["ping"].as_f64() > Some(0.0), "{outcome:#}");
    assert_eq!(
        (&outcome["latency"]["count"], &outcome["segments"]["p50"]),
        (&199.into(), &1.0.into()),
        "{outcome:#}"
    );
    for measured in ["connection", "reads", "head", "compression", "many"] {
        assert!(!outcome[measured].is_null(), "{measured}: {outcome:#}");
    }
    assert!(outcome["pipelining"].is_null() && outcome["expect"].is_null(), "{outcome:#}");
    assert_refused(&anywire(&["probe", "--http2", &splitting()]), 1, "answered in HTTP/1");
}

#[test]
fn what_cannot_be_probed_is_said() {
    let free = TcpListener::bind("127.0.0.1:0").expect("a free port").local_addr().expect("it is bound");
    assert_refused(&anywire(&["probe", &free.to_string()]), 1, "nobody listens");
    let authority = splitting();
    assert_refused(&anywire(&["probe", &authority, "-n", "1"]), 2, "1 requests, allowed is 8");
    assert_refused(&anywire(&["probe", &authority, "--pid", "4194305"]), 1, "no such process");
    assert_refused(&anywire(&["probe", &authority, "--slow-path", "report"]), 2, "is no path");
    let close = anywire(&["probe", &authority, "-H", "Connection: keep-alive, Close"]);
    assert_refused(&close, 2, "a probe measures what a connection costs that is kept open");
    let nowhere = anywire(&["probe", &authority, "--json", "/no/such/directory/probe.json"]);
    assert_refused(&nowhere, 23, "/no/such/directory/probe.json");
    let wrong = anywire(&["probe", &authority, "--fail-on", "trifle"]);
    assert!(
        wrong.status.code() == Some(2) && stderr(&wrong).contains("note, warning, problem"),
        "{}",
        stderr(&wrong)
    );
    let silent = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = silent.local_addr().expect("it is bound").to_string();
    assert_refused(&anywire(&["probe", &url, "--timeout", "100ms"]), 1, "nothing of the answer had come");
}

#[test]
fn a_certificate_that_nobody_trusts_ends_it_and_k_goes_on() {
    let served = Served::on(&["tls:127.0.0.1:0"], &["--tls-self-signed"]);
    assert_refused(&anywire(&["probe", &served.url("/")]), 1, "trusted");
    let output = anywire(&["probe", "-k", &served.url("/"), "--json", "-"]);
    let outcome: Value =
        serde_json::from_str(&stdout(&output)).unwrap_or_else(|_| panic!("no JSON: {}", stderr(&output)));
    assert_eq!(outcome["tls"]["version"], "TLSv1.3", "{outcome:#}");
    assert!(
        outcome["tls"]["resumed"].as_u64() > Some(0) && outcome["segments"]["per_response"] == 1.0,
        "{outcome:#}"
    );
    assert_eq!(outcome["http2"]["status"], 200, "{outcome:#}");
}

#[test]
fn a_signal_ends_it() {
    let silent = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = silent.local_addr().expect("it is bound").to_string();
    let output = ended_at_its_first_word(&["probe", &url, "--timeout", "2s"], Signal::INT);
    assert_eq!(output.status.code(), Some(130), "{}", stderr(&output));
}

#[test]
fn help_tells_the_exit_codes() {
    let help = stdout(&anywire(&["probe", "--help"]));
    let (_, codes) = help.split_once("Exit codes: ").expect("they are told");
    let codes = codes.split_whitespace().collect::<Vec<_>>().join(" ");
    for code in ["0 measured", "1 could not", "2 bad", "3 there is a verdict", "23 result", "130 and 143"] {
        assert!(codes.contains(code), "{code:?} in {codes}");
    }
}
