//! The signals that end a server, received on a loop of it for a thread that waits outside.

use std::io;

use anywire_loops::{self as loops, LoopHandle, LoopState, Loops, Task};
use tokio::sync::{mpsc, oneshot};

/// SIGTERM and SIGINT. They are received as long as this is there.
pub(crate) struct Signals {
    received: mpsc::UnboundedReceiver<()>,
    task: Task<()>,
    /// The loop that receives them, and those that may do it when it has died.
    home: LoopHandle,
    loops: Loops,
}

impl Signals {
    /// From here on the signals no longer kill the process. Blocks for a moment; not to be called on a loop.
    pub(crate) fn register(loops: &Loops) -> io::Result<Self> {
        loops::block_on(Self::receive(loops.clone()))
    }

    async fn receive(loops: Loops) -> io::Result<Self> {
        let (sender, received) = mpsc::unbounded_channel();
        let (registered, registration) = oneshot::channel();
        let home = loops.next_in_turn();
        let task = home.spawn(move || async move {
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
        registration.await.unwrap_or_else(|_| Err(loops_have_ended()))?;
        Ok(Self { received, task, home, loops })
    }

    /// Waits for the next signal. If the loop that receives them dies, another one does, and a signal at that very moment is lost.
    ///
    /// # Errors
    /// The loops have ended. Without them nothing else would end the process, which no longer dies of a signal.
    pub(crate) async fn recv(&mut self) -> io::Result<()> {
        while self.received.recv().await.is_none() {
            if self.home.state() != LoopState::Died {
                return Err(loops_have_ended());
            }
            *self = Self::receive(self.loops.clone()).await?;
        }
        Ok(())
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
