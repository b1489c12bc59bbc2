//! Measuring the ways: two threads on two cores, and what a hand-over costs them.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use anywire_advice::Advice;
use anywire_sys::cpu;
use anywire_sys::syscalls::CallsByName;
use hdrhistogram::Histogram;
use serde::Serialize;

use super::way::{Lane, Way};

/// What to measure.
#[derive(Clone, Debug)]
pub struct Options {
    /// How many jobs are on their way at a time, a measurement each: at most [`Options::IN_FLIGHT_MAX`]. Default: 1, 10, 100.
    pub in_flight: Vec<usize>,
    /// The measured part of each (0.3 s); a tenth of it goes before.
    pub duration: Duration,
    /// The separate part in which system calls are counted (0.1 s; zero: they are not).
    pub syscall_duration: Duration,
}

impl Options {
    /// The most jobs on their way: a pipe holds a byte for each.
    pub const IN_FLIGHT_MAX: usize = 4096;
}

impl Default for Options {
    fn default() -> Self {
        Self {
            in_flight: vec![1, 10, 100],
            duration: Duration::from_millis(300),
            syscall_duration: Duration::from_millis(100),
        }
    }
}

/// The figures of all ways.
#[derive(Clone, Debug, Serialize)]
pub struct HandOvers {
    /// A row for each way and number of jobs.
    pub rows: Vec<HandOver>,
    /// The cores of the two threads; `null` if there is one core alone.
    pub cores: Option<[usize; 2]>,
    /// What a reader must know about all rows.
    pub notes: Vec<String>,
    /// Whether it was ended early: the rows are those until then.
    pub interrupted: bool,
}

/// One way, with one number of jobs. Figures are of one hand-over, in one direction; `null` where they are unknown, or nothing was handed
/// over.
#[derive(Clone, Debug, Serialize)]
pub struct HandOver {
    /// The way.
    pub way: Way,
    /// Jobs on their way at a time.
    pub in_flight: usize,
    /// Hand-overs a second, both directions together.
    pub hand_overs_per_second: f64,
    /// CPU time of both threads, in microseconds.
    pub cpu_us_per_hand_over: Option<f64>,
    /// System calls of both threads.
    pub syscalls_per_hand_over: Option<f64>,
    /// The same, by the names of the calls.
    pub syscalls_by_name: Option<BTreeMap<String, f64>>,
    /// From giving to taking: half took this long at most, in microseconds.
    pub p50_us: Option<f64>,
    /// 99 % took this long at most.
    pub p99_us: Option<f64>,
    /// The longest.
    pub max_us: Option<f64>,
}

/// Why nothing could be measured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A number of jobs is out of range. The caller's: choose another.
    #[error(
        "{0} jobs in flight cannot be measured{help}",
        help = Advice(format_args!("choose 1 to {max}", max = Options::IN_FLIGHT_MAX))
    )]
    InFlight(usize),
    /// A thread, a pipe or a core could not be had, or a call failed.
    #[error("handing over failed")]
    System(#[from] io::Error),
}

/// Measures all ways with each number of jobs; blocks the thread for the sum of their times. `progress` is called before each.
/// `is_stopped` is asked now and then, and ends it early.
///
/// ```
/// use std::time::Duration;
/// use anywire_ladder::hand_over::{Options, measure};
///
/// let options = Options { in_flight: vec![1], duration: Duration::from_millis(5), ..Options::default() };
/// for row in measure(&options, || false, |_, _| {})?.rows {
///     println!("{:<16} {:.2?} us of CPU", row.way, row.cpu_us_per_hand_over);
/// }
/// # Ok::<(), anywire_ladder::hand_over::Error>(())
/// ```
///
/// # Errors
///
/// See [`Error`]. Where system calls may not be counted, the figures are `None`, and a note says why.
pub fn measure(
    options: &Options,
    is_stopped: impl Fn() -> bool,
    mut progress: impl FnMut(Way, usize),
) -> Result<HandOvers, Error> {
    if let Some(&wrong) =
        options.in_flight.iter().find(|&&jobs| !(1..=Options::IN_FLIGHT_MAX).contains(&jobs))
    {
        return Err(Error::InFlight(wrong));
    }
    let cores = match cpu::available_cores()[..] {
        [first, .., last] => Some([first, last]),
        _ => None,
    };
    let mut notes = Vec::new();
    if cores.is_none() {
        notes.push(
            "one core only: spinning is left out, because each thread would keep the other from running"
                .to_owned(),
        );
    }
    let mut rows = Vec::new();
    let runs = options.in_flight.iter().flat_map(|&in_flight| Way::ALL.map(|way| (way, in_flight)));
    for (way, in_flight) in runs.filter(|(way, _)| cores.is_some() || *way != Way::Spin) {
        if is_stopped() {
            break;
        }
        progress(way, in_flight);
        let run = |duration, counting| run(way, in_flight, cores, duration, counting, &is_stopped);
        let Some(figures) = run(options.duration, Counting::Time)? else { break };
        let mut calls = None;
        if !options.syscall_duration.is_zero() {
            let Some(counted) = run(options.syscall_duration, Counting::Calls)? else { break };
            match &counted.calls {
                Ok(named) => calls = counted.per_hand_over(named),
                Err(why_not) if !notes.contains(why_not) => notes.push(why_not.clone()),
                Err(_) => {}
            }
        }
        rows.push(figures.row(way, in_flight, calls));
    }
    Ok(HandOvers { rows, cores, notes, interrupted: is_stopped() })
}

