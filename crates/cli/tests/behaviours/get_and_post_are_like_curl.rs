//! `anywire get` and `post` print, send and exit as curl does.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::Stdio;
use std::thread::JoinHandle;
use std::time::Duration;

use crate::common::{Served, anywire, anywire_with_stdin, assert_refused, command, stderr, stdout, text};
use crate::recorder::Recorder;

#[test]
fn the_body_goes_to_stdout_and_the_head_where_it_is_asked_for() {
    let served = Served::demo();
    let plain = anywire(&["get", &served.url("/")]);
    assert_eq!((stdout(&plain), stderr(&plain)), ("Hello, World!".into(), String::new()));
    let with_head = stdout(&anywire(&["get", "-i", &served.url("/")]));
    assert!(with_head.starts_with("HTTP/1.1 200 OK\r\n"), "{with_head}");
    assert!(with_head.contains("\r\ncontent-length: 13\r\n"), "{with_head}");
    assert!(with_head.ends_with("\r\n\r\nHello, World!"), "{with_head}");
    let head = stdout(&anywire(&["get", "-i", "-X", "HEAD", &served.url("/")]));
    assert!(head.contains("content-length: 13") && head.ends_with("\r\n\r\n"), "{head}");

    let dir = tempfile::tempdir().expect("a directory for the answer");
    let file = dir.path().join("answer");
    let to_file = anywire(&["get", &served.url("/bytes/3000000"), "-o", text(&file)]);
    assert_eq!((to_file.status.code(), to_file.stdout.len()), (Some(0), 0));
    assert_eq!(std::fs::metadata(&file).expect("it was written").len(), 3_000_000);
}

#[test]
fn a_reason_beyond_ascii_is_printed_as_it_came() {
    for reason in [&b"N\xe3o"[..], "N\u{e3}o".as_bytes()] {
        let answer = [b"HTTP/1.1 404 ", reason, b"\r\ncontent-length: 2\r\n\r\nhi"].concat();
        let (url, peer) = answering(answer.leak());
        let output = anywire(&["get", "-iv", &url]);
        peer.join().expect("the peer did its part");
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let line = [b"HTTP/1.1 404 ", reason].concat();
        assert!(output.stdout.starts_with(&line), "{:?}", output.stdout);
        assert!(output.stderr.windows(line.len()).any(|part| part == line), "{:?}", output.stderr);
    }
}

