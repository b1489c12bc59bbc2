//! The executor of `anywire_stack::swarm` alone: tasks that yield, wake each other in a ring, or sleep.
//!
//! Each task counts its turns and adds a number of its own to a common sum at each. At the end every task says what it
//! has added in all, as a formula of its number and its count. So no turn may be lost, or given to another task, and no
//! task's bytes may change.

use std::cell::Cell;
use std::fmt;
use std::io;
use std::time::{Duration, Instant};

use anywire_load::Stop;
use anywire_load::text::{Columns, grouped, known};
use anywire_stack::swarm::{self, Limits, Tasks};
use anywire_sys::{cpu, memory};
use serde::{Serialize, Serializer};

use crate::error::Error;
use crate::plan::{Order, check_memory};
use crate::run::on_core;
use crate::turns::Turns;

/// What is measured of the executor, and how.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Tasks, at most 4,000,000,000.
    pub count: u64,
    /// How long to measure each, at least.
    pub duration: Duration,
    /// The core to run on.
    pub core: usize,
    /// What to measure, one after the other.
    pub measures: Vec<Measure>,
}

/// One thing to measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Measure {
    /// What the tasks do.
    #[serde(rename = "measure")]
    pub kind: Kind,
    /// The order in which tasks are woken: that of memory or any.
    pub order: Order,
    /// How many tasks of a ring are ready at a time; `null` if it is none.
    pub tokens: Option<u64>,
    /// For how long each sleeps.
    #[serde(rename = "sleep_seconds", serialize_with = "seconds")]
    pub sleep: Option<Duration>,
}

/// What tasks do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// All are always ready. They go in rounds by their number.
    Yield,
    /// All are always ready. The ring has room for all of them, so that their order stays.
    YieldKeepingOrder,
    /// Some are ready; each wakes its neighbour, and parks.
    Ring,
    /// All sleep for the same time, again and again.
    Sleep,
}

fn seconds<S: Serializer>(time: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
    time.map(|time| time.as_secs_f64()).serialize(serializer)
}

/// The result.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct Outcome {
    /// The form of this object: `anywire.swarm.tasks/1`.
    pub schema: &'static str,
    /// Tasks.
    pub tasks: u64,
    /// The core that it ran on.
    pub core: usize,
    /// Whether it was stopped early.
    pub interrupted: bool,
    /// What was found, in the order of the plan.
    pub measures: Vec<Figures>,
}

/// What was found.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct Figures {
    /// Its name in the table.
    pub label: String,
    /// What was measured.
    #[serde(flatten)]
    pub measure: Measure,
    /// Turns that were measured.
    pub switches: u64,
    /// How long they took.
    pub seconds: f64,
    /// How much CPU time.
    pub cpu_seconds: f64,
    /// The rate.
    pub switches_per_second: f64,
    /// Its inverse.
    pub ns_per_switch: f64,
    /// Bytes of a slot: the future and its mark.
    pub slot_bytes: usize,
    /// All memory that came with the tasks, as the system counts it, for each.
    pub resident_bytes_per_task: f64,
    /// The share of this process's own memory that lay in huge pages.
    pub huge_page_share: Option<f64>,
    /// The fewest turns that a task had, from start to end.
    pub turns_least: u32,
    /// The most.
    pub turns_most: u32,
    /// How late the executor was told that the first sleeper was due, at worst.
    pub late_seconds: Option<f64>,
    /// Whether the sum of all turns is what the tasks say that it should be.
    pub checksum_agrees: bool,
}

/// Measures a plan. `progress` is called now and then with the index of the measure and its switches so far.
///
/// # Errors
///
/// A plan that does not fit into memory, a core that this process may not use, or what the system says. A wrong checksum
/// is part of the outcome: see [`Outcome::check`].
pub fn run(
    plan: &Plan,
    stop: &Stop,
    progress: &mut (dyn FnMut(usize, u64) + Send),
) -> Result<Outcome, Error> {
    let most = plan.measures.iter().map(|measure| measure.bytes(plan.count)).max().unwrap_or(0);
    check_memory(
        format!("{} tasks: they", grouped(plan.count)),
        plan.count,
        most.div_ceil(plan.count),
        SPARE_BYTES,
    )?;
    let mut measures = Vec::new();
    for (index, measure) in plan.measures.iter().enumerate() {
        let mut goes_on = |switches: u64| {
            progress(index, switches);
            !stop.is_stopped()
        };
        // Each has a thread of its own, and so a tally of its own.
        measures.push(on_core(plan.core, || measure.run(plan, &mut goes_on).map_err(Error::setup))?);
        if stop.is_stopped() {
            break;
        }
    }
    let interrupted = stop.is_stopped();
    Ok(Outcome { schema: "anywire.swarm.tasks/1", tasks: plan.count, core: plan.core, interrupted, measures })
}