/// Rests for so long, or until the run is stopped. Whether it was not.
fn rest(time: Duration, is_stopped: impl Fn() -> bool) -> bool {
    let start = Instant::now();
    loop {
        let left = time.saturating_sub(start.elapsed());
        if left.is_zero() || is_stopped() {
            return !is_stopped();
        }
        thread::sleep(left.min(LOOK_EVERY));
    }
}

/// What a run counts beside the hand-overs. Not both: the counters of calls cost time at each call.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Counting {
    Time,
    Calls,
}

/// The figures of one run.
struct Figures {
    handed: u64,
    seconds: f64,
    cpu: Duration,
    calls: Result<BTreeMap<&'static str, u64>, String>,
    latency: Histogram<u64>,
}

impl Figures {
    fn per_hand_over(&self, calls: &BTreeMap<&'static str, u64>) -> Option<BTreeMap<String, f64>> {
        let each = calls.iter().map(|(name, count)| Some(((*name).to_owned(), self.of_each(*count as f64)?)));
        each.collect()
    }

    /// The part of one hand-over.
    fn of_each(&self, all: f64) -> Option<f64> {
        (self.handed > 0).then(|| all / self.handed as f64)
    }

    fn row(&self, way: Way, in_flight: usize, calls: Option<BTreeMap<String, f64>>) -> HandOver {
        let latency = |share: f64| {
            (!self.latency.is_empty()).then(|| self.latency.value_at_quantile(share) as f64 / 1000.0)
        };
        HandOver {
            way,
            in_flight,
            hand_overs_per_second: self.handed as f64 / self.seconds,
            cpu_us_per_hand_over: self.of_each(self.cpu.as_nanos() as f64 / 1000.0),
            syscalls_per_hand_over: calls
                .as_ref()
                .map(|calls| calls.values().fold(0.0, |sum, count| sum + count)),
            syscalls_by_name: calls,
            p50_us: latency(0.5),
            p99_us: latency(0.99),
            max_us: latency(1.0),
        }
    }
}

/// Two threads and what they share.
struct Pair {
    lanes: [Lane; 2],
    start: Instant,
    /// Hand-overs that each thread has taken; each writes its own alone.
    taken: [AtomicU64; 2],
    measuring: AtomicBool,
    stop: AtomicBool,
}

