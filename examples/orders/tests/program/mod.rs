//! The service as a program, called by curl.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::mpsc;
use std::thread;

use crate::table::{self, Answer, Ask};

/// A program that runs, and is killed at the end of a test that fails.
struct Program {
    child: Child,
    log: BufReader<ChildStderr>,
    url: String,
}

impl Program {
    /// Starts it at a free port, which it logs as `address=..`.
    fn start(program: &str, listen: &str, database: &Path, options: &[&str]) -> Self {
        let mut command = Command::new(program);
        command.env("ORDERS_TOKENS", table::TOKENS).env("NO_COLOR", "1").args(["--listen", listen]);
        command.arg("--database").arg(database).args(options).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the program is built");
        let mut log = BufReader::new(child.stderr.take().expect("it is a pipe"));
        let mut line = String::new();
        log.read_line(&mut line).expect("the program logs text");
        let (_, address) = line.trim().split_once("address=").unwrap_or_else(|| panic!("no address: {line}"));
        let url = format!("http://{}", address.trim_start_matches("tcp:"));
        Self { child, log, url }
    }

    /// Ends it by SIGTERM, and gives what is left of its log.
    fn end(mut self) -> Vec<String> {
        let told = Command::new("kill").arg(self.child.id().to_string()).status().expect("kill is there");
        assert!(told.success());
        let log: Vec<_> = (&mut self.log).lines().map(|line| line.expect("the program logs text")).collect();
        let status = self.child.wait().expect("it is a child");
        assert!(status.success(), "{status}: {log:?}");
        log
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The answers of the table, and a log of the requests.
pub fn answers_curl(program: &str, listen: &str) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let running = Program::start(program, listen, &folder.path().join("orders.db"), &[]);
    table::check(|request| curl(&running.url, request));
    let log = running.end();
    assert!(log.iter().any(|line| line.contains("/orders") && line.contains("404")), "{log:?}");
}

/// One thread, one request that waits for it: of three that write while the database is locked, one is refused at once.
pub fn refuses_what_is_too_much(program: &str, listen: &str) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let database = folder.path().join("orders.db");
    let options = ["--threads", "1", "--queue", "1", "--wait", "60000"];
    let running = Program::start(program, listen, &database, &options);
    let locked = rusqlite::Connection::open(&database).expect("the program has made it");
    locked.execute_batch("BEGIN IMMEDIATE").expect("nobody writes");
    let (sender, answers) = mpsc::channel();
    for _ in 0..3 {
        let (sender, url) = (sender.clone(), running.url.clone());
        thread::spawn(move || sender.send(curl(&url, &table::order())));
    }
    let first = answers.recv().expect("there are three answers");
    assert_eq!((first.status, first.field("retry-after")), (503, Some("1")), "{first:?}");
    first.check_problem();
    locked.execute_batch("ROLLBACK").expect("it was begun");
    assert_eq!([201, 201], [(); 2].map(|()| answers.recv().expect("there are three answers").status));
    running.end();
}

fn curl(url: &str, request: &Ask) -> Answer {
    let mut curl = Command::new("curl");
    curl.args(["--silent", "--show-error", "--include", "--noproxy", "*", "--request", request.method]);
    // For large content curl would ask first whether it is wanted.
    curl.args(["--header", "expect:"]);
    if let Some(authorization) = request.authorization {
        curl.arg("--header").arg(format!("authorization: {authorization}"));
    }
    if let Some((of_type, content)) = &request.content {
        curl.arg("--header").arg(format!("content-type: {of_type}")).arg("--data-binary").arg(content);
    }
    let output = curl.arg(format!("{url}{}", request.target)).output().expect("curl is there");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{} {}: {said}", request.method, request.target);
    let text = String::from_utf8(output.stdout).expect("this service sends text");
    let (head, body) = text.split_once("\r\n\r\n").expect("a head");
    let (status, fields) = head.split_once("\r\n").expect("fields");
    let status = status.split(' ').nth(1).and_then(|code| code.parse().ok()).expect("a status");
    let fields = fields.lines().filter_map(|field| field.split_once(": "));
    let fields = fields.map(|(name, value)| (name.to_lowercase(), value.to_owned())).collect();
    Answer { status, fields, body: body.to_owned() }
}
