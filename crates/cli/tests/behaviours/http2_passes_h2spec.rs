//! h2spec, which checks a server against RFC 7540 clause by clause, finds nothing but what RFC 9113 withdrew.

use std::process::Command;

use crate::common::{Served, stdout};
use crate::secured::Secured;

/// What h2spec fails with the clause that withdrew it: RFC 9113 section 5.3.2. A frame with dependencies is only to have the
/// right size.
const WITHDRAWN: [(&str, &str); 2] = [
    ("5.3.1. Stream Dependencies", "1: Sends HEADERS frame that depend on itself"),
    ("5.3.1. Stream Dependencies", "2: Sends PRIORITY frame that depend on itself"),
];

/// What it fails in clear text alone. RFC 9113 section 3.3: a client knows that the server speaks HTTP/2, and begins with the
/// preface. The port speaks HTTP/1.1 too, so that what begins otherwise is no connection of HTTP/2 and is answered 400. The
/// case looks for an end without bytes, or for frames.
const NOT_HTTP2: (&str, &str) = ("3.5. HTTP/2 Connection Preface", "2: Sends invalid connection preface");

/// Groups of cases, and a path whose answer lets them see what they look for. Where a case breaks a rule of a stream
/// after its head, the stream must be open still: an answer that has ended it may have left before.
const GROUPS: [(&str, &[&str]); 3] = [
    ("/delay/1000", &["http2/5.1", "http2/6.9"]),
    ("/echo", &["http2/8"]),
    (
        "/",
        &[
            "generic",
            "hpack",
            "http2/3",
            "http2/4",
            "http2/5.3",
            "http2/5.4",
            "http2/5.5",
            "http2/6.1",
            "http2/6.2",
            "http2/6.3",
            "http2/6.4",
            "http2/6.5",
            "http2/6.7",
            "http2/6.8",
            "http2/6.10",
            "http2/7",
        ],
    ),
];

#[test]
fn in_clear_text() {
    let served = Served::demo();
    let (host, port) = served.authority().rsplit_once(':').expect("host and port");
    assert_fails(&["--host", host, "--port", port], &[&[NOT_HTTP2], &WITHDRAWN[..]].concat());
}

#[test]
fn over_tls() {
    let secured = Secured::start();
    let port = secured.port().to_string();
    assert_fails(&["--tls", "--insecure", "--host", "127.0.0.1", "--port", &port], &WITHDRAWN);
}

/// Runs all cases. These fail, and no others.
fn assert_fails(server: &[&str], expected: &[(&str, &str)]) {
    let Some(h2spec) = crate::tools::go_program("github.com/summerwind/h2spec/cmd/h2spec") else { return };
    let (mut cases, mut failed) = (0, Vec::new());
    for (path, group) in GROUPS {
        let mut command = Command::new(&h2spec);
        // A case that fails waits for so many seconds.
        command.args(["--strict", "--timeout", "4", "--path", path]).args(server).args(group);
        let report = stdout(&command.output().expect("just built"));
        println!("{report}");
        let (summary, complaints) = read(&report);
        assert_eq!(summary.failed, complaints.len(), "{report}");
        assert_eq!(summary.skipped, 0, "{report}");
        cases += summary.cases;
        failed.extend(complaints);
    }
    assert_eq!(cases, 146, "all cases of h2spec 2.2.1");
    let expected: Vec<_> =
        expected.iter().map(|(section, case)| ((*section).to_owned(), (*case).to_owned())).collect();
    assert_eq!(failed, expected);
}

struct Summary {
    cases: usize,
    skipped: usize,
    failed: usize,
}

/// The last line of a report, and the cases that failed, each with its section.
fn read(report: &str) -> (Summary, Vec<(String, String)>) {
    let last = report.lines().rfind(|line| line.contains(" tests, ")).expect("a summary");
    let counts: Vec<usize> =
        last.split(", ").filter_map(|part| part.split(' ').next()?.parse().ok()).collect();
    let &[cases, _, skipped, failed] = &counts[..] else { panic!("{last}") };
    let (mut section, mut complaints) = (String::new(), Vec::new());
    for line in report.split_once("Failures:").map_or("", |(_, failures)| failures).lines().map(str::trim) {
        if let Some(case) = line.strip_prefix("× ") {
            complaints.push((section.clone(), case.to_owned()));
        } else if line.starts_with(|first: char| first.is_ascii_digit()) && line.contains(". ") {
            section = line.to_owned();
        }
    }
    (Summary { cases, skipped, failed }, complaints)
}
