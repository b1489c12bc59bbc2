//! The line: two TAP devices, and what passes between them impaired.

use std::time::Duration;

use anyhow::{Context, Result};
use anywire_stack::device::{Device, Readiness};
use anywire_stack::impair::Impair;
use anywire_stack::tap::{Options, Tap};
use anywire_tcp::{Frames, Instant};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::{Deserialize, Serialize};

use crate::child::{self, Said};
use crate::impairment::Impairment;

/// What a line is to be.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Plan {
    pub(crate) left: String,
    pub(crate) right: String,
    pub(crate) impairment: Impairment,
    /// The core that it has for itself.
    pub(crate) core: Option<usize>,
}

/// Carries frames until standard input ends.
pub(crate) fn serve(plan: &str) -> Result<()> {
    let plan: Plan = serde_json::from_str(plan).context("the plan of a line")?;
    if let Some(core) = plan.core {
        anywire_sys::cpu::pin_current_thread(core)?;
    }
    let open = |name: &str, direction| -> Result<Side> {
        let tap = Tap::open(name, Options::default())?;
        Ok(Side::new(Impair::new(tap, plan.impairment.of_direction(direction))))
    };
    let (mut left, mut right) = (open(&plan.left, 0)?, open(&plan.right, 1)?);
    child::say(&Said::Ready)?;
    let start = std::time::Instant::now();
    loop {
        let now = Instant::from_micros(start.elapsed().as_micros() as u64);
        let has_moved = left.carry(now, &mut right) | right.carry(now, &mut left);
        if !has_moved && !wait(&left, &right, now)? {
            return Ok(());
        }
    }
}

/// One end of the line.
struct Side {
    device: Impair<Tap>,
    /// What came in here, and has not left yet on the other side.
    batch: Frames,
}

impl Side {
    fn new(device: Impair<Tap>) -> Self {
        Self { batch: device.batch(), device }
    }

    /// Carries a batch to the other side. Whether there was any.
    fn carry(&mut self, now: Instant, to: &mut Self) -> bool {
        if self.batch.is_empty() {
            self.device.receive(now, &mut self.batch);
        }
        let before = self.batch.len();
        // Also if there is none: then frames leave whose delay is over.
        to.device.transmit(now, &mut self.batch);
        self.batch.len() < before
    }
}

/// Sleeps until a frame has come or is due. False if standard input has ended.
fn wait(left: &Side, right: &Side, now: Instant) -> Result<bool> {
    let deadline = [&left.device, &right.device].iter().filter_map(|device| device.next_deadline()).min();
    let patience = deadline.map_or(Duration::from_secs(1), |deadline| deadline.since(now));
    let timeout = Timespec { tv_sec: patience.as_secs() as i64, tv_nsec: i64::from(patience.subsec_nanos()) };
    let stdin = rustix::stdio::stdin();
    let mut descriptors = vec![PollFd::new(&stdin, PollFlags::IN)];
    for (side, other) in [(left, right), (right, left)] {
        let Readiness::Descriptor(descriptor) = side.device.readiness() else { continue };
        // A batch that waits for the other side must not be asked for once more; its room is.
        let mut wanted = if side.batch.is_empty() { PollFlags::IN } else { PollFlags::empty() };
        if !other.batch.is_empty() {
            wanted |= PollFlags::OUT;
        }
        descriptors.push(PollFd::from_borrowed_fd(descriptor, wanted));
    }
    match poll(&mut descriptors, Some(&timeout)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(descriptors[0].revents().is_empty()),
        Err(error) => Err(error).context("waiting for frames"),
    }
}

pub(crate) const ROLE: &str = "line";
