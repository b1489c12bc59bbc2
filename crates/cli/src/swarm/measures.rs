//! What is measured of the executor: tasks that yield, wake each other in a ring, or sleep.
//!
//! Each task counts its turns and adds a number of its own to a common sum at each. At the end every task says what it
//! has added in all, as a formula of its number and its count: so no turn may be lost, or given to another task, and no
//! task's bytes may change.

use std::cell::Cell;
use std::fmt;
use std::io;
use std::time::{Duration, Instant};

use anywire_stack::swarm::{self, Limits, Tasks};
use anywire_sys::{cpu, memory};
use serde::Serialize;

use super::permutation::Permutation;

/// One thing to measure, and in which order tasks follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Measure {
    /// All tasks are ready always. `keep_order`: in a ring that has room for all, else in rounds by their number.
    Yield { order: Order, keep_order: bool },
    /// Some tasks are ready; each wakes its neighbour, and parks.
    Ring { order: Order, tokens: u64 },
    /// All tasks sleep for the same time, again and again.
    Sleep { time: Duration },
}

/// Which task comes after which.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Order {
    Sequential,
    Random,
}

/// What was found.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Figures {
    /// How it is called in the table.
    pub(super) label: String,
    /// `yield`, `yield_keeping_order`, `ring` or `sleep`.
    pub(super) measure: &'static str,
    /// The order in which tasks were woken.
    pub(super) order: Order,
    /// For how long each sleeps.
    pub(super) sleep_seconds: Option<f64>,
    /// How many tasks are ready at a time; all if `null`.
    pub(super) tokens: Option<u64>,
    /// Turns that were measured.
    pub(super) switches: u64,
    /// How long they took.
    pub(super) seconds: f64,
    /// How much CPU time.
    pub(super) cpu_seconds: f64,
    pub(super) switches_per_second: f64,
    pub(super) ns_per_switch: f64,
    /// Bytes of a slot: the future and its mark.
    pub(super) slot_bytes: usize,
    /// All memory that came with the tasks, as the system counts it, for each.
    pub(super) resident_bytes_per_task: f64,
    /// The share of this process's own memory that lay in huge pages.
    pub(super) huge_page_share: Option<f64>,
    /// The fewest turns that a task had, from start to end.
    pub(super) turns_least: u32,
    /// The most.
    pub(super) turns_most: u32,
    /// How late the executor was told that the first sleeper was due, at worst.
    pub(super) late_seconds: Option<f64>,
    /// Whether the sum of all turns is what the tasks say that it should be.
    pub(super) checksum_agrees: bool,
}

/// How it is measured.
#[derive(Debug, Clone, Copy)]
pub(super) struct Plan {
    pub(super) count: u64,
    /// The least time that is measured.
    pub(super) duration: Duration,
}

impl Measure {
    /// Bytes that the tasks will take at most, all in.
    pub(super) fn bytes(self, count: u64) -> u64 {
        let slot = match self {
            Self::Yield { .. } => slot_bytes(&yields),
            Self::Ring { .. } => slot_bytes(&walks),
            Self::Sleep { .. } => slot_bytes(&sleeps),
        };
        let queue = match self {
            Self::Yield { keep_order: true, .. } => count.next_power_of_two() * 4,
            Self::Yield { .. } | Self::Ring { .. } => count / 8,
            Self::Sleep { .. } => count * 4 + count / 8,
        };
        count * slot as u64 + queue + SPARE_BYTES
    }