#[test]
fn the_wire_is_said_beside_the_url() {
    let name = format!("unix:@anywire-via-{}", std::process::id());
    let served = Served::on(&[&name], &[]);
    // Without a scheme, and without a host.
    for url in ["http://any.name.will.do/json", "any.name.will.do/json", "/json"] {
        let answer = anywire(&["get", url, "--via", served.address(0)]);
        assert_eq!(stdout(&answer), r#"{"message":"Hello, World!"}"#, "{url}: {}", stderr(&answer));
    }
}

#[test]
fn a_url_without_a_scheme_is_http() {
    let served = Served::demo();
    let url = format!("{}/echo", served.authority());
    assert_eq!(stdout(&anywire(&["post", &url, "-d", "text"])), "text");
    assert_eq!(stdout(&anywire(&["get", served.authority()])), "Hello, World!");
    let load = anywire(&["load", served.authority(), "-n", "5", "-c", "1", "--warm-up", "0"]);
    assert!(load.status.success() && stdout(&load).contains("5 answered"), "{}", stdout(&load));
    assert_refused(&anywire(&["get", "/json"]), 2, "names no host");
    assert_refused(&anywire(&["get", "unix:/run/app.sock"]), 2, "not a URL");
}

#[test]
fn verbose_shows_both_heads_as_they_travel() {
    let (url, peer) = answering(b"HTTP/1.1 200 Fine\r\nx-a: b\r\ncontent-length: 2\r\n\r\nhi");
    let output = anywire(&["post", "-v", &format!("{url}a%20b/../c?d=e#f"), "-d", "data", "-H", "X-Mine: 1"]);
    let (said, heard) = (stderr(&output), peer.join().expect("the peer did its part"));
    assert_eq!(stdout(&output), "hi");
    let shown = |mark: &str| -> String {
        said.lines().filter_map(|line| line.strip_prefix(mark)).flat_map(|line| [line, "\r\n"]).collect()
    };
    assert_eq!(shown("> ") + "data", heard, "{said}");
    assert_eq!(shown("< "), "HTTP/1.1 200 Fine\r\nx-a: b\r\ncontent-length: 2\r\n\r\n", "{said}");
}

#[test]
fn http2_is_spoken_if_it_is_asked_for() {
    let served = Served::demo();
    let output = anywire(&["get", "-v", "-i", "--http2", &served.url("/")]);
    let (shown, said) = (stdout(&output), stderr(&output));
    assert!(shown.starts_with("HTTP/2 200\r\n") && shown.ends_with("\r\n\r\nHello, World!"), "{shown}");
    assert!(said.contains("> GET / HTTP/2\n") && said.contains("< HTTP/2 200\n"), "{said}");
    let posted = anywire(&["post", "--http2", &served.url("/echo"), "-d", "data"]);
    assert_eq!(stdout(&posted), "data", "{}", stderr(&posted));
    let first = anywire(&["get", "-i", "--http1", &served.url("/")]);
    assert!(stdout(&first).starts_with("HTTP/1.1 200 OK\r\n"), "{}", stdout(&first));
    assert_eq!(anywire(&["get", "--http1", "--http2", &served.url("/")]).status.code(), Some(2));
}

#[test]
fn a_call_says_who_asks_unless_a_field_does() {
    let served = Served::demo();
    for version in ["--http1", "--http2"] {
        let said = stderr(&anywire(&["get", "-v", version, &served.url("/")]));
        assert!(said.contains(concat!("> user-agent: anywire/", env!("CARGO_PKG_VERSION"), "\n")), "{said}");
        let said = stderr(&anywire(&["get", "-v", version, &served.url("/"), "-H", "User-Agent: me"]));
        assert!(said.contains("me\n") && !said.contains("anywire/"), "{said}");
    }
}

#[test]
fn head_prints_the_head_alone() {
    let (url, peer) = answering(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n");
    let output = anywire(&["get", "-I", &url]);
    assert_eq!(stdout(&output), "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n", "{}", stderr(&output));
    assert!(peer.join().expect("the peer did its part").starts_with("HEAD / HTTP/1.1\r\n"));
    let both = anywire(&["get", "-I", &url, "-d", "data"]);
    assert_eq!(both.status.code(), Some(2), "{}", stderr(&both));
}

#[test]
fn a_timeout_holds_while_chunks_keep_coming() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}/", listener.local_addr().expect("it is bound"));
    let server = std::thread::spawn(move || {
        let (mut peer, _) = listener.accept().expect("the command connects");
        assert!(peer.read(&mut [0; 4096]).expect("the command sends") > 0);
        let head = peer.write_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n");
        let chunks = b"1\r\nx\r\n".repeat(10_000);
        // Until the command ends.
        let mut sent = head;
        while sent.is_ok() {
            sent = peer.write_all(&chunks);
        }
    });
    let mut command = command();
    let command = command.args(["get", &url, "-m", "300ms"]).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().expect("the built command starts");
    // Taken byte by byte, the answer always comes faster than the command gets rid of it: it never has to wait for more.
    let mut stdout = child.stdout.take().expect("it was asked for");
    let (ended, end) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        while stdout.read(&mut [0]).is_ok_and(|count| count > 0) {
            std::thread::yield_now();
        }
        ended.send(())
    });
    let in_time = end.recv_timeout(Duration::from_secs(60));
    // In vain, if it has ended as it should.
    let _ = child.kill();
    let status = child.wait().expect("it was started");
    assert_eq!((in_time, status.code()), (Ok(()), Some(28)));
    server.join().expect("the peer did its part");
}

#[test]
fn a_timeout_holds_while_the_other_end_of_a_pipe_does_nothing() {
    let served = Served::demo();
    let dir = tempfile::tempdir().expect("a directory for a pipe");
    let pipe = dir.path().join("pipe");
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).expect("a pipe");
    let (pipe, large) = (text(&pipe), served.url("/bytes/3000000"));
    let data = format!("@{pipe}");
    for (args, doing) in [
        // Nobody opens the other end.
        (&["post", &served.url("/echo"), "-d", &data][..], "opening the data"),
        (&["post", "-L", &served.url("/echo"), "-d", &data], "opening the data"),
        (&["get", &large, "-o", pipe], "writing it"),
        // Nobody reads it.
        (&["get", &large], "writing it"),
        (&["get", "-i", &large, "-o", "-"], "writing it"),
    ] {
        let mut command = command();
        let command = command.args(args).args(["-m", "300ms"]).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the built command starts");
        let unread = child.stdout.take();
        let (ended, end) = std::sync::mpsc::channel();
        let pid = rustix::process::Pid::from_child(&child);
        std::thread::spawn(move || ended.send(child.wait_with_output().expect("it was started")));
        let output = end.recv_timeout(Duration::from_secs(60)).unwrap_or_else(|_| {
            // It would wait for ever.
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
            panic!("{args:?} did not end")
        });
        drop(unread);
        assert_refused(&output, 28, &format!("not whole after 300ms, which ended while {doing}"));
    }
}

