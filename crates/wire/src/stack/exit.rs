//! The end of a process that has connections on devices: they are closed, as the kernel closes those on its sockets.
//!
//! A loop that ends closes its connections itself. But a process may end before its loops have done so, or while they run: with the last
//! `Client` they are told to stop, which nobody waits for.

use std::cell::Cell;
use std::sync::{Condvar, Mutex, MutexGuard, Once, PoisonError};
use std::time::{Duration, Instant};

use anywire_loops::LoopHandle;
use anywire_stack::stream::Interface;

use super::inspect::{self, DeviceLoop};

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
    let mut loops: Vec<LoopHandle> = Vec::new();
    // Once for all devices of a loop: one after the other, each would take the time of the next.
    for DeviceLoop { on, .. } in inspect::loops(None) {
        if !loops.iter().any(|other| other.same_as(&on)) {
            loops.push(on);
        }
    }
    for on in loops {
        // Dropping the task does not end it.
        drop(on.spawn_always(|| async {
            let hosts = inspect::hosts();
            let interfaces: Vec<_> = hosts.iter().map(|host| host.interface()).collect();
            interfaces.iter().for_each(|interface| interface.close_all());
            finish(&interfaces);
            hosts.iter().for_each(|host| host.release_process());
        }));
    }
    drop(HAS_CLOSED.wait_timeout_while(open(), PATIENCE, |open| *open > 0));
}

/// Lets interfaces of the present loop say their last words, because the loop or the process ends.
pub(super) fn finish(interfaces: &[&Interface]) {
    Interface::finish_all(interfaces, LAST_WORDS, ends_at().saturating_duration_since(Instant::now()));
}

/// When the end of the present loop is over. It begins when this is asked for the first time.
fn ends_at() -> Instant {
    thread_local! {
        static ENDS_AT: Cell<Option<Instant>> = const { Cell::new(None) };
    }
    let at = ENDS_AT.get().unwrap_or_else(|| Instant::now() + LAST_WORDS_DEADLINE);
    ENDS_AT.set(Some(at));
    at
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
const LAST_WORDS: Duration = Duration::from_millis(200);

/// How long it waits at most, on all devices together and whatever peers send. Less than the second after which a loop that is to end
/// counts as stuck.
const LAST_WORDS_DEADLINE: Duration = Duration::from_millis(800);

/// How long the end of a process waits for its loops. More than [`LAST_WORDS_DEADLINE`]; a loop that is blocked must not hold it up for long.
const PATIENCE: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    /// Hosts on devices and on the switch end one after the other.
    #[test]
    fn the_end_of_a_loop_has_one_deadline() {
        let of_first = ends_at();
        let of_another = std::thread::spawn(ends_at).join().expect("no panic");
        assert!(ends_at() == of_first && of_another > of_first);
    }
}
