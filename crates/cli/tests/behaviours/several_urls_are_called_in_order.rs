//! Several URLs in one command: in order, on the connections that there are, each with its place and its time.

use crate::common::{anywire, anywire_with_stdin, assert_refused, command, stderr, stdout, text};
use crate::peer::{Peer, wait_for_end};
use crate::recorder::Recorder;

#[test]
fn connections_are_kept_between_calls() {
    let recorder = Recorder::start();
    let output = anywire(&["get", &recorder.url("/a"), &recorder.url("/json"), &recorder.url("/c")]);
    assert_eq!(stdout(&output), "hi{\"a\":1}hi", "{}", stderr(&output));
    let asked = recorder.take();
    let lines: Vec<_> = asked.iter().map(|request| (request.line.as_str(), request.connection)).collect();
    assert_eq!(lines, [("GET /a HTTP/1.1", 0), ("GET /json HTTP/1.1", 0), ("GET /c HTTP/1.1", 0)]);
}

#[test]
fn the_first_failure_is_the_exit_code_and_the_others_are_called() {
    let recorder = Recorder::start();
    let urls = ["/cut", "/missing", "/json"].map(|path| recorder.url(path));
    let output = anywire(&["get", "-f", &urls[0], &urls[1], &urls[2]]);
    assert_refused(&output, 18, "/cut");
    assert!(stderr(&output).contains("404 Not Found"), "{}", stderr(&output));
    assert_eq!(stdout(&output), "cut{\"a\":1}");
    // The last one alone.
    let output = anywire(&["get", "-f", &urls[2], &urls[1]]);
    assert_refused(&output, 22, "/missing");
    assert_eq!(stdout(&output), "{\"a\":1}");
    for said in [&["-s"][..], &["-s", "-f", "-o", "/no/such/place"]] {
        let silent = anywire(&[&["get", &urls[0]], said].concat());
        assert!(!silent.status.success() && silent.stderr.is_empty(), "{said:?}: {}", stderr(&silent));
    }
    assert!(!stderr(&anywire(&["get", "-sS", &urls[0]])).is_empty());
}

#[test]
fn each_has_its_time() {
    let (silent, recorder) = (Peer::of_http1(wait_for_end), Recorder::start());
    let output =
        anywire(&["get", "-m", "300ms", &silent.url(), &recorder.url("/json"), "-w", "<%{http_code}>"]);
    assert_refused(&output, 28, "while waiting for the response");
    // The second has a time of its own, which is enough but on a machine that stands still.
    assert!(stdout(&output).starts_with("<000>"), "{}", stdout(&output));
    assert_eq!(recorder.take().len(), 1);
}

#[test]
fn stdin_is_sent_to_all() {
    let recorder = Recorder::start();
    let data = b"a\0b\xff";
    let output = anywire_with_stdin(&["post", "-d", "@-", &recorder.url("/a"), &recorder.url("/b")], data);
    assert!(output.status.success(), "{}", stderr(&output));
    let bodies: Vec<_> = recorder.take().into_iter().map(|request| request.body).collect();
    assert_eq!(bodies, [data, data]);
}

#[test]
fn each_file_has_its_url() {
    let recorder = Recorder::start();
    let url = recorder.url("/json");
    assert_refused(&anywire(&["get", &url, "-o", "a", "-o", "b"]), 2, "--output names 2, for only 1 URL");
    assert_refused(&anywire(&["get", "-O", &recorder.url("/")]), 23, "ends without a name");
    assert!(recorder.take().is_empty(), "nothing is asked before all is clear");
    let dir = tempfile::tempdir().expect("a folder");
    let file = dir.path().join("first");
    let output = anywire(&["get", &url, &recorder.url("/b"), "-o", text(&file)]);
    assert_eq!(stdout(&output), "hi");
    assert_eq!(std::fs::read(&file).expect("it was written"), br#"{"a":1}"#);
}

/// A slash that is encoded is one of the name, not of a path.
#[test]
fn a_name_of_a_url_stays_in_its_folder() {
    let (recorder, dir) = (Recorder::start(), tempfile::tempdir().expect("a folder"));
    let folder = dir.path().join("a").join("b");
    std::fs::create_dir_all(&folder).expect("it can be made");
    let mut get = command();
    let output = get.args(["get", "-O", &recorder.url("/..%2f..%2fx")]).current_dir(&folder).output();
    let output = output.expect("the built command starts");
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(std::fs::read(folder.join("..%2f..%2fx")).expect("it was written"), b"hi");
    assert!(!dir.path().join("x").exists(), "it left its folder");
}
