//! `load` sends what its options and files say: templates, lists of URLs, recordings and scripts; and says what is wrong with them.

use std::fs;
use std::path::PathBuf;
use std::process::Output;

use crate::common::{anywire, anywire_with_stdin, assert_refused, stderr, stdout, text};
use crate::recorder::Recorder;

/// One connection, so that the order is known.
const PLAIN: [&str; 8] = ["-c", "1", "--loops", "1", "--warm-up", "0", "-n", "4"];

fn load(args: &[&str]) -> Output {
    anywire(&[&["load"], &PLAIN[..], args].concat())
}

/// The first two words of each request.
fn lines(server: &Recorder) -> Vec<String> {
    let words = |line: &str| line.split(' ').take(2).collect::<Vec<_>>().join(" ");
    server.take().iter().map(|request| words(&request.line)).collect()
}

/// A file with this text in a folder of its own.
fn file(name: &str, contents: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join(name);
    fs::write(&path, contents).expect("the file is written");
    (folder, path)
}

#[track_caller]
fn assert_good(output: &Output) {
    assert!(output.status.success(), "{}\n{}", stdout(output), stderr(output));
}

#[test]
fn values_stand_in_url_headers_and_data() {
    let server = Recorder::start();
    let (_folder, rows) = file("rows.csv", "name\nann\nbob\n");
    let url = server.url("/a/{{n}}?u={{row.name}}");
    assert_good(&load(&[
        &url,
        "-H",
        "x-n: {{n 7}}",
        "--data",
        "{{row.name | json}}!",
        "--rows",
        text(&rows),
    ]));
    let seen = server.take();
    let requests: Vec<_> = seen.iter().map(|request| request.line.as_str()).collect();
    assert_eq!(
        requests,
        ["ann", "bob", "ann", "bob"]
            .iter()
            .zip(1..)
            .map(|(name, n)| format!("POST /a/{n}?u={name} HTTP/1.1"))
            .collect::<Vec<_>>()
    );
    assert_eq!(seen[1].body, b"bob!");
    assert!(seen[1].fields.iter().any(|field| field == "x-n: 8"), "{:?}", seen[1].fields);
}

#[test]
fn without_templates_braces_are_sent() {
    let server = Recorder::start();
    assert_good(&load(&[&server.url("/a"), "--no-template", "--data", "{{n}}"]));
    assert_eq!(server.take()[0].body, b"{{n}}");
}

#[test]
fn data_come_from_stdin() {
    let server = Recorder::start();
    let url = server.url("/a");
    let args = [&["load"], &PLAIN[..], &[&url, "--data", "-"]].concat();
    assert_good(&anywire_with_stdin(&args, b"n={{n}}"));
    assert_eq!(
        server.take().iter().map(|request| request.body.clone()).collect::<Vec<_>>(),
        [b"n=1", b"n=2", b"n=3", b"n=4"]
    );
}

#[test]
fn a_list_of_urls_is_sent_in_turn() {
    let server = Recorder::start();
    let (_folder, list) = file("urls", &format!("# two\n{}\nDELETE /b\n", server.url("/a")));
    assert_good(&load(&["--urls", text(&list)]));
    assert_eq!(lines(&server), ["GET /a", "DELETE /b", "GET /a", "DELETE /b"]);
}