    /// Measures it. `goes_on` is asked now and then, with the switches so far; at `false` the measure ends.
    pub(super) fn run(self, plan: Plan, goes_on: &mut dyn FnMut(u64) -> bool) -> io::Result<Figures> {
        TALLY.with(Tally::clear);
        let order = Permutation::new(plan.count);
        let count = plan.count;
        match self {
            Self::Yield { order: Order::Sequential, .. } => {
                let mut swarm = Swarm::with_limits(count, Limits::default())?;
                (0..count).for_each(|number| swarm.spawn(number, yields(number as u32)));
                swarm.measure(self, plan, goes_on)
            }
            Self::Yield { keep_order, .. } => {
                let entries = if keep_order { count as usize } else { Limits::default().ring_entries };
                let limits = Limits { ring_entries: entries, ..Limits::default() };
                let mut swarm = Swarm::with_limits(count, limits)?;
                (0..count).map(|place| order.at(place)).for_each(|number| {
                    swarm.spawn(number, yields(number as u32));
                });
                swarm.measure(self, plan, goes_on)
            }
            Self::Ring { order: ring, tokens } => {
                let at =
                    |place: u64| if ring == Order::Random { order.at(place % count) } else { place % count };
                let next =
                    |number: u64| at(if ring == Order::Random { order.place(number) } else { number } + 1);
                let mut swarm = Swarm::with_limits(count, Limits::default())?;
                (0..count).for_each(|number| swarm.spawn(number, walks(next(number) as u32)));
                swarm.tasks.run(count as usize);
                (0..tokens).for_each(|token| swarm.tasks.wake(at(token * count / tokens) as u32));
                swarm.measure(self, plan, goes_on)
            }
            Self::Sleep { time } => {
                TALLY.with(|tally| tally.sleep.set(time));
                let mut swarm = Swarm::with_limits(count, Limits::default())?;
                (0..count).for_each(|number| swarm.spawn(number, sleeps(number as u32)));
                swarm.measure(self, plan, goes_on)
            }
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Yield { keep_order: false, .. } => "yield",
            Self::Yield { keep_order: true, .. } => "yield_keeping_order",
            Self::Ring { .. } => "ring",
            Self::Sleep { .. } => "sleep",
        }
    }
}

impl fmt::Display for Measure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Yield { order, keep_order: false } => write!(formatter, "yield, {order}"),
            Self::Yield { order, keep_order: true } => write!(formatter, "yield, {order}, in order of wakes"),
            Self::Ring { order, tokens } => write!(formatter, "ring, {order}, {tokens} ready"),
            Self::Sleep { time } => write!(formatter, "sleep {time:?}"),
        }
    }
}

impl fmt::Display for Order {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Sequential => "sequential",
            Self::Random => "random",
        })
    }
}

/// An executor, the memory there was before it, and the clock that it is told.
struct Swarm<F> {
    tasks: Tasks<F>,
    bytes_before: u64,
    begun: Instant,
    late: Duration,
}

impl<F: Future<Output = ()>> Swarm<F> {
    fn with_limits(count: u64, limits: Limits) -> io::Result<Self> {
        let bytes_before = memory::resident_bytes()?;
        let tasks = Tasks::with_limits(count as usize, limits)?;
        Ok(Self { tasks, bytes_before, begun: Instant::now(), late: Duration::ZERO })
    }

    fn spawn(&mut self, number: u64, task: F) {
        self.tasks
            .spawn_at(number as u32, task)
            .expect("each number is below the count, and is spawned once");
    }

    /// One round or two to warm up, then as many turns as the time allows, then the end of all tasks.
    fn measure(
        mut self,
        what: Measure,
        plan: Plan,
        goes_on: &mut dyn FnMut(u64) -> bool,
    ) -> io::Result<Figures> {
        let sleep = match what {
            Measure::Sleep { time } => Some(time),
            Measure::Yield { .. } | Measure::Ring { .. } => None,
        };
        // The first turns bring the tasks into their order, and sleepers out of step.
        let warm_up = if sleep.is_some() { plan.count } else { plan.count.min(WARM_UP_TURNS) };
        let mut turns = 0;
        while turns < warm_up && goes_on(0) {
            turns += self.step();
        }
        let duration = sleep.map_or(plan.duration, |time| plan.duration.max(time * 2));
        self.late = Duration::ZERO;
        let (cpu_begin, begin) = (cpu::current_thread_cpu()?, Instant::now());
        let mut switches = 0;
        while begin.elapsed() < duration && goes_on(switches) {
            switches += self.step();
        }
        let (seconds, used) = (begin.elapsed().as_secs_f64(), cpu::current_thread_cpu()? - cpu_begin);
        let bytes = memory::resident_bytes()?.saturating_sub(self.bytes_before);
        let huge_page_share = memory::huge_page_bytes()
            .and_then(|huge| Ok(huge as f64 / memory::anonymous_bytes()?.max(1) as f64))
            .ok();
        self.end();
        let tally = TALLY.with(Tally::read);
        let (order, tokens) = match what {
            Measure::Yield { order, .. } => (order, None),
            Measure::Ring { order, tokens } => (order, Some(tokens)),
            Measure::Sleep { .. } => (Order::Sequential, None),
        };
        Ok(Figures {
            label: what.to_string(),
            measure: what.name(),
            order,
            sleep_seconds: sleep.map(|time| time.as_secs_f64()),
            tokens,
            switches,
            seconds,
            cpu_seconds: used.total().as_secs_f64(),
            switches_per_second: switches as f64 / seconds,
            ns_per_switch: seconds * 1e9 / switches.max(1) as f64,
            slot_bytes: Tasks::<F>::TASK_BYTES,
            resident_bytes_per_task: bytes as f64 / plan.count as f64,
            huge_page_share,
            turns_least: tally.least,
            turns_most: tally.most,
            late_seconds: sleep.map(|_| self.late.as_secs_f64()),
            checksum_agrees: tally.agrees && tally.ended == plan.count,
        })
    }

