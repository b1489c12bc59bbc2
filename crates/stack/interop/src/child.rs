//! Processes that this program starts of itself. They say what they have to say in lines of JSON, and end with their standard input.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, anyhow, bail};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// A process with a role; dropping it ends it.
pub(crate) struct Role {
    process: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    name: String,
}

/// Where a process runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Where {
    /// In the network namespace of this process.
    Here,
    /// In a new one.
    New,
    /// In that of this process.
    Beside(u32),
}

impl Role {
    /// Starts the program in this role, and waits until it says that it is ready.
    pub(crate) fn start(program: &Path, name: &str, plan: &impl Serialize, place: Where) -> Result<Self> {
        let mut command = match place {
            Where::Here => Command::new(program),
            Where::New => {
                let mut unshare = Command::new("unshare");
                unshare.arg("--net").arg(program);
                unshare
            }
            Where::Beside(pid) => {
                let mut enter = Command::new("nsenter");
                enter.args(["--target", &pid.to_string(), "--net"]).arg(program);
                enter
            }
        };
        command.args([ROLE, name]).arg(serde_json::to_string(plan)?);
        let mut process = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("starting {} failed", program.display()))?;
        let stdin = process.stdin.take();
        let stdout = BufReader::new(process.stdout.take().context("it has a standard output")?);
        let mut role = Self { process, stdin, stdout, name: name.to_owned() };
        let Said::Ready = role.hear()?;
        Ok(role)
    }

    /// The number of its process.
    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    /// Gives it something to do.
    pub(crate) fn say(&mut self, what: &impl Serialize) -> Result<()> {
        let stdin = self.stdin.as_mut().context("it is open until it is dropped")?;
        writeln!(stdin, "{}", serde_json::to_string(what)?)
            .with_context(|| format!("{} has ended", self.name))
    }

    /// The next thing that it says.
    pub(crate) fn hear<T: DeserializeOwned>(&mut self) -> Result<T> {
        let mut line = String::new();
        self.stdout.read_line(&mut line)?;
        if line.is_empty() {
            bail!("{} has ended", self.name);
        }
        serde_json::from_str(&line).map_err(|_| anyhow!("{} said: {}", self.name, line.trim()))
    }
}

impl Drop for Role {
    fn drop(&mut self) {
        drop(self.stdin.take());
        // Its remaining work has no use.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Says something to the process that has started this one.
pub(crate) fn say(what: &impl Serialize) -> Result<()> {
    let mut stdout = std::io::stdout().lock();
    writeln!(stdout, "{}", serde_json::to_string(what)?)?;
    Ok(stdout.flush()?)
}

/// What a process says first.
#[derive(Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) enum Said {
    /// It can be given something to do.
    Ready,
}

/// The first argument of such a process.
pub(crate) const ROLE: &str = "interop-role";
