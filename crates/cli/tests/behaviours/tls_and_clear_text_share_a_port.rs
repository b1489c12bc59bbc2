//! `anywire serve --tls-and-clear-text`: one port serves both versions of HTTP in clear text and over TLS, also at once.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread;

use crate::common::{Served, anywire, anywire_with_stdin, has, run, stderr, stdout, text};
use crate::pki::{Authority, Signed};

fn served(authority: &Authority) -> Served {
    let Signed { cert, key } = authority.signs("server", &["localhost", "127.0.0.1"]);
    let options = ["--cert", text(&cert), "--key", text(&key), "--tls-and-clear-text"];
    Served::on(&["tls:127.0.0.1:0"], &options)
}

/// The URL in clear text.
fn clear(served: &Served, path: &str) -> String {
    format!("http://{}{path}", served.authority())
}

#[test]
fn curl_is_served_by_both_versions_of_both() {
    if !has("curl") {
        return;
    }
    let authority = Authority::new("trusted");
    let served = served(&authority);
    for (url, version, shown) in [
        (served.url("/"), "--http1.1", "1.1"),
        (served.url("/"), "--http2", "2"),
        (clear(&served, "/"), "--http1.1", "1.1"),
        (clear(&served, "/"), "--http2-prior-knowledge", "2"),
    ] {
        let asked = ["-sS", "--cacert", text(&authority.root), version, "-w", " %{http_version}", &url];
        assert_eq!(run("curl", &asked), format!("Hello, World! {shown}"), "{url} {version}");
    }
    // A body that is longer than what is looked at first comes back whole.
    let body = "x".repeat(300_000);
    for url in [served.url("/echo"), clear(&served, "/echo")] {
        let asked = ["post", "--cacert", text(&authority.root), "-d", "@-", &url];
        let output = anywire_with_stdin(&asked, body.as_bytes());
        assert!(stdout(&output) == body, "{}", stderr(&output));
    }
}

#[test]
fn loads_of_both_run_side_by_side() {
    let authority = Authority::new("trusted");
    let served = served(&authority);
    let load = |url: String, version: &str| {
        let always = ["-c", "8", "-n", "2000", "--warm-up", "0", "--json", "-", version];
        let output = anywire(&[&["load", &url, "--cacert", text(&authority.root)], &always[..]].concat());
        assert!(output.status.success(), "{}", stderr(&output));
        let outcome: serde_json::Value = serde_json::from_str(&stdout(&output)).expect("JSON alone");
        assert_eq!(outcome["totals"]["statuses"]["200"], 2000, "{outcome}");
    };
    thread::scope(|scope| {
        for version in ["--http1", "--http2"] {
            for url in [served.url("/"), clear(&served, "/")] {
                scope.spawn(move || load(url, version));
            }
        }
    });
}

#[test]
fn what_is_neither_harms_nobody() {
    let authority = Authority::new("trusted");
    let served = served(&authority);
    let silent = TcpStream::connect(served.authority()).expect("it listens");
    // A record of TLS that holds no hello, bytes that are no method, and the first byte of either.
    for bytes in [&b"\x16\x03\x01\x00\x04\x0e\0\0\0"[..], b"\0\xff\r\n\r\n", b"\x16", b"P"] {
        let mut peer = TcpStream::connect(served.authority()).expect("it listens");
        peer.write_all(bytes).expect("it is open");
        if bytes.len() > 1 {
            // An alert, or a status; and then the end.
            let mut answer = Vec::new();
            peer.read_to_end(&mut answer).expect("an orderly end");
            assert!(answer.starts_with(&[21, 3]) || answer.starts_with(b"HTTP/1.1 400"), "{answer:?}");
        }
    }
    for url in [served.url("/"), clear(&served, "/")] {
        let output = anywire(&["get", "--cacert", text(&authority.root), &url]);
        assert_eq!(stdout(&output), "Hello, World!", "{}", stderr(&output));
    }
    drop(silent);
}
