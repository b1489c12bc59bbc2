//! `-x`, `--noproxy` and the proxies of the environment, and how a proxy fails.

use std::io::{Read, Write};
use std::net::TcpListener;

use crate::common::{anywire, assert_refused, command, stderr, stdout};
use crate::recorder::Recorder;

#[test]
fn the_proxy_is_the_one_that_is_given_or_that_of_the_environment() {
    let recorder = Recorder::start();
    let proxy = recorder.url("");
    let with = |args: &[&str]| {
        let mut command = command();
        command.env("http_proxy", &proxy).env_remove("no_proxy").env_remove("NO_PROXY").args(args);
        command.output().expect("the built command starts")
    };
    let through = with(&["get", "http://h.test/a"]);
    assert_eq!(stdout(&through), "hi", "{}", stderr(&through));
    assert_eq!(recorder.take().pop().expect("it was asked").line, "GET http://h.test/a HTTP/1.1");
    // Given, or none, or not for this host, or by a wire of its own.
    let direct = with(&["get", "-x", "", &recorder.url("/a")]);
    assert_eq!(stdout(&direct), "hi", "{}", stderr(&direct));
    let direct = with(&["get", "--noproxy", ".test", "--resolve", "h.test:1:127.0.0.1", "http://h.test:1/a"]);
    assert_refused(&direct, 7, "tcp:h.test:1");
    let direct = with(&["get", "http://h.test/a", "--via", &format!("tcp:{}", recorder.authority)]);
    assert_eq!(stdout(&direct), "hi", "{}", stderr(&direct));
    assert!(recorder.take().iter().all(|request| request.line == "GET /a HTTP/1.1"));
}

#[test]
fn a_proxy_that_fails_has_its_exit_code() {
    let recorder = Recorder::start();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let no_socks = format!("socks5h://{}", listener.local_addr().expect("it is bound"));
    let peer = std::thread::spawn(move || {
        let (mut peer, _) = listener.accept().expect("the command connects");
        assert!(peer.read(&mut [0; 64]).expect("it greets") > 0);
        // The command may have seen enough and gone.
        let _ = peer.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
    });
    for (proxy, url, code, found) in [
        ("http://127.0.0.1:1", "http://h.test/", 7, "127.0.0.1:1"),
        (&recorder.url(""), "https://h.test/", 56, "403"),
        (&no_socks, "http://h.test/", 97, "SOCKS5"),
    ] {
        let output = anywire(&["get", "-x", proxy, url]);
        assert_refused(&output, code, found);
        assert!(!stderr(&output).contains("crate") && !stderr(&output).contains('`'), "{}", stderr(&output));
    }
    peer.join().expect("it was asked");
    for proxy in ["ftp://me:secret@h/", "http://me:secret@127.0.0.1:1"] {
        let output = anywire(&["get", "-x", proxy, "http://h.test/"]);
        assert!(matches!(output.status.code(), Some(2 | 7)), "{}", stderr(&output));
        assert!(!stderr(&output).contains("secret"), "{}", stderr(&output));
    }
}
