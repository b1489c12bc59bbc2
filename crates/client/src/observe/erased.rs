//! Observers without their types, and what they keep of an attempt.

use std::any::Any;
use std::error::Error as StdError;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anywire_http::StatusCode;
use anywire_wire::{Address, DialLog};

use super::{Acquired, Begun, Closed, Connected, Dialed, Ended, Observer};
use crate::contained::drop_caught;
use crate::metrics::counters::Cells;

/// The observers of a client.
#[derive(Clone, Default)]
pub(crate) struct Observers(Vec<Arc<dyn Erased>>);

/// What an observer keeps of an attempt, without its type.
type Kept = Box<dyn Any + Send>;

/// An observer without its type.
pub(super) trait Erased: Send + Sync {
    fn begin(&self, begun: &Begun<'_>) -> Kept;
    fn step(&self, kept: &mut Kept, step: &Step<'_>);
    fn end(&self, kept: Kept, ended: &Ended<'_>);
    fn dialed(&self, dialed: &Dialed<'_>);
    fn closed(&self, closed: &Closed<'_>);
}

/// A step of an attempt.
pub(super) enum Step<'e> {
    Acquired(Acquired<'e>),
    Written(Duration),
    FirstByte(Duration),
    Head(StatusCode, Duration),
}

pub(super) struct Typed<O>(pub(super) O);

impl<O: Observer> Erased for Typed<O> {
    fn begin(&self, begun: &Begun<'_>) -> Kept {
        Box::new(self.0.begin(begun))
    }

    fn step(&self, kept: &mut Kept, step: &Step<'_>) {
        let Some(attempt) = kept.downcast_mut() else { return };
        match step {
            Step::Acquired(acquired) => self.0.acquired(attempt, acquired),
            Step::Written(after) => self.0.written(attempt, *after),
            Step::FirstByte(after) => self.0.first_byte(attempt, *after),
            Step::Head(status, after) => self.0.head(attempt, *status, *after),
        }
    }

    fn end(&self, kept: Kept, ended: &Ended<'_>) {
        if let Ok(attempt) = kept.downcast() {
            self.0.end(*attempt, ended);
        }
    }

    fn dialed(&self, dialed: &Dialed<'_>) {
        self.0.dialed(dialed);
    }

    fn closed(&self, closed: &Closed<'_>) {
        self.0.closed(closed);
    }
}

impl Observers {
    pub(super) fn add(&mut self, observer: Arc<dyn Erased>) {
        self.0.push(observer);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// A dial is over.
    pub(crate) fn dialed(&self, of: DialOf<'_>, outcome: Result<Connected<'_>, &(dyn StdError + 'static)>) {
        let DialOf { origin, address, log, now, cells } = of;
        let duration = now.saturating_duration_since(log.begun());
        let dialed = Dialed { origin, address, duration, outcome, log };
        for observer in &self.0 {
            caught(cells, || observer.dialed(&dialed));
        }
    }

    /// A connection is closed.
    pub(crate) fn closed(&self, closed: &Closed<'_>, cells: &Cells) {
        for observer in &self.0 {
            caught(cells, || observer.closed(closed));
        }
    }

    pub(super) fn begin(&self, begun: &Begun<'_>, cells: &Arc<Cells>) -> Open {
        let kept = self.0.iter().map(|observer| {
            let kept = caught(cells, || observer.begin(begun));
            (Arc::clone(observer), kept)
        });
        Open { kept: kept.collect(), cells: Arc::clone(cells) }
    }
}

impl fmt::Debug for Observers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} observers", self.0.len())
    }
}

/// Which dial is over.
#[derive(Clone, Copy)]
pub(crate) struct DialOf<'e> {
    pub(crate) origin: &'e str,
    pub(crate) address: &'e Address,
    pub(crate) log: &'e DialLog,
    pub(crate) now: Instant,
    pub(crate) cells: &'e Cells,
}

/// What the observers keep of an attempt under way: nothing, if one panicked at its begin.
pub(super) struct Open {
    kept: Vec<(Arc<dyn Erased>, Option<Kept>)>,
    cells: Arc<Cells>,
}

impl Open {
    pub(super) fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    pub(super) fn step(&mut self, step: &Step<'_>) {
        let Self { kept, cells } = self;
        for (observer, kept) in kept {
            if let Some(kept) = kept {
                caught(cells, || observer.step(kept, step));
            }
        }
    }

    pub(super) fn end(&mut self, ended: &Ended<'_>) {
        let Self { kept, cells } = self;
        for (observer, kept) in kept.drain(..) {
            if let Some(kept) = kept {
                caught(cells, || observer.end(kept, ended));
            }
        }
    }
}

impl fmt::Debug for Open {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Open")
    }
}

/// Calls an observer. The loop has other calls, so that a panic ends here.
fn caught<T>(cells: &Cells, hook: impl FnOnce() -> T) -> Option<T> {
    let panic = match catch_unwind(AssertUnwindSafe(hook)) {
        Ok(value) => return Some(value),
        Err(panic) => panic,
    };
    cells.hook_panics.add(1);
    tracing::error!("an observer of a client panicked");
    drop_caught(panic);
    None
}
