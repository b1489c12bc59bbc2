//! What the tests of the command share: the built command, a service of it under way, and tools of the system.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// The command that is tested.
pub(crate) fn command() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_anywire"));
    command.env_remove("RUST_LOG").stdin(Stdio::null());
    command
}

/// The command with the default action of SIGINT, which shells and `nohup` may have set to "ignore" for all that run under the tests.
pub(crate) fn interruptible() -> Command {
    let mut command = Command::new("env");
    command.args(["--default-signal=INT", env!("CARGO_BIN_EXE_anywire")]);
    command.env_remove("RUST_LOG").stdin(Stdio::null());
    command
}

/// Runs the command to its end.
pub(crate) fn anywire(args: &[&str]) -> Output {
    command().args(args).output().expect("the built command starts")
}

/// Runs the command with its result as JSON, and sends it this signal at its first word of progress. What it printed
/// meanwhile and its exit code.
pub(crate) fn ended_at_its_first_word(args: &[&str], signal: Signal) -> Output {
    let mut command = command();
    let command = command.args(args).args(["--json", "-"]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the built command starts");
    let mut said = BufReader::new(child.stderr.take().expect("it was asked for"));
    let mut line = String::new();
    assert!(said.read_line(&mut line).expect("it says text") > 0, "{args:?} says nothing");
    kill_process(Pid::from_child(&child), signal).expect("it runs");
    let output = child.wait_with_output().expect("it ends");
    said.read_to_string(&mut line).expect("it says text");
    Output { stderr: line.into_bytes(), ..output }
}

/// Runs the command to its end with something on its stdin.
pub(crate) fn anywire_with_stdin(args: &[&str], stdin: &[u8]) -> Output {
    let mut command = command();
    let command = command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the built command starts");
    child.stdin.take().expect("it was asked for").write_all(stdin).expect("the command reads its stdin");
    child.wait_with_output().expect("the command ends")
}

/// `anywire serve` under way, killed at the end of the test.
pub(crate) struct Served {
    pub(crate) child: Child,
    /// Held open: the command must not find its stdout closed.
    _stdout: BufReader<ChildStdout>,
    addresses: Vec<String>,
}

impl Served {
    /// Serves on these addresses, and returns when it has printed where it listens.
    pub(crate) fn on(addresses: &[&str], args: &[&str]) -> Self {
        Self::logging(addresses, args, Stdio::inherit())
    }

    /// As [`on`](Self::on), with its log to this place.
    pub(crate) fn logging(addresses: &[&str], args: &[&str], log: impl Into<Stdio>) -> Self {
        let mut command = command();
        command.stderr(log);
        command.arg("serve").args(args);
        if !args.contains(&"--loops") {
            command.args(["--loops", "1"]);
        }
        for address in addresses {
            command.args(["--listen", address]);
        }
        let mut child = command.stdout(Stdio::piped()).spawn().expect("the built command starts");
        let mut stdout = BufReader::new(child.stdout.take().expect("it was asked for"));
        let printed = addresses.iter().map(|_| {
            let mut line = String::new();
            stdout.read_line(&mut line).expect("the command prints text");
            let address = line.trim().strip_prefix("listening on ");
            let address = address.unwrap_or_else(|| panic!("an address was expected, not {line:?}"));
            // Behind it stands the URL of an address with TLS.
            address.split(' ').next().unwrap_or_default().to_owned()
        });
        let addresses = printed.collect();
        Self { child, _stdout: stdout, addresses }
    }

    /// The demo service on a port of its own.
    pub(crate) fn demo() -> Self {
        Self::on(&["tcp:127.0.0.1:0"], &[])
    }

    /// The files of a directory, on a port of its own.
    pub(crate) fn files(dir: &Path) -> Self {
        Self::on(&["tcp:127.0.0.1:0"], &["--dir", text(dir)])
    }

    /// `127.0.0.1:PORT` of the first address.
    pub(crate) fn authority(&self) -> &str {
        self.addresses[0].split_once(':').expect("a wire").1
    }

    /// A URL on the first address.
    pub(crate) fn url(&self, path: &str) -> String {
        let scheme = if self.addresses[0].starts_with("tls:") { "https" } else { "http" };
        format!("{scheme}://{}{path}", self.authority())
    }

    /// An address as it was printed.
    pub(crate) fn address(&self, index: usize) -> &str {
        &self.addresses[index]
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // Neither can fail but for a child that has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Whether a tool of the system is there. Without it the test that asks has nothing to do; where tests must be
/// complete (`CI` is set), that is a failure.
pub(crate) fn has(tool: &str) -> bool {
    let found =
        Command::new(tool).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok();
    assert!(found || std::env::var_os("CI").is_none(), "this test needs {tool}; install it");
    if !found {
        crate::skipped::say(format_args!("{tool} is not installed"));
    }
    found
}

/// Runs a tool of the system to its end; what it printed, if it ended well.
pub(crate) fn run(tool: &str, args: &[&str]) -> String {
    let output = Command::new(tool).args(args).output().expect("the tool was found before");
    assert!(output.status.success(), "{tool} {args:?}: {output:?}");
    stdout(&output)
}

/// What a command printed as its result.
pub(crate) fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// What a command said beside its result.
pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Looks again and again at what has no event to wait for.
#[track_caller]
pub(crate) fn eventually(what: &str, is_so: impl Fn() -> bool) {
    let hang = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < hang, "{what}: not so after a minute");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A path of this test as text.
pub(crate) fn text(path: &Path) -> &str {
    path.to_str().expect("temporary paths are UTF-8")
}

/// That a command failed with this code and said both lines, `error:` with `found` in it and `help:`.
#[track_caller]
pub(crate) fn assert_refused(output: &Output, code: i32, found: &str) {
    let said = stderr(output);
    assert_eq!(output.status.code(), Some(code), "{said}");
    let error = said.lines().find(|line| line.starts_with("error: "));
    assert!(error.is_some_and(|line| line.contains(found)), "{found:?} was expected in: {said}");
    assert!(said.lines().any(|line| line.starts_with("help: ")), "no help in: {said}");
}
