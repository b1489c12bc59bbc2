//! What a person typed is done, or refused with the word that was meant: a flag of another tool, a host given twice, a file
//! whose size nobody knows.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::Stdio;

use crate::common::{Served, anywire, assert_refused, command, has, run, stderr, stdout, text};

/// It shows how it goes.
const BAR: &str = "swarm -c 1 --duration 500ms --warm-up 0s > /dev/null";

/// A URL at which nothing may arrive.
fn silent() -> (String, TcpListener) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.set_nonblocking(true).expect("it can be asked without waiting");
    (format!("http://{}/", listener.local_addr().expect("it is bound")), listener)
}

#[test]
fn flags_of_other_tools_are_answered_with_ours() {
    let (url, listener) = silent();
    for (args, ours) in [
        (&["load", &url, "-m", "1s"][..], "--timeout"),
        (&["load", &url, "-d", r#"{"a":1}"#], "--data"),
        (&["load", &url, "-R", "10"], "--rate"),
        (&["load", &url, "-i", "urls.txt"], "--urls"),
        (&["load", &url, "-t", "4"], "--loops"),
        (&["load", &url, "-z", "10s"], "--duration"),
        (&["load", &url, "--max-time", "3"], "--timeout"),
        (&["load", &url, "-t", "10s"], "--timeout"),
        (&["load", &url, "-d", "1=2"], "--data"),
        (&["load", &url, "-d", "5x"], "--data"),
        (&["load", &url, "-m", "100"], "--streams"),
        (&["load", &url, "-host", "a"], "-H 'Host:"),
        (&["load", &url, "-cpus", "2"], "--loops"),
        (&["-v", "load", &url, "--rps", "5"], "--rate"),
        (&["-v", "get", &url, "--referer", "x"], "-H 'Referer:"),
        (&["ab", &url, &url, "-t", "4"], "--loops"),
        (&["pipe", &url, "-t", "4"], "--loops"),
        (&["probe", &url, "-t", "4s"], "--timeout"),
        (&["get", &url, "--data-ascii", "x"], "-d TEXT"),
        (&["get", &url, "-T", "file"], "anywire put"),
        (&["put", &url, "-X", "GET"], "anywire request"),
    ] {
        let output = anywire(args);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
        assert!(said.contains(ours), "{args:?}: {said}");
        assert!(!said.contains("similar argument") && !said.contains("-- -"), "{args:?}: {said}");
    }
    assert!(listener.accept().is_err(), "something was sent");
}

#[test]
fn a_host_is_named_once() {
    let (url, listener) = silent();
    for command in ["get", "load"] {
        let output = anywire(&[command, &url, "-H", "Host: a", "-H", "host: b"]);
        assert_refused(&output, 2, "Host is given twice");
    }
    assert!(listener.accept().is_err(), "something was sent");
}

#[test]
fn a_space_in_a_url_is_named() {
    for url in [" http://127.0.0.1/", "http://127.0.0.1/a b", "127.0.0.1:80 "] {
        assert_refused(&anywire(&["get", url]), 2, "a space stands at its byte");
    }
}

/// An alias of the shell may have it first.
#[test]
fn the_last_of_an_option_counts() {
    let served = Served::demo();
    let url = served.url("/echo");
    let twice =
        ["post", &url, "-s", "-s", "-m", "1us", "-m", "60s", "-d", "a=1", "-w", "x", "-w", "y", "-d", "b=2"];
    let answer = anywire(&twice);
    assert_eq!(
        (answer.status.code(), stdout(&answer).as_str()),
        (Some(0), "a=1&b=2y"),
        "{}",
        stderr(&answer)
    );
}

/// As with curl. A server that wants nothing of it gets nothing.
#[test]
fn a_body_waits_for_what_it_expects() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}/", listener.local_addr().expect("it is bound"));
    let server = std::thread::spawn(move || {
        let (mut peer, _) = listener.accept().expect("a connection");
        let mut asked = Vec::new();
        while !asked.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            peer.read_exact(&mut byte).expect("a head");
            asked.extend(byte);
        }
        peer.write_all(b"HTTP/1.1 413 Too Large\r\ncontent-length: 3\r\n\r\nbig").expect("it is read");
        let mut body = Vec::new();
        peer.read_to_end(&mut body).expect("the end");
        (String::from_utf8_lossy(&asked).to_ascii_lowercase(), body.len())
    });
    let answer = anywire(&["post", &url, "-d", "a body", "-H", "Expect: 100-continue"]);
    assert_eq!((answer.status.code(), stdout(&answer).as_str()), (Some(0), "big"), "{}", stderr(&answer));
    let (asked, body) = server.join().expect("no panic");
    assert_eq!((asked.matches("expect: 100-continue").count(), body), (1, 0), "{asked}");
}

