//! `pipe` sends many requests at a time on each connection, and says of each whether it was answered: against our server, nginx and
//! Python, and against servers that break off.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::process::{Command, Stdio};

use crate::common::{Served, anywire, anywire_with_stdin, assert_refused, has, stderr, stdout, text};
use crate::nginx::Nginx;

/// The result of a run that went well.
#[track_caller]
fn piped(args: &[&str]) -> serde_json::Value {
    let output = anywire(&[&["pipe"], args, &["--json", "-"]].concat());
    assert!(output.status.success(), "{}{}", stdout(&output), stderr(&output));
    serde_json::from_str(&stdout(&output)).expect("the result is JSON alone")
}

#[test]
fn all_ten_thousand_are_matched() {
    let served = Served::demo();
    let result = piped(&[&served.url("/json")]);
    assert_eq!(result["schema"], "anywire.pipe/1");
    assert_eq!((&result["matched"], &result["missing"]), (&10_000.into(), &0.into()), "{result}");
    assert_eq!((&result["opened"], &result["statuses"]["200"]), (&100.into(), &10_000.into()), "{result}");
    // The requests of a connection leave in one write.
    assert_eq!(result["writes"], 100, "{result}");
    let output = anywire(&["pipe", &served.url("/json"), "-c", "2", "-n", "50", "--loops", "2"]);
    let table = stdout(&output);
    assert!(table.contains("100 of 100 sent, 100 answered in order\n"), "{table}{}", stderr(&output));
}

#[test]
fn a_new_connection_after_some_requests() {
    let served = Served::demo();
    let result = piped(&[&served.url("/"), "-c", "3", "-n", "100", "--reconnect", "40"]);
    assert_eq!((&result["matched"], &result["opened"]), (&300.into(), &9.into()), "{result}");
    let result = piped(&[&served.url("/"), "-c", "3", "-n", "100", "--reconnect", "40", "--depth", "7"]);
    assert_eq!((&result["matched"], &result["opened"]), (&300.into(), &9.into()), "{result}");
}

#[test]
fn a_response_to_head_has_no_body() {
    let served = Served::demo();
    let result = piped(&[&served.url("/json"), "-c", "1", "-m", "HEAD"]);
    assert_eq!(result["matched"], 100, "{result}");
}

/// So many requests, each with a body of its own.
fn requests(count: usize) -> String {
    let one = |number| {
        let body = format!("number {number};");
        format!("POST /echo HTTP/1.1\r\nhost: h\r\ncontent-length: {}\r\n\r\n{body}", body.len())
    };
    (0..count).map(one).collect()
}

/// The bodies among the answers.
fn bodies(answers: &str) -> Vec<&str> {
    let after = |body: &'static str| answers.match_indices(body).map(|(at, _)| at).collect::<Vec<_>>();
    after("number ").into_iter().map(|at| answers[at..].split(';').next().unwrap_or_default()).collect()
}

#[test]
fn answers_come_in_the_order_of_the_requests() {
    let served = Served::demo();
    let dir = tempfile::tempdir().expect("a directory");
    let (raw, answers) = (dir.path().join("requests.http"), dir.path().join("answers.http"));
    std::fs::write(&raw, requests(500)).expect("it can be written");
    let result = piped(&[&served.url("/"), "-c", "3", "--raw", text(&raw), "-o", text(&answers)]);
    assert_eq!((&result["requests"], &result["matched"]), (&1500.into(), &1500.into()), "{result}");
    let answers = std::fs::read_to_string(answers).expect("the answers were written");
    let wanted: Vec<_> = (0..3).flat_map(|_| (0..500).map(|number| format!("number {number}"))).collect();
    assert_eq!(bodies(&answers), wanted);
}