    /// Some turns, between two looks at the clock.
    fn step(&mut self) -> u64 {
        let Some(deadline) = self.tasks.next_deadline() else {
            return self.tasks.run(STEP_TURNS) as u64;
        };
        let now = self.now();
        self.late = self.late.max(now.since(deadline));
        if deadline > now && self.tasks.ready() == 0 {
            std::thread::sleep(deadline.since(now).min(REST_MAX));
            return 0;
        }
        self.tasks.advance(now);
        self.tasks.run(STEP_TURNS_WITH_SLEEPERS) as u64
    }

    /// Has every task run to its end.
    fn end(&mut self) {
        TALLY.with(|tally| tally.ending.set(true));
        while self.tasks.next_deadline().is_some() {
            self.tasks.advance(swarm::Instant::from_micros(u64::MAX));
            self.tasks.run(usize::MAX);
        }
        self.tasks.run(usize::MAX);
        for number in 0..self.tasks.capacity() {
            self.tasks.wake(number as u32);
            if self.tasks.ready() >= STEP_TURNS {
                self.tasks.run(usize::MAX);
            }
        }
        self.tasks.run(usize::MAX);
    }

    fn now(&self) -> swarm::Instant {
        swarm::Instant::from_micros(self.begun.elapsed().as_micros() as u64)
    }
}

/// The bytes of a slot of the tasks that a function makes.
fn slot_bytes<F: Future<Output = ()>>(_: &impl Fn(u32) -> F) -> usize {
    Tasks::<F>::TASK_BYTES
}

/// Is ready always.
#[expect(clippy::manual_async_fn, reason = "an `async fn` keeps its argument twice: 4 bytes more")]
fn yields(number: u32) -> impl Future<Output = ()> {
    async move {
        let mut turns = 0;
        while TALLY.with(|tally| tally.count(number, turns)) {
            turns += 1;
            swarm::yield_now().await;
        }
    }
}

/// Parks until it is woken, and wakes its neighbour.
#[expect(clippy::manual_async_fn, reason = "an `async fn` keeps its argument twice: 4 bytes more")]
fn walks(neighbour: u32) -> impl Future<Output = ()> {
    async move {
        let mut turns = 0;
        // One place to wait: the state of a second one would take room, too.
        loop {
            swarm::park().await;
            if !TALLY.with(|tally| tally.count(swarm::current(), turns)) {
                break;
            }
            turns += 1;
            swarm::wake(neighbour);
        }
    }
}

/// Sleeps.
#[expect(clippy::manual_async_fn, reason = "an `async fn` keeps its argument twice: 4 bytes more")]
fn sleeps(number: u32) -> impl Future<Output = ()> {
    async move {
        let mut turns = 0;
        while TALLY.with(|tally| tally.count(number, turns)) {
            turns += 1;
            swarm::sleep(TALLY.with(|tally| tally.sleep.get())).await;
        }
    }
}

/// What the tasks of this thread add up, and how they are told to end.
struct Tally {
    sum: Cell<u64>,
    ending: Cell<bool>,
    sleep: Cell<Duration>,
    /// What `sum` should be, from those that have ended.
    said: Cell<u64>,
    ended: Cell<u64>,
    least: Cell<u32>,
    most: Cell<u32>,
}