impl Outcome {
    /// Whether the outcome may be relied on.
    ///
    /// # Errors
    ///
    /// A checksum that is wrong: turns were lost or mixed up.
    pub fn check(&self) -> Result<(), Error> {
        match self.measures.iter().find(|figures| !figures.checksum_agrees) {
            Some(figures) => Err(Error::Checksum(figures.label.clone())),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let early = if self.interrupted { ", interrupted: the last figures are of a part" } else { "" };
        writeln!(f, "{} tasks on core {}{early}\n", grouped(self.tasks), self.core)?;
        let headings =
            ["", "M switches/s", "ns", "CPU ns", "slot B", "resident B", "huge pages", "turns of a task"];
        let mut columns = Columns::new(1, &headings);
        for figures in &self.measures {
            columns.row(vec![
                figures.label.clone(),
                format!("{:.1}", figures.switches_per_second / 1e6),
                format!("{:.2}", figures.ns_per_switch),
                format!("{:.2}", figures.cpu_seconds * 1e9 / figures.switches.max(1) as f64),
                figures.slot_bytes.to_string(),
                format!("{:.1}", figures.resident_bytes_per_task),
                known(figures.huge_page_share, |share| format!("{:.0} %", share * 100.0)),
                format!("{} to {}", figures.turns_least, figures.turns_most),
            ]);
        }
        f.write_str(&columns.render())
    }
}

impl Measure {
    /// Tasks that yield.
    pub fn yielding(order: Order, keep_order: bool) -> Self {
        let kind = if keep_order { Kind::YieldKeepingOrder } else { Kind::Yield };
        Self { kind, order, tokens: None, sleep: None }
    }

    /// A ring in which so many tasks are ready.
    pub fn ring(order: Order, tokens: u64) -> Self {
        Self { kind: Kind::Ring, order, tokens: Some(tokens), sleep: None }
    }

    /// Tasks that sleep for so long.
    pub fn sleeping(time: Duration) -> Self {
        Self { kind: Kind::Sleep, order: Order::Sequential, tokens: None, sleep: Some(time) }
    }

    /// Bytes that the tasks take at most, including their queues.
    fn bytes(self, count: u64) -> u64 {
        let (slot, queue) = match self.kind {
            Kind::Yield => (slot_bytes(yields), count / 8),
            Kind::YieldKeepingOrder => (slot_bytes(yields), count.next_power_of_two() * 4),
            Kind::Ring => (slot_bytes(walks), count / 8),
            Kind::Sleep => (slot_bytes(sleeps), count * 4 + count / 8),
        };
        count * slot as u64 + queue
    }

    /// Measures it. `goes_on` is asked now and then, with the switches so far; at `false` the measure ends.
    fn run(self, plan: &Plan, goes_on: &mut dyn FnMut(u64) -> bool) -> io::Result<Figures> {
        let (count, turns) = (plan.count, Turns::new(self.order, plan.count, 0));
        let mut limits = Limits::default();
        if self.kind == Kind::YieldKeepingOrder {
            limits.ring_entries = count as usize;
        }
        TALLY.with(|tally| tally.sleep.set(self.sleep.unwrap_or_default()));
        match self.kind {
            Kind::Yield | Kind::YieldKeepingOrder => {
                Executor::start(count, limits, |place| turns.at(place), yields)?.measure(self, plan, goes_on)
            }
            Kind::Ring => {
                let next = |number: u32| turns.at((turns.place(number.into()) + 1) % count) as u32;
                let mut executor =
                    Executor::start(count, limits, |place| place, |number| walks(next(number)))?;
                executor.tasks.run(count as usize);
                let tokens = self.tokens.unwrap_or(count);
                (0..tokens).for_each(|token| executor.tasks.wake(turns.at(token * count / tokens) as u32));
                executor.measure(self, plan, goes_on)
            }
            Kind::Sleep => {
                Executor::start(count, limits, |place| place, sleeps)?.measure(self, plan, goes_on)
            }
        }
    }
}

impl fmt::Display for Measure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, order, tokens, sleep } = self;
        match kind {
            Kind::Yield => write!(f, "yield, {order}"),
            Kind::YieldKeepingOrder => write!(f, "yield, {order}, in order of wakes"),
            Kind::Ring => write!(f, "ring, {order}, {} ready", tokens.unwrap_or_default()),
            Kind::Sleep => write!(f, "sleep {:?}", sleep.unwrap_or_default()),
        }
    }
}

/// An executor with all its tasks, the memory there was before it, and the clock that it is told.
struct Executor<F> {
    tasks: Tasks<F>,
    bytes_before: u64,
    begun: Instant,
    late: Duration,
}

impl<F: Future<Output = ()>> Executor<F> {
    /// Spawns each number below the count once, in the order that `at` gives.
    fn start(
        count: u64,
        limits: Limits,
        at: impl Fn(u64) -> u64,
        task: impl Fn(u32) -> F,
    ) -> io::Result<Self> {
        let bytes_before = memory::resident_bytes()?;
        let mut tasks = Tasks::with_limits(count as usize, limits)?;
        for number in (0..count).map(|place| at(place) as u32) {
            tasks
                .spawn_at(number, task(number))
                .expect("each number is below the count, and is spawned once");
        }
        Ok(Self { tasks, bytes_before, begun: Instant::now(), late: Duration::ZERO })
    }

