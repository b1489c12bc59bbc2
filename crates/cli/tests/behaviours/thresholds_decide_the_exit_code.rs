//! `load --require`: 0 if all hold, 3 with what was asked and found if one breaks, and 2 with the place if one cannot be read.

use serde_json::Value;

use crate::common::{Served, anywire, assert_refused, stderr, stdout};

#[test]
fn thresholds_that_hold_change_nothing() {
    let served = Served::demo();
    let url = served.url("/");
    let output =
        anywire(&["load", &url, "-n", "50", "-c", "2", "--require", "errors=0", "p99<60s", "rate>1"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let table = stdout(&output);
    assert!(table.contains("p99<60s   held") && table.contains("errors=0  held"), "{table}");
}

#[test]
fn one_that_breaks_is_told_with_what_was_found() {
    let served = Served::demo();
    let url = served.url("/nothing/here");
    let args = ["load", &url, "-n", "20", "-c", "1", "--json", "-", "--require"];
    // Not one answer is good: that comes first.
    assert_refused(&anywire(&[&args[..], &["errors<5"]].concat()), 1, "none of the 20 answers was good");
    let url = served.url("/");
    let args = ["load", &url, "-n", "20", "-c", "1", "--json", "-", "--require"];
    let output = anywire(&[&args[..], &["p99<1ns", "errors<1%", "answered<20"]].concat());
    assert_refused(&output, 3, "answered<20: broken, asked < 20, found 20");
    assert!(stderr(&output).contains("p99<1ns: broken, asked < 0.00 us, found "), "{}", stderr(&output));
    let outcome: Value = serde_json::from_str(&stdout(&output)).expect("the result is JSON alone");
    let verdicts: Vec<_> =
        outcome["thresholds"].as_array().expect("a list").iter().map(|one| &one["verdict"]).collect();
    assert_eq!(verdicts, ["broken", "held", "broken"], "{outcome}");
}

#[test]
fn one_may_be_about_one_request() {
    let served = Served::demo();
    let url = served.url("/");
    let folder = tempfile::tempdir().expect("a folder");
    let urls = folder.path().join("urls");
    std::fs::write(&urls, "/ 1\n/nothing/here 1\n").expect("the list is written");
    let urls = urls.to_str().expect("a path in UTF-8");
    let args = ["load", &url, "--urls", urls, "-n", "40", "-c", "1", "--require"];
    let output =
        anywire(&[&args[..], &["bad{GET /nothing/here}>=1", "p95{GET /}<60s", "bad{GET /}=0"]].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stdout(&output).contains("p95{GET /}<60s             held"), "{}", stdout(&output));
    let output = anywire(&[&args[..], &["bad{GET /nothing/here}<1%"]].concat());
    assert_refused(&output, 3, "bad{GET /nothing/here}<1%: broken, asked < 1.00 %, found 100 %");
    // Before the run, where it would have been for nothing.
    let output = anywire(&[&args[..], &["p99{GET /her}<5ms"]].concat());
    assert_refused(&output, 2, "no request of the load is named \"GET /her\"");
    assert!(stderr(&output).contains("there are \"GET /\", \"GET /nothing/here\""), "{}", stderr(&output));
    let output = anywire(&["load", &url, "--require", "p99{GET /}<5ms"]);
    assert_refused(&output, 2, "no request of the load");
}

#[test]
fn one_that_cannot_be_read_is_refused_before_the_run() {
    for (threshold, said) in [
        ("p99<5", "character 6: a time needs its unit; write 5us, 5ms or 5s"),
        ("erors<5", "did you mean errors?"),
        ("p99<=>5ms", "it is no operator"),
        ("localhost:8080", "and the URL before --require"),
    ] {
        let output = anywire(&["load", "localhost:1", "--require", threshold]);
        assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
        assert!(stderr(&output).contains(said), "{said:?} was expected in: {}", stderr(&output));
        assert!(output.stdout.is_empty());
    }
}
