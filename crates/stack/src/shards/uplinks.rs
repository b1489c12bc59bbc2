//! By whom a loop without a queue sends: one of those that have one, unless that has taken nothing for longer than a loop may be busy.

use std::time::Duration;

use anywire_tcp::Instant;

use super::rings::Rings;
use super::steering::{LoopNumber, Steering};

/// See the module's documentation.
#[derive(Debug, Default)]
pub(super) struct Uplinks {
    waits: Option<Wait>,
    /// Those that have taken nothing for long. Each is forgotten once it has taken what it was given.
    stuck: Vec<LoopNumber>,
}

/// Frames that the present uplink has not taken.
#[derive(Debug, Clone, Copy)]
struct Wait {
    by: LoopNumber,
    /// How far it has come, as its ring says.
    progress: usize,
    since: Instant,
}

impl Uplinks {
    /// By whom this loop sends.
    pub(super) fn choose(&self, steering: &Steering, of: LoopNumber) -> Option<LoopNumber> {
        steering.uplink(of, &self.stuck)
    }

    /// Looks how far they have come. To be called now and then, and whenever something was given to the present one. What one that is
    /// stuck was given, TCP sends again.
    pub(super) fn look(&mut self, now: Instant, present: Option<LoopNumber>, departing: &Rings) {
        self.stuck.retain(|number| departing.progress(*number).is_some());
        let waiting = present.and_then(|by| Some((by, departing.progress(by)?)));
        self.waits = match (waiting, self.waits) {
            (Some((by, progress)), Some(wait)) if (wait.by, wait.progress) == (by, progress) => {
                let is_stuck = now.since(wait.since) >= PATIENCE;
                if is_stuck && !self.stuck.contains(&by) {
                    self.stuck.push(by);
                }
                Some(wait).filter(|_| !is_stuck)
            }
            (Some((by, progress)), _) => Some(Wait { by, progress, since: now }),
            (None, _) => None,
        };
    }
}

/// How long an uplink may take nothing before another one is tried: longer than a loop is held up that goes on, and shorter than the
/// retransmission timeout of what waits.
const PATIENCE: Duration = Duration::from_millis(100);