#[test]
fn a_recording_goes_to_the_url_that_is_given() {
    let server = Recorder::start();
    let entry = |url: &str| format!("{{\"request\":{{\"method\":\"GET\",\"url\":\"{url}\"}}}}");
    let entries = ["https://shop.test/1", "https://cdn.test/x", "https://shop.test/2"].map(entry).join(",");
    let (_folder, har) = file("visit.har", &format!("{{\"log\":{{\"entries\":[{entries}]}}}}"));
    let output = load(&["--har", text(&har), &server.url("/")]);
    assert_good(&output);
    assert_eq!(lines(&server), ["GET /1", "GET /2", "GET /1", "GET /2"]);
    assert!(
        stderr(&output).contains("1 request of") && stderr(&output).contains("left out: 1 to cdn.test"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn a_path_beside_a_file_that_has_its_own_is_refused() {
    let server = Recorder::start();
    let (_folder, list) = file("urls", "/a\n/b\n");
    let (_folder_of_har, har) = file(
        "visit.har",
        "{\"log\":{\"entries\":[{\"request\":{\"method\":\"GET\",\"url\":\"http://h/1\"}}]}}",
    );
    for args in [["--urls", text(&list)], ["--har", text(&har)]] {
        let output = load(&[&args[..], &[&server.url("/base")]].concat());
        assert_refused(&output, 2, "the URL has the path \"/base\"");
        assert_good(&load(&[&args[..], &[&server.url("")]].concat()));
    }
}

#[test]
fn cookies_that_would_never_be_sent_are_refused() {
    let output = load(&["--cookies", "http://localhost:1/"]);
    assert_refused(&output, 2, "--cookies: each request is a sequence of its own");
}

#[test]
fn a_recording_with_cookies_of_its_own_leaves_those_of_the_recording_out() {
    let server = Recorder::start();
    let entry = |path: &str| {
        format!(
            "{{\"request\":{{\"method\":\"GET\",\"url\":\"https://shop.test{path}\",\"headers\":[{{\"name\":\"Cookie\",\"value\":\"id=old\"}}]}}}}"
        )
    };
    let entries = ["/1", "/2"].map(entry).join(",");
    let (_folder, har) = file("visit.har", &format!("{{\"log\":{{\"entries\":[{entries}]}}}}"));
    let sent_cookie = |args: &[&str]| {
        assert_good(&load(&[&["--har", text(&har), &server.url("/")], args].concat()));
        server.take().iter().any(|request| request.fields.iter().any(|field| field == "cookie: id=old"))
    };
    assert!(sent_cookie(&[]));
    assert!(!sent_cookie(&["--cookies"]));
}

#[test]
fn a_script_names_files_beside_it_and_its_requests_are_told_apart() {
    let server = Recorder::start();
    let (folder, script) = file(
        "shop.toml",
        "[data.users]\nfile = \"users.csv\"\n[[sequence]]\nset = { id = \"{{n}}\" }\n\
         [[sequence.request]]\nname = \"put\"\nmethod = \"PUT\"\nurl = \"/{{users.name}}/{{id}}\"\nbody-file = \"body\"\n\
         [[sequence.request]]\nurl = \"/{{users.name}}/{{id}}\"\n",
    );
    fs::write(folder.path().join("users.csv"), "name\nann\nbob\n").expect("the rows are written");
    fs::write(folder.path().join("body"), "of {{users.name}}").expect("the body is written");
    let output = load(&["--script", text(&script), &server.url("/"), "--json", "-"]);
    assert_good(&output);
    let seen = server.take();
    let requests: Vec<_> =
        seen.iter().map(|request| request.line.split(' ').take(2).collect::<Vec<_>>().join(" ")).collect();
    assert_eq!(requests, ["PUT /ann/1", "GET /ann/1", "PUT /bob/3", "GET /bob/3"]);
    assert_eq!(seen[2].body, b"of bob");
    let outcome: serde_json::Value =
        serde_json::from_str(&stdout(&output)).expect("the result is JSON alone");
    assert_eq!(
        (&outcome["requests"][0]["name"], &outcome["requests"][0]["answered"]),
        (&"put".into(), &2.into())
    );
}

#[test]
fn what_is_not_expected_is_counted() {
    let server = Recorder::start();
    let output = load(&[&server.url("/a"), "--expect-body", "no such text", "--json", "-"]);
    assert_refused(&output, 1, "did not contain \"no such text\"");
    let outcome: serde_json::Value =
        serde_json::from_str(&stdout(&output)).expect("the result is JSON alone");
    assert_eq!(outcome["totals"]["errors"]["check"], 4);
}

#[test]
fn what_is_wrong_with_a_file_is_said_with_its_place() {
    let (_folder, empty) = file("empty", "");
    let (_folder, rows) = file("rows.csv", "name\nann\n");
    let (_folder, list) = file("urls", "/a\n/b 1 2 3\n");
    let (_folder, script) = file("shop.toml", "[[request]]\nurl = \"/\"\nmetod = \"GET\"\n");
    let (_folder, har) = file("visit.har", "{\n\"log\": 7}");
    let url = "http://127.0.0.1:9/";
    for (args, code, found) in [
        (&[url, "--data", "a\n {{x}}"][..], 2, "the body of"),
        (&[url, "--data", "a\n {{x}}"], 2, "line 2, column 2: no value is named \"x\""),
        (
            &[url, "--data", "{{row.age}}", "--rows", text(&rows)],
            2,
            "the table \"row\" has no column \"age\"",
        ),
        (&[url, "--rows", text(&rows)], 2, "nothing of the request is a template"),
        (&[url, "--data", "{{row.a}}", "--rows", text(&empty)], 2, "no row below"),
        (&[url, "--data", "{{row.a}}", "--rows", "/no/such/file"], 26, "reading the rows of"),
        (&[url, "--urls", text(&list)], 2, "urls: line 2: \"/b 1 2 3\""),
        (&[url, "--urls", text(&empty)], 2, "there is no URL in it"),
        (&["--urls", "/no/such/file"], 26, "reading the URLs of"),
        (&[url, "--script", text(&script)], 2, "shop.toml: line 3, column 1: unknown field `metod`"),
        (&[url, "--script", "/no/such/file"], 26, "reading the script of"),
        (&[url, "--har", text(&har)], 2, "visit.har: line 2, column "),
        (&[url, "--har", text(&empty)], 2, "it is no HAR"),
        (&["--har", "/no/such/file"], 26, "reading the recording of"),
    ] {
        assert_refused(&load(args), code, found);
    }
}
