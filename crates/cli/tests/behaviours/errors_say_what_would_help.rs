//! What cannot be done is refused in two lines, with the exit code for it: what was tried and found, what would help.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::thread;

use crate::common::{Served, anywire, assert_refused, has, stderr, text};

#[test]
fn a_port_in_use() {
    let served = Served::demo();
    assert_refused(&anywire(&["serve", "--listen", served.address(0)]), 1, served.address(0));
}

#[test]
fn a_socket_path_in_use_and_a_stale_one() {
    let dir = tempfile::tempdir().expect("a directory for the socket");
    let path = dir.path().join("app.sock");
    let address = format!("unix:{}", text(&path));
    let served = Served::on(&[&address], &[]);
    assert_refused(&anywire(&["serve", "--listen", &address]), 1, &address);
    // Killed, it leaves its file behind; that must not keep the next one from starting.
    drop(served);
    assert!(path.exists());
    let next = Served::on(&[&address], &[]);
    assert_eq!(next.address(0), address);
}

#[test]
fn a_bad_address_names_what_is_wrong() {
    for (address, found) in [
        ("127.0.0.1:8080", "127.0.0.1"),
        ("tpc:127.0.0.1:8080", "tpc"),
        ("tcp:127.0.0.1:80800", "80800"),
        ("unix:", "unix:"),
    ] {
        let output = anywire(&["serve", "--listen", address]);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.starts_with("error: ") && said.contains(found), "{address}: {said}");
    }
}

#[test]
fn an_address_without_its_wire_is_answered_with_the_one_that_is_meant() {
    for args in [
        &["serve", "--listen", "127.0.0.1:8080"][..],
        &["get", "http://h/", "--via", "127.0.0.1:8080"],
        &["load", "http://h/", "--via", "127.0.0.1:8080"],
    ] {
        let output = anywire(args);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("write tcp:127.0.0.1:8080"), "{args:?}: {said}");
    }
}

#[test]
fn help_is_for_the_person_at_the_terminal() {
    let served = Served::demo();
    let listening = served.address(0);
    let url = served.url("/");
    for args in [
        &["get", "ftp://h/"][..],
        &["get", "https://127.0.0.1:1/"],
        &["get", "http://me:secret@h/"],
        &["get", "http://h:99999/"],
        &["get", &url, "-H", "content-length: 5"],
        &["get", &url, "-H", "host: a b"],
        &["get", &url, "-X", "CONNECT"],
        &["get", &url, "--max-fields", "1"],
        &["get", &url, "--max-head", "50"],
        &["get", &url, "--max-start-line", "5"],
        &["get", "http://127.0.0.1:1/"],
        &["get", "http://h/", "--via", "unix:@anywire-no-such"],
        &["serve", "--listen", listening],
        &["serve", "--dir", "/no/such"],
        &["load", "https://127.0.0.1:1/", "-n", "5", "--warm-up", "0"],
        &["load", "http://h:99999/"],
        &["load", &url, "-c", "0"],
        &["load", &url, "--depth", "0"],
        &["load", &url, "-n", "0"],
        &["load", &url, "--timeout", "100h"],
        &["load", &url, "--warm-up", "100h"],
        &["load", &url, "-d", "100h"],
        &["load", &url, "-H", "host: a b"],
        &["load", &url, "--method", "CONNECT"],
        &["load", &url, "-n", "5", "--warm-up", "0", "--max-fields", "1"],
        &["load", "http://127.0.0.1:1/", "-n", "5", "--warm-up", "0"],
        &["compare", "--wires", "limit,limit"],
        &["compare", "--connections", "0"],
    ] {
        let output = anywire(args);
        let said = stderr(&output);
        let help = said.lines().find_map(|line| line.strip_prefix("help: "));
        let help = help.unwrap_or_else(|| panic!("{args:?}: no help in {said}"));
        for code in ["::", "()", "(\"", "_", "`", "builder", "crate", "Limits"] {
            assert!(!help.contains(code), "{args:?}: {code:?} in {help:?}");
        }
    }
    let option = |args: &[&str], option: &str| {
        let said = stderr(&anywire(args));
        let help = said.lines().find(|line| line.starts_with("help: ")).map(str::to_owned);
        assert!(help.is_some_and(|help| help.contains(option)), "{args:?}: {said}");
    };
    option(&["get", &url, "--max-fields", "1"], "--max-fields");
    option(&["get", &url, "--max-head", "50"], "--max-head");
    option(&["get", &url, "--max-start-line", "5"], "--max-start-line");
    option(&["load", &url, "-n", "5", "--warm-up", "0", "--max-fields", "1"], "--max-fields");
    option(&["load", &url, "-c", "0"], "--connections");
    option(&["load", &url, "--depth", "0"], "--depth");
    option(&["load", &url, "-n", "0"], "--requests");
    option(&["load", &url, "--timeout", "100h"], "--timeout");
    option(&["load", &url, "--warm-up", "100h"], "--warm-up");
    option(&["load", &url, "-d", "100h"], "--duration");
}