#[test]
fn requests_come_from_stdin_and_answers_go_to_stdout() {
    let served = Served::demo();
    let args = ["pipe", &served.url("/"), "-c", "1", "-n", "5", "--raw", "-", "-o", "-"];
    let output = anywire_with_stdin(&args, requests(2).as_bytes());
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(bodies(&stdout(&output)), ["number 0", "number 1", "number 0", "number 1", "number 0"]);
    assert!(stderr(&output).contains("5 answered in order"), "{}", stderr(&output));
}

#[test]
fn bytes_that_are_no_request_count_as_one() {
    let served = Served::demo();
    let args = ["pipe", &served.url("/"), "-c", "1", "--raw", "-"];
    let output = anywire_with_stdin(&args, b"BAD\r\n\r\n");
    assert!(output.status.success() && stdout(&output).contains("1 x 400"), "{output:?}");
    assert!(stderr(&output).contains("warning: --raw: these are no requests"), "{}", stderr(&output));
}

/// The URL of a server that says this to its first connection, once the first bytes have come, and then closes.
fn server(said: &'static [u8]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}/", listener.local_addr().expect("it is bound"));
    std::thread::spawn(move || {
        let (mut peer, _) = listener.accept().expect("the command connects");
        let begun = peer.read(&mut [0; 4096]).is_ok() && peer.write_all(said).is_ok();
        if begun && peer.shutdown(std::net::Shutdown::Write).is_ok() {
            // Read to its end, so that the answers are not lost to a reset.
            let _ = peer.read_to_end(&mut Vec::new());
        }
    });
    url
}

const GOOD: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

#[test]
fn a_missing_answer_is_told_with_its_reason() {
    let last = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok";
    for (said, found) in [
        (GOOD.repeat(3), "97 of 100 answers are missing: the server closed the connection"),
        (
            [&GOOD.repeat(2)[..], last].concat(),
            "97 of 100 answers are missing: the server says that it closes",
        ),
        (
            [&GOOD.repeat(3)[..], &GOOD[..20]].concat(),
            "97 of 100 answers are missing: the server closed the connection inside",
        ),
        (
            [&GOOD.repeat(3)[..], b"\r\n\r\n"].concat(),
            "97 of 100 answers are missing: an answer breaks the rules",
        ),
        (b"HTTP/1.1 101 Yes\r\n\r\n".to_vec(), "100 of 100 answers are missing: the server switched"),
    ] {
        let output = anywire(&["pipe", &server(said.leak()), "-c", "1"]);
        assert_refused(&output, 18, found);
        assert!(stdout(&output).contains("100 of 100 sent"), "{}", stdout(&output));
    }
    // The last answer may last until the close.
    let said = [&GOOD.repeat(99)[..], b"HTTP/1.1 200 OK\r\n\r\nto the end"].concat();
    assert_eq!(piped(&[&server(said.leak()), "-c", "1"])["matched"], 100);
}

#[test]
fn more_answers_than_requests_are_a_fault() {
    let output = anywire(&["pipe", &server(GOOD.repeat(101).leak()), "-c", "1"]);
    assert_refused(&output, 56, "which no request asked for");
}

#[test]
fn a_silent_server_is_given_up() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}/", listener.local_addr().expect("it is bound"));
    let output = anywire(&["pipe", &url, "-c", "2", "-n", "10", "--timeout", "50ms"]);
    assert_refused(&output, 18, "20 of 20 answers are missing: nothing came for 50ms");
}

#[test]
fn nobody_who_listens() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}/", listener.local_addr().expect("it is bound"));
    drop(listener);
    assert_refused(&anywire(&["pipe", &url, "-c", "2"]), 7, "nobody listens there");
}

