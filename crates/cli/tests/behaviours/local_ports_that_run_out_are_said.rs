//! Where this machine has no local port left, each command says so, and what would help. A load names the connections that were
//! never open, and ends with the code of one that fell short.

use std::net::TcpStream;
use std::process::Output;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::again;
use crate::common::{Served, anywire, assert_refused, stderr, stdout};

#[test]
fn by_a_load_and_by_a_call() {
    let this = "local_ports_that_run_out_are_said::by_a_load_and_by_a_call";
    if !again::is_inner() {
        return again::passes_within(again::OWN_NETWORK, this);
    }
    if !again::ten_local_ports() {
        return;
    }
    let served = Served::on(&["tcp:127.0.0.1:8080"], &[]);
    let url = served.url("/");
    for more in [&["-n", "40"][..], &["-n", "40", "--http2"], &["-d", "200ms", "--warm-up", "0s"]] {
        let args = [&["load", "-c", "20", "--loops", "1", &url], more].concat();
        let output = anywire(&args);
        assert_short_of_ports(&output, 18, "10 of 20 connections were never open");
        assert!(stdout(&output).contains(" 10 never open"), "{}", stdout(&output));
        let output = anywire(&[&args[..], &["--json", "-"]].concat());
        let result: Value = serde_json::from_str(&stdout(&output)).expect("the result is JSON alone");
        let connections = &result["totals"]["connections"];
        assert_eq!(
            (&connections["opened"], &connections["never_open"]),
            (&10.into(), &10.into()),
            "{result}"
        );
        let errors = &result["totals"]["errors"];
        assert!(errors["ports"].as_u64() >= Some(10) && errors["connect"] == 0, "{result}");
    }
    // The server of a candidate takes one of the ports.
    let args = ["compare", "--wires", "tcp", "--rounds", "1", "-c", "20", "--duration"];
    let output = answered(|duration| anywire(&[&args[..], &[duration]].concat()));
    assert_short_of_ports(&output, 18, "11 of 20 connections were never open");
    let compared = stdout(&output);
    assert!(compared.contains("11 of 20 connections were never open"), "{compared}");
    assert!(compared.contains("net.ipv4.ip_local_port_range"), "{compared}");
    let short = ["--rounds", "5", "--warm-up", "0", "-c", "20"];
    let output =
        answered(|turn| anywire(&[&["ab", &url, &url], &short[..], &["-d", turn, "--turn", turn]].concat()));
    // More than 10 if the system has not yet freed all ports of the turn before.
    assert_short_of_ports(&output, 18, " of 20 connections to A were never open");
    assert_short_of_ports(&anywire(&["probe", &url]), 18, "of 32 connections came about");
    // One of two does not start, and the other one is measured.
    let args = ["compare", &url, "gone=http://127.0.0.1:9/", "-c", "2", "--rounds", "1", "--duration"];
    let output = answered(|duration| anywire(&[&args[..], &[duration]].concat()));
    assert_refused(&output, 18, "gone: 2 of 2 connections were never open");
    // As soon as the system has freed those of the connections before.
    let connect = |_| {
        let begun = Instant::now();
        loop {
            match TcpStream::connect("127.0.0.1:8080") {
                Ok(stream) => break stream,
                Err(error) => assert!(begun.elapsed() < Duration::from_secs(60), "{error}"),
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    };
    let held: Vec<_> = (0..10).map(connect).collect();
    assert_short_of_ports(&anywire(&["get", &url]), 7, "has no local port left");
    assert_short_of_ports(&anywire(&["load", &url, "-n", "1", "-c", "1"]), 1, "has no local port left");
    for args in [
        &["serve", "--listen", "tcp:127.0.0.1:0"][..],
        &["compare", "--wires", "tcp", "--quick"],
        &["ladder", "--rungs", "epoll", "--quick"],
        &["ipc", "--ways", "tcp", "--duration", "1ms"],
    ] {
        assert_short_of_ports(&anywire(args), 1, "no port is free");
    }
    drop(held);
    let hold = |_| std::net::UdpSocket::bind("127.0.0.1:0").expect("a port is left");
    let held: Vec<_> = (0..10).map(hold).collect();
    let args = ["udp", "load", "udp:127.0.0.1:9", "--duration", "50ms", "--rate", "100"];
    assert_short_of_ports(&anywire(&args), 1, "has no local port left");
    drop(held);
}

/// What a run of such a length gives that it has answers: on a busy machine the shortest has none, and ends for that.
fn answered(run: impl Fn(&str) -> Output) -> Output {
    let mut outputs = ["50ms", "400ms", "2s", "10s"].into_iter().map(run);
    outputs.find(|output| output.status.code() != Some(1)).expect("10 s are enough")
}

#[track_caller]
fn assert_short_of_ports(output: &Output, code: i32, found: &str) {
    assert_refused(output, code, found);
    assert!(stderr(output).contains("net.ipv4.ip_local_port_range"), "{}", stderr(output));
}
