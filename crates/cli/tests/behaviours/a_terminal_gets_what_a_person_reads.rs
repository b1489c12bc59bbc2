//! At a terminal JSON has lines and heads have colours, and no binary disturbs it; a pipe gets the bytes.

use std::process::{Command, Output};

use crate::common::{anywire, has, stdout};
use crate::recorder::Recorder;

/// Runs the command at a terminal of its own.
fn at_a_terminal(arguments: &str) -> Output {
    let line = format!("TERM=xterm {} {arguments}", env!("CARGO_BIN_EXE_anywire"));
    Command::new("script").args(["-qec", &line, "/dev/null"]).output().expect("the tool was found before")
}

#[test]
fn json_has_lines_and_colours_at_a_terminal_alone() {
    if !has("script") {
        return;
    }
    let recorder = Recorder::start();
    let url = recorder.url("/json");
    let shown = |arguments: &str| stdout(&at_a_terminal(arguments)).replace('\r', "");
    assert_eq!(
        shown(&format!("get {url}")),
        "{\n  \u{1b}[1m\u{1b}[34m\"a\"\u{1b}[0m: \u{1b}[36m1\u{1b}[0m\n}\n"
    );
    assert_eq!(shown(&format!("get {url} | cat")), "{\"a\":1}");
    assert_eq!(shown(&format!("get -N {url}")), "{\"a\":1}");
    assert_eq!(shown(&format!("get -o - {url}")), "{\"a\":1}");
    assert_eq!(shown(&format!("get {}", recorder.url("/html"))), "<p>no JSON</p>\n");
    let with_head = shown(&format!("get -i {url}"));
    assert!(with_head.starts_with("\u{1b}[1m\u{1b}[32mHTTP/1.1 200 OK\u{1b}[0m\n"), "{with_head:?}");
    let plain = Command::new("script")
        .args([
            "-qec",
            &format!("NO_COLOR=1 TERM=xterm {} get -i {url}", env!("CARGO_BIN_EXE_anywire")),
            "/dev/null",
        ])
        .output()
        .expect("the tool was found before");
    let plain = stdout(&plain).replace('\r', "");
    assert!(plain.starts_with("HTTP/1.1 200 OK\n") && plain.ends_with("\n\n{\n  \"a\": 1\n}\n"), "{plain:?}");
    assert_eq!(stdout(&anywire(&["get", &url])), "{\"a\":1}");
}

#[test]
fn binary_is_not_shown_at_a_terminal() {
    if !has("script") {
        return;
    }
    let recorder = Recorder::start();
    let url = recorder.url("/binary");
    let refused = at_a_terminal(&format!("get {url}"));
    let said = stdout(&refused);
    assert_eq!(refused.status.code(), Some(23), "{said}");
    assert!(
        said.contains("the body is binary") && said.contains("--output FILE") && !said.contains('\0'),
        "{said:?}"
    );
    assert_eq!(at_a_terminal(&format!("get -o - {url}")).stdout, b"a\0b");
    assert_eq!(anywire(&["get", &url]).stdout, b"a\0b");
}

#[test]
fn a_password_is_asked_for_at_a_terminal_and_not_shown() {
    let recorder = Recorder::start();
    let url = recorder.url("/json");
    // A session without a terminal.
    let mut alone = Command::new("setsid");
    alone.args(["-w", env!("CARGO_BIN_EXE_anywire"), "get", "-u", "Ada", &url]);
    if has("setsid") {
        crate::common::assert_refused(
            &alone.output().expect("it was found before"),
            2,
            "no terminal to ask for it",
        );
        assert!(recorder.take().is_empty());
    }
    if has("script") {
        let line = format!("script -qec '{} get -s -u Ada {url}' /dev/null", env!("CARGO_BIN_EXE_anywire"));
        let mut shell = Command::new("sh");
        // Typed once it is asked for: what comes before is thrown away.
        let mut child = shell
            .args(["-c", &line])
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .expect("a shell starts");
        let (mut stdin, mut printed) =
            (child.stdin.take().expect("asked for"), child.stdout.take().expect("asked for"));
        let mut seen = Vec::new();
        while !seen.ends_with(b"Password of Ada: ") {
            let mut byte = [0];
            std::io::Read::read_exact(&mut printed, &mut byte).expect("it asks");
            seen.push(byte[0]);
        }
        std::io::Write::write_all(&mut stdin, b"secc\x7fret\n").expect("it reads");
        std::io::Read::read_to_end(&mut printed, &mut seen).expect("it ends");
        assert!(child.wait().expect("it ends").success());
        let seen = String::from_utf8_lossy(&seen).into_owned();
        assert!(!seen.contains("cret"), "{seen}");
        let fields = recorder.take().pop().expect("it was asked").fields;
        // "Ada:secret", with what was typed wrong taken back.
        assert!(fields.contains(&"authorization: Basic QWRhOnNlY3JldA==".to_owned()), "{fields:?}");
    }
}
