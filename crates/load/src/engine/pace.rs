//! The task that paces one loop: it waits for the moment at which a request is due, and promises the request to a connection.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use anywire_loops::clock::precise;

use crate::engine::paced::Next;
use crate::engine::tally::Tally;
use crate::engine::timer::Timer;

/// When the parts of a run begin, the same moment for all its loops: the controller sets it before it says that a part begins.
#[derive(Debug, Default)]
pub(crate) struct Begins {
    pub(crate) warm_up: OnceLock<Instant>,
    pub(crate) measuring: OnceLock<Instant>,
}

/// How a loop waited, of the measured part.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Pacing {
    /// `timerfd` or `runtime`.
    pub(crate) timer: &'static str,
    /// How long it spun with nothing else to do.
    pub(crate) spun: Duration,
}

/// Paces until it is aborted; `told` gets how it waited.
pub(crate) async fn keep(tally: Rc<Tally>, told: Rc<Cell<Pacing>>) {
    let Some(paced) = &tally.paced else { return };
    let mut timer = Timer::new(tally.plan.spin);
    told.set(Pacing { timer: timer.kind(), spun: timer.spun });
    loop {
        match paced.promise(precise()) {
            Next::Change => paced.changed.notified().await,
            Next::At(at) => {
                let wait = async { while !timer.towards(at, || tally.work()).await {} };
                // The measured part begins anew: its first request is not due when the next one of the warm-up would have been.
                tokio::select! {
                    biased;
                    () = paced.changed.notified() => {}
                    () = wait => {}
                }
                told.set(Pacing { timer: timer.kind(), spun: timer.spun });
            }
        }
    }
}

/// How far ahead the begin of a part lies, so that each loop knows of it in time.
pub(crate) const LEAD: Duration = Duration::from_millis(2);
