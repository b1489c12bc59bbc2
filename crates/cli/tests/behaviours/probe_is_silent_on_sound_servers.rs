//! `anywire probe` finds no fault in servers that have none: nginx, h2o, Go, Node.js and ours, each with its process watched.

use std::io::{BufRead, BufReader};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::common::{Served, anywire, has, stderr, stdout, text};
use crate::nginx::Nginx;
use crate::tls_peers::Certificates;
use crate::tools;

/// A server that ends with its test.
struct Peer {
    child: Child,
    port: u16,
}

impl Peer {
    /// Starts what prints its port.
    fn that_says_its_port(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().expect("it was found before");
        let mut line = String::new();
        let stdout = child.stdout.take().expect("it was asked for");
        BufReader::new(stdout).read_line(&mut line).expect("it prints text");
        let port = line.trim().parse().unwrap_or_else(|_| panic!("{command:?} says {line:?}"));
        Self { child, port }
    }

    /// Starts what listens on a port that it is told.
    fn on_port(command: impl Fn(u16) -> Command) -> Self {
        for _ in 0..5 {
            // Free now; should another program take it before the server does, another one is tried.
            let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
            let port = free.expect("a free port").port();
            let mut command = command(port);
            let mut child =
                command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it was found before");
            let hang = Instant::now() + Duration::from_secs(60);
            while child.try_wait().expect("a child").is_none() {
                if TcpStream::connect(("127.0.0.1", port)).is_ok() {
                    return Self { child, port };
                }
                assert!(Instant::now() < hang, "{command:?} does not listen");
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        panic!("no free port was found");
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Probes a server and its process, and gives the result, which has no verdict but `clean`.
#[track_caller]
fn assert_clean(url: &str, pid: u32, more: &[&str]) -> Value {
    let pid = pid.to_string();
    let output =
        anywire(&[&["probe", url, "--pid", &pid, "--fail-on", "note", "--json", "-"], more].concat());
    let outcome: Value =
        serde_json::from_str(&stdout(&output)).unwrap_or_else(|_| panic!("no JSON: {}", stderr(&output)));
    assert_eq!(outcome["schema"], "anywire.probe/1");
    let verdicts = outcome["verdicts"].as_array().expect("there are verdicts");
    let classes: Vec<_> =
        verdicts.iter().map(|verdict| verdict["class"].as_str().unwrap_or_default()).collect();
    assert_eq!(classes, ["clean"], "{url}: {outcome:#}");
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    outcome
}

/// The same over HTTP/2.
#[track_caller]
fn assert_clean_over_http2(url: &str, pid: u32, more: &[&str]) {
    let outcome = assert_clean(url, pid, &[&["--http2"], more].concat());
    assert_eq!(
        (&outcome["target"]["protocol"], &outcome["http2"]["status"]),
        (&json!("http/2"), &json!(200))
    );
    assert!(outcome["latency"]["count"].as_u64() > Some(100), "{outcome:#}");
}

#[test]
fn ours() {
    let served = Served::on(&["tcp:127.0.0.1:0"], &["--loops", "2"]);
    let outcome = assert_clean(&served.url("/"), served.child.id(), &[]);
    assert_eq!(outcome["segments"]["per_response"], 1.0, "{outcome:#}");
    assert_eq!(outcome["pipelining"]["answered"], 16, "{outcome:#}");
    // One response, one write, also if the body is long; and nobody waits for a reader that pauses.
    let outcome = assert_clean(&served.url("/bytes/1000000"), served.child.id(), &["-c", "4"]);
    assert_eq!(outcome["slow_reader"]["complete"], true, "{outcome:#}");
    assert_clean_over_http2(&served.url("/"), served.child.id(), &[]);
}

#[test]
fn ours_over_a_unix_socket() {
    let dir = tempfile::tempdir().expect("a directory for the socket");
    let address = format!("unix:{}", text(&dir.path().join("app.sock")));
    let served = Served::on(&[&address], &[]);
    let outcome = assert_clean("/", served.child.id(), &["--via", &address]);
    assert!(outcome["segments"].is_null() && outcome["tcp"].is_null(), "{outcome:#}");
    assert_eq!(outcome["reads"]["per_response"], 1.0, "{outcome:#}");
    let output = anywire(&["probe", "/", "--via", &address]);
    assert!(stdout(&output).contains("not counted on the wire unix"), "{}", stdout(&output));
}

#[test]
fn nginx() {
    if !has("nginx") {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory for nginx");
    let nginx = Nginx::start(dir.path(), 1_000_000);
    let pid = std::fs::read_to_string(dir.path().join("nginx.pid")).expect("it writes its number");
    let pid = pid.trim().parse().expect("a number");
    let outcome = assert_clean(&format!("http://127.0.0.1:{}/", nginx.port), pid, &[]);
    // The worker is a child of the process that was named.
    let threads = outcome["server"]["threads"].as_array().expect("its threads are known");
    assert!(
        threads.iter().any(|thread| thread["pid"] != pid && thread["share"].as_f64() > Some(0.5)),
        "{outcome:#}"
    );
}

#[test]
fn nginx_with_files_and_tls() {
    if !has("nginx") {
        return;
    }
    let certificates = Certificates::new();
    let dir = tempfile::tempdir().expect("a directory for nginx");
    let root = certificates.text("root.pem");
    let tls = |more: &str| {
        let config = dir.path().join("nginx.conf");
        let [cert, key] = certificates.pair("good");
        Peer::on_port(|port| {
            let text = dir.path().display();
            let content = format!(
                "daemon off; master_process off; pid {text}/pid; error_log {text}/log; events {{}}
                 http {{
                     access_log off; client_body_temp_path {text}/body; proxy_temp_path {text}/proxy;
                     fastcgi_temp_path {text}/fastcgi; uwsgi_temp_path {text}/uwsgi; scgi_temp_path {text}/scgi;
                     sendfile on; tcp_nopush on; {more}
                     server {{
                         listen 127.0.0.1:{port} ssl http2; root {text};
                         ssl_certificate {cert}; ssl_certificate_key {key};
                     }}
                 }}"
            );
            std::fs::write(dir.path().join("page"), "a page")
                .and_then(|()| std::fs::write(&config, content))
                .expect("files");
            let mut command = Command::new("nginx");
            command.arg("-e").arg(dir.path().join("log")).arg("-p").arg(dir.path()).arg("-c").arg(&config);
            command
        })
    };
    let server = tls("");
    let url = format!("https://localhost:{}/page", server.port);
    let outcome = assert_clean(&url, server.child.id(), &["--cacert", &root]);
    assert!(outcome["tls"]["resumed"].as_u64() > Some(0), "{outcome:#}");
    assert_eq!(outcome["connection"]["alpn"], "http/1.1", "{outcome:#}");
    assert_eq!(outcome["http2"]["status"], 200, "{outcome:#}");
    assert_clean_over_http2(&url, server.child.id(), &["--cacert", &root]);
    drop(server);
    // Without tickets and cache each connection makes a whole handshake, and that is all there is to say.
    let server = tls("ssl_session_tickets off; ssl_session_cache off;");
    let url = format!("https://localhost:{}/page", server.port);
    let output = anywire(&["probe", &url, "--cacert", &root, "--json", "-"]);
    let outcome: Value = serde_json::from_str(&stdout(&output)).expect("the result is JSON alone");
    let classes: Vec<_> =
        outcome["verdicts"].as_array().into_iter().flatten().map(|verdict| &verdict["class"]).collect();
    assert_eq!(classes, ["no_resumption"], "{outcome:#}");
}

#[test]
fn h2o() {
    if !has("h2o") {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory for h2o");
    // As root it becomes another user, who must be able to read the files.
    let everybody = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(dir.path(), everybody).expect("it is ours");
    std::fs::write(dir.path().join("page"), "a page").expect("a file");
    let server = Peer::on_port(|port| h2o_command(dir.path(), port));
    let url = format!("http://127.0.0.1:{}/page", server.port);
    assert_clean(&url, server.child.id(), &[]);
    assert_clean_over_http2(&url, server.child.id(), &[]);
}

fn h2o_command(dir: &Path, port: u16) -> Command {
    let config = dir.join("h2o.conf");
    let content = format!(
        "num-threads: 1\nlisten:\n  host: 127.0.0.1\n  port: {port}\nhosts:\n  default:\n    paths:\n      /:\n        \
         file.dir: {}\n",
        dir.display()
    );
    std::fs::write(&config, content).expect("a file");
    let mut command = Command::new("h2o");
    command.args(["-m", "worker", "-c"]).arg(config);
    command
}

#[test]
fn go() {
    let Some(program) = tools::go_program("anywire.test/http2/hello") else { return };
    let server = Peer::that_says_its_port(Command::new(program));
    assert_clean(&format!("http://127.0.0.1:{}/", server.port), server.child.id(), &[]);
}

#[test]
fn node() {
    if !has("node") {
        return;
    }
    let mut command = Command::new("node");
    command.arg(tools::source("hello.mjs"));
    let server = Peer::that_says_its_port(command);
    assert_clean(&format!("http://127.0.0.1:{}/", server.port), server.child.id(), &[]);
}

#[test]
fn node_over_http2() {
    if !has("node") {
        return;
    }
    let mut command = Command::new("node");
    command.arg(tools::source("hello-h2.mjs"));
    let server = Peer::that_says_its_port(command);
    assert_clean_over_http2(&format!("http://127.0.0.1:{}/", server.port), server.child.id(), &[]);
}
