//! The signals that end a run early: the first one asks, the second one ends the process at once.

use std::io;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, PoisonError};

use anywire::load::Stop;
use anywire::loops::{Signal, Signals as Received};
use tokio::runtime::Builder;

use crate::failure::{Code, Failure};
use crate::screen;

/// What became of the watch for SIGINT and SIGTERM.
#[derive(Debug, Clone, Default)]
pub(crate) struct Signals {
    first: Arc<Mutex<Option<Code>>>,
}

impl Signals {
    /// Stops the run at the first signal from now on. A thread of its own waits for them: the loops are busy with
    /// the load, and the command's thread with the result.
    pub(crate) fn stop(stop: Stop) -> Result<Self, Failure> {
        let unwatched = |cause: io::Error| {
            let message = format!("watching for SIGINT and SIGTERM failed: {cause}");
            Failure::new(Code::Failed, message).help("a higher limit on open files may help")
        };
        // The runtime takes a pair behind its first descriptors, and panics without one: there must be room for all of them.
        (0..3).map(|_| UnixStream::pair()).collect::<io::Result<Vec<_>>>().map_err(unwatched)?;
        let runtime = Builder::new_current_thread().enable_io().build().map_err(unwatched)?;
        let mut received = {
            let _context = runtime.enter();
            Received::register().map_err(unwatched)?
        };
        let signals = Self::default();
        let first = Arc::clone(&signals.first);
        std::thread::spawn(move || {
            runtime.block_on(async move {
                let signal = received.recv().await;
                *first.lock().unwrap_or_else(PoisonError::into_inner) = Some(code(signal));
                stop.stop();
                let second = received.recv().await;
                screen::leave();
                std::process::exit(code(second) as i32);
            });
        });
        Ok(signals)
    }

    /// A failure with the signal's exit code if there was one: the result so far has been printed.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        match *self.first.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(code) => Err(Failure::silent(code)),
            None => Ok(()),
        }
    }
}

fn code(signal: Signal) -> Code {
    match signal {
        Signal::Interrupt => Code::Interrupted,
        Signal::Terminate => Code::Terminated,
    }
}
