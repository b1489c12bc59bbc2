//! A run from its plan to its outcome.

use std::io;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use anywire_load::{Host, Latency, Stop};
use anywire_loops::{Loops, Pinning, clock};
use anywire_sys::cpu;
use rustix::io::Errno;

use crate::blocking::{self, End};
use crate::error::Error;
use crate::outcome::{Found, Outcome, Row, SCHEMA};
use crate::over_loops;
use crate::plan::{Pattern, Plan, Way};
use crate::spinning;

/// Measures row by row and calls `told` with each. `stop` ends it early: the outcome then has the rows until then.
///
/// # Errors
/// [`Error`]: the system gave no threads or sockets, a message was changed, or a way that spins was named on one core.
pub fn run(plan: &Plan, stop: &Stop, mut told: impl FnMut(&Row)) -> Result<Outcome, Error> {
    let all = cpu::available_cores();
    let cores = match (plan.no_pin, &*all) {
        (false, [one, other, ..]) => Some([*one, *other]),
        _ => None,
    };
    if let Some(way) = plan.chosen().into_iter().find(|way| way.spins() && all.len() < 2) {
        return Err(Error::OneCore { way: way.name() });
    }
    let start = |end: usize| {
        let pinning = cores.map_or(Pinning::None, |cores| Pinning::Cores(vec![cores[end]]));
        let started = Loops::builder().count(1).name("ipc").pinning(pinning).start();
        started.map_err(|error| Error::System { way: "a loop", cause: io::Error::other(error) })
    };
    let loops = [start(0)?, start(1)?];
    let mut rows = Vec::new();
    for (pattern, way, size_bytes) in plan.rows() {
        if stop.is_stopped() {
            break;
        }
        let job = Job { pattern, way, size_bytes, duration: plan.duration, cores, stop: stop.clone() };
        let Some(row) = job.run(&loops)? else { break };
        told(&row);
        rows.push(row);
    }
    let host = Host::of(&loops[0]);
    let seconds_per_row = plan.duration.as_secs_f64();
    Ok(Outcome { schema: SCHEMA, host, cores, seconds_per_row, rows, interrupted: stop.is_stopped() })
}

/// One row to be measured.
#[derive(Clone)]
pub(crate) struct Job {
    pub(crate) pattern: Pattern,
    pub(crate) way: Way,
    pub(crate) size_bytes: usize,
    pub(crate) duration: Duration,
    pub(crate) cores: Option<[usize; 2]>,
    pub(crate) stop: Stop,
}

impl Job {
    /// `None` if it was stopped before the first message counted.
    fn run(&self, loops: &[Loops; 2]) -> Result<Option<Row>, Error> {
        let way = self.way.name();
        let counted = match self.way {
            Way::TcpLoop | Way::UnixLoop | Way::ShmLoop | Way::ShmSpinLoop => over_loops::run(self, loops),
            Way::ShmSpin => spinning::rings().and_then(|ends| self.by_threads(ends)),
            Way::Line => self.by_threads(spinning::line()),
            _ => blocking::pair(self.way).and_then(|ends| self.by_threads(ends)),
        };
        let (found, why_not) = match counted {
            Ok(Counted { messages: 0, .. }) if self.stop.is_stopped() => return Ok(None),
            Ok(counted) if !counted.is_unchanged => {
                return Err(Error::Changed { way, size: self.size_bytes });
            }
            Ok(counted) => (Some(counted.found(self.size_bytes)), None),
            Err(error) if Errno::from_io_error(&error) == Some(Errno::MSGSIZE) => {
                (None, Some("longer than a packet may be".to_owned()))
            }
            Err(cause) => return Err(Error::System { way, cause }),
        };
        let (pattern, way, size_bytes) = (self.pattern, self.way, self.size_bytes);
        Ok(Some(Row { pattern, way, waits: way.waits(), size_bytes, found, why_not }))
    }

