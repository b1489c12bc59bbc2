//! `-b` and `-c`: cookies from text and files, kept between calls and between commands, for their user alone.

use std::os::unix::fs::PermissionsExt;

use crate::common::{anywire, assert_refused, has, run, stderr, stdout, text};
use crate::recorder::Recorder;

/// The cookies of the last request.
fn sent(recorder: &Recorder) -> Option<String> {
    let fields = recorder.take().pop().expect("it was asked").fields;
    fields.iter().find_map(|field| field.strip_prefix("cookie: ")).map(str::to_owned)
}

#[test]
fn a_jar_goes_from_one_command_to_the_next() {
    let (recorder, dir) = (Recorder::start(), tempfile::tempdir().expect("a folder"));
    let file = dir.path().join("jar");
    let jar = text(&file);
    let (login, page) = (recorder.url("/login"), recorder.url("/json"));
    // Before it is there, and between calls.
    let first = anywire(&["get", "-b", jar, "-c", jar, &login, &page]);
    assert!(first.status.success(), "{}", stderr(&first));
    assert_eq!(sent(&recorder).as_deref(), Some("id=7"));
    let mode = std::fs::metadata(&file).expect("it was written").permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "who has it is logged in");
    anywire(&["get", "-b", jar, &page]);
    assert_eq!(sent(&recorder).as_deref(), Some("id=7"));
    anywire(&["get", "-b", jar, "-b", "a=1", &page]);
    let both = sent(&recorder).expect("cookies");
    assert!(both.contains("a=1") && both.contains("id=7"), "{both}");
    anywire(&["get", &page]);
    assert_eq!(sent(&recorder), None);
    // curl reads it.
    if has("curl") {
        run("curl", &["-s", "-b", jar, &page]);
        assert_eq!(sent(&recorder).as_deref(), Some("id=7"));
    }
    let printed = stdout(&anywire(&["get", "-s", "-o", "/dev/null", "-b", jar, "-c", "-", &page]));
    assert!(printed.ends_with("\tid\t7\n"), "{printed}");
}

#[test]
fn a_file_that_has_none_is_said() {
    let (recorder, dir) = (Recorder::start(), tempfile::tempdir().expect("a folder"));
    let file = dir.path().join("jar");
    std::fs::write(&file, "no cookies\n").expect("the folder can be written");
    assert_refused(&anywire(&["get", "-b", text(&file), &recorder.url("/json")]), 26, "reading the cookies");
    let nowhere = dir.path().join("no/jar");
    assert_refused(&anywire(&["get", "-c", text(&nowhere), &recorder.url("/json")]), 23, "no/jar");
    assert!(recorder.take().is_empty());
}

#[test]
fn a_file_of_another_program_is_read() {
    let (recorder, dir) = (Recorder::start(), tempfile::tempdir().expect("a folder"));
    let file = dir.path().join("jar");
    // With a mark of its encoding, an indented remark, ends of lines of another system, and parts of a second.
    let jar = "\u{feff}# Netscape HTTP Cookie File\r\n  # exported\r\n\r\n\
        127.0.0.1\tFALSE\t/\tFALSE\t32503680000.25\ta\t1\r\n127.0.0.1\tFALSE\t/\tFALSE\t-1.5\tb\t2\r\n";
    std::fs::write(&file, jar).expect("the folder can be written");
    let answer = anywire(&["get", "-b", text(&file), &recorder.url("/json")]);
    assert!(answer.status.success(), "{}", stderr(&answer));
    assert_eq!(sent(&recorder).as_deref(), Some("a=1; b=2"));
}
