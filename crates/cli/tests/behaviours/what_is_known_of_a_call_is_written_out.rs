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
