//! `anywire udp serve` and `udp load` account for the same datagrams, as tables, JSON and a page.

use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};

use crate::common::{anywire, assert_refused, command, stderr, stdout, text};
use serde_json::Value;

/// `udp serve` under way.
pub(crate) struct Service {
    child: std::process::Child,
    stdout: BufReader<std::process::ChildStdout>,
    /// Held open, and where the address stands if stdout is for JSON.
    _stderr: BufReader<std::process::ChildStderr>,
    pub(crate) address: String,
}

impl Service {
    pub(crate) fn on(address: &str, args: &[&str]) -> Self {
        let mut child = command()
            .args(["udp", "serve", "--listen", address])
            .args(args)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the built command starts");
        let mut stdout = BufReader::new(child.stdout.take().expect("it was asked for"));
        let mut stderr = BufReader::new(child.stderr.take().expect("it was asked for"));
        let said: &mut dyn BufRead = if args.ends_with(&["--json", "-"]) { &mut stderr } else { &mut stdout };
        let address = loop {
            let mut line = String::new();
            assert!(said.read_line(&mut line).expect("the command prints text") > 0, "it ended");
            // Beside it stands the log.
            if let Some(address) = line.trim().strip_prefix("receiving on ") {
                break address.to_owned();
            }
        };
        Self { child, stdout, _stderr: stderr, address }
    }

    /// Ends it in order; what it printed since.
    fn end(mut self) -> String {
        let pid = self.child.id().to_string();
        let killed = Command::new("kill").args(["-TERM", &pid]).status().expect("every system has kill");
        assert!(killed.success());
        let mut rest = String::new();
        self.stdout.read_to_string(&mut rest).expect("the command prints text");
        assert!(self.child.wait().expect("it ends").success(), "{rest}");
        rest
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // Neither can fail but for a child that has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn both_ends_count_alike() {
    let folder = tempfile::tempdir().expect("a directory for the results");
    let (json, page) = (folder.path().join("load.json"), folder.path().join("load.html"));
    let service = Service::on("udp:127.0.0.1:0", &["--loops", "2", "--steer", "payload:4:4", "--json", "-"]);
    let arguments = [
        "udp",
        "load",
        &service.address,
        "--rate",
        "2000",
        "--duration",
        "500ms",
        "--flows",
        "32",
        "--sockets",
        "4",
        "--wait",
        "20s",
        "--json",
        text(&json),
        "--html",
        text(&page),
    ];
    let output = anywire(&arguments);
    assert!(output.status.success(), "{}", stderr(&output));
    let outcome: Value =
        serde_json::from_str(&std::fs::read_to_string(json).expect("written")).expect("JSON");
    let count = |key: &str| outcome[key].as_u64().unwrap_or_else(|| panic!("{key} in {outcome}"));
    assert_eq!(count("sent"), count("received") + count("lost") + count("late") + count("corrupt"));
    for key in ["socket", "namespace", "device", "unexplained", "unread"] {
        assert!(!outcome["loss_by_layer"][key].is_null(), "{key} in {outcome}");
    }
    let table = stdout(&output);
    assert!(table.contains("round trip from") && table.contains("unexplained"), "{table}");
    let page = std::fs::read_to_string(page).expect("written");
    assert!(page.contains("Lost datagrams by layer") && page.contains("<svg"), "{page}");
    let counted: Value = serde_json::from_str(&service.end()).expect("JSON alone");
    assert_eq!(counted["datagrams"].as_u64(), Some(count("sent") - count("lost")), "{counted}");
    // 32 connection ids on two loops, each sent as often as the others.
    let parts: Vec<_> =
        counted["loops"].as_array().expect("loops").iter().map(|one| one["share"].as_f64()).collect();
    assert!(parts.iter().all(|share| share.is_some_and(|share| (0.4..=0.6).contains(&share))), "{counted}");
}

#[test]
fn a_sender_that_was_the_limit_has_its_exit_code() {
    let service = Service::on("udp:127.0.0.1:0", &[]);
    // No machine sends so many.
    let load = ["lab", "udp-load", &service.address, "--rate", "50M", "--duration", "200ms", "--json", "-"];
    let output = anywire(&load);
    assert_refused(&output, 4, " % of its rate, so the service may stand more");
    let outcome: Value = serde_json::from_str(&stdout(&output)).expect("the result is JSON alone");
    assert_eq!(outcome["rate"]["saturated"], true, "{outcome}");
}

#[test]
fn a_steering_that_knows_one_number_uses_one_loop() {
    // All datagrams of a load begin with the same letter.
    let service = Service::on("udp:127.0.0.1:0", &["--loops", "2", "--steer", "payload:0:1", "--json", "-"]);
    let output =
        anywire(&["udp", "load", &service.address, "--rate", "1000", "--duration", "200ms", "--wait", "20s"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let counted: Value = serde_json::from_str(&service.end()).expect("JSON alone");
    let shares: Vec<_> =
        counted["loops"].as_array().expect("loops").iter().map(|one| one["share"].clone()).collect();
    assert_eq!(shares, [0.0, 1.0], "{counted}");
}

#[test]
fn over_a_unix_socket() {
    let folder = tempfile::tempdir().expect("a directory for the socket");
    let address = format!("unixgram:{}", folder.path().join("echo.sock").display());
    let service = Service::on(&address, &["--loops", "1"]);
    let output = anywire(&[
        "udp",
        "load",
        &address,
        "--rate",
        "500",
        "--duration",
        "200ms",
        "--flows",
        "2",
        "--json",
        "-",
    ]);
    let outcome: Value = serde_json::from_str(&stdout(&output)).expect("JSON alone");
    assert!(outcome["received"].as_u64().is_some_and(|received| received > 0), "{outcome}");
    assert!(outcome["loss_by_layer"]["namespace"].is_null(), "{outcome}");
    let table = service.end();
    assert!(table.contains(" datagrams, ") && table.contains("share %"), "{table}");
}

#[test]
fn what_cannot_be_loaded_says_why() {
    let nobody = std::net::UdpSocket::bind("127.0.0.1:0").expect("a free port").local_addr().expect("bound");
    let load =
        |args: &[&str]| anywire(&[&["udp", "load", "--duration", "100ms", "--wait", "100ms"], args].concat());
    assert_refused(&load(&[&format!("udp:{nobody}")]), 1, "nobody receives there");
    let silent = std::net::UdpSocket::bind("127.0.0.1:0").expect("a free port");
    let silent = format!("udp:{}", silent.local_addr().expect("bound"));
    assert_refused(&load(&[&silent, "--bytes", "10"]), 2, "bytes of a datagram");
    for repeats in ["0", "101"] {
        let refused = load(&[&silent, "--search=0", "--repeats", repeats]);
        assert_eq!(refused.status.code(), Some(2), "{refused:?}");
        let said = stderr(&refused);
        assert!(said.contains("--repeats <N>") && said.contains("1..=100"), "{said}");
    }
    for wrong in [["tcp:127.0.0.1:1", "--rate=1"], [silent.as_str(), "--search=2"]] {
        assert_eq!(load(&wrong).status.code(), Some(2), "{wrong:?}");
    }
    let taken = std::net::UdpSocket::bind("127.0.0.1:0").expect("a free port");
    let taken = format!("udp:{}", taken.local_addr().expect("bound"));
    assert_refused(&anywire(&["udp", "serve", "--listen", &taken]), 1, "another service receives there");
}