    /// With two threads, each at an end.
    fn by_threads(&self, [here, there]: [Box<dyn End>; 2]) -> io::Result<Counted> {
        let (tell, told) = mpsc::channel();
        thread::scope(|scope| {
            let other = scope.spawn(move || {
                // If the end that asks has failed, it needs no number.
                let _ = tell.send(cpu::thread_id());
                self.answer(there)
            });
            let one = scope.spawn(move || self.ask(here, &told));
            let (asked, answered) = (one.join().expect("no panic"), other.join().expect("no panic"));
            // If both have failed, the one that answers did so first.
            let (answered, mut counted) = (answered?, asked?);
            if self.pattern == Pattern::Stream {
                counted.there_cpu = answered.cpu;
                (counted.messages, counted.elapsed) = (answered.messages, answered.elapsed);
            }
            Ok(counted)
        })
    }

    fn ask(&self, mut end: Box<dyn End>, other: &mpsc::Receiver<i32>) -> io::Result<Counted> {
        self.pin(0)?;
        let other = other.recv().map_err(io::Error::other)?;
        let message = message(self.size_bytes);
        let mut back = vec![0; self.size_bytes];
        let mut counted = Counted::default();
        let warm = clock::after(Instant::now(), self.duration / WARM_UP_SHARE);
        while self.pattern == Pattern::PingPong && Instant::now() < warm && !self.stop.is_stopped() {
            exchange(&mut *end, &message, &mut back)?;
        }
        // The time begins before the CPU times do and ends behind them, so that no end has used more than its core.
        let start = Instant::now();
        let used = BothCpu::since_now(other)?;
        let over = clock::after(start, self.duration);
        let mut now = Instant::now();
        while now < over && !self.stop.is_stopped() {
            if self.pattern == Pattern::PingPong {
                exchange(&mut *end, &message, &mut back)?;
                let then = std::mem::replace(&mut now, Instant::now());
                counted.latency.record(now - then);
                counted.messages += 2;
            } else {
                for _ in 0..SENDS_PER_LOOK {
                    end.send(&message)?;
                }
                now = Instant::now();
            }
        }
        (counted.here_cpu, counted.there_cpu) = used.until_now()?;
        counted.elapsed = start.elapsed();
        counted.is_unchanged = self.pattern == Pattern::Stream || self.way == Way::Line || back == message;
        Ok(counted)
    }

    fn answer(&self, mut end: Box<dyn End>) -> io::Result<Answered> {
        self.pin(1)?;
        let mut message = vec![0; self.size_bytes];
        let start = Instant::now();
        let before = cpu::current_thread_cpu()?.total();
        let mut messages = 0;
        while end.receive(&mut message)? {
            messages += 1;
            if self.pattern == Pattern::PingPong {
                end.send(&message)?;
            }
        }
        let cpu = cpu::current_thread_cpu()?.total() - before;
        Ok(Answered { messages, elapsed: start.elapsed(), cpu })
    }

    fn pin(&self, end: usize) -> io::Result<()> {
        self.cores.map_or(Ok(()), |cores| cpu::pin_current_thread(cores[end]))
    }
}

/// The CPU time of both ends in the span that is recorded. The end that asks reads that of the other one, which does not know
/// when the warm-up is over.
pub(crate) struct BothCpu {
    threads: [i32; 2],
    before: [Duration; 2],
}

impl BothCpu {
    /// From now on; `other` is the thread of the other end.
    pub(crate) fn since_now(other: i32) -> io::Result<Self> {
        let threads = [cpu::thread_id(), other];
        Ok(Self { threads, before: Self::read(threads)? })
    }

    /// What the caller has used, and the other end. An end that has failed says why itself.
    pub(crate) fn until_now(&self) -> io::Result<(Duration, Duration)> {
        let [here, there] = Self::read(self.threads)?;
        Ok((here.saturating_sub(self.before[0]), there.saturating_sub(self.before[1])))
    }

    fn read([here, there]: [i32; 2]) -> io::Result<[Duration; 2]> {
        Ok([cpu::thread_run_time(here)?, cpu::thread_run_time(there)?])
    }
}

