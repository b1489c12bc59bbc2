//! The servers of the benchmarks over AF_XDP, each in a process of its own.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, ChildStdin, Command, Stdio};

use anyhow::{Context, Result, bail};
use clap::Args;

use super::{program, raw_epoll, raw_xdp};
use crate::servers::{Announce, anywire};

/// Options of a process that serves.
#[derive(Args)]
pub struct ServeOptions {
    /// Which server.
    name: String,
    /// Where it listens.
    at: SocketAddr,
    /// Its core.
    #[arg(long)]
    core: usize,
    /// Close each connection after its answer.
    #[arg(long)]
    closes: bool,
}

/// Serves until standard input ends.
///
/// # Errors
/// There is no such server, or it cannot listen there.
pub fn serve(options: &ServeOptions) -> Result<()> {
    anywire_sys::cpu::pin_current_thread(options.core)?;
    match Server::named(&options.name)? {
        Server::Epoll => raw_epoll::serve(options.at, options.closes),
        Server::RawXdp => raw_xdp::serve(NEAR, options.at, options.closes),
        Server::Anywire => anywire::run(&Announce, |server| server.listen(format!("tcp:{}", options.at))),
        Server::AnywireXdp => {
            // The first one is what it announces, which must be a socket's.
            let stack = |ip: &str| format!("stack:xdp:{NEAR}/{ip}:{}", options.at.port());
            let (v4, v6) = (stack(&options.at.ip().to_string()), stack(STACK_V6));
            anywire::run(&Announce, |server| server.listen("tcp:127.0.0.1:0").listen(v4).listen(v6))
        }
    }
}

/// A server that is measured.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Server {
    /// The raw loop over kernel sockets.
    Epoll,
    /// anywire over kernel sockets.
    Anywire,
    /// anywire on the stack.
    AnywireXdp,
    /// A loop that answers frames, without a TCP.
    RawXdp,
}

impl Server {
    pub(super) const ALL: [Self; 4] = [Self::Epoll, Self::Anywire, Self::AnywireXdp, Self::RawXdp];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Epoll => "raw epoll loop",
            Self::Anywire => "anywire, tcp",
            Self::AnywireXdp => "anywire, stack:xdp",
            Self::RawXdp => "raw AF_XDP loop",
        }
    }

    fn named(name: &str) -> Result<Self> {
        Self::ALL
            .into_iter()
            .find(|server| server.name() == name)
            .with_context(|| format!("no server is named `{name}`"))
    }

    /// Whether it takes the interface for itself, with an XDP program of its own.
    pub(super) fn has_interface(self) -> bool {
        matches!(self, Self::AnywireXdp | Self::RawXdp)
    }

    /// Starts it on this core; it serves until it is dropped.
    pub(super) fn start(self, at: SocketAddr, core: usize, closes: bool) -> Result<Process> {
        let mut command = Command::new(program()?);
        command.args(["stack-serve", self.name(), &at.to_string(), "--core", &core.to_string()]);
        if closes {
            command.arg("--closes");
        }
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let stdin = child.stdin.take();
        let stdout = child.stdout.take().context("it has a standard output")?;
        let process = Process { child, stdin };
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line)?;
        if line.is_empty() {
            bail!("`{}` ended before it listened", self.name());
        }
        Ok(process)
    }
}

/// The process of a server. Dropping it ends it.
pub(super) struct Process {
    child: Child,
    stdin: Option<ChildStdin>,
}

impl Process {
    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.stdin.take());
        // Some end with their standard input; the others have nothing to clear away.
        for _ in 0..100 {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The response of the raw loops: as long as what anywire answers.
pub(super) fn response(closes: bool) -> Vec<u8> {
    let connection = if closes { "connection: close\r\n" } else { "" };
    format!(
        "HTTP/1.1 200 OK\r\ncontent-type: {}\r\n{connection}content-length: {}\r\ndate: Thu, 01 Jan 2026 00:00:00 GMT\r\n\r\n{}",
        crate::servers::CONTENT_TYPE,
        crate::servers::BODY.len(),
        crate::servers::BODY
    )
    .into_bytes()
}

/// The other address of the stack: floods of neighbour discovery ask for it.
const STACK_V6: &str = "[fd78::2]";

/// The interface of the server.
pub(super) const NEAR: &str = "near";
