//! SIGINT and SIGTERM, the two signals that ask a process to end.

use std::io;

use tokio::signal::unix;

/// Receives SIGINT and SIGTERM. From the first registration on, neither kills the process by itself any more.
///
/// ```
/// let loops = anywire_loops::Loops::start(1)?;
/// let task = loops.get(0).spawn(|| async {
///     let mut signals = anywire_loops::Signals::register()?;
///     println!("ended by {:?}", signals.recv().await);
///     Ok::<(), std::io::Error>(())
/// });
/// # task.abort();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Signals {
    interrupt: unix::Signal,
    terminate: unix::Signal,
}

impl Signals {
    /// Starts to receive the signals. Earlier ones are lost.
    ///
    /// # Errors
    ///
    /// The system refused the handler or the pipe behind it, mostly because descriptors have run out.
    ///
    /// # Panics
    ///
    /// If the caller runs neither on a loop nor in a tokio runtime with I/O.
    pub fn register() -> io::Result<Self> {
        Ok(Self {
            interrupt: unix::signal(unix::SignalKind::interrupt())?,
            terminate: unix::signal(unix::SignalKind::terminate())?,
        })
    }

    /// Waits for the next signal. Cancel safe.
    pub async fn recv(&mut self) -> Signal {
        tokio::select! {
            _ = self.interrupt.recv() => Signal::Interrupt,
            _ = self.terminate.recv() => Signal::Terminate,
        }
    }
}

/// A signal that asks the process to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// SIGINT: Ctrl-C in a terminal.
    Interrupt,
    /// SIGTERM: sent by service managers and by `kill`.
    Terminate,
}
