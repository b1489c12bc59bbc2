//! Clients of other projects over HTTP/2, most of them also over TLS: bodies byte for byte, 100 MB both ways, trailers, requests
//! that are cancelled in the middle, and a server that goes away in the middle of one.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::common::{Served, has, run, text};
use crate::pki::{Authority, Signed};
use crate::secured::Secured;
use rustix::process::{Pid, Signal, kill_process};

/// With the 30 MB that a service holds anyway, more than it may hold.
const TOTAL: usize = 40 << 20;

/// What a service may hold while it passes that on.
const MEMORY_BYTES_MAX: u64 = 64 << 20;

#[test]
fn go() {
    let Some(client) = crate::tools::go_program("anywire.test/http2/client") else { return };
    play(Demo::clear(), Command::new(client));
}

#[test]
fn node() {
    if !has("node") {
        return;
    }
    for demo in [Demo::clear(), Demo::secured()] {
        let mut client = Command::new("node");
        client.arg(crate::tools::source("client.mjs"));
        play(demo, client);
    }
}

#[test]
fn python_httpx() {
    let Some(python) = crate::tools::python() else { return };
    for demo in [Demo::clear(), Demo::secured()] {
        let mut client = Command::new(&python);
        client.arg(crate::tools::source("python/client.py"));
        play(demo, client);
    }
}

/// The demo service of the command, in clear text or over TLS.
struct Demo {
    served: Served,
    /// Who has signed its certificate.
    authority: Option<Authority>,
}

impl Demo {
    fn clear() -> Self {
        Self { served: Served::demo(), authority: None }
    }

    fn secured() -> Self {
        let authority = Authority::new("trusted");
        let Signed { cert, key } = authority.signs("server", &["localhost", "127.0.0.1"]);
        let served = Served::on(&["tls:127.0.0.1:0"], &["--cert", text(&cert), "--key", text(&key)]);
        Self { served, authority: Some(authority) }
    }
}

/// Runs a client. It says that it is in the middle of a request, or has none, and goes on once the server goes away.
fn play(mut demo: Demo, mut client: Command) {
    let served = &mut demo.served;
    client.arg(served.url("")).args(demo.authority.iter().map(|authority| &authority.root));
    let mut client =
        client.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the client was found before");
    let mut said = BufReader::new(client.stdout.take().expect("it was asked for"));
    assert_eq!(line(&mut said), "ready");
    assert_memory(served);
    go_away(served);
    // It may have heard of that already, and may not have: both are right.
    client.stdin.take().expect("it was asked for").write_all(b"\n").expect("the client reads");
    assert_eq!(line(&mut said), "done");
    assert!(client.wait().expect("a child").success());
    assert!(served.child.wait().expect("a child").success(), "the service ends in order");
}

fn line(said: &mut impl BufRead) -> String {
    let mut line = String::new();
    said.read_line(&mut line).expect("text");
    line.trim().to_owned()
}

#[test]
fn curl() {
    if !has("curl") {
        return;
    }
    let served = Served::demo();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let [sent, came] = ["sent", "came"].map(|name| folder.path().join(name));
    fs::write(&sent, pattern(TOTAL)).expect("room");
    let curl = |args: &[&str]| {
        let always = ["--silent", "--show-error", "--fail", "--http2-prior-knowledge", "--max-time", "120"];
        run("curl", &[&always[..], args].concat())
    };
    assert_eq!(curl(&[&served.url("/")]), "Hello, World!");
    let body = format!("@{}", text(&sent));
    // One request each time: curl 7.88 fails at the second one on a connection with prior knowledge, with nghttpd, too.
    let said = curl(&[
        "--write-out",
        "%{http_version} %{response_code}",
        "--output",
        text(&came),
        "--data-binary",
        &body,
        &served.url("/echo"),
    ]);
    assert_eq!(said, "2 200");
    assert_same(&sent, &came);
    assert_memory(&served);

    // One that leaves in the middle.
    let large = served.url(&format!("/bytes/{TOTAL}"));
    let mut leaves = Command::new("curl");
    let leaves = leaves.args(["--silent", "--http2-prior-knowledge", &large]).stdout(Stdio::piped());
    let mut leaves = leaves.spawn().expect("it was found before");
    leaves
        .stdout
        .take()
        .expect("it was asked for")
        .read_exact(&mut [0; 100_000])
        .expect("a part of the body");
    leaves.kill().and_then(|()| leaves.wait()).expect("a child");
    assert_eq!(curl(&[&served.url("/")]), "Hello, World!");

    let mut takes = Command::new("curl");
    takes.args(["--silent", "--show-error", "--http2-prior-knowledge", "--limit-rate", "50M", &large]);
    leaves_in_the_middle(served, takes);
}

/// A download of all of the pattern goes on to its end, though the server leaves in the middle of it.
fn leaves_in_the_middle(mut served: Served, mut takes: Command) {
    let mut takes = takes.stdout(Stdio::piped()).spawn().expect("it was found before");
    let mut body = takes.stdout.take().expect("it was asked for");
    let mut read = vec![0; 100_000];
    body.read_exact(&mut read).expect("a part of the body");
    go_away(&served);
    body.read_to_end(&mut read).expect("the rest of it");
    assert_eq!(read.len(), TOTAL);
    assert!(takes.wait().expect("a child").success());
    assert!(served.child.wait().expect("a child").success(), "the service ends in order");
}