#[test]
fn data_is_text_a_file_or_stdin() {
    let served = Served::demo();
    let echo = served.url("/echo");
    assert_eq!(stdout(&anywire(&["post", &echo, "-d", "any text"])), "any text");
    let form = stdout(&anywire(&["post", "-i", &echo, "-d", "a=b"]));
    assert!(form.contains("content-type: application/x-www-form-urlencoded\r\n"), "{form}");
    let json = stdout(&anywire(&["post", "-i", &echo, "-d", "{}", "-H", "Content-Type: application/json"]));
    assert!(json.contains("content-type: application/json\r\n"), "{json}");

    let dir = tempfile::tempdir().expect("a directory for the data");
    let file = dir.path().join("data");
    let data: Vec<u8> = (0..1_000_000_u32).flat_map(|n| n.to_le_bytes()).collect();
    std::fs::write(&file, &data).expect("the data can be written");
    let from_file = anywire(&["post", &echo, "-d", &format!("@{}", text(&file))]);
    assert!(from_file.stdout == data, "{} bytes came back: {}", from_file.stdout.len(), stderr(&from_file));
    let from_stdin = anywire_with_stdin(&["post", &echo, "-d", "@-"], &data);
    assert!(
        from_stdin.stdout == data,
        "{} bytes came back: {}",
        from_stdin.stdout.len(),
        stderr(&from_stdin)
    );
    assert_refused(&anywire(&["post", &echo, "-d", "@/no/such/file"]), 26, "/no/such/file");
}

#[test]
fn an_answer_without_a_place_is_not_asked_for() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}/", listener.local_addr().expect("it is bound"));
    let dir = tempfile::tempdir().expect("a directory for the data");
    let (data, link) = (dir.path().join("data"), dir.path().join("link"));
    std::fs::write(&data, "the only copy").expect("the data can be written");
    std::os::unix::fs::symlink(&data, &link).expect("a link can be made");
    let (named, missing) = (format!("@{}", text(&data)), dir.path().join("missing/answer"));
    assert_refused(&anywire(&["post", &url, "-d", "x", "-o", text(&missing)]), 23, "missing/answer");
    assert_refused(&anywire(&["get", &url, "-o", text(dir.path())]), 23, "directory");
    for output in [&data, &link] {
        assert_refused(&anywire(&["post", &url, "-d", &named, "-o", text(output)]), 2, "are read from it");
        let mut command = command();
        command.args(["post", &url, "-d", "@-", "-o", text(output)]);
        command.stdin(std::fs::File::open(&data).expect("it is there"));
        assert_refused(&command.output().expect("the built command starts"), 2, "are read from it");
    }
    assert_eq!(std::fs::read_to_string(&data).expect("it is there"), "the only copy");
    listener.set_nonblocking(true).expect("a socket");
    let asked = listener.accept().map(drop).map_err(|cause| cause.kind());
    assert_eq!(asked, Err(std::io::ErrorKind::WouldBlock), "nobody has called");
    let nobody = anywire(&["get", "http://127.0.0.1:1/", "-o", text(&data)]);
    assert_refused(&nobody, 7, "nobody listens there");
    assert_eq!(std::fs::read_to_string(&data).expect("it is there"), "the only copy");
}

