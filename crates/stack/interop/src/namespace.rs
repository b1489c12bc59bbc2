//! A network namespace that a process holds, with what an XDP program does to its interfaces.

use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, anyhow};
use anywire_sys::bpf::{Assembler, AttachMode, Program, Register};
use anywire_sys::network_interface::NetworkInterface;
use serde::{Deserialize, Serialize};

use crate::child::{self, Role, Said, Where};
use crate::shell;

/// A network namespace, or a part in that of this process. Dropping it ends the process that holds it; its XDP programs are detached
/// then, and interfaces without another holder are gone.
pub struct Namespace(Role);

/// What becomes of each frame that an interface receives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Verdict {
    /// It is dropped.
    Drop,
    /// It goes on to the kernel: what is seen is what a program on the way costs.
    Pass,
}

/// What a holder is told.
#[derive(Debug, Serialize, Deserialize)]
struct Order {
    interface: String,
    verdict: Verdict,
}

impl Namespace {
    /// A new one. `program` [serves roles](crate::serve_role).
    ///
    /// # Errors
    /// The system gives no namespace.
    pub fn new(program: &Path) -> Result<Self> {
        Role::start(program, ROLE, &(), Where::New).map(Self)
    }

    /// That of this process.
    ///
    /// # Errors
    /// The program could not be started.
    pub fn here(program: &Path) -> Result<Self> {
        Role::start(program, ROLE, &(), Where::Here).map(Self)
    }

    /// The process that holds it, as `ip link set NAME netns` wants it.
    pub fn id(&self) -> u32 {
        self.0.id()
    }

    /// Runs commands of the shell in it.
    ///
    /// # Errors
    /// One of them has failed.
    pub fn run(&self, commands: &str) -> Result<()> {
        shell::run_in(self.id(), commands)
    }

    /// A command that runs in it.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["--target", &self.id().to_string(), "--net"]).arg(program);
        command
    }

    /// Has a program say this of each frame that the interface receives, in its driver.
    ///
    /// # Errors
    /// It has a program already, or this user may attach none.
    pub fn attach(&mut self, interface: &str, verdict: Verdict) -> Result<()> {
        self.0.say(&Order { interface: interface.to_owned(), verdict })?;
        self.0.hear::<Result<(), String>>()?.map_err(|fault| anyhow!(fault))
    }
}

/// Holds the namespace until standard input ends.
pub(crate) fn serve() -> Result<()> {
    child::say(&Said::Ready)?;
    let mut attached = Vec::new();
    for line in std::io::stdin().lines() {
        let order: Order = serde_json::from_str(&line?).context("an order")?;
        let done = attach(&order);
        child::say(&done.map(|link| attached.push(link)).map_err(|fault| format!("{fault:#}")))?;
    }
    Ok(())
}

fn attach(order: &Order) -> Result<anywire_sys::bpf::XdpLink> {
    let mut code = Assembler::new();
    // XDP_DROP and XDP_PASS of linux/bpf.h.
    code.set(
        Register::R0,
        match order.verdict {
            Verdict::Drop => 1,
            Verdict::Pass => 2,
        },
    );
    code.exit();
    let program = Program::load_xdp("verdict", &code.finish())?;
    let interface = NetworkInterface::find(&order.interface)?;
    program.attach_xdp(interface.index, AttachMode::Native).context("attaching an XDP program")
}

pub(crate) const ROLE: &str = "namespace";