#[test]
fn nghttp() {
    if !has("nghttp") {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let [sent, came, small] = ["sent", "came", "small"].map(|name| folder.path().join(name));
    fs::write(&sent, pattern(TOTAL)).expect("room");
    fs::write(&small, "small").expect("room");
    for Demo { served, .. } in [Demo::clear(), Demo::secured()] {
        // It trusts nobody's roots, and only warns.
        let always = ["--no-verify-peer", "--timeout=60"];
        let mut asks = Command::new("nghttp");
        asks.args(always).args(["--data", text(&sent), &served.url("/echo")]);
        let output = File::create(&came).expect("room");
        assert!(asks.stdout(output).status().expect("it was found before").success());
        assert_same(&sent, &came);
        assert_memory(&served);
        let run = |args: &[&str]| run("nghttp", &[&always[..], args].concat());
        let said = run(&[
            "--null-out",
            "--verbose",
            "--trailer=x-sum: 7",
            "--data",
            text(&small),
            &served.url("/echo"),
        ]);
        let received = said.split("recv ").skip(1);
        assert!(
            received.into_iter().any(|frame| frame.contains("x-sum: 7")),
            "no trailers come back: {said}"
        );
        // With its old priorities, several requests at once, and padding.
        let many = ["--multiply=100", "--padding=100", "--null-out", "--stat", &served.url("/bytes/100000")];
        let said = run(&many);
        assert_eq!(said.matches(" 200 ").count(), 100, "{said}");

        let mut takes = Command::new("nghttp");
        takes.args(always).arg(served.url(&format!("/bytes/{TOTAL}")));
        leaves_in_the_middle(served, takes);
    }
}

#[test]
fn h2load() {
    if !has("h2load") {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let small = folder.path().join("small");
    fs::write(&small, pattern(20_000)).expect("room");
    let post = format!("--data={}", text(&small));
    for Demo { served, .. } in [Demo::clear(), Demo::secured()] {
        for args in [
            &["--requests=10000", "/"][..],
            &["--requests=1000", "/bytes/100000"],
            &["--requests=1000", &post, "/echo"],
        ] {
            let (path, args) = args.split_last().expect("a path");
            let always = ["--clients=8", "--max-concurrent-streams=32"];
            let said = run("h2load", &[&always[..], args, &[&served.url(path)]].concat());
            let all = args[0].trim_start_matches("--requests=");
            let good = format!("{all} done, {all} succeeded, 0 failed, 0 errored, 0 timeout");
            assert!(said.contains(&good) && said.contains("Application protocol: h2"), "{said}");
        }
    }
}

/// Java's client knows HTTP/2 in clear text by an upgrade from HTTP/1.1 alone, which RFC 9113 section 3.1 withdrew. A server
/// may pass over that, and the client goes on with HTTP/1.1.
#[test]
fn java_falls_back() {
    if !has("javac") {
        return;
    }
    let served = Served::demo();
    let said = run("java", &[text(&crate::tools::source("Client.java")), &served.url("")]);
    assert_eq!(said, "HTTP_1_1 HTTP_1_1\n".repeat(3));
}

#[test]
fn java_over_tls() {
    if !has("javac") {
        return;
    }
    let secured = Secured::start();
    let certificate = secured.certificate();
    let said =
        run("java", &[text(&crate::tools::source("Client.java")), &secured.url(""), text(&certificate)]);
    assert_eq!(said, "HTTP_2 HTTP_2\n".repeat(3));
}

#[test]
fn curl_over_tls() {
    if !has("curl") {
        return;
    }
    let secured = Secured::start();
    let (certificate, url) = (secured.certificate(), secured.url("/"));
    let always = ["--silent", "--show-error", "--fail", "--max-time", "120", "--cacert", text(&certificate)];
    let asked = ["--write-out", " %{http_version} %{num_connects}\n", &url, &url];
    let said = run("curl", &[&always[..], &asked].concat());
    assert_eq!(said, "Hello, World! 2 1\nHello, World! 2 0\n");
}

fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at * 31 % 251) as u8).collect()
}

fn assert_same(sent: &Path, came: &Path) {
    let [sent, came] = [sent, came].map(|path| fs::read(path).expect("a file"));
    assert!(sent == came, "{} bytes were sent, {} came back, and they differ", sent.len(), came.len());
}

/// Tells the service to finish, as its system would.
fn go_away(served: &Served) {
    let pid = i32::try_from(served.child.id()).ok().and_then(Pid::from_raw);
    kill_process(pid.expect("a process has a number"), Signal::TERM).expect("the service runs");
}

/// The most that the service ever held.
fn assert_memory(served: &Served) {
    let status = fs::read_to_string(format!("/proc/{}/status", served.child.id())).expect("/proc is mounted");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a line of it");
    let kib: u64 = line.trim().trim_end_matches(" kB").parse().expect("a number");
    assert!(kib << 10 < MEMORY_BYTES_MAX, "{kib} KiB");
}