#[test]
fn what_cannot_be_asked_for() {
    for (args, found) in [
        (&["pipe", "http://h/", "--json", "-", "-o", "-"][..], "both --output and --json"),
        (&["pipe", "http://h/", "-m", "CONNECT"], "asks for a tunnel"),
        (&["pipe", "unix:/run/app.sock"], "not a URL"),
        (&["pipe", "http://me:secret@h/"], "calling http://...@h/"),
    ] {
        assert_refused(&anywire(args), 2, found);
    }
    assert_refused(&anywire(&["pipe", "http://h/", "--raw", "/dev/null"]), 26, "it is empty");
    assert_refused(&anywire(&["pipe", "http://h/", "--raw", "/dev/zero"]), 26, "it is longer than 64 MiB");
    let dir = tempfile::tempdir().expect("a directory for results");
    let place = dir.path().join("result");
    let again = format!("{}/./result", text(dir.path()));
    let output = anywire(&["pipe", "http://h/", "-o", text(&place), "--json", &again]);
    assert_refused(&output, 2, "both --output and --json name it");
}

#[test]
fn a_request_that_says_close_is_the_last_of_its_connection() {
    let served = Served::demo();
    let url = served.url("/");
    let close = ["pipe", &url, "-H", "Connection: close", "-c", "2", "-n", "5"];
    assert_refused(&anywire(&close), 2, "request 1 ends its connection");
    let result = piped(&[&close[1..], &["--reconnect", "1"]].concat());
    assert_eq!((&result["matched"], &result["opened"]), (&10.into(), &10.into()), "{result}");
    let raw = |requests: &str, more: &[&str]| {
        anywire_with_stdin(&[&["pipe", &url, "-c", "1", "--raw", "-"], more].concat(), requests.as_bytes())
    };
    let (open, last) =
        ("GET / HTTP/1.1\r\nhost: h\r\n\r\n", "GET / HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\r\n");
    let in_order = [open, open, last].concat();
    for (requests, more) in [([open, last, open].concat(), &[][..]), (in_order.clone(), &["-n", "6"])] {
        assert_refused(&raw(&requests, more), 2, "ends its connection");
    }
    for more in [&[][..], &["-n", "6", "--reconnect", "3"]] {
        let output = raw(&in_order, more);
        assert!(output.status.success(), "{}", stderr(&output));
    }
    let output = raw(&[last, open, last].concat(), &["--reconnect", "1"]);
    assert!(output.status.success(), "{}", stderr(&output));
}

#[test]
fn nginx_answers_all_of_them_and_no_more_than_it_is_set_to() {
    if !has("nginx") {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory for nginx");
    let nginx = Nginx::start(dir.path(), 50);
    let url = format!("http://127.0.0.1:{}/", nginx.port);
    let result = piped(&[&url, "-c", "10", "--reconnect", "50"]);
    assert_eq!((&result["matched"], &result["opened"]), (&1000.into(), &20.into()), "{result}");
    assert_refused(&anywire(&["pipe", &url, "-c", "10"]), 18, "500 of 1,000 answers are missing");
}

#[test]
fn python_answers_all_of_them() {
    if !has("python3") {
        return;
    }
    let mut child = Command::new("python3")
        .args(["-c", PYTHON])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("python3 was found before");
    let mut port = String::new();
    let mut said = BufReader::new(child.stdout.take().expect("it was asked for"));
    said.read_line(&mut port).expect("it prints its port");
    let url = format!("http://127.0.0.1:{}/number", port.trim());
    let result = piped(&[&url, "-c", "4", "-n", "250"]);
    // Its stdin ends, and so does the server.
    drop(child.stdin.take());
    child.wait().expect("it ends");
    assert_eq!((&result["matched"], &result["opened"]), (&1000.into(), &4.into()), "{result}");
}

/// The server of Python's library, with connections that last.
const PYTHON: &str = "
import http.server, sys, threading

class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'

    def do_GET(self):
        body = self.path.encode()
        self.send_response(200)
        self.send_header('Content-Length', str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments):
        pass

server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Handler)
server.daemon_threads = True
print(server.server_address[1], flush=True)
threading.Thread(target=server.serve_forever, daemon=True).start()
sys.stdin.read()
";
