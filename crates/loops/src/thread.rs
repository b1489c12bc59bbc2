//! The thread of a loop, from its start to its end.

use std::rc::Rc;
use std::sync::{Arc, mpsc};
use std::task::Poll;
use std::time::Duration;

use anywire_sys::cpu;
use tokio::runtime::{Builder, LocalOptions, LocalRuntime};
use tokio::time::{Instant, Sleep, sleep_until};

use crate::contained::contain;
use crate::context::Local;
use crate::counters::LoopState;
use crate::handle::{LoopHandle, LoopId};
use crate::limits::Limits;
use crate::loops::StartError;
use crate::shared::Shared;
use crate::stalls;

/// The configuration of one loop.
pub(crate) struct LoopConfig {
    pub(crate) id: LoopId,
    pub(crate) group: u64,
    pub(crate) core: Option<usize>,
    pub(crate) limits: Limits,
}

impl LoopConfig {
    /// The whole life of the loop: sets up, sends the result of that to `ready`, runs, and cleans up.
    pub(crate) fn run(self, ready: &mpsc::Sender<Result<LoopHandle, StartError>>) {
        let (shared, runtime) = match self.set_up() {
            Ok(parts) => parts,
            Err(error) => {
                // Cannot fail: `start` waits for the answer of each loop.
                let _ = ready.send(Err(error));
                return;
            }
        };
        let local = Rc::new(Local::new(Arc::clone(&shared)));
        Local::set_current(Some(Rc::clone(&local)));
        let is_watched = self.limits.stall_after < Duration::MAX;
        if is_watched {
            stalls::begin(&shared);
        }
        if ready.send(Ok(LoopHandle::new(Arc::clone(&shared)))).is_ok() {
            let ran = contain("a loop's runtime", || runtime.block_on(until_stopped(&local)));
            shared.set_state(if ran.is_ok() { LoopState::Ended } else { LoopState::Died });
        }
        let tasks_cut = wind_up(runtime, &local);
        Local::set_current(None);
        if is_watched {
            stalls::end(&shared);
        }
        shared.end(tasks_cut);
    }

    fn set_up(&self) -> Result<(Arc<Shared>, LocalRuntime), StartError> {
        if let Some(core) = self.core {
            cpu::pin_current_thread(core).map_err(|source| StartError::Pin { core, source })?;
        }
        let shared = Arc::new(Shared::new(self.id, self.group, self.core, self.limits));
        let (parking, unparked) = (Arc::clone(&shared), Arc::clone(&shared));
        let runtime = Builder::new_current_thread()
            .enable_all()
            .on_thread_park(move || {
                Local::try_with(|local| local.sources().prepare_to_sleep());
                parking.inbox.parking();
            })
            .on_thread_unpark(move || {
                unparked.inbox.unparked();
                stalls::woken();
            })
            .build_local(LocalOptions::default())
            .map_err(StartError::Runtime)?;
        shared.has_runtime(runtime.handle().metrics());
        Ok((shared, runtime))
    }
}

/// The main future of a loop: takes hand-overs whenever it is woken, and ends when the loop is to end.
async fn until_stopped(local: &Local) {
    let mut cut: Option<std::pin::Pin<Box<Sleep>>> = None;
    let mut has_waker = false;
    std::future::poll_fn(|context| {
        if !has_waker {
            // The runtime's main waker stays the same for as long as it runs.
            local.shared().inbox.set_waker(context.waker());
            has_waker = true;
        }
        if local.take_hand_overs() {
            context.waker().wake_by_ref();
        }
        let Some(stop_at) = local.stop_at() else {
            return Poll::Pending;
        };
        if local.tasks_live() == 0 && local.close_if_idle() {
            return Poll::Ready(());
        }
        let stop_at = Instant::from_std(stop_at);
        let cut = cut.get_or_insert_with(|| Box::pin(sleep_until(stop_at)));
        if cut.deadline() != stop_at {
            cut.as_mut().reset(stop_at);
        }
        cut.as_mut().poll(context)
    })
    .await;
}

/// Drops the remaining hand-overs, then the tasks, then the loop's values. Returns how many tasks that cut.
fn wind_up(runtime: LocalRuntime, local: &Local) -> u64 {
    // Destructors may start tasks, which end at once.
    let handle = runtime.handle().clone();
    let _inside = handle.enter();
    let tasks_cut = local.close() + local.tasks_live();
    // Drops the tasks; does not wait for blocking calls that they have started on other threads.
    if contain("a loop's runtime", || runtime.shutdown_background()).is_err() {
        local.shared().set_state(LoopState::Died);
    }
    local.drop_values();
    tasks_cut
}