#[test]
fn a_bad_status_is_a_failure_only_where_it_is_said_so() {
    let served = Served::demo();
    let lenient = anywire(&["get", &served.url("/nowhere")]);
    assert_eq!(lenient.status.code(), Some(0));
    assert!(!lenient.stdout.is_empty());
    let strict = anywire(&["get", "--fail", &served.url("/nowhere")]);
    assert_refused(&strict, 22, "404 Not Found");
    assert!(strict.stdout.is_empty());
    // Fields such as Retry-After say what to do about it.
    for args in [&["get", "-f", "-i"][..], &["get", "-f", "-I"], &["post", "-f", "-i", "-d", "x"]] {
        let strict = anywire(&[args, &[&served.url("/nowhere")]].concat());
        assert_refused(&strict, 22, "404 Not Found");
        let head = stdout(&strict);
        assert!(head.starts_with("HTTP/1.1 404 Not Found\r\n") && head.ends_with("\r\n\r\n"), "{head}");
    }
    let dir = tempfile::tempdir().expect("a directory for the answer");
    let file = dir.path().join("answer");
    let strict = anywire(&["get", "-f", &served.url("/nowhere"), "-o", text(&file)]);
    assert_refused(&strict, 22, "404 Not Found");
    assert!(!file.exists(), "there is nothing to write");
    for (answer, code) in [
        (&b"HTTP/1.1 399 Odd\r\ncontent-length: 0\r\n\r\n"[..], 0),
        (b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n", 22),
    ] {
        let (url, peer) = answering(answer);
        assert_eq!(anywire(&["get", "--fail", &url]).status.code(), Some(code));
        peer.join().expect("the peer did its part");
    }
}

#[test]
fn each_way_to_fail_has_its_exit_code() {
    let served = Served::demo();
    assert_refused(&anywire(&["get", "http://:80/"]), 2, "http://:80/");
    assert_refused(&anywire(&["get", "ftp://h/"]), 2, "scheme");
    assert_refused(&anywire(&["get", &served.url("/delay/60000"), "--timeout", "100ms"]), 28, "100ms");
    let unresolved = anywire(&["get", "http://no-such-host.invalid/"]);
    // Without any name server the resolver may not even get to say no.
    let code = if unresolved.status.code() == Some(28) { 28 } else { 6 };
    assert_refused(&unresolved, code, "no-such-host.invalid");

    let unused =
        TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a free port");
    assert_refused(&anywire(&["get", &format!("http://{unused}/")]), 7, "nobody listens");
    assert_refused(&anywire(&["get", "http://h/", "--via", "unix:/no/such/socket"]), 7, "/no/such/socket");

    for (answer, code, found) in [
        (&b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nshort"[..], 18, "before the body's end"),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nab", 18, "before the body's end"),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nx\r\nab", 56, "chunk"),
        (b"SSH-2.0-OpenSSH\r\n\r\n", 56, "status line"),
        (b"", 52, "closed the connection"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n", 56, "Content-Length"),
    ] {
        let (url, peer) = answering(answer);
        let output = anywire(&["get", &url]);
        assert_refused(&output, code, found);
        assert!(!stderr(&output).contains("peer"), "{}", stderr(&output));
        peer.join().expect("the peer did its part");
    }
}

#[test]
fn interim_answers_without_a_final_one_have_their_exit_code() {
    let interim: &'static [u8] = b"HTTP/1.1 103 Early Hints\r\n\r\n".repeat(50).leak();
    let (url, peer) = answering(interim);
    let output = anywire(&["get", &url]);
    assert_refused(&output, 56, "interim answers");
    assert!(stderr(&output).contains("help: the server is at fault"), "{}", stderr(&output));
    peer.join().expect("the peer did its part");
    assert!(stdout(&anywire(&["help", "get"])).contains("interim\n"));
}

/// A peer that answers one request with these bytes and closes: its URL, and what it got.
fn answering(answer: &'static [u8]) -> (String, JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}/", listener.local_addr().expect("it is bound"));
    let peer = std::thread::spawn(move || {
        let (mut peer, _) = listener.accept().expect("the command connects");
        let mut heard = vec![0; 4096];
        let length = peer.read(&mut heard).expect("the command sends");
        assert!(length > 0);
        // The command may have seen enough and gone.
        let _ = peer.write_all(answer);
        String::from_utf8_lossy(&heard[..length]).into_owned()
    });
    (url, peer)
}

#[test]
fn interim_responses_are_shown_with_heads() {
    let recorder = Recorder::start();
    let url = recorder.url("/hints");
    assert_eq!(stdout(&anywire(&["get", &url])), "hi");
    let heads = "HTTP/1.1 103 Early Hints\r\nlink: </a.css>\r\n\r\nHTTP/1.1 200 OK\r\n";
    assert!(stdout(&anywire(&["get", "-i", &url])).starts_with(heads));
    let said = stderr(&anywire(&["get", "-v", &url]));
    let lines: Vec<_> = said.lines().filter(|line| line.starts_with("< ")).collect();
    assert_eq!(lines[..3], ["< HTTP/1.1 103 Early Hints", "< link: </a.css>", "< "], "{said}");
    assert_eq!(lines[3], "< HTTP/1.1 200 OK", "{said}");
}
