//! How busy each core was, and how much of that with receiving packets (`/proc/stat`).
//!
//! The kernel receives packets in a softirq, on whichever core the interrupt came, and charges that to no process. So a service
//! that looks idle in `top` may have no core left.

use std::fs;
use std::io;
use std::ops::Sub;
use std::time::Duration;

use anywire_advice::Message;

/// What a core has done since the system started, in steps of 10 ms.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CoreTime {
    /// The number of the core.
    pub core: usize,
    /// All time in which it was not idle, `softirq` and `interrupt` included.
    pub busy: Duration,
    /// The part in softirqs: mostly packets that were received, and segments that left because of them.
    pub softirq: Duration,
    /// The part in interrupts.
    pub interrupt: Duration,
}

impl Sub for CoreTime {
    type Output = Self;

    /// What the core has done between two moments.
    fn sub(self, earlier: Self) -> Self {
        Self {
            core: self.core,
            busy: self.busy.saturating_sub(earlier.busy),
            softirq: self.softirq.saturating_sub(earlier.softirq),
            interrupt: self.interrupt.saturating_sub(earlier.interrupt),
        }
    }
}

/// All cores that are online, at this moment.
///
/// ```
/// let cores = anywire_sys::cores::read()?;
/// assert!(!cores.is_empty());
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
///
/// `/proc/stat` cannot be read, or `InvalidData` if it holds no cores.
pub fn read() -> io::Result<Vec<CoreTime>> {
    let cores = cores_in(&fs::read_to_string("/proc/stat")?);
    if cores.is_empty() {
        let message = Message::new("cannot read how busy the cores are: /proc/stat holds none")
            .with_help("a sandbox may hide it; look from outside");
        return Err(io::Error::new(io::ErrorKind::InvalidData, message));
    }
    Ok(cores)
}

fn cores_in(stat: &str) -> Vec<CoreTime> {
    stat.lines().filter_map(core_in).collect()
}

/// `cpuN user nice system idle iowait irq softirq steal ..`; the line of all cores together has no number.
fn core_in(line: &str) -> Option<CoreTime> {
    let (number, times) = line.strip_prefix("cpu")?.split_once(' ')?;
    let core = number.parse().ok()?;
    let ticks: Vec<u64> = times.split_ascii_whitespace().map_while(|ticks| ticks.parse().ok()).collect();
    let &[user, nice, system, _idle, _iowait, interrupt, softirq, ..] = &ticks[..] else { return None };
    let time = |ticks: u64| TICK.saturating_mul(u32::try_from(ticks).unwrap_or(u32::MAX));
    let busy = [user, nice, system, interrupt, softirq].into_iter().fold(0, u64::saturating_add);
    Some(CoreTime { core, busy: time(busy), softirq: time(softirq), interrupt: time(interrupt) })
}

/// What `/proc/stat` counts in (`USER_HZ`), which is 1/100 s on every architecture that Rust has.
const TICK: Duration = Duration::from_millis(10);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn cores_are_read_and_their_sum_is_not() {
        let stat = "cpu  9 9 9 9 9 9 9 9 0 0\ncpu0 1 2 3 100 7 4 5 6 0 0\ncpu11 0 0 0 1 0 0 2\nintr 5\ncpuX 1\ncpu2 1 x\n";
        let ms = Duration::from_millis;
        let first = CoreTime { core: 0, busy: ms(150), softirq: ms(50), interrupt: ms(40) };
        let second = CoreTime { core: 11, busy: ms(20), softirq: ms(20), interrupt: ms(0) };
        assert_eq!(cores_in(stat), [first, second]);
        assert_eq!((first - CoreTime { busy: ms(160), ..first }).busy, Duration::ZERO);
    }
    proptest! {
        #[test]
        fn any_text_is_read_or_left_out(text in "\\PC*|(cpu[0-9 ]{0,60}\n){0,4}|cpu[0-9]{1,21}( [0-9]{1,21}){0,12}") {
            for core in cores_in(&text) {
                prop_assert!(core.busy >= core.softirq && core.busy >= core.interrupt, "{core:?}");
            }
        }
    }
}
