//! The signals that end a server, received on a loop of it for a thread that waits outside.

use std::io;

use anywire_loops::{self as loops, Loops, Task};
use tokio::sync::{mpsc, oneshot};

/// SIGTERM and SIGINT. They are received as long as this is there.
pub(crate) struct Signals {
    received: mpsc::UnboundedReceiver<()>,
    task: Task<()>,
}

impl Signals {
    /// From here on the signals no longer kill the process. Blocks for a moment; not to be called on a loop.
    pub(crate) fn register(loops: &Loops) -> io::Result<Self> {
        let (sender, received) = mpsc::unbounded_channel();
        let (registered, registration) = oneshot::channel();
        let task = loops.get(0).spawn(move || async move {
            let mut signals = match loops::Signals::register() {
                Ok(signals) => signals,
                Err(cause) => return drop(registered.send(Err(cause))),
            };
            drop(registered.send(Ok(())));
            // The loop's shutdown need not wait for this task.
            while tokio::select! { _ = signals.recv() => true, () = loops::stopping() => false } {
                if sender.send(()).is_err() {
                    return;
                }
            }
        });
        loops::block_on(registration).unwrap_or_else(|_| Err(loops_have_ended()))?;
        Ok(Self { received, task })
    }

    /// Waits for the next signal.
    ///
    /// # Errors
    /// The loops have ended. Without them nothing else would end the process, which no longer dies of a signal.
    pub(crate) async fn recv(&mut self) -> io::Result<()> {
        self.received.recv().await.ok_or_else(loops_have_ended)
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn loops_have_ended() -> io::Error {
    io::Error::other("the server's loops have ended")
}
