//! `anywire serve --dir` says when a file was modified, and heeds the conditions of RFC 9110, for GET and HEAD alike.

use std::fs::File;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::common::Served;

/// A file with this time of modification.
fn file_of(site: &Path, name: &str, modified: SystemTime) {
    let mut file = File::create(site.join(name)).expect("a file in it");
    file.write_all(b"text").expect("space for it");
    file.set_modified(modified).expect("any time");
}

/// The head of the answer, and its body.
fn ask(served: &Served, line: &str, fields: &str) -> (String, String) {
    let mut peer = TcpStream::connect(served.authority()).expect("it listens");
    write!(peer, "{line} HTTP/1.1\r\nhost: h\r\nconnection: close\r\n{fields}\r\n").expect("it reads");
    let mut answer = String::new();
    peer.read_to_string(&mut answer).expect("it answers");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    (head.to_owned(), body.to_owned())
}

fn field<'h>(head: &'h str, name: &str) -> Option<&'h str> {
    head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
}

fn date(head: &str, name: &str) -> SystemTime {
    httpdate::parse_http_date(field(head, name).unwrap_or_else(|| panic!("no {name}: {head}")))
        .expect("a date")
}

fn status(head: &str) -> &str {
    head.split(' ').nth(1).expect("a status line")
}

#[test]
fn a_file_from_before_1970_has_no_date() {
    let site = tempfile::tempdir().expect("a directory to serve");
    file_of(site.path(), "old", UNIX_EPOCH - Duration::from_secs(1));
    file_of(site.path(), "oldest", UNIX_EPOCH - Duration::from_secs(60 * 60 * 24 * 365));
    let served = Served::files(site.path());
    for line in ["GET /old", "GET /oldest"] {
        let (head, body) = ask(&served, line, "if-modified-since: Sun, 06 Nov 1994 08:49:37 GMT\r\n");
        assert_eq!(
            (status(&head), body.as_str(), field(&head, "last-modified")),
            ("200", "text", None),
            "{line}"
        );
    }
}

#[test]
fn a_file_from_the_future_is_as_old_as_its_answer() {
    let site = tempfile::tempdir().expect("a directory to serve");
    file_of(site.path(), "soon", SystemTime::now() + Duration::from_secs(3600));
    // Beyond the year 9999, or as far as the file system goes.
    file_of(site.path(), "far", UNIX_EPOCH + Duration::from_secs(300_000_000_000));
    file_of(site.path(), "now", SystemTime::now());
    let served = Served::files(site.path());
    for method in ["GET", "HEAD"] {
        for path in ["/soon", "/far", "/now"] {
            let (head, _) = ask(&served, &format!("{method} {path}"), "");
            assert_eq!(status(&head), "200");
            assert!(date(&head, "last-modified") <= date(&head, "date"), "{head}");
            assert_eq!(head.matches("\ndate: ").count(), 1, "{head}");
        }
    }
    // It counts as modified after any date that the client has.
    let (head, _) = ask(&served, "GET /soon", "if-modified-since: Sun, 06 Nov 1994 08:49:37 GMT\r\n");
    assert_eq!(status(&head), "200");
}

#[test]
fn conditions_are_heeded_in_their_order() {
    let site = tempfile::tempdir().expect("a directory to serve");
    // 06 Nov 1994 08:49:37.9 GMT: a date has whole seconds only.
    file_of(site.path(), "file", UNIX_EPOCH + Duration::from_millis(784_111_777_900));
    let served = Served::files(site.path());
    let earlier = "Sun, 06 Nov 1994 08:49:36 GMT";
    let modified = "Sun, 06 Nov 1994 08:49:37 GMT";
    for (fields, expected) in [
        (String::new(), "200"),
        (format!("if-modified-since: {modified}\r\n"), "304"),
        (format!("if-modified-since: {earlier}\r\n"), "200"),
        (format!("if-modified-since: {modified}\r\nif-none-match: \"an-older-server's\"\r\n"), "200"),
        ("if-none-match: *\r\n".to_owned(), "304"),
        (format!("if-unmodified-since: {modified}\r\n"), "200"),
        (format!("if-unmodified-since: {earlier}\r\n"), "412"),
        (format!("if-unmodified-since: {earlier}\r\nif-match: *\r\n"), "200"),
        ("if-match: \"a\"\r\n".to_owned(), "412"),
    ] {
        for method in ["GET", "HEAD"] {
            let (head, body) = ask(&served, &format!("{method} /file"), &fields);
            assert_eq!(status(&head), expected, "{method} {fields}");
            match expected {
                "200" => assert_eq!(field(&head, "content-length"), Some("4")),
                "304" => assert_eq!(field(&head, "content-length"), None),
                _ => assert_eq!(field(&head, "last-modified"), None),
            }
            if expected != "412" {
                assert_eq!(field(&head, "last-modified"), Some(modified));
            }
            assert!(body.is_empty() || method == "GET" && expected != "304", "{head}");
        }
        // What is not there, or elsewhere, has no conditions (RFC 9110 section 13.2.1).
        assert_eq!(status(&ask(&served, "GET /nothing", &fields).0), "404");
    }
}

#[test]
fn the_redirect_of_a_directory_keeps_its_query_and_is_not_for_good() {
    let site = tempfile::tempdir().expect("a directory to serve");
    std::fs::create_dir(site.path().join("a b")).expect("a directory in it");
    std::fs::write(site.path().join("a b/index.html"), "<p>").expect("a file in it");
    let served = Served::files(site.path());
    for (path, location) in [
        ("/a%20b?x=1&y=%2F", "/a%20b/?x=1&y=%2F"),
        ("//a%20b?//x", "/a%20b/?//x"),
        ("/a%20b?", "/a%20b/?"),
        ("/a%20b", "/a%20b/"),
    ] {
        for method in ["GET", "HEAD"] {
            let (head, _) = ask(&served, &format!("{method} {path}"), "if-match: \"a\"\r\n");
            assert_eq!((status(&head), field(&head, "location")), ("307", Some(location)));
        }
    }
    assert_eq!(ask(&served, "GET /a%20b/?x=1", "").1, "<p>");
}

#[test]
fn a_socket_is_not_found() {
    let site = tempfile::tempdir().expect("a directory to serve");
    let _listening = UnixListener::bind(site.path().join("socket")).expect("a socket in it");
    let served = Served::files(site.path());
    assert_eq!(status(&ask(&served, "GET /socket", "").0), "404");
}
