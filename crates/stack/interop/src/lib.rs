//! The stack beside Linux, through an impaired line.
//!
//! Two network namespaces are joined by a line: two TAP devices, and a process between them that impairs what passes
//! ([`Impairment`]). At the left end are the engine and a kernel, at the right end another kernel. So a transfer between the engine
//! and Linux, and one between Linux and Linux, pass the same line. Each part is a process of its own:
//!
//! | process | does |
//! | --- | --- |
//! | line | carries frames between its two TAP devices |
//! | left, engine | transfers over the engine, on a TAP device of its own |
//! | left, kernel | the same over sockets |
//! | right, kernel | the same over sockets, in the other namespace |
//!
//! ```text
//!  engine ── ours ─┐                                      ┌── 10.77.0.3 kernel, right
//!                  ├─ bridge ── left ── line ── right ────┘
//!  kernel ─────────┘  10.77.0.1
//! ```
//!
//! A program that uses this starts itself again for these processes: its `main` begins with [`serve_role`]. The machine is not
//! changed: the program runs itself in a namespace of its own ([`in_own_network`]), and that ends with it.
//!
//! | module | holds |
//! | --- | --- |
//! | [`field`] | the namespaces, the line and the ends |
//! | [`transfer`] | what two ends do with each other |
//! | [`matrix`] | rows of transfers, and their table |

mod child;
mod end;
pub mod field;
mod hosts;
mod impairment;
mod line;
pub mod matrix;
mod namespace;
mod pattern;
mod shell;
pub mod transfer;
mod work;

use std::process::{Command, ExitCode};

use anyhow::{Context, Result};

pub use self::impairment::Impairment;
pub use self::namespace::{Namespace, Verdict};

/// Does the work of a process that a [`Field`](field::Field) or a [`Namespace`] has started, to its end. None if this process was started by somebody else.
pub fn serve_role() -> Option<ExitCode> {
    let mut words = std::env::args().skip(1);
    if words.next().as_deref() != Some(child::ROLE) {
        return None;
    }
    let (name, plan) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let done = match name.as_str() {
        line::ROLE => line::serve(&plan),
        end::ROLE => end::serve(&plan),
        namespace::ROLE => namespace::serve(),
        _ => Err(anyhow::anyhow!("there is no role {name:?}")),
    };
    Some(match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(fault) => {
            eprintln!("{name}: {fault:#}");
            ExitCode::FAILURE
        }
    })
}

/// Runs this program again in a network namespace of its own, with the same arguments. None if it is in one already.
///
/// # Errors
/// The system gives no namespace.
pub fn in_own_network() -> Result<Option<ExitCode>> {
    if std::env::var_os(INNER).is_some() {
        return Ok(None);
    }
    let this = std::env::current_exe().context("this program has no file")?;
    let mut again = Command::new("unshare");
    if !rustix::process::geteuid().is_root() {
        again.args(["--user", "--map-root-user"]);
    }
    let status = again.arg("--net").arg(this).args(std::env::args_os().skip(1)).env(INNER, "1");
    let status = status.status().context("`unshare` of util-linux is needed")?;
    Ok(Some(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE }))
}

/// Says that this is the run in the namespace.
const INNER: &str = "ANYWIRE_INTEROP_INNER";
