//! `serve`, `get` and `load` take limits on heads as options: within them a message passes, beyond them it is refused.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use crate::common::{Served, anywire, assert_refused, stderr, stdout};

/// The status with which a service of these options answers a request with this line and these fields.
fn status(options: &[&str], target: &str, fields: &str) -> u16 {
    let served = Served::on(&["tcp:127.0.0.1:0"], options);
    let mut peer = TcpStream::connect(served.authority()).expect("it listens");
    let request = format!("GET {target} HTTP/1.1\r\nhost: h\r\nconnection: close\r\n{fields}\r\n");
    // It may answer and close before it has read all.
    let _ = peer.write_all(request.as_bytes());
    let mut answer = [0; 12];
    peer.read_exact(&mut answer).expect("it answers");
    std::str::from_utf8(&answer[9..]).ok().and_then(|digits| digits.parse().ok()).expect("a status")
}

#[test]
fn a_service_takes_what_its_options_allow() {
    let fields = |count: usize| "a: b\r\n".repeat(count);
    assert_eq!(status(&[], "/", &fields(98)), 200);
    assert_eq!(status(&[], "/", &fields(99)), 431);
    assert_eq!(status(&["--max-fields", "200"], "/", &fields(198)), 200);
    assert_eq!(status(&["--max-fields", "2"], "/", &fields(1)), 431);

    let long = |bytes: usize| format!("a: {}\r\n", "b".repeat(bytes));
    assert_eq!(status(&[], "/", &long(20_000)), 431);
    // More than a connection's buffer holds by default.
    assert_eq!(status(&["--max-head", "300000"], "/", &long(200_000)), 200);
    assert_eq!(status(&["--max-head", "100"], "/", &long(100)), 431);

    let target = |bytes: usize| format!("/?{}", "q".repeat(bytes));
    assert_eq!(status(&[], &target(10_000), ""), 414);
    assert_eq!(status(&["--max-start-line", "12000"], &target(10_000), ""), 200);
}

#[test]
fn a_call_and_a_load_take_what_their_options_allow() {
    let answer = format!("HTTP/1.1 200 OK\r\na: {}\r\ncontent-length: 0\r\n\r\n", "b".repeat(100_000));
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}/", listener.local_addr().expect("it is bound"));
    std::thread::spawn(move || {
        for peer in listener.incoming() {
            let mut peer = peer.expect("the command connects");
            while peer.read(&mut [0; 4096]).unwrap_or_default() > 0
                && peer.write_all(answer.as_bytes()).is_ok()
            {}
        }
    });
    assert_refused(&anywire(&["get", &url]), 56, "more than 16384 bytes");
    let raised = anywire(&["get", &url, "--max-head", "200000"]);
    assert!(raised.status.success(), "{}", stderr(&raised));

    let load = ["load", &url, "-n", "5", "-c", "1", "--warm-up", "0"];
    let refused = anywire(&load);
    assert_refused(&refused, 1, "more than 16384 bytes");
    assert!(stdout(&refused).contains("5 parse"), "{}", stdout(&refused));
    let raised = anywire(&[&load[..], &["--max-head", "200000"]].concat());
    assert!(raised.status.success() && stdout(&raised).contains("5 answered"), "{}", stdout(&raised));

    let refused = anywire(&["probe", &url]);
    assert_refused(&refused, 1, "more than 16384 bytes");
    let said = stderr(&refused);
    assert!(said.contains("raise --max-head") && !said.contains("HeadLimits"), "{said}");
}