/// Others than data are held in memory.
#[test]
fn a_file_without_an_end_is_not_read_for_ever() {
    let (url, listener) = silent();
    let format = anywire(&["get", &url, "-w", "@/dev/zero"]);
    assert_eq!(format.status.code(), Some(2));
    assert!(stderr(&format).contains("longer than 1 MiB"), "{}", stderr(&format));
    if cfg!(feature = "cookies") {
        assert_refused(&anywire(&["get", &url, "-b", "/dev/zero"]), 26, "longer than 64 MiB");
    }
    if cfg!(feature = "rules") {
        assert_refused(&anywire(&["get", &url, "--rules", "/dev/zero"]), 26, "longer than 1 MiB");
    }
    assert!(listener.accept().is_err(), "something was sent");
}

/// Files of the kernel say that they have no bytes.
#[test]
fn a_file_is_sent_whatever_size_it_is_said_to_have() {
    let served = Served::demo();
    let version = std::fs::read_to_string("/proc/version").expect("this is Linux");
    assert_eq!(stdout(&anywire(&["post", &served.url("/echo"), "-d", "@/proc/version"])), version);
    let empty = tempfile::NamedTempFile::new().expect("an empty file");
    let data = format!("@{}", text(empty.path()));
    let answer = anywire(&["post", &served.url("/echo"), "-d", &data]);
    assert_eq!((answer.status.code(), stdout(&answer)), (Some(0), String::new()));
}

#[test]
fn a_file_is_served_whatever_size_it_is_said_to_have() {
    let served = Served::on(&["tcp:127.0.0.1:0"], &["--dir", "/proc"]);
    for name in ["version", "kallsyms"] {
        // Less than a block, and much more.
        let Ok(contents) = std::fs::read(format!("/proc/{name}")) else { continue };
        for version in ["--http1", "--http2"] {
            let got = anywire(&["get", version, &served.url(&format!("/{name}"))]);
            assert!(got.status.success() && got.stdout == contents, "{name} by {version}");
        }
    }
}

/// Whoever names a number means all that are sent.
#[test]
fn a_number_of_requests_is_all_that_are_sent() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}/", listener.local_addr().expect("it is bound"));
    let mut load = command();
    load.args(["load", &url, "-n", "3", "-c", "1", "--timeout", "60s", "--json", "-"]);
    let load = load.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("the built command starts");
    let (mut peer, _) = listener.accept().expect("the command connects");
    let mut heads = 0;
    loop {
        let mut head = [0; 4096];
        match peer.read(&mut head) {
            Ok(0) | Err(_) => break,
            Ok(_) => heads += 1,
        }
        let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
        peer.write_all(answer).expect("the command reads");
    }
    let output = load.wait_with_output().expect("it ends");
    assert_eq!((heads, output.status.code()), (3, Some(0)), "{}", stdout(&output));
}

#[test]
fn each_result_has_a_place_of_its_own() {
    let (url, listener) = silent();
    let dir = tempfile::tempdir().expect("a directory for results");
    let place = dir.path().join("result");
    // A link to what is not there yet stays a link.
    let link = dir.path().join("link");
    std::os::unix::fs::symlink(&place, &link).expect("a link");
    let again = format!("{}/./result", text(dir.path()));
    let results = text(&place);
    for (json, html) in [(results, results), ("-", "-"), (results, text(&link)), (&again, results)] {
        let output = anywire(&["load", &url, "--json", json, "--html", html]);
        assert_refused(&output, 2, "both --json and --html name it");
        assert!(!place.exists());
    }
    drop(listener);
    let output = anywire(&["load", &url, "-n", "1", "-c", "1", "--json", text(&link)]);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(link.is_symlink() && place.is_file());
    // Nothing is measured for a place that is none.
    for command in [&["load", &url][..], &["swarm"], &["swarm", "tasks"], &["udp", "serve"], &["ipc"]] {
        let output = anywire(&[command, &["--json", text(&dir.path().join("no/where"))]].concat());
        assert_refused(&output, 23, "no/where failed");
    }
}

