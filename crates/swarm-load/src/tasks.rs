//! The executor of `anywire_stack::swarm` alone, without a network: tasks that yield, and tasks that sleep.
//!
//! Each task adds its own number to a common sum whenever it is polled, and counts its polls. At its end it computes its
//! contribution from number and count. The two sums agree only if no poll was lost or given to another task, and no
//! task's memory was corrupted.

use std::cell::Cell;
use std::fmt;
use std::time::{Duration, Instant};

use anywire_load::Stop;
use anywire_load::text::{digits, grouped, known};
use anywire_stack::swarm::{self, Limits, Tasks};
use anywire_sys::memory;
use clap::{Args, value_parser};
use serde::Serialize;

use crate::error::Error;
use crate::permutation::Permutation;
use crate::plan::{Order, last_core};
use crate::run::on_core;

/// What to measure, and the options of a command for it.
#[derive(Debug, Clone, Args)]
pub struct TasksPlan {
    /// Tasks
    #[arg(short = 'n', long, value_name = "N", default_value_t = 10_000_000, value_parser = value_parser!(u32).range(1..))]
    pub count: u32,
    /// How long to measure each, at least
    #[arg(short, long, value_name = "TIME", default_value = "3s", value_parser = anywire_load::text::positive_duration)]
    pub duration: Duration,
    /// The core to run on
    #[arg(long, value_name = "CORE", default_value_t = last_core())]
    pub core: usize,
}

/// The results.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TasksOutcome {
    /// How many tasks there were.
    pub tasks: u32,
    /// Polls a second of tasks that are always ready, in the order of memory; like all that follow `null` if the run ended before.
    pub switches_per_second: Option<f64>,
    /// The same in an order unrelated to memory.
    pub switches_per_second_random: Option<f64>,
    /// Polls a second of tasks that sleep for a second, again and again.
    pub wakes_per_second: Option<f64>,
    /// The most memory of a task in these three measures, in bytes.
    pub bytes_per_task: Option<f64>,
    /// Whether it was ended early: the last figure may be of a part of its time.
    pub interrupted: bool,
}

impl fmt::Display for TasksOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millions = |rate: Option<f64>| known(rate, |rate| format!("{} M/s", digits(rate / 1e6)));
        writeln!(f, "tasks              {}", grouped(self.tasks.into()))?;
        writeln!(f, "switches, in order {}", millions(self.switches_per_second))?;
        writeln!(f, "switches, random   {}", millions(self.switches_per_second_random))?;
        writeln!(f, "wakes after 1 s    {}", millions(self.wakes_per_second))?;
        let bytes = |bytes| format!("{} B", digits(bytes));
        writeln!(f, "memory a task      {}", known(self.bytes_per_task, bytes))?;
        if self.interrupted {
            writeln!(f, "note               interrupted: the last figure may be of a part of its time")?;
        }
        Ok(())
    }
}

/// Measures switches in order and in random order, and tasks that sleep. `stop` ends it early: the outcome then has the
/// figures until then.
///
/// # Errors
/// There is no such core, there is not enough memory, or a sum is wrong.
pub fn measure_tasks(plan: &TasksPlan, stop: &Stop) -> Result<TasksOutcome, Error> {
    let TasksPlan { count, duration, core } = *plan;
    let needed = u64::from(count) * BYTES_A_TASK;
    if let Ok(available) = memory::available_bytes()
        && available < needed
    {
        return Err(Error::TaskMemory { tasks: count, needed, available, fitting: available / BYTES_A_TASK });
    }
    // Each measure has a thread of its own, and so a tally of its own.
    let (usual, in_memory) = (Limits::default(), Order::Sequential);
    let in_order = on_core(core, || measure(count, usual, in_memory, duration, stop, yields))?;
    // With a ring for all, the executor keeps the order of the wakes; with a smaller one it goes by numbers.
    let ring = Limits { ring_entries: count as usize, ..Limits::default() };
    let random = on_core(core, || measure(count, ring, Order::Random, duration, stop, yields))?;
    let time = duration.max(2 * SLEEP);
    let sleeping = on_core(core, || measure(count, usual, in_memory, time, stop, sleeps))?;
    let rate = |one: &Option<Measured>| one.as_ref().map(|one| one.switches_per_second);
    Ok(TasksOutcome {
        tasks: count,
        switches_per_second: rate(&in_order),
        switches_per_second_random: rate(&random),
        wakes_per_second: rate(&sleeping),
        bytes_per_task: [in_order, random, sleeping]
            .iter()
            .flatten()
            .map(|one| one.bytes_per_task)
            .reduce(f64::max),
        interrupted: stop.is_stopped(),
    })
}

struct Measured {
    switches_per_second: f64,
    /// All memory that came with the tasks, as the system counts it.
    bytes_per_task: f64,
}

