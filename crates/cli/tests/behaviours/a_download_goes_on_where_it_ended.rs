//! `-C -` asks for the rest of a file, takes no other part, and never mixes two versions of it.

use std::fs;

use crate::common::{anywire, assert_refused, stderr, text};
use crate::recorder::{FILE, Recorder};

#[test]
fn the_rest_is_asked_for_and_put_behind() {
    let (recorder, dir) = (Recorder::start(), tempfile::tempdir().expect("a folder"));
    let file = dir.path().join("file");
    let get = || anywire(&["get", "-C", "-", "-o", text(&file), &recorder.url("/tagged.txt")]);
    let assert_whole = |range: Option<&str>| {
        let output = get();
        assert!(output.status.success(), "{}", stderr(&output));
        assert_eq!(fs::read_to_string(&file).expect("it is there"), FILE);
        let fields = recorder.take().pop().expect("it was asked").fields;
        let found = fields.iter().find(|field| field.starts_with("range")).map(String::as_str);
        assert_eq!(found, range, "{fields:?}");
    };
    // Nothing, an empty file, a part, and all.
    assert_whole(None);
    fs::write(&file, "").expect("it can be written");
    assert_whole(None);
    fs::write(&file, &FILE[..4]).expect("it can be written");
    assert_whole(Some("range: bytes=4-"));
    assert_whole(Some("range: bytes=10-"));
}

/// Not even with `--fail`: the status says that nothing is missing. The body of that response is no part of the file.
#[test]
fn a_whole_file_is_no_failure() {
    let (recorder, dir) = (Recorder::start(), tempfile::tempdir().expect("a folder"));
    let file = dir.path().join("file");
    let get = |flags: &[&str]| {
        let url = recorder.url("/tagged.txt");
        anywire(&[&["get", "-C", "-", "-o", text(&file)], flags, &[&url]].concat())
    };
    for flags in [&[][..], &["-f"], &["--fail-with-body"], &["-f", "-i"]] {
        fs::write(&file, FILE).expect("it can be written");
        let output = get(flags);
        assert_eq!(output.status.code(), Some(0), "{flags:?}: {}", stderr(&output));
        assert_eq!(fs::read_to_string(&file).expect("it is there"), FILE, "{flags:?}");
    }
    // One that is longer than theirs is another file.
    for (flags, code) in [(&[][..], 33), (&["-f"], 22), (&["--fail-with-body"], 33)] {
        fs::write(&file, "0123456789x").expect("it can be written");
        assert_eq!(get(flags).status.code(), Some(code), "{flags:?}");
        assert_eq!(fs::read(&file).expect("it is there"), b"0123456789x", "{flags:?}");
    }
}

#[test]
fn another_part_is_refused() {
    let (recorder, dir) = (Recorder::start(), tempfile::tempdir().expect("a folder"));
    let file = dir.path().join("file");
    for (path, found) in [
        ("/wrong.txt", "the rest begins at 4"),
        ("/whole.txt", "sends no parts"),
        ("/missing", "404 Not Found"),
    ] {
        fs::write(&file, "mine").expect("it can be written");
        let output = anywire(&["get", "-C", "-", "-o", text(&file), &recorder.url(path)]);
        assert_refused(&output, 33, found);
        assert_eq!(fs::read(&file).expect("it is there"), b"mine", "{path}");
    }
    let output = anywire(&["get", "-C", "4", "-o", text(&file), &recorder.url("/file.txt")]);
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
}

/// Where the file system keeps attributes.
#[test]
fn a_version_that_has_changed_is_fetched_anew() {
    let (recorder, dir) = (Recorder::start(), tempfile::tempdir().expect("a folder"));
    let file = dir.path().join("file");
    let cut = anywire(&["get", "-o", text(&file), &recorder.url("/cut.txt")]);
    assert_eq!(cut.status.code(), Some(18), "{}", stderr(&cut));
    assert_eq!(fs::read(&file).expect("what has come"), b"cut");
    let attribute = |path: &std::path::Path| {
        let mut value = [0; 64];
        rustix::fs::getxattr(path, "user.anywire.validator", &mut value[..])
            .map(|length| value[..length].to_vec())
            .ok()
    };
    recorder.take();
    let whole = anywire(&["get", "-C", "-", "-o", text(&file), &recorder.url("/tagged.txt")]);
    let asked = recorder.take().pop().expect("it was asked");
    if !asked.fields.contains(&"if-range: \"old\"".to_owned()) {
        crate::skipped::say(format_args!("this file system has no attributes"));
        return;
    }
    assert!(whole.status.success(), "{}", stderr(&whole));
    assert!(stderr(&whole).contains("it has changed there"), "{}", stderr(&whole));
    assert_eq!(fs::read_to_string(&file).expect("it is there"), FILE);
    assert_eq!(attribute(&file), None, "a file that is whole bears no mark");
}