#[test]
fn help_that_cannot_be_written_is_a_failure() {
    for args in [&["--help"][..], &["load", "-h"], &["--version"], &["help", "get"]] {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("a full device");
        let mut command = command();
        command.args(args).stdout(full);
        let output = command.output().expect("the built command starts");
        assert_refused(&output, 23, "writing stdout failed");
    }
}

/// `>&-` is no `/dev/null`, which is a choice.
#[test]
fn a_closed_stdout_is_one_that_cannot_be_written() {
    let served = Served::demo();
    let url = served.url("/json");
    for args in [&["--help"][..], &["--version"], &["get", &url], &["load", "-n", "1", "-c", "1", &url]] {
        let closed = |redirection: &str| {
            let mut shell = std::process::Command::new("sh");
            shell.args(["-c", &format!("exec \"$0\" \"$@\" {redirection}"), env!("CARGO_BIN_EXE_anywire")]);
            shell.args(args).output().expect("a shell starts")
        };
        assert_refused(&closed(">&-"), 23, "writing stdout failed: it is closed");
        let kept = closed(">/dev/null");
        assert!(kept.status.success(), "{args:?}: {}", stderr(&kept));
    }
}

/// The result matters more than what is said beside it.
#[test]
fn words_that_stderr_does_not_take_cost_no_result() {
    let served = Served::demo();
    for args in [
        &["load", "-n", "1", "-c", "1", &served.url("/"), "--json", "-"][..],
        &["get", &served.url("/json")],
        &["udp", "load", "udp:127.0.0.1:9", "--rate", "100", "--duration", "10ms", "--json", "-"],
        &["swarm", "-c", "1", "--duration", "10ms", "--warm-up", "0s", "--json", "-"],
    ] {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("a full device");
        let output = command().args(args).stderr(full).output().expect("the built command starts");
        assert!(matches!(output.status.code(), Some(0 | 1)), "{args:?}: {:?}", output.status);
        assert!(stdout(&output).starts_with('{'), "{args:?}: {}", stdout(&output));
    }
}

/// A terminal that wants no colour gets none: in errors, in help, in the log, in progress (no-color.org).
#[test]
fn no_color_holds_for_all_that_is_printed() {
    if !has("script") {
        return;
    }
    let binary = env!("CARGO_BIN_EXE_anywire");
    let dir = tempfile::tempdir().expect("a directory for what is printed");
    for typed in
        ["get 'http://a b/'", "--help", "load --nonsense", "serve --listen tcp:127.0.0.1:0 --loops 1", BAR]
    {
        let coloured = |set: &str| {
            let line = format!("{set} {binary} {typed}");
            let line = match typed.starts_with("serve") {
                // It logs its end, too.
                true => {
                    let printed = dir.path().join("printed");
                    let _ = std::fs::remove_file(&printed);
                    let printed = text(&printed);
                    format!(
                        "{line} > {printed} & until grep -q listening {printed}; do :; done; kill -INT $!; wait"
                    )
                }
                false => line,
            };
            // The bar moves the cursor, too; a colour is a sequence that ends in `m`.
            run("script", &["-qc", &line, "/dev/null"]).split("\u{1b}[").skip(1).any(|sequence| {
                sequence
                    .trim_start_matches(|letter: char| letter.is_ascii_digit() || letter == ';')
                    .starts_with('m')
            })
        };
        for set in ["NO_COLOR=1", "NO_COLOR=1 CLICOLOR_FORCE=1", "CLICOLOR=0"] {
            assert!(!coloured(&format!("TERM=xterm {set}")), "{set} {typed}");
        }
        assert!(!coloured("TERM=dumb"), "{typed}");
        // An empty value counts as none. What draws the bar takes it for one.
        assert!(typed == BAR || coloured("TERM=xterm NO_COLOR="), "{typed}");
    }
}
