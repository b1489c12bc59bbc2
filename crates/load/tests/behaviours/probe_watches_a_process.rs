//! With the number of the server's process a probe sees its threads and its system calls, and names what is wrong with them.
//!
//! The servers run in a process of their own, which is this test program once more.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anywire_load::probe::{Class, Outcome, Plan, run};
use anywire_loops::Loops;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::support::{faulty, skipped};

/// A server in a process of its own, which ends with it.
struct Served {
    child: Child,
    port: u16,
}

impl Served {
    fn start(kind: &str) -> Self {
        let program = std::env::current_exe().expect("the path of this test");
        let mut command = Command::new(program);
        command.args(["--exact", "probe_watches_a_process::serve_in_a_process_of_its_own", "--nocapture"]);
        command.env(KIND, kind).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("this program starts");
        let stdout = BufReader::new(child.stdout.take().expect("it was asked for"));
        let said = |line: std::io::Result<String>| line.ok()?.split_once("port ")?.1.trim().parse().ok();
        let port = stdout.lines().find_map(said).expect("the server says its port");
        Self { child, port }
    }

    fn probe(&self) -> Outcome {
        run(&Loops::start(1).expect("a loop"), self.plan()).expect("there are answers")
    }

    fn plan(&self) -> Plan {
        let pid = i32::try_from(self.child.id()).expect("numbers of processes are small");
        let long = Duration::from_secs(60);
        let url = format!("http://127.0.0.1:{}/", self.port);
        Plan { pid: Some(pid), timeout: long, pattern_time: long, ..Plan::new(url) }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn classes(outcome: &Outcome) -> Vec<Class> {
    outcome.verdicts.iter().map(|verdict| verdict.class).collect()
}

/// No test by itself: what [`Served`] starts.
#[test]
fn serve_in_a_process_of_its_own() {
    let Ok(kind) = std::env::var(KIND) else { return };
    let port = match kind.as_str() {
        "sound" => faulty::start(faulty::Fault::None),
        "byte by byte" => byte_by_byte(),
        "one hot thread" => one_hot_thread(),
        "sleeps in its loop" => one_loop(Handler::Sleeps),
        "computes in its loop" => one_loop(Handler::Computes),
        "waits beside its loop" => one_loop(Handler::Waits),
        other => panic!("there is no server {other:?}"),
    };
    println!("\nport {port}");
    // Until the process that started this one ends, or kills it.
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
    std::process::exit(0);
}

/// Reads each request byte by byte.
fn byte_by_byte() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("it is bound").port();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || answer_byte_by_byte(stream));
        }
    });
    port
}

fn answer_byte_by_byte(mut stream: TcpStream) {
    let (mut byte, mut head) = ([0], Vec::new());
    while let Ok(1) = stream.read(&mut byte) {
        head.push(byte[0]);
        if head.ends_with(b"\r\n\r\n")
            && stream.write_all(&faulty::answers(&std::mem::take(&mut head), BODY)).is_err()
        {
            return;
        }
    }
}

/// How a handler takes its time.
#[derive(Clone, Copy)]
enum Handler {
    Sleeps,
    Computes,
    /// Without holding up its loop.
    Waits,
}

impl Handler {
    async fn run(self) {
        let end = Instant::now() + TAKES;
        match self {
            Self::Sleeps => thread::sleep(TAKES),
            Self::Computes => while Instant::now() < end {},
            Self::Waits => tokio::time::sleep(TAKES).await,
        }
    }
}

/// One event loop, in which this handler runs.
fn one_loop(handler: Handler) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("it is bound").port();
    listener.set_nonblocking(true).expect("a socket");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    thread::spawn(move || {
        runtime.block_on(async move {
            let listener = tokio::net::TcpListener::from_std(listener).expect("it is nonblocking");
            while let Ok((mut stream, _)) = listener.accept().await {
                tokio::spawn(async move {
                    let mut part = [0; 16 << 10];
                    while let Ok(count @ 1..) = stream.read(&mut part).await {
                        handler.run().await;
                        if stream.write_all(&faulty::answers(&part[..count], BODY)).await.is_err() {
                            return;
                        }
                    }
                });
            }
        });
    });
    port
}

/// Four event loops, one of which has all connections.
fn one_hot_thread() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("it is bound").port();
    listener.set_nonblocking(true).expect("a socket");
    let mut listener = Some(listener);
    for number in 0..4 {
        let listener = listener.take();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().expect("a runtime");
        let named = thread::Builder::new().name(format!("worker-{number}"));
        let spawned = named.spawn(move || {
            runtime.block_on(async move {
                let Some(listener) = listener else { return std::future::pending().await };
                let listener = tokio::net::TcpListener::from_std(listener).expect("it is nonblocking");
                while let Ok((mut stream, _)) = listener.accept().await {
                    tokio::spawn(async move {
                        let mut part = [0; 16 << 10];
                        while let Ok(count @ 1..) = stream.read(&mut part).await {
                            if stream.write_all(&faulty::answers(&part[..count], BODY)).await.is_err() {
                                return;
                            }
                        }
                    });
                }
            });
        });
        spawned.expect("a thread");
    }
    port
}