#[test]
fn a_server_that_does_not_speak_http2() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}/", listener.local_addr().expect("an address"));
    let serving = thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a connection");
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\n\r\n").expect("a reader");
        // Until it has left: a close with bytes that nobody has read would be a reset.
        let _ = stream.read_to_end(&mut Vec::new());
    });
    let output = anywire(&["get", "--http2", &url]);
    assert_refused(&output, 56, "answers with HTTP/1 where HTTP/2 was asked for");
    assert!(stderr(&output).contains("leave out --http2"), "{}", stderr(&output));
    serving.join().expect("no panic");
}

#[test]
fn what_help_tells_to_write_can_be_written() {
    let served = Served::demo();
    let address = format!("{}/json", served.address(0));
    let said = stderr(&anywire(&["get", &address]));
    assert!(said.contains(&format!("help: write it as {}", served.url("/json"))), "{said}");

    let said = stderr(&anywire(&["get", "http://h/", "--via", "foo:bar"]));
    assert!(said.contains("tcp, unix") && !said.contains("memory"), "{said}");

    let said = stderr(&anywire(&["compare", "--body", "99999999999"]));
    assert!(said.starts_with("error: ") && said.contains("16777216"), "{said}");
}

#[test]
fn a_password_is_not_repeated() {
    for args in [
        ["get", "http://me:secret@127.0.0.1:1/"],
        ["get", "https://me:secret@127.0.0.1:1/"],
        ["get", "ftp://me:secret@h/"],
        ["load", "http://me:secret@h/"],
        ["load", "https://me:secret@h/"],
    ] {
        let output = anywire(&args);
        let said = stderr(&output);
        assert!(matches!(output.status.code(), Some(2 | 7)), "{said}");
        assert!(!said.contains("secret"), "{args:?}: {said}");
    }
}

#[test]
fn an_address_within_the_process_is_of_no_use_to_a_command() {
    for address in ["memory:app", "stack:switch/10.0.0.2:80"] {
        for args in [
            &["serve", "--listen", address][..],
            &["serve", "--listen", "tcp:127.0.0.1:0", "--listen", address],
            &["get", "http://h/", "--via", address],
            &["post", "http://h/", "--via", address],
            &["load", "http://h/", "--via", address],
        ] {
            let output = anywire(args);
            let said = stderr(&output);
            assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
            assert!(said.starts_with("error: ") && said.contains(address), "{args:?}: {said}");
            assert!(said.contains("within one process") && said.contains("tcp, unix"), "{args:?}: {said}");
        }
    }
}

#[test]
fn a_socket_in_a_missing_directory() {
    assert_refused(&anywire(&["serve", "--listen", "unix:/no/such/dir/app.sock"]), 1, "/no/such/dir");
}

#[test]
fn no_permission_on_the_socket_path() {
    // For root nothing is forbidden, so the command runs as nobody where it can.
    if !has("setpriv") {
        return;
    }
    let nobody = ["--reuid=65534", "--regid=65534", "--clear-groups"];
    let can = Command::new("setpriv").args(nobody).arg("true").stderr(Stdio::null()).status();
    if !can.is_ok_and(|status| status.success()) {
        crate::skipped::say("this user cannot become another one");
        return;
    }
    let dir = tempfile::tempdir().expect("a directory for the socket");
    // A copy where nobody may run it: the way to the built one may be closed to others. Another process makes it, because
    // a file that this one writes would stay busy in a child that another test starts meanwhile.
    let copy = dir.path().join("anywire");
    let copied = Command::new("cp").arg(env!("CARGO_BIN_EXE_anywire")).arg(&copy).status();
    assert!(copied.is_ok_and(|status| status.success()), "the command can be copied");
    let everyone = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(dir.path(), everyone).expect("a directory of this test");
    let listen = format!("unix:{}", text(&dir.path().join("app.sock")));
    let output =
        Command::new("setpriv").args(nobody).arg(&copy).args(["serve", "--listen", &listen]).output();
    assert_refused(&output.expect("setpriv was found before"), 1, "not permitted");
}

#[test]
fn results_that_cannot_be_written() {
    let served = Served::demo();
    let (url, place) = (served.url("/"), "/no/such/dir/result");
    assert_refused(&anywire(&["get", &url, "-o", place]), 23, place);
    let load = ["load", &url, "-n", "10", "--warm-up", "0", "-c", "1"];
    assert_refused(&anywire(&[&load[..], &["--json", place]].concat()), 23, place);
    assert_refused(&anywire(&[&load[..], &["--html", place]].concat()), 23, place);
}

#[test]
fn arguments_that_make_no_sense() {
    assert_refused(&anywire(&["compare", "--wires", "limit,telepathy"]), 2, "telepathy");
    assert_refused(&anywire(&["load", "http://127.0.0.1:1/", "-c", "0"]), 2, "0 connections");
    for args in [
        &["load", "http://h/", "-d", "10 parsecs"][..],
        &["load", "http://h/", "-H", "no colon"],
        &["serve", "--listen", "unix:/run/app.sock?mode=rw"],
        &["compare", "--rounds", "0"],
        &["get"],
        &["no-such-command"],
    ] {
        let output = anywire(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(stderr(&output).starts_with("error: "), "{args:?}: {}", stderr(&output));
    }
}

#[test]
fn a_load_that_nobody_answers() {
    let output = anywire(&["load", "http://h/", "--via", "unix:@anywire-nobody", "-c", "1", "-d", "1s"]);
    assert_refused(&output, 1, "anywire-nobody");
}
