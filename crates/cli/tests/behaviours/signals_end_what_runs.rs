//! SIGTERM lets a service finish its requests; SIGINT and SIGTERM end a load with the result so far.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Stdio;

use crate::common::{Served, command, ended_at_its_first_word, stderr, stdout};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

#[test]
fn a_service_finishes_its_requests() {
    let mut served = Served::demo();
    let mut peer = TcpStream::connect(served.authority()).expect("it listens");
    peer.write_all(b"POST /echo HTTP/1.1\r\nhost: h\r\ncontent-length: 10\r\n\r\nfirst").expect("it reads");
    let mut answer = Vec::new();
    while !answer.ends_with(b"first") {
        let mut some = [0; 1024];
        let length = peer.read(&mut some).expect("it answers");
        assert!(length > 0, "it closed: {answer:?}");
        answer.extend_from_slice(&some[..length]);
    }
    // The handler is at work now.
    kill_process(pid(&served.child), Signal::TERM).expect("the service runs");
    // Accepting has ended when a connection is refused.
    while TcpStream::connect(served.authority()).is_ok() {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    peer.write_all(b"there").expect("it still reads");
    peer.read_to_end(&mut answer).expect("it answers and closes");
    assert!(answer.ends_with(b"firstthere"), "{}", String::from_utf8_lossy(&answer));
    let status = served.child.wait().expect("the service ends");
    assert_eq!(status.code(), Some(0));
}

#[test]
fn a_load_prints_the_result_so_far() {
    end_a_load(Signal::INT, 130);
    end_a_load(Signal::TERM, 143);
}

fn end_a_load(signal: Signal, code: i32) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}/", listener.local_addr().expect("it is bound"));
    let mut command = command();
    command.args(["load", &url, "-c", "1", "-d", "1h", "--warm-up", "0", "--loops", "1"]);
    let child =
        command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("the built command starts");
    let (mut peer, _) = listener.accept().expect("the command connects");
    for _ in 0..3 {
        assert!(peer.read(&mut [0; 4096]).expect("the command sends") > 0);
        peer.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").expect("the command reads");
    }
    // The third request was answered, and the fourth is here: the first three are counted.
    assert!(peer.read(&mut [0; 4096]).expect("the command sends") > 0);
    kill_process(pid(&child), signal).expect("the load runs");
    let output = child.wait_with_output().expect("the load ends");
    assert_eq!(output.status.code(), Some(code));
    assert!(stdout(&output).contains("interrupted"), "{}", stdout(&output));
}

/// Each says it in its result, with the rows until then, and does not wait for its end.
#[test]
fn what_measures_row_by_row_says_that_it_was_ended() {
    let hand_over = ended(&["ladder", "--rungs", "hand-over"], Signal::INT, 130);
    assert!(hand_over["hand_over"]["rows"].as_array().is_some_and(|rows| rows.len() < 12), "{hand_over}");
    assert!(hand_over["host"]["cores"].is_u64(), "{hand_over}");
    let args = ["ipc", "--ways", "unix,unix-loop", "--sizes", "64", "--duration", "60s"];
    let ipc = ended(&args, Signal::TERM, 143);
    assert!(ipc["rows"].as_array().is_some_and(|rows| rows.len() < 4), "{ipc}");
    for signal in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let tasks = ended(&["swarm", "tasks", "-n", "1000", "--duration", "1h"], signal.0, signal.1);
        assert!(tasks["tasks"] == 1000 && tasks["wakes_per_second"].is_null(), "{tasks}");
    }
}

#[test]
fn a_pipe_says_that_it_was_ended() {
    let silent = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let silent = silent.local_addr().expect("it is bound").to_string();
    let pipe = ended(&["pipe", &silent, "-c", "1", "--timeout", "1h"], Signal::INT, 130);
    assert_eq!(pipe["matched"], 0, "{pipe}");
}

#[test]
fn a_swarm_that_has_measured_nothing_says_so() {
    let args = ["swarm", "-c", "10", "--warm-up", "1h"];
    let output = ended_at_its_first_word(&args, Signal::INT);
    assert_eq!((output.status.code(), stdout(&output)), (Some(130), String::new()));
    assert!(stderr(&output).contains("stopped before anything was measured"), "{}", stderr(&output));
}

fn ended(args: &[&str], signal: Signal, code: i32) -> Value {
    let output = ended_at_its_first_word(args, signal);
    assert_eq!(output.status.code(), Some(code), "{args:?}: {}", stderr(&output));
    let result: Value = serde_json::from_str(&stdout(&output)).expect("the result is JSON alone");
    assert_eq!(result["interrupted"], true, "{result}");
    result
}

fn pid(child: &std::process::Child) -> Pid {
    Pid::from_child(child)
}
