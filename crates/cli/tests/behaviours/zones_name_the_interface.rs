//! The zone of an IPv6 address says by which interface it is reached, in URLs and addresses, and is told to no peer.

use std::net::TcpListener;
use std::process::{Command, Stdio};

use crate::common::{Served, anywire, assert_refused, has, stderr, stdout};

#[test]
fn a_zone_is_taken_in_each_place_and_stays_out_of_the_request() {
    if TcpListener::bind("[::1]:0").is_err() {
        return crate::skipped::say("this machine has no IPv6");
    }
    let served = Served::on(&["tcp:[::1%lo]:0", "tls:[::1%25lo]:0"], &["--tls-self-signed"]);
    let port = |index| served.address(index).rsplit_once(':').expect("a port").1;
    let (plain, secure) = (port(0), port(1));
    for url in [
        format!("http://[::1%25lo]:{plain}/"),
        format!("http://[::1%lo]:{plain}/"),
        format!("[::1%lo]:{plain}/"),
    ] {
        for version in ["--http1", "--http2"] {
            let output = anywire(&["get", "-v", version, &url]);
            assert_eq!(stdout(&output), "Hello, World!", "{url}: {}", stderr(&output));
            assert!(stderr(&output).contains(&format!("> host: [::1]:{plain}\n")), "{}", stderr(&output));
            let load = anywire(&["load", version, "-n", "3", "-c", "1", &url]);
            assert!(load.status.success(), "{url}: {}", stderr(&load));
        }
    }
    let via = format!("tcp:[::1%25lo]:{plain}");
    assert_eq!(stdout(&anywire(&["get", "http://any.name/", "--via", &via])), "Hello, World!");
    // The name that is proved has no zone either.
    let output = anywire(&["get", "--insecure", &format!("https://[::1%25lo]:{secure}/")]);
    assert_eq!(stdout(&output), "Hello, World!", "{}", stderr(&output));
}

#[test]
fn an_interface_that_is_not_there_is_named() {
    let found = "this machine has no network interface \"no-such-0\"";
    for args in [
        &["get", "http://[fe80::1%25no-such-0]/"][..],
        &["get", "https://[fe80::1%no-such-0]/"],
        &["get", "http://h/", "--via", "tcp:[fe80::1%no-such-0]:80"],
    ] {
        assert_refused(&anywire(args), 7, found);
    }
    assert_refused(&anywire(&["load", "-n", "1", "-c", "1", "http://[fe80::1%no-such-0]/"]), 1, found);
    assert_refused(&anywire(&["serve", "--listen", "tcp:[fe80::1%no-such-0]:80"]), 1, found);
    let udp = ["udp", "load", "udp:[fe80::1%25no-such-0]:9", "--rate", "1", "--duration", "1s"];
    assert_refused(&anywire(&udp), 1, found);
    assert_refused(
        &anywire(&["get", "http://[fe80::1%25a%20b]/"]),
        2,
        "the zone of its host names no interface",
    );
}

/// In a network of its own, which has no other interface.
#[test]
fn an_address_of_a_link_needs_its_interface() {
    let of_its_own = ["--user", "--map-root-user", "--net"];
    if !has("unshare") || !has("ip") {
        return;
    }
    let can = Command::new("unshare").args(of_its_own).args(["ip", "link", "set", "lo", "up"]).output();
    if !can.is_ok_and(|output| output.status.success()) {
        return crate::skipped::say("this user can make no network namespace");
    }
    let script = r#"
        ip link set lo up && ip -6 addr add fe80::7/64 dev lo nodad || exit 99
        mkfifo "$1/listening"
        "$0" serve --loops 1 --listen 'tcp:[fe80::7%25lo]:8080' > "$1/listening" &
        read -r line < "$1/listening"
        "$0" get 'http://[fe80::7%25lo]:8080/'
        "$0" get 'http://[fe80::7]:8080/'
        kill $!
        wait
        echo "; $line"
    "#;
    let dir = tempfile::tempdir().expect("a directory for the pipe");
    let mut command = Command::new("unshare");
    command.args(of_its_own).args(["sh", "-c", script, env!("CARGO_BIN_EXE_anywire")]).arg(dir.path());
    let output = command.stdin(Stdio::null()).output().expect("it was found before");
    if output.status.code() == Some(99) {
        return crate::skipped::say("an address of the link cannot be given to lo");
    }
    // By its number, as the system shows it.
    assert_eq!(stdout(&output), "Hello, World!; listening on tcp:[fe80::7%1]:8080\n", "{}", stderr(&output));
    assert!(stderr(&output).contains("names no network interface"), "{}", stderr(&output));
}
