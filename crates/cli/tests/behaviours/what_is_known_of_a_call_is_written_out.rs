//! `--write-out` has curl's words, also for a call that failed, and says which word it does not know.

use crate::common::{anywire, command, stderr, stdout, text};
use crate::recorder::Recorder;

#[test]
fn words_are_known_of_calls_that_fail() {
    let recorder = Recorder::start();
    let format = "[%{http_code} %{size_download} %{exitcode} %{url} %{onerror}%{errormsg}]";
    let output = anywire(&[
        "get",
        "-s",
        "-w",
        format,
        &recorder.url("/cut"),
        &recorder.url("/json"),
        "http://127.0.0.1:1/",
    ]);
    let printed = stdout(&output);
    let (cut, json) = (recorder.url("/cut"), recorder.url("/json"));
    assert!(printed.starts_with(&format!("cut[200 3 18 {cut} calling {cut}: ")), "{printed}");
    assert!(printed.contains(&format!("{{\"a\":1}}[200 7 0 {json} ")), "{printed}");
    assert!(printed.contains("[000 0 7 http://127.0.0.1:1/ cannot reach "), "{printed}");
    assert_eq!(stderr(&output), "");
}

#[test]
fn all_of_it_is_json() {
    let recorder = Recorder::start();
    let output =
        anywire(&["get", "-o", "/dev/null", "-w", "%{json}\\n%{header_json}", &recorder.url("/json")]);
    let printed = stdout(&output);
    let mut lines =
        printed.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).expect("JSON"));
    let (all, headers) = (lines.next().expect("a line"), lines.next().expect("a line"));
    assert_eq!(all["http_code"], 200);
    assert_eq!(all["size_download"], 7);
    assert_eq!(all["filename_effective"], "/dev/null");
    assert_eq!(headers["x-say"], serde_json::json!(["hi"]));
    let (total, first) = (all["time_total"].as_f64(), all["time_starttransfer"].as_f64());
    assert!(first > Some(0.0) && first <= total, "{all}");
}

#[test]
fn times_follow_each_other() {
    let recorder = Recorder::start();
    let times = |args: &[&str]| {
        let output = anywire(&[&["get", "-s", "-o", "/dev/null", "-w", "%{json}\\n"], args].concat());
        let line = stdout(&output).lines().last().expect("a line").to_owned();
        serde_json::from_str::<serde_json::Value>(&line).expect("JSON")
    };
    let all = times(&["-L", &recorder.url("/old")]);
    let order =
        ["time_redirect", "time_pretransfer", "time_posttransfer", "time_starttransfer", "time_total"];
    let seconds = |word: &str| all[word].as_f64().expect("a number");
    assert!(order.map(seconds).is_sorted() && seconds("time_redirect") > 0.0, "{all}");
    // The second request goes over the connection of the first.
    assert_eq!((&all["num_connects"], seconds("time_connect")), (&1.into(), 0.0), "{all}");
    assert_eq!((all["time_appconnect"].as_f64(), &all["num_retries"]), (Some(0.0), &0.into()));
    let all = times(&[&recorder.url("/json")]);
    let order = ["time_namelookup", "time_connect", "time_pretransfer", "time_starttransfer"];
    let seconds = |word: &str| all[word].as_f64().expect("a number");
    assert!(order.map(seconds).is_sorted() && seconds("time_namelookup") > 0.0, "{all}");
    let (ip, port) = recorder.authority.rsplit_once(':').expect("it has a port");
    assert_eq!(
        (&all["remote_ip"], &all["remote_port"]),
        (&ip.into(), &port.parse::<u16>().expect("a number").into())
    );
    assert_eq!(all["local_ip"], "127.0.0.1");
    assert!(all["local_port"].as_u64() > Some(0));
}

#[test]
fn a_call_that_reaches_nobody_has_no_ends() {
    let output = anywire(&[
        "get",
        "-s",
        "-w",
        "[%{remote_ip} %{remote_port} %{num_connects} %{time_connect}]",
        "http://127.0.0.1:1/",
    ]);
    assert_eq!(stdout(&output), "[ 0 0 0.000000]");
}

#[test]
fn an_unknown_word_is_said_before_the_call() {
    let recorder = Recorder::start();
    let output = anywire(&["get", "-w", "%{http_cod}", &recorder.url("/json")]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("%{http_cod} is no word of it"), "{}", stderr(&output));
    assert!(recorder.take().is_empty());
}

#[test]
fn a_format_may_be_a_file() {
    let (recorder, dir) = (Recorder::start(), tempfile::tempdir().expect("a folder"));
    let file = dir.path().join("format");
    std::fs::write(&file, " %{http_code}\\n").expect("the folder can be written");
    let format = format!("@{}", text(&file));
    assert_eq!(stdout(&anywire(&["get", "-w", &format, &recorder.url("/")])), "hi 200\n");
    let mut command = command();
    command
        .args(["get", "-w", "@-", &recorder.url("/")])
        .stdin(std::fs::File::open(&file).expect("it is there"));
    assert_eq!(stdout(&command.output().expect("the built command starts")), "hi 200\n");
}