#[test]
fn a_sound_process_is_clean_and_its_cost_is_known() {
    let served = Served::start("sound");
    let outcome = served.probe();
    assert_eq!(classes(&outcome), [Class::Clean], "{outcome}");
    let server = outcome.server.as_ref().expect("the process is known");
    assert_eq!(server.requests, 3200, "all were answered in time");
    assert!(server.cpu_us_per_request.is_some_and(|cpu| cpu.total > 0.0), "{outcome}");
    assert!(server.voluntary_switches_per_request > Some(0.0), "{outcome}");
    assert!(server.threads.iter().any(|thread| thread.share > 0.0), "{outcome}");
    let softirq = server.softirq.as_ref().expect("the kernel tells it");
    assert!(softirq.is_local, "client and server are one host");
    let listeners = outcome.listeners.as_ref().expect("the kernel shows them");
    assert!(listeners.iter().any(|listener| listener.is_own == Some(true)), "{outcome}");
    assert!(listeners.iter().all(|listener| listener.backlog.is_none_or(|backlog| backlog > 0)), "{outcome}");
    assert!(outcome.to_string().contains("a request"), "{outcome}");
}

#[test]
fn requests_that_are_read_byte_by_byte() {
    let served = Served::start("byte by byte");
    let outcome = served.probe();
    let server = outcome.server.as_ref().expect("the process is known");
    if server.syscalls_per_request.is_none() {
        let missing = outcome.missing.iter().find(|missing| missing.what.contains("syscalls"));
        let missing = missing.expect("it says why system calls are not counted");
        assert!(missing.help.is_some() && std::env::var_os("CI").is_none(), "{missing:?}");
        skipped::say(&missing.why);
        return;
    }
    assert_eq!(classes(&outcome), [Class::ManySyscalls], "{outcome}");
    assert!(
        outcome.verdicts[0].evidence.contains("recvfrom") || outcome.verdicts[0].evidence.contains("read"),
        "{outcome}"
    );
}

#[test]
fn one_thread_of_four_that_does_it_all() {
    let served = Served::start("one hot thread");
    let outcome = served.probe();
    let server = outcome.server.as_ref().expect("the process is known");
    if server.threads.iter().all(|thread| thread.is_loop.is_none()) {
        assert!(std::env::var_os("CI").is_none(), "this test needs to see what threads wait for");
        skipped::say("the system does not show what threads wait for");
        return;
    }
    assert_eq!(classes(&outcome), [Class::UnbalancedThreads], "{outcome}");
    let balance = server.balance.as_ref().expect("four are alike");
    assert_eq!((balance.threads_named.as_str(), balance.threads), ("worker", 4), "{outcome}");
}

/// Without a path that is slow by itself: threads of the process show it.
#[test]
fn a_handler_that_holds_up_its_loop() {
    for (kind, classes_of_kind) in [
        ("sleeps in its loop", [Class::BlocksItsLoop]),
        ("computes in its loop", [Class::BlocksItsLoop]),
        ("waits beside its loop", [Class::Clean]),
    ] {
        let served = Served::start(kind);
        // On a busy machine a look takes long, and few looks show nothing: more requests then, until there are enough.
        let probe = |requests| {
            let plan = Plan { requests, connections: 1, ..served.plan() };
            run(&Loops::start(1).expect("a loop"), plan).expect("there are answers")
        };
        let has_enough = |outcome: &Outcome| outcome.loops.as_ref().is_none_or(|loops| loops[0].looks >= 20);
        let mut outcome = probe(40);
        for requests in [160, 640, 2560] {
            if !has_enough(&outcome) {
                outcome = probe(requests);
            }
        }
        let Some(loops) = &outcome.loops else {
            assert!(std::env::var_os("CI").is_none(), "this test needs to see what threads wait for");
            skipped::say("the system does not show what threads wait for");
            return;
        };
        assert_eq!(classes(&outcome), classes_of_kind, "{kind}: {loops:?} {outcome}");
        let [one] = &loops[..] else { panic!("{kind}: {loops:?}") };
        let held = if kind.starts_with("sleeps") { one.slept } else { one.ran };
        assert_eq!(held > one.waited, classes_of_kind == [Class::BlocksItsLoop], "{kind}: {one:?}");
    }
}

#[test]
fn a_process_that_listens_elsewhere_is_said() {
    let (served, other) = (Served::start("sound"), Served::start("sound"));
    let pid = i32::try_from(other.child.id()).expect("numbers of processes are small");
    let plan = Plan { pid: Some(pid), ..Plan::new(format!("http://127.0.0.1:{}/", served.port)) };
    let outcome = run(&Loops::start(1).expect("a loop"), plan).expect("there are answers");
    let missing = outcome.missing.iter().find(|missing| missing.what == "listeners");
    assert!(missing.is_some_and(|missing| missing.why.contains("no socket that listens there")), "{outcome}");
}

/// The variable of the environment that says which server to be.
const KIND: &str = "ANYWIRE_PROBED_SERVER";

/// How long a handler of [`one_loop`] takes.
const TAKES: Duration = Duration::from_millis(8);

const BODY: &str = "Hello, World!";
