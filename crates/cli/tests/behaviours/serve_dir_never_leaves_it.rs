//! `anywire serve --dir` serves what is in the directory, and nothing else, however it is asked.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::symlink;

use crate::common::{Served, anywire, assert_refused};

#[test]
fn files_are_served_with_their_type_and_length() {
    let site = tempfile::tempdir().expect("a directory to serve");
    let at = |name: &str| site.path().join(name);
    std::fs::create_dir(at("sub")).expect("a directory in it");
    std::fs::write(at("index.html"), "<p>home").expect("a file in it");
    std::fs::write(at("sub/index.html"), "<p>sub").expect("a file in it");
    std::fs::write(at("a b.txt"), "text").expect("a file in it");
    let large: Vec<u8> = (0..500_000_u32).flat_map(|n| n.to_le_bytes()).collect();
    std::fs::write(at("large.bin"), &large).expect("a file in it");
    let served = Served::files(site.path());

    let (head, body) = ask(&served, "GET", "/", "");
    assert!(
        head.starts_with("HTTP/1.1 200 ") && head.contains("content-type: text/html; charset=utf-8"),
        "{head}"
    );
    assert!(head.contains("content-length: 7\r\n"), "{head}");
    assert_eq!(body, b"<p>home");
    assert_eq!(ask(&served, "GET", "/a%20b.txt", "").1, b"text");
    let (head, body) = ask(&served, "GET", "/large.bin", "");
    assert!(head.contains("content-length: 2000000\r\n"), "{head}");
    assert!(body == large, "{} bytes came", body.len());
    let (head, body) = ask(&served, "HEAD", "/large.bin", "");
    assert!(head.contains("content-length: 2000000\r\n") && body.is_empty(), "{head}");

    assert_eq!(ask(&served, "GET", "/sub/", "").1, b"<p>sub");
    let (head, _) = ask(&served, "GET", "/sub", "");
    assert!(head.starts_with("HTTP/1.1 307 ") && head.contains("location: /sub/\r\n"), "{head}");
    let (head, _) = ask(&served, "GET", "//sub", "");
    assert!(head.contains("location: /sub/\r\n"), "{head}");
    assert_eq!(status(&served, "POST", "/"), "405");
    assert_eq!(status(&served, "GET", "/a%20b.txt/"), "404");

    let (head, _) = ask(&served, "GET", "/", "");
    let modified =
        head.lines().find(|line| line.starts_with("last-modified: ")).expect("the time of the file");
    let since = modified.replace("last-modified", "if-modified-since") + "\r\n";
    let (head, body) = ask(&served, "GET", "/", &since);
    assert!(head.starts_with("HTTP/1.1 304 ") && body.is_empty(), "{head}");
}

#[test]
fn what_is_well_known_is_served() {
    let site = tempfile::tempdir().expect("a directory to serve");
    let place = site.path().join(".well-known/acme-challenge");
    std::fs::create_dir_all(&place).expect("a directory in it");
    std::fs::write(place.join("token"), "proof").expect("a file in it");
    std::fs::write(place.join(".hidden"), "secret").expect("a file in it");
    let served = Served::files(site.path());
    assert_eq!(ask(&served, "GET", "/.well-known/acme-challenge/token", "").1, b"proof");
    assert_eq!(status(&served, "GET", "/.well-known/acme-challenge/.hidden"), "404");
}

#[test]
fn nothing_from_outside_is_served() {
    let around = tempfile::tempdir().expect("a directory around it");
    let site = around.path().join("site");
    std::fs::create_dir(&site).expect("a directory to serve");
    std::fs::create_dir(around.path().join("outside")).expect("a directory beside it");
    for secret in ["secret", "outside/secret", "site/.env"] {
        std::fs::write(around.path().join(secret), "secret").expect("a file");
    }
    std::fs::write(site.join("open"), "open").expect("a file in it");
    symlink("open", site.join("link-inside")).expect("a link");
    symlink("../secret", site.join("link-up")).expect("a link");
    symlink(around.path().join("secret"), site.join("link-absolute")).expect("a link");
    symlink("../outside", site.join("link-dir")).expect("a link");
    symlink("link-loop", site.join("link-loop")).expect("a link");
    symlink("/proc/self/fd/0", site.join("link-magic")).expect("a link");
    let fifo = rustix::fs::mknodat(
        rustix::fs::CWD,
        site.join("fifo"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RWXU,
        0,
    );
    fifo.expect("a pipe in it");
    let served = Served::files(&site);

    assert_eq!(ask(&served, "GET", "/link-inside", "").1, b"open");
    for path in [
        "/../secret",
        "/%2e%2e/secret",
        "/..%2fsecret",
        "/%2e%2e%2fsecret",
        "/.%2e/secret",
        "/./open",
        "/x/../open",
        "//etc/passwd",
        "/%2fetc%2fpasswd",
        "/etc/passwd",
        "/open%00.html",
        "/.env",
        "/%2eenv",
        "/link-up",
        "/link-absolute",
        "/link-dir/secret",
        "/link-dir/",
        "/link-loop",
        "/link-magic",
        "/fifo",
        "/open/x",
        "/..\\secret",
        &format!("/{}", "x".repeat(300)),
        &"/x".repeat(2000),
    ] {
        let (head, body) = ask(&served, "GET", path, "");
        assert!(head.starts_with("HTTP/1.1 404 "), "{path}: {head}");
        assert!(!body.windows(6).any(|window| window == b"secret" || window == b"root:x"), "{path}");
    }
    // And it still serves.
    assert_eq!(ask(&served, "GET", "/open", "").1, b"open");
}

#[test]
fn a_directory_that_is_none_is_refused() {
    assert_refused(
        &anywire(&["serve", "--dir", "/no/such/dir", "--listen", "tcp:127.0.0.1:0"]),
        1,
        "/no/such/dir",
    );
    assert_refused(&anywire(&["serve", "--dir", "/dev/null", "--listen", "tcp:127.0.0.1:0"]), 1, "/dev/null");
}

/// Asks for exactly this path, which no client would send as it is.
fn ask(served: &Served, method: &str, path: &str, fields: &str) -> (String, Vec<u8>) {
    let mut peer = TcpStream::connect(served.authority()).expect("it listens");
    write!(peer, "{method} {path} HTTP/1.1\r\nhost: h\r\nconnection: close\r\n{fields}\r\n")
        .expect("it reads");
    let mut answer = Vec::new();
    peer.read_to_end(&mut answer).expect("it answers");
    let end = answer.windows(4).position(|window| window == b"\r\n\r\n").expect("a head") + 4;
    let body = answer.split_off(end);
    (String::from_utf8(answer).expect("a head is ASCII"), body)
}

fn status(served: &Served, method: &str, path: &str) -> String {
    ask(served, method, path, "").0[9..12].to_owned()
}
