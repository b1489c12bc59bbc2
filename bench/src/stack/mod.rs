//! The stack on devices, beside the kernel: `bench stack-throughput`, `stack-bulk`, `stack-http` and `stack-floods`.
//!
//! All of them run in network namespaces of their own, so that the machine's network stays as it is. They need root.

mod bulk;
mod floods;
mod http;
mod packets;
mod raw_epoll;
mod raw_xdp;
mod servers;
mod throughput;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use anywire_sys::cpu;

pub use self::bulk::Options as BulkOptions;
pub use self::floods::{Options as FloodsOptions, flood};
pub use self::http::Options as HttpOptions;
pub use self::servers::{ServeOptions, serve};
pub use self::throughput::Options as ThroughputOptions;

/// A benchmark of the stack.
pub enum Bench<'o> {
    /// Transfers over a line that delays and loses.
    Throughput(&'o ThroughputOptions),
    /// Bulk over TAP.
    Bulk(&'o BulkOptions),
    /// HTTP over AF_XDP.
    Http(&'o HttpOptions),
    /// Floods beside HTTP.
    Floods(&'o FloodsOptions),
}

/// Runs it in a network namespace of its own.
///
/// # Errors
/// The system gives no namespace, a wrong option, or the result cannot be written. What fails is part of the result instead.
pub fn run(bench: &Bench<'_>) -> Result<()> {
    if let Some(code) = anywire_interop::in_own_network()? {
        ensure!(code == ExitCode::SUCCESS, "the run in a namespace of its own has failed");
        return Ok(());
    }
    ensure!(cpu::available_cores().len() > 1, "both ends need a core, and there is one in all");
    match bench {
        Bench::Throughput(options) => throughput::run(options),
        Bench::Bulk(options) => bulk::run(options),
        Bench::Http(options) => http::run(options),
        Bench::Floods(options) => floods::run(options),
    }
}

/// This program, which does the work of the other processes as well.
fn program() -> Result<PathBuf> {
    std::env::current_exe().context("this program has no file")
}