/// Spawns `count` tasks, by their numbers or in a random order, and polls them for so long. `None` if it was stopped before
/// the measured part.
fn measure<F: Future<Output = ()>>(
    count: u32,
    limits: Limits,
    order: Order,
    time: Duration,
    stop: &Stop,
    task: impl Fn(u32) -> F,
) -> Result<Option<Measured>, Error> {
    let resident = || memory::resident_bytes().map_err(Error::setup);
    let before = resident()?;
    let mut tasks = Tasks::with_limits(count as usize, limits).map_err(Error::setup)?;
    let numbers = Permutation::new(order, count, 1);
    for number in (0..count).map(|place| numbers.at(place)) {
        if stop.is_stopped() {
            return Ok(None);
        }
        tasks.spawn_at(number, task(number)).map_err(Error::setup)?;
    }
    let begun = Instant::now();
    // The first round brings the tasks into their order, and spreads the sleepers over time.
    let mut warm_up = 0;
    while warm_up < u64::from(count) {
        if stop.is_stopped() {
            return Ok(None);
        }
        warm_up += step(&mut tasks, begun);
    }
    let (start, mut switches) = (Instant::now(), 0);
    while start.elapsed() < time && !stop.is_stopped() {
        switches += step(&mut tasks, begun);
    }
    let seconds = start.elapsed().as_secs_f64();
    let bytes = resident()?.saturating_sub(before);
    end(&mut tasks);
    if !TALLY.with(|tally| tally.ended.get() == count && tally.sum.get() == tally.expected.get()) {
        return Err(Error::Polls);
    }
    // A part of the time in which none was polled tells no rate.
    Ok((switches > 0).then(|| Measured {
        switches_per_second: switches as f64 / seconds,
        bytes_per_task: bytes as f64 / f64::from(count),
    }))
}

/// Polls tasks until the clock has to be read again.
fn step<F: Future<Output = ()>>(tasks: &mut Tasks<F>, begun: Instant) -> u64 {
    let Some(deadline) = tasks.next_deadline() else {
        return tasks.run(STEP_POLLS) as u64;
    };
    let now = swarm::Instant::from_micros(begun.elapsed().as_micros() as u64);
    if deadline > now && tasks.ready() == 0 {
        std::thread::sleep(deadline.since(now).min(REST_MAX));
        return 0;
    }
    tasks.advance(now);
    tasks.run(STEP_POLLS_WITH_SLEEPERS) as u64
}

/// Runs every task to its end.
fn end<F: Future<Output = ()>>(tasks: &mut Tasks<F>) {
    TALLY.with(|tally| tally.ending.set(true));
    while tasks.next_deadline().is_some() {
        tasks.advance(swarm::Instant::from_micros(u64::MAX));
        tasks.run(usize::MAX);
    }
    tasks.run(usize::MAX);
}

/// Is always ready.
fn yields(number: u32) -> impl Future<Output = ()> {
    waits(number, swarm::yield_now)
}

fn sleeps(number: u32) -> impl Future<Output = ()> {
    waits(number, || swarm::sleep(SLEEP))
}

/// Counts its polls, and waits after each.
#[expect(clippy::manual_async_fn, reason = "an `async fn` keeps its argument twice: 4 bytes more")]
fn waits<F: Future<Output = ()>>(number: u32, wait: impl Fn() -> F) -> impl Future<Output = ()> {
    async move {
        let mut polls = 0;
        while TALLY.with(|tally| tally.goes_on(number, polls)) {
            polls += 1;
            wait().await;
        }
    }
}

/// The sums of this thread's tasks, and the flag that ends them.
struct Tally {
    /// Added to at each poll.
    sum: Cell<u64>,
    ending: Cell<bool>,
    ended: Cell<u32>,
    /// Added to by each task that ends.
    expected: Cell<u64>,
}

impl Tally {
    const fn new() -> Self {
        Self { sum: Cell::new(0), ending: Cell::new(false), ended: Cell::new(0), expected: Cell::new(0) }
    }

    /// Counts a poll of a task that had `polls` before; false if the task is to end, and then it does not count.
    #[inline(always)]
    fn goes_on(&self, number: u32, polls: u32) -> bool {
        let number = u64::from(number ^ SALT);
        if self.ending.get() {
            // Its number at each poll, and 0, 1, 2 and so on.
            let polls = u64::from(polls);
            let all = number.wrapping_mul(polls).wrapping_add(polls * polls.saturating_sub(1) / 2);
            self.expected.set(self.expected.get().wrapping_add(all));
            self.ended.set(self.ended.get() + 1);
            return false;
        }
        self.sum.set(self.sum.get().wrapping_add(number + u64::from(polls)));
        true
    }
}

thread_local! {
    static TALLY: Tally = const { Tally::new() };
}

/// At most, with its place in a ring for all and its number among the sleepers.
const BYTES_A_TASK: u64 = 40;
/// Makes the number of task 0 count, too.
const SALT: u32 = 0x9e37_79b9;
const SLEEP: Duration = Duration::from_secs(1);
/// Polls between two readings of the clock: some milliseconds.
const STEP_POLLS: usize = 1 << 20;
/// Sleepers need the clock more often, because it wakes them.
const STEP_POLLS_WITH_SLEEPERS: usize = 1 << 13;
/// The longest rest when all sleep: the end of the measure is not missed by more.
const REST_MAX: Duration = Duration::from_millis(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_measure_agrees_with_its_sum() {
        let plan = TasksPlan { count: 5000, duration: Duration::from_millis(1), core: last_core() };
        let found = measure_tasks(&plan, &Stop::new()).expect("it runs");
        for rate in [found.switches_per_second, found.switches_per_second_random, found.wakes_per_second] {
            assert!(rate > Some(0.0), "{found:?}");
        }
        assert!(!found.interrupted);
    }

    #[test]
    fn a_lost_poll_is_found() {
        let tally = Tally::new();
        let agrees = || tally.sum.get() == tally.expected.get();
        assert!(tally.goes_on(7, 0) && tally.goes_on(7, 1));
        tally.ending.set(true);
        assert!(!tally.goes_on(7, 2) && agrees());
        tally.ending.set(false);
        assert!(tally.goes_on(8, 0) && !agrees());
    }

    #[test]
    fn slots_are_small() {
        fn bytes<F: Future<Output = ()>>(_: impl Fn(u32) -> F) -> usize {
            Tasks::<F>::TASK_BYTES
        }
        assert_eq!((bytes(yields), bytes(sleeps)), (16, 24));
    }
}
