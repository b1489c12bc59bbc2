//! `-L` follows redirects, `--retry` calls again where that does no harm, and both say why they end.

use crate::common::{anywire, assert_refused, stderr, stdout, text};
use crate::recorder::Recorder;

#[test]
fn redirects_are_followed_if_that_is_asked_for() {
    let recorder = Recorder::start();
    let url = recorder.url("/old");
    assert_eq!(stdout(&anywire(&["get", &url])), "old");
    let followed = anywire(&["get", "-vL", &url]);
    assert_eq!(stdout(&followed), "{\"a\":1}");
    let said = stderr(&followed);
    let lines: Vec<_> = said.lines().filter(|line| line.contains("HTTP/1.1")).collect();
    assert_eq!(
        lines,
        ["> GET /old HTTP/1.1", "< HTTP/1.1 302 Found", "> GET /json HTTP/1.1", "< HTTP/1.1 200 OK"]
    );
}

#[test]
fn each_head_is_printed_once() {
    let recorder = Recorder::start();
    let url = recorder.url("/old");
    for (args, heads) in
        [(&["-i"][..], 1), (&["-iv"], 1), (&["-i", "--trace"], 1), (&["-iL"], 2), (&["-iLv"], 2)]
    {
        let printed = stdout(&anywire(&[&["get", &url], args].concat()));
        assert_eq!(printed.matches("HTTP/1.1 ").count(), heads, "{args:?}: {printed}");
    }
}

#[test]
fn a_trace_has_a_line_for_each_attempt_and_each_of_its_phases() {
    let recorder = Recorder::start();
    let traced = anywire(&["get", "-L", "--trace", &recorder.url("/old")]);
    assert_eq!(stdout(&traced), "{\"a\":1}");
    let said = stderr(&traced);
    let name = |line: &'static str| line;
    let names: Vec<_> =
        said.lines().map(|line| line.trim_start().split("  ").next().unwrap_or_default()).collect();
    let of = |rest: &str| format!("GET {}{rest}", recorder.authority);
    let phases = ["sending the request", "waiting for the response", "reading the body"].map(name);
    let (old, json) = (of("/old: 302"), of("/json: 200"));
    let expected = [&[&*old, "waiting for a connection", "connecting"][..], &phases].concat();
    let expected = [&expected, &[&*json, "waiting for a connection"][..], &phases, &["all"]].concat();
    assert_eq!(names, expected, "{said}");
    assert!(said.lines().all(|line| line.ends_with('s') && !line.contains('\u{1b}')), "{said}");
    let failed = stderr(&anywire(&["get", "--trace", "http://127.0.0.1:1/"]));
    assert!(failed.starts_with("GET 127.0.0.1:1/: no response"), "{failed}");
}

#[test]
fn a_redirect_that_is_not_followed_has_its_exit_code() {
    let recorder = Recorder::start();
    for (args, code, found) in [
        (&["-L", "--max-redirs", "2", &recorder.url("/next/1")][..], 47, "2 have been followed before"),
        (&["-L", &recorder.url("/circle")], 47, "circle"),
        (&["-L", &recorder.url("/away")], 7, "127.0.0.1:1"),
        (&["-L", "http://h/away", "--via", &format!("tcp:{}", recorder.authority)], 1, "another origin"),
    ] {
        assert_refused(&anywire(&[&["get"], args].concat()), code, found);
    }
    assert_eq!(anywire(&["get", "--max-redirs", "2", &recorder.url("/old")]).status.code(), Some(2));
}

#[test]
fn what_may_pass_is_called_again() {
    let recorder = Recorder::start();
    let url = recorder.url("/busy");
    assert_refused(&anywire(&["get", "-f", &url]), 22, "503 Service Unavailable");
    recorder.take();
    let output = anywire(&["get", "-f", "--retry", "2", &url]);
    assert_eq!(stdout(&output), "hi", "{}", stderr(&output));
    assert_eq!(recorder.take().len(), 2);
    // The server may have acted on it.
    let posted = anywire(&["post", "-f", "--retry", "2", "-d", "a=1", &url]);
    assert_refused(&posted, 22, "503 Service Unavailable");
    assert_eq!(recorder.take().len(), 1);
    let harmless = anywire(&["post", "-f", "--retry", "2", "-d", "a=1", "-H", "Idempotency-Key: 7", &url]);
    assert_eq!(stdout(&harmless), "hi", "{}", stderr(&harmless));
    assert!(recorder.take().iter().all(|request| request.body == b"a=1"));
    let nobody = anywire(&["get", "--retry", "1", "http://127.0.0.1:1/"]);
    assert_refused(&nobody, 7, "this was attempt 2, the last one");
}

/// Its body is no part of the output, wherever that goes.
#[test]
fn what_was_called_again_leaves_nothing() {
    let (recorder, dir) = (Recorder::start(), tempfile::tempdir().expect("a folder"));
    let (url, file) = (recorder.url("/busy"), dir.path().join("file"));
    for flag in [&[][..], &["-f"], &["--fail-with-body"]] {
        for (to, is_printed) in
            [(&[][..], true), (&["-o", text(&file)], false), (&["-o", "/dev/null"], false)]
        {
            let output = anywire(&[&["get", "--retry", "2", &url], flag, to].concat());
            assert!(output.status.success(), "{flag:?} {to:?}: {}", stderr(&output));
            assert_eq!(stdout(&output), if is_printed { "hi" } else { "" }, "{flag:?} {to:?}");
            assert_eq!(recorder.take().len(), 2, "{flag:?} {to:?}");
        }
        assert_eq!(std::fs::read_to_string(&file).expect("it was written"), "hi", "{flag:?}");
        std::fs::remove_file(&file).expect("it is there");
    }
}
