//! What has come of an answer is printed at once, whatever ends the command, and a command that is too late says in which phase.

use std::io::Read;
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;

use rustix::process::{Pid, Signal, kill_process};

use crate::common::{anywire, assert_refused, eventually, interruptible, stdout, text};
use crate::peer::{DATA, Peer, frame, head, say, wait_for_end};

/// Servers that send half of a body without a line's end, and then nothing.
fn silent_within_the_body() -> [(&'static str, Peer); 2] {
    [
        (
            "--http1",
            Peer::of_http1(|stream| {
                say(stream, "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf");
                wait_for_end(stream);
            }),
        ),
        (
            "--http2",
            Peer::of_http2(|stream| {
                say(stream, [head(&[]), frame(DATA, 0, 1, b"half")].concat());
                wait_for_end(stream);
            }),
        ),
    ]
}

fn interrupt(child: &Child) {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).expect("a process has a number");
    kill_process(pid, Signal::INT).expect("the command runs");
}

#[test]
fn half_of_a_body_before_an_interrupt() {
    for (version, peer) in silent_within_the_body() {
        for more in [&[][..], &["-o", "-"], &["--timeout", "1h"]] {
            let mut command = interruptible();
            command.args(["get", version, &peer.url()]).args(more).stdout(Stdio::piped());
            let mut child = command.spawn().expect("the built command starts");
            let mut pipe = child.stdout.take().expect("it was asked for");
            let printed = Arc::<Mutex<Vec<u8>>>::default();
            let shared = printed.clone();
            let reading = thread::spawn(move || {
                let mut some = [0; 64];
                while let Ok(count @ 1..) = pipe.read(&mut some) {
                    shared.lock().expect("no panic").extend_from_slice(&some[..count]);
                }
            });
            // Nothing but the signal ends it.
            eventually("half is printed", || *printed.lock().expect("no panic") == b"half");
            interrupt(&child);
            assert!(!child.wait().expect("the command ends").success());
            reading.join().expect("no panic");
            assert_eq!(*printed.lock().expect("no panic"), b"half", "{version} {more:?}");
        }
    }
}

#[test]
fn half_of_a_body_in_a_file() {
    let dir = tempfile::tempdir().expect("a directory for the answer");
    for (version, peer) in silent_within_the_body() {
        let file = dir.path().join(version);
        let mut command = interruptible();
        command.args(["get", version, &peer.url(), "-o", text(&file)]);
        let mut child = command.spawn().expect("the built command starts");
        eventually("half is written", || std::fs::read(&file).is_ok_and(|written| written == b"half"));
        interrupt(&child);
        assert!(!child.wait().expect("the command ends").success());
        assert_eq!(std::fs::read(&file).expect("it stays"), b"half");
    }
}

/// Ample for what is to happen before; calls wait for it side by side.
const DEADLINE: &str = "5s";

#[test]
fn half_of_a_body_before_a_deadline() {
    let dir = tempfile::tempdir().expect("a directory for the answer");
    let says = "the answer was not whole after 5s, which ended while reading the body";
    thread::scope(|scope| {
        for (version, peer) in silent_within_the_body() {
            let file = dir.path().join(version);
            scope.spawn(move || {
                let get = ["get", version, &peer.url(), "--timeout", DEADLINE];
                thread::scope(|scope| {
                    scope.spawn(|| {
                        let output = anywire(&get);
                        assert_eq!(stdout(&output), "half");
                        assert_refused(&output, 28, says);
                    });
                    assert_refused(&anywire(&[&get[..], &["-o", text(&file)]].concat()), 28, says);
                });
                assert_eq!(std::fs::read(&file).expect("it stays"), b"half");
            });
        }
    });
}

#[test]
fn a_deadline_before_the_answer_has_its_phase() {
    let dir = tempfile::tempdir().expect("a directory for the data");
    let large = dir.path().join("large");
    std::fs::File::create(&large).and_then(|file| file.set_len(64 << 20)).expect("room for its name");
    let data = format!("@{}", text(&large));
    let (test_is_over, end) = std::sync::mpsc::channel::<()>();
    let end = Arc::new(Mutex::new(end));
    let holds_back = || {
        let end = end.clone();
        move |_: &mut TcpStream| assert!(end.lock().expect("no panic").recv().is_err())
    };
    // Nobody takes part in the handshake.
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let deaf = format!("https://{}/", listener.local_addr().expect("an address"));
    thread::scope(|scope| {
        let data = &data;
        for (version, peer) in
            [("--http1", Peer::of_http1(holds_back())), ("--http2", Peer::of_http2(holds_back()))]
        {
            scope.spawn(move || {
                let post = anywire(&["post", version, &peer.url(), "--timeout", DEADLINE, "-d", data]);
                assert_refused(&post, 28, "which ended while sending the request");
            });
        }
        for (version, peer) in
            [("--http1", Peer::of_http1(wait_for_end)), ("--http2", Peer::of_http2(wait_for_end))]
        {
            scope.spawn(move || {
                let get = anywire(&["get", version, &peer.url(), "--timeout", DEADLINE]);
                assert_refused(&get, 28, "which ended while waiting for the response");
            });
        }
        assert_refused(&anywire(&["get", &deaf, "--timeout", DEADLINE]), 28, "which ended while connecting");
    });
    drop(test_is_over);
}
