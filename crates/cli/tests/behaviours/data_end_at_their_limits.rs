//! What is read into memory ends at a limit, and the call is not made: data, queries, and files of cookies.

use std::fs::File;

use crate::common::{anywire, assert_refused, command, stderr, text};
use crate::recorder::Recorder;

#[test]
fn data_that_are_held_end_at_64_mib() {
    let recorder = Recorder::start();
    // Encoded, and for two URLs from stdin: both have to be held.
    let encoded = anywire(&["post", "--data-urlencode", "@/dev/zero", &recorder.url("/")]);
    let mut twice = command();
    let twice = twice.args(["post", "-d", "-", &recorder.url("/a"), &recorder.url("/b")]);
    let twice = twice.stdin(File::open("/dev/zero").expect("it is there")).output().expect("it runs");
    for (output, help) in [(encoded, "with one URL"), (twice, "with one URL")] {
        assert_refused(&output, 26, "they are over 64 MiB");
        assert!(stderr(&output).contains(help), "{}", stderr(&output));
    }
    assert!(recorder.take().is_empty());
}

#[test]
fn a_query_ends_at_a_mib() {
    let (recorder, dir) = (Recorder::start(), tempfile::tempdir().expect("a folder"));
    let file = dir.path().join("data");
    std::fs::write(&file, vec![b'a'; (1 << 20) + 1]).expect("the folder can be written");
    let data = format!("@{}", text(&file));
    let output = anywire(&["get", "--get", "-d", &data, &recorder.url("/")]);
    assert_refused(&output, 2, "they are over 1048576 bytes");
    assert!(recorder.take().is_empty());
}

#[test]
fn a_file_of_cookies_ends_at_64_mib() {
    let recorder = Recorder::start();
    let output = anywire(&["get", "-b", "/dev/zero", &recorder.url("/")]);
    assert_refused(&output, 26, "longer than 64 MiB");
    assert!(recorder.take().is_empty());
}