    /// One round or two to warm up, then as many turns as the time allows, then the end of all tasks.
    fn measure(
        mut self,
        what: Measure,
        plan: &Plan,
        goes_on: &mut dyn FnMut(u64) -> bool,
    ) -> io::Result<Figures> {
        let sleep = what.sleep;
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
        let (sum, ended) = TALLY.with(|tally| (tally.sum.get(), tally.ended.get()));
        Ok(Figures {
            label: what.to_string(),
            measure: what,
            switches,
            seconds,
            cpu_seconds: used.total().as_secs_f64(),
            switches_per_second: switches as f64 / seconds,
            ns_per_switch: seconds * 1e9 / switches.max(1) as f64,
            slot_bytes: Tasks::<F>::TASK_BYTES,
            resident_bytes_per_task: bytes as f64 / plan.count as f64,
            huge_page_share,
            turns_least: ended.least,
            turns_most: ended.most,
            late_seconds: sleep.map(|_| self.late.as_secs_f64()),
            checksum_agrees: sum == ended.sum && ended.tasks == plan.count,
        })
    }

    /// Some turns, between two looks at the clock.
    fn step(&mut self) -> u64 {
        let Some(deadline) = self.tasks.next_deadline() else {
            return self.tasks.run(STEP_TURNS) as u64;
        };
        let now = swarm::Instant::from_micros(self.begun.elapsed().as_micros() as u64);
        self.late = self.late.max(now.since(deadline));
        if deadline > now && self.tasks.ready() == 0 {
            std::thread::sleep(deadline.since(now).min(REST_MAX));
            return 0;
        }
        self.tasks.advance(now);
        self.tasks.run(STEP_TURNS_WITH_SLEEPERS) as u64
    }

    /// Runs every task to its end.
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
}

/// The bytes of a slot of the tasks that a function makes.
fn slot_bytes<F: Future<Output = ()>>(_: impl Fn(u32) -> F) -> usize {
    Tasks::<F>::TASK_BYTES
}

/// Is always ready.
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
    ended: Cell<Ended>,
}

/// What the tasks that have ended say.
#[derive(Clone, Copy)]
struct Ended {
    tasks: u64,
    /// What they added, from their numbers and turns.
    sum: u64,
    least: u32,
    most: u32,
}

impl Tally {
    const fn new() -> Self {
        Self {
            sum: Cell::new(0),
            ending: Cell::new(false),
            sleep: Cell::new(Duration::ZERO),
            ended: Cell::new(Ended { tasks: 0, sum: 0, least: u32::MAX, most: 0 }),
        }
    }

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
        let (ended, number, all) = (self.ended.get(), u64::from(number ^ SALT), u64::from(turns));
        let added = number.wrapping_mul(all).wrapping_add(all * all.saturating_sub(1) / 2);
        self.ended.set(Ended {
            tasks: ended.tasks + 1,
            sum: ended.sum.wrapping_add(added),
            least: ended.least.min(turns),
            most: ended.most.max(turns),
        });
    }
}

thread_local! {
    static TALLY: Tally = const { Tally::new() };
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

    #[test]
    fn every_measure_agrees_with_its_checksum() {
        let mut measures = vec![Measure::sleeping(Duration::from_micros(100))];
        for order in [Order::Sequential, Order::Random] {
            measures.extend([false, true].map(|keep_order| Measure::yielding(order, keep_order)));
            measures.push(Measure::ring(order, 100));
        }
        let core = cpu::available_cores()[0];
        let plan = Plan { count: 5000, duration: Duration::from_millis(1), core, measures };
        let outcome = run(&plan, &Stop::new(), &mut |_, _| ()).expect("there is memory");
        outcome.check().expect("no turn is lost");
        assert_eq!(outcome.measures.len(), plan.measures.len());
        for figures in outcome.measures {
            assert!(figures.switches > 0, "{figures:?}");
            if figures.measure.kind == Kind::Sleep {
                assert!(figures.switches >= 5000 && figures.late_seconds.is_some(), "{figures:?}");
            } else {
                assert!(figures.turns_most - figures.turns_least <= 1, "{figures:?}");
            }
        }
    }

    #[test]
    fn a_wrong_sum_is_found() {
        let tally = Tally::new();
        let agrees = || tally.sum.get() == tally.ended.get().sum;
        assert!(tally.count(7, 0) && tally.count(7, 1));
        tally.end(7, 2);
        assert!(agrees());
        assert!(tally.count(8, 0));
        assert!(!agrees());
    }

    #[test]
    fn slots_are_small() {
        assert_eq!((slot_bytes(yields), slot_bytes(walks), slot_bytes(sleeps)), (16, 16, 24));
    }
}
