//! The end of a process that has connections on devices: they are closed, as the kernel closes those on its sockets.
//!
//! A loop that ends closes its connections itself. But a process may end before its loops have done so, or while they run: with the last
//! `Client` they are told to stop, which nobody waits for.

use std::sync::{Condvar, Mutex, MutexGuard, Once, PoisonError};
use std::time::Duration;

use super::inspect;

/// Held by a host until its connections have said their last words.
pub(super) struct Open(());

impl Open {
    pub(super) fn new() -> Self {
        static REGISTERED: Once = Once::new();
        REGISTERED.call_once(|| {
            if !anywire_sys::exit::at_exit(close_all) {
                tracing::debug!("connections on devices will not be closed when the process ends");
            }
        });
        *open() += 1;
        Self(())
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        *open() -= 1;
        HAS_CLOSED.notify_all();
    }
}

/// Closes what loops that run have open, and waits for those that end.
fn close_all() {
    for one in inspect::loops(None) {
        // Dropping the task does not end it.
        drop(one.on.spawn_always(move || async move {
            if let Some(host) = inspect::host(&one.device) {
                host.interface().close_all(LAST_WORDS, LAST_WORDS_DEADLINE);
                host.release_process();
            }
        }));
    }
    drop(HAS_CLOSED.wait_timeout_while(open(), PATIENCE, |open| *open > 0));
}

fn open() -> MutexGuard<'static, usize> {
    // Nothing panics while the lock is held.
    OPEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Hosts with connections that may have something to say.
static OPEN: Mutex<usize> = Mutex::new(0);
static HAS_CLOSED: Condvar = Condvar::new();

/// How long a loop that ends waits for a peer to acknowledge the remaining bytes. Each acknowledgement restarts it.
/// Long enough for a peer thread that waits for a core on a crowded machine.
pub(super) const LAST_WORDS: Duration = Duration::from_millis(200);

/// How long it waits at most, whatever peers send. Less than the second after which a loop that is to end counts as stuck.
pub(super) const LAST_WORDS_DEADLINE: Duration = Duration::from_millis(800);

/// How long the end of a process waits for its loops. More than [`LAST_WORDS_DEADLINE`]; a loop that is blocked must not hold it up for long.
const PATIENCE: Duration = Duration::from_secs(1);
