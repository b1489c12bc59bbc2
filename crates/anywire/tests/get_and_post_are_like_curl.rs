//! `anywire get` and `post`: what they print, what they send, and curl's exit codes.

mod common;

use std::io::{Read, Write};
use std::net::TcpListener;

use common::{Served, anywire, anywire_with_stdin, assert_refused, stderr, stdout, text};

#[test]
fn the_body_goes_to_stdout_and_the_head_where_it_is_asked_for() {
    let served = Served::demo();
    let plain = anywire(&["get", &served.url("/")]);
    assert_eq!((stdout(&plain), stderr(&plain)), ("Hello, World!".into(), String::new()));
    let with_head = stdout(&anywire(&["get", "-i", &served.url("/")]));
    assert!(with_head.starts_with("HTTP/1.1 200 OK\r\n"), "{with_head}");
    assert!(with_head.contains("\r\ncontent-length: 13\r\n"), "{with_head}");
    assert!(with_head.ends_with("\r\n\r\nHello, World!"), "{with_head}");
    let head = stdout(&anywire(&["get", "-i", "-X", "HEAD", &served.url("/")]));
    assert!(head.contains("content-length: 13") && head.ends_with("\r\n\r\n"), "{head}");

    let dir = tempfile::tempdir().expect("a directory for the answer");
    let file = dir.path().join("answer");
    let to_file = anywire(&["get", &served.url("/bytes/3000000"), "-o", text(&file)]);
    assert_eq!((to_file.status.code(), to_file.stdout.len()), (Some(0), 0));
    assert_eq!(std::fs::metadata(&file).expect("it was written").len(), 3_000_000);
}

#[test]
fn the_wire_is_said_beside_the_url() {
    let name = format!("unix:@anywire-via-{}", std::process::id());
    let served = Served::on(&[&name], &[]);
    let answer = anywire(&["get", "http://any.name.will.do/json", "--via", served.address(0)]);
    assert_eq!(stdout(&answer), r#"{"message":"Hello, World!"}"#);
}

#[test]
fn data_is_text_a_file_or_stdin() {
    let served = Served::demo();
    let echo = served.url("/echo");
    assert_eq!(stdout(&anywire(&["post", &echo, "-d", "any text"])), "any text");
    let form = stdout(&anywire(&["post", "-i", &echo, "-d", "a=b"]));
    assert!(form.contains("content-type: application/x-www-form-urlencoded\r\n"), "{form}");
    let json = stdout(&anywire(&["post", "-i", &echo, "-d", "{}", "-H", "Content-Type: application/json"]));
    assert!(json.contains("content-type: application/json\r\n"), "{json}");

    let dir = tempfile::tempdir().expect("a directory for the data");
    let file = dir.path().join("data");
    let data: Vec<u8> = (0..1_000_000_u32).flat_map(|n| n.to_le_bytes()).collect();
    std::fs::write(&file, &data).expect("the data can be written");
    let from_file = anywire(&["post", &echo, "-d", &format!("@{}", text(&file))]);
    assert!(from_file.stdout == data, "{} bytes came back: {}", from_file.stdout.len(), stderr(&from_file));
    let from_stdin = anywire_with_stdin(&["post", &echo, "-d", "@-"], &data);
    assert!(
        from_stdin.stdout == data,
        "{} bytes came back: {}",
        from_stdin.stdout.len(),
        stderr(&from_stdin)
    );
    assert_refused(&anywire(&["post", &echo, "-d", "@/no/such/file"]), 26, "/no/such/file");
}

#[test]
fn a_bad_status_is_a_failure_only_where_it_is_said_so() {
    let served = Served::demo();
    let lenient = anywire(&["get", &served.url("/nowhere")]);
    assert_eq!(lenient.status.code(), Some(0));
    assert!(!lenient.stdout.is_empty());
    let strict = anywire(&["get", "--fail", &served.url("/nowhere")]);
    assert_refused(&strict, 22, "404 Not Found");
    assert!(strict.stdout.is_empty());
}

#[test]
fn each_way_to_fail_has_its_exit_code() {
    let served = Served::demo();
    assert_refused(&anywire(&["get", "nonsense"]), 2, "nonsense");
    assert_refused(&anywire(&["get", "https://localhost/"]), 2, "https");
    assert_refused(&anywire(&["get", &served.url("/delay/60000"), "--timeout", "100ms"]), 28, "100ms");
    let unresolved = anywire(&["get", "http://no-such-host.invalid/"]);
    // Without any name server the resolver may not even get to say no.
    let code = if unresolved.status.code() == Some(28) { 28 } else { 6 };
    assert_refused(&unresolved, code, "no-such-host.invalid");

    let unused =
        TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a free port");
    assert_refused(&anywire(&["get", &format!("http://{unused}/")]), 7, "nobody listens");
    assert_refused(&anywire(&["get", "http://h/", "--via", "unix:/no/such/socket"]), 7, "/no/such/socket");

    let answering = |answer: &'static [u8]| {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let url = format!("http://{}/", listener.local_addr().expect("it is bound"));
        let server = std::thread::spawn(move || {
            let (mut peer, _) = listener.accept().expect("the command connects");
            let read = peer.read(&mut [0; 4096]).expect("the command sends");
            assert!(read > 0);
            peer.write_all(answer).expect("the command reads");
        });
        let output = anywire(&["get", &url]);
        server.join().expect("the peer did its part");
        output
    };
    assert_refused(&answering(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nshort"), 56, "");
    assert_refused(&answering(b"SSH-2.0-OpenSSH\r\n\r\n"), 56, "");
    assert_refused(&answering(b""), 56, "");
}