struct Read {
    agrees: bool,
    ended: u64,
    least: u32,
    most: u32,
}

impl Tally {
    /// Counts a turn of a task that has had `turns` before. `false`: it is to end, and this turn does not count.
    #[inline(always)]
    fn count(&self, number: u32, turns: u32) -> bool {
        if self.ending.get() {
            self.end(number, turns);
            return false;
        }
        self.sum.set(self.sum.get().wrapping_add(u64::from(number ^ SALT) + u64::from(turns)));
        true
    }

    /// Takes what a task says that it has added: its number at each turn, and 0, 1, 2 and so on.
    fn end(&self, number: u32, turns: u32) {
        let (number, all) = (u64::from(number ^ SALT), u64::from(turns));
        let said = number.wrapping_mul(all).wrapping_add(all * all.saturating_sub(1) / 2);
        self.said.set(self.said.get().wrapping_add(said));
        self.ended.set(self.ended.get() + 1);
        self.least.set(self.least.get().min(turns));
        self.most.set(self.most.get().max(turns));
    }

    fn clear(&self) {
        self.sum.set(0);
        self.ending.set(false);
        self.said.set(0);
        self.ended.set(0);
        self.least.set(u32::MAX);
        self.most.set(0);
    }

    fn read(&self) -> Read {
        Read {
            agrees: self.sum.get() == self.said.get(),
            ended: self.ended.get(),
            least: self.least.get(),
            most: self.most.get(),
        }
    }
}

thread_local! {
    static TALLY: Tally = const {
        Tally {
            sum: Cell::new(0),
            ending: Cell::new(false),
            sleep: Cell::new(Duration::ZERO),
            said: Cell::new(0),
            ended: Cell::new(0),
            least: Cell::new(u32::MAX),
            most: Cell::new(0),
        }
    };
}

/// Makes the number of task 0 count, too.
const SALT: u32 = 0x9e37_79b9;
/// Beside the tasks: this process, tables of the kernel, queues that are not full.
const SPARE_BYTES: u64 = 64 << 20;
/// Turns before the measured ones, at most.
const WARM_UP_TURNS: u64 = 50_000_000;
/// Turns between two looks at the clock: some milliseconds.
const STEP_TURNS: usize = 1 << 20;
/// The longest rest when all sleep: the end of the measure is not missed by more.
const REST_MAX: Duration = Duration::from_millis(10);
/// With sleepers the clock is looked at more often: it is what wakes them.
const STEP_TURNS_WITH_SLEEPERS: usize = 1 << 13;

#[cfg(test)]
mod tests {
    use super::*;

    const PLAN: Plan = Plan { count: 5000, duration: Duration::from_millis(1) };

    fn checked(measure: Measure) -> Figures {
        let figures = measure.run(PLAN, &mut |_| true).expect("there is memory");
        assert!(figures.checksum_agrees, "{figures:?}");
        figures
    }

    #[test]
    fn every_measure_agrees_with_its_checksum() {
        for order in [Order::Sequential, Order::Random] {
            for keep_order in [false, true] {
                let figures = checked(Measure::Yield { order, keep_order });
                assert!(figures.switches > 0 && figures.turns_most - figures.turns_least <= 1, "{figures:?}");
            }
            let figures = checked(Measure::Ring { order, tokens: 100 });
            assert!(figures.switches > 0 && figures.turns_most - figures.turns_least <= 1, "{figures:?}");
        }
        let figures = checked(Measure::Sleep { time: Duration::from_micros(100) });
        assert!(figures.switches >= 5000 && figures.late_seconds.is_some(), "{figures:?}");
    }

    #[test]
    fn a_wrong_sum_is_found() {
        TALLY.with(|tally| {
            tally.clear();
            assert!(tally.count(7, 0) && tally.count(7, 1));
            tally.end(7, 2);
            assert!(tally.read().agrees);
            assert!(tally.count(8, 0));
            assert!(!tally.read().agrees);
            tally.clear();
        });
    }

    #[test]
    fn slots_are_small() {
        assert_eq!((slot_bytes(&yields), slot_bytes(&walks), slot_bytes(&sleeps)), (16, 16, 24));
    }
}