/// What the end that answers has counted, as it counts a stream.
struct Answered {
    messages: u64,
    elapsed: Duration,
    cpu: Duration,
}

/// What both ends have counted.
#[derive(Default)]
pub(crate) struct Counted {
    pub(crate) messages: u64,
    pub(crate) elapsed: Duration,
    /// Of round trips; empty for a stream.
    pub(crate) latency: Latency,
    pub(crate) here_cpu: Duration,
    pub(crate) there_cpu: Duration,
    pub(crate) is_unchanged: bool,
}

impl Counted {
    fn found(&self, size_bytes: usize) -> Found {
        let per_second = self.messages as f64 / self.elapsed.as_secs_f64();
        let us = |cpu: Duration| cpu.as_secs_f64() * 1e6 / self.messages.max(1) as f64;
        Found {
            messages: self.messages,
            seconds: self.elapsed.as_secs_f64(),
            messages_per_second: per_second,
            bytes_per_second: per_second * size_bytes as f64,
            round_trip_us: self.latency.summary(),
            here_cpu_us: us(self.here_cpu),
            there_cpu_us: us(self.there_cpu),
        }
    }
}

/// Sends a message, and waits for the answer.
fn exchange(end: &mut dyn End, message: &[u8], back: &mut [u8]) -> io::Result<()> {
    end.send(message)?;
    // The other end has failed, and says why itself.
    if end.receive(back)? { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

/// The bytes of a message.
pub(crate) fn message(size_bytes: usize) -> Vec<u8> {
    (0..size_bytes).map(|at| (at * 31) as u8).collect()
}

/// The first part of a row, which is not recorded.
pub(crate) const WARM_UP_SHARE: u32 = 10;
/// The clock costs as much as a short message in shared memory.
pub(crate) const SENDS_PER_LOOK: usize = 16;

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

    use super::*;

    /// An end that hands messages over by channels. It works hard before its first answer, if it has `used`, where it notes the
    /// CPU time that it uses after that.
    struct Channels {
        to: mpsc::Sender<Vec<u8>>,
        from: mpsc::Receiver<Vec<u8>>,
        used: Option<Arc<AtomicU64>>,
        first: Option<Duration>,
    }

    impl End for Channels {
        fn send(&mut self, message: &[u8]) -> io::Result<()> {
            // Nobody takes the last one.
            let _ = self.to.send(message.to_vec());
            Ok(())
        }

        fn receive(&mut self, message: &mut [u8]) -> io::Result<bool> {
            let came = self.from.recv();
            let own = || cpu::thread_run_time(cpu::thread_id());
            if let Some(used) = &self.used {
                let first = match self.first {
                    Some(first) => first,
                    None => {
                        let until = own()? + Duration::from_millis(5);
                        while own()? < until {}
                        *self.first.insert(own()?)
                    }
                };
                used.store((own()? - first).as_nanos() as u64, Relaxed);
            }
            let Ok(came) = came else { return Ok(false) };
            message.copy_from_slice(&came);
            Ok(true)
        }
    }

    #[test]
    fn the_warm_up_is_in_the_cpu_time_of_neither_end() {
        let used = Arc::new(AtomicU64::new(0));
        let ((to, from_here), (to_here, from)) = (mpsc::channel(), mpsc::channel());
        let here = Channels { to, from, used: None, first: None };
        let there = Channels { to: to_here, from: from_here, used: Some(Arc::clone(&used)), first: None };
        let (pattern, way) = (Pattern::PingPong, Way::Pipe);
        let job = Job {
            pattern,
            way,
            size_bytes: 8,
            duration: Duration::from_millis(200),
            cores: None,
            stop: Stop::new(),
        };
        let counted = job.by_threads([Box::new(here), Box::new(there)]).expect("it runs");
        let after_the_first = Duration::from_nanos(used.load(Relaxed));
        assert!(counted.messages > 0 && counted.is_unchanged);
        assert!(counted.there_cpu <= after_the_first, "{:?} of {after_the_first:?}", counted.there_cpu);
    }
}
