//! Processes of our own binary: a server or a client runs apart from the process that measures it.
//!
//! A server child says on standard output where it listens and lives until its standard input closes, so it also ends
//! when the measuring process dies. A client child prints its result and ends.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use anywire_load::Protocol;
use anywire_wire::Address;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::clients::{Bursts, Plan, Tally};
use crate::measure::Family;

/// A server in a process of its own; dropping it ends it.
pub struct ServerChild {
    process: Child,
    stdin: Option<ChildStdin>,
    address: SocketAddr,
}

impl ServerChild {
    /// Starts `bench serve NAME` for this version of HTTP on this core and waits until it listens.
    ///
    /// # Errors
    /// The child could not start, or says why it does not listen.
    pub fn start(name: &str, http: Protocol, core: usize) -> Result<Self> {
        Self::start_with(name, (http == Protocol::Http2).then(|| "--http2".to_owned()), core)
    }

    /// Starts anywire's server, which listens at this address, too.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn start_at(also: &Address, core: usize) -> Result<Self> {
        Self::start_with("anywire", Some(format!("--also={also}")), core)
    }

    fn start_with(name: &str, option: Option<String>, core: usize) -> Result<Self> {
        let mut process = ourselves("serve", core)?
            .arg(name)
            .args(option)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("starting the server's process failed")?;
        let stdin = process.stdin.take();
        let stdout = process.stdout.take().context("the server's process has no standard output")?;
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line)?;
        // From here on dropping the child ends it, whatever it said.
        let mut child = Self { process, stdin, address: SocketAddr::from(([0, 0, 0, 0], 0)) };
        if line.is_empty() {
            bail!("the process of `{name}` ended before it listened");
        }
        match serde_json::from_str(&line)
            .with_context(|| format!("the process of `{name}` said: {}", line.trim()))?
        {
            Announcement::Listening(address) => child.address = address,
            Announcement::Failed(reason) => bail!("{reason}"),
        }
        Ok(child)
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The number of its process.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// The process and those it started, to be measured.
    pub fn family(&self) -> Family {
        Family::of(self.process.id())
    }
}

impl Drop for ServerChild {
    fn drop(&mut self) {
        drop(self.stdin.take());
        for _ in 0..END_TRIES {
            if !matches!(self.process.try_wait(), Ok(None)) {
                return;
            }
            thread::sleep(END_PAUSE);
        }
        // It had its time; nothing more can be done about a failure here.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Runs `bench call NAME` on this core to its end and reads its figures.
///
/// # Errors
/// The child could not start, failed, or printed no result.
pub fn call(name: &str, core: usize, plan: &Plan) -> Result<Tally> {
    run_to_end("call", name, core, plan)
}

/// Runs `bench burst NAME` to its end and reads its figures, a tally for each count.
///
/// # Errors
/// As [`call`].
pub fn burst(name: &str, core: usize, plan: &Bursts) -> Result<Vec<Tally>> {
    run_to_end("burst", name, core, plan)
}

fn run_to_end<T: DeserializeOwned>(verb: &str, name: &str, core: usize, plan: &impl Serialize) -> Result<T> {
    let output = ourselves(verb, core)?
        .arg(name)
        .arg(serde_json::to_string(plan)?)
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .output()
        .context("starting the client's process failed")?;
    if !output.status.success() {
        bail!("{}", String::from_utf8_lossy(&output.stderr).trim());
    }
    serde_json::from_slice(&output.stdout)
        .with_context(|| format!("the process of `{name}` printed no result"))
}

/// The first and only line a server child prints.
#[derive(Serialize, Deserialize)]
pub enum Announcement {
    /// Connections are taken at this address.
    Listening(SocketAddr),
    /// It will not serve, and why.
    Failed(String),
}

/// Prints the announcement, in the child.
pub fn announce(announcement: &Announcement) {
    let line = serde_json::to_string(announcement).expect("an enum of an address and a text is always JSON");
    let mut stdout = io::stdout().lock();
    // If its reader has gone, standard input is closed too, which ends the process.
    let _ = writeln!(stdout, "{line}");
    let _ = stdout.flush();
}

/// Returns when the process that started this one has closed its end, or is gone.
pub fn wait_for_end_of_input() {
    let mut sink = [0; 64];
    while matches!(io::stdin().lock().read(&mut sink), Ok(1..)) {}
}

/// This program again, under valgrind's callgrind, which says at its end how many instructions it collected.
///
/// # Errors
/// The program does not know its own path.
pub fn under_callgrind(verb: &str, core: usize) -> Result<Command> {
    let mut command = Command::new("valgrind");
    command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]);
    let ourselves = ourselves(verb, core)?;
    command.arg(ourselves.get_program()).args(ourselves.get_args());
    Ok(command)
}

fn ourselves(verb: &str, core: usize) -> Result<Command> {
    let program = std::env::current_exe().context("this program does not know its own path")?;
    let mut command = Command::new(program);
    command.arg(verb).arg("--core").arg(core.to_string());
    Ok(command)
}

/// How often, and how long apart, a server child is asked whether it has ended: 5 s in all, then it is killed.
const END_TRIES: u32 = 500;
const END_PAUSE: Duration = Duration::from_millis(10);
