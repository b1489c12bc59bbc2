//! What servers have in common that are programs of this machine.
//!
//! The `bench serve NAME` process stays beside the program (asleep) so that this ends when its standard input closes. What is
//! measured is the whole family: this process and all that the program starts.

use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::{Announce, BODY, LARGE_BYTES};

/// Runs a program until standard input closes. It writes its log to `log`.
pub(crate) fn run(
    command: &mut Command,
    package: &str,
    address: SocketAddr,
    log: &Path,
    announce: &Announce,
) -> Result<()> {
    let name = command.get_program().to_string_lossy().into_owned();
    let mut program = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(fs::File::create(log.with_extension("stderr"))?)
        .spawn()
        .with_context(|| format!("starting `{name}` failed; Debian's package is named {package}"))?;
    for _ in 0..CONNECT_TRIES {
        if TcpStream::connect(address).is_ok() {
            break;
        }
        if let Some(status) = program.try_wait()? {
            let read = |file: &Path| fs::read_to_string(file).unwrap_or_default();
            let log = read(log) + &read(&log.with_extension("stderr"));
            bail!("{name} ended with {status} before it listened; its log: {}", log.trim());
        }
        thread::sleep(CONNECT_PAUSE);
    }
    ensure!(TcpStream::connect(address).is_ok(), "{name} runs and does not take connections on {address}");
    announce.listening_until_end(address);
    // A master ends its workers by this signal; killing it hard would leave them behind.
    kill(Pid::from_raw(i32::try_from(program.id())?), Signal::SIGTERM)?;
    program.wait()?;
    Ok(())
}

/// Writes what a server of files answers: `/` as a file of this name, and `/large`.
pub(super) fn write_files(folder: &Path, index: &str) -> Result<()> {
    let write = |name: &str, contents: &[u8]| {
        fs::write(folder.join(name), contents).with_context(|| format!("writing {name} failed"))
    };
    write(index, BODY.as_bytes())?;
    write("large", &vec![b'x'; LARGE_BYTES])
}

/// How often, and how long apart, the first connection is tried: 5 s in all.
const CONNECT_TRIES: u32 = 250;
const CONNECT_PAUSE: Duration = Duration::from_millis(20);