/// `None` if it was stopped.
fn run(
    way: Way,
    in_flight: usize,
    cores: Option<[usize; 2]>,
    duration: Duration,
    counting: Counting,
    is_stopped: impl Fn() -> bool,
) -> io::Result<Option<Figures>> {
    // Room for the end, and for a second one if a thread fails.
    let lane = || Lane::new(way, in_flight + 2);
    let pair = Pair {
        lanes: [lane()?, lane()?],
        start: Instant::now(),
        taken: [AtomicU64::new(0), AtomicU64::new(0)],
        measuring: AtomicBool::new(false),
        stop: AtomicBool::new(false),
    };
    thread::scope(|scope| {
        let (told, started) = mpsc::channel();
        let threads = [0, 1].map(|index| {
            let (pair, told) = (&pair, told.clone());
            scope.spawn(move || {
                // Fails only if the run was given up, which stops the pair.
                let _ = told.send(cpu::thread_id());
                let pinned = cores.map_or(Ok(()), |cores| cpu::pin_current_thread(cores[index]));
                let jobs = if index == 0 { in_flight } else { 0 };
                pinned.and_then(|()| pair.pass_on(index, jobs)).inspect_err(|_| {
                    // The other would wait for ever. If it cannot be told either, nothing can.
                    let _ = pair.lanes[1 - index].give(END);
                })
            })
        });
        drop(told);
        let ids: Vec<i32> = started.iter().take(2).collect();
        let measured = pair.measure(&ids, duration, counting, is_stopped);
        pair.stop.store(true, Ordering::Relaxed);
        let mut latency = histogram();
        for thread in threads {
            let of_thread = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
            latency.add(of_thread).map_err(io::Error::other)?;
        }
        measured.map(|figures| figures.map(|figures| Figures { latency, ..figures }))
    })
}

impl Pair {
    /// A thread's part: takes each job and hands it on, until told to stop. The first thread leads: it brings the jobs.
    fn pass_on(&self, index: usize, jobs: usize) -> io::Result<Histogram<u64>> {
        let (inward, outward) = (&self.lanes[index], &self.lanes[1 - index]);
        let now = || self.start.elapsed().as_nanos() as u64;
        let mut latency = histogram();
        let mut taken = 0;
        for _ in 0..jobs {
            outward.give(now())?;
        }
        loop {
            let given = inward.take()?;
            let at = now();
            if given == END {
                // The follower passes the end back, behind all jobs; the leader has waited for it.
                if index == 1 {
                    outward.give(END)?;
                }
                return Ok(latency);
            }
            taken += 1;
            self.taken[index].store(taken, Ordering::Relaxed);
            if self.measuring.load(Ordering::Relaxed) {
                latency.saturating_record(at - given);
            }
            if index == 0 && self.stop.load(Ordering::Relaxed) {
                outward.give(END)?;
                while inward.take()? != END {}
                return Ok(latency);
            }
            outward.give(at)?;
        }
    }

    /// Watches the two threads from outside for a while. `None` if it was stopped.
    fn measure(
        &self,
        ids: &[i32],
        duration: Duration,
        counting: Counting,
        is_stopped: impl Fn() -> bool,
    ) -> io::Result<Option<Figures>> {
        if !rest(duration / 10, &is_stopped) {
            return Ok(None);
        }
        let counters = match counting {
            Counting::Calls => ids.iter().map(|&id| CallsByName::for_thread(id)).collect(),
            Counting::Time => Ok(Vec::new()),
        };
        let mut counters = match counters {
            Ok(counters) => counters,
            Err(why_not) => {
                let (calls, latency) = (Err(why_not.to_string()), histogram());
                return Ok(Some(Figures { handed: 0, seconds: 0.0, cpu: Duration::ZERO, calls, latency }));
            }
        };
        let cpu = || ids.iter().map(|&id| cpu::thread_run_time(id)).sum::<io::Result<Duration>>();
        let taken = || self.taken.each_ref().map(|taken| taken.load(Ordering::Relaxed)).iter().sum::<u64>();
        counters.iter_mut().try_for_each(CallsByName::enable)?;
        self.measuring.store(true, Ordering::Relaxed);
        let (start, taken_before, cpu_before) = (Instant::now(), taken(), cpu()?);
        if !rest(duration, is_stopped) {
            return Ok(None);
        }
        let (handed, cpu, seconds) =
            (taken() - taken_before, cpu()? - cpu_before, start.elapsed().as_secs_f64());
        self.measuring.store(false, Ordering::Relaxed);
        counters.iter().try_for_each(CallsByName::disable)?;
        let mut calls = BTreeMap::new();
        for counter in &counters {
            counter.read()?.into_iter().for_each(|(name, count)| *calls.entry(name).or_default() += count);
        }
        Ok(Some(Figures { handed, seconds, cpu, calls: Ok(calls), latency: histogram() }))
    }
}

/// Three digits, up to a minute, in nanoseconds.
fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 60_000_000_000, 3).expect("the bounds are in order")
}

/// How long a stop may wait. Each look takes a core from the threads that are measured for some microseconds.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// The job that ends it; no time is as late as this.
const END: u64 = u64::MAX;
