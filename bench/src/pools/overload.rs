//! Three times as many requests as the thread of a pool can stand, with queue deadlines and without.
//!
//! Whoever asks waits for so long and then leaves. What is answered in that time is the goodput. The thread has a core alone; the loop
//! of the server shares the other one with the load, so what refusals cost is not taken from the thread.

use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use anywire_client::{Client, Limits};
use anywire_loops::{Loops, Pinning, PoolLimits, PoolOrder, block_on, clock::precise};
use anywire_server::{Blocking, Router, Server, ServerHandle};
use anywire_sys::cpu;
use serde::Serialize;

/// How requests wait.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    /// No more requests than can be stood: the capacity.
    Capacity,
    NoDeadline,
    OldestFirst,
    LatestFirst,
}

impl Mode {
    pub(super) const ALL: [Self; 4] =
        [Self::Capacity, Self::NoDeadline, Self::OldestFirst, Self::LatestFirst];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Capacity => "capacity",
            Self::NoDeadline => "no deadline",
            Self::OldestFirst => "oldest first",
            Self::LatestFirst => "latest first",
        }
    }
}

/// What came of the requests of one run, a second.
#[derive(Clone, Copy, Serialize)]
pub(super) struct Sample {
    pub(super) asked: f64,
    /// Answered while somebody waited.
    pub(super) in_time: f64,
    /// Answered 503.
    pub(super) refused: f64,
    /// Given up by who asked.
    pub(super) late: f64,
    /// CPU time of the server's loop for each request, in microseconds.
    pub(super) loop_us: f64,
}

/// Measures the capacity, one mode at three times that, and the capacity again: the machine may have become faster or slower meanwhile.
/// Returns the mean of both, and what came of the requests.
pub(super) fn beside_capacity(mode: Mode, duration: Duration) -> Result<(f64, Sample)> {
    let capacity = || Ok::<_, anyhow::Error>(measure(Mode::Capacity, 0.0, duration / 2)?.in_time);
    let before = capacity()?;
    let sample = measure(mode, before, duration)?;
    Ok(((before + capacity()?) / 2.0, sample))
}

/// Measures one mode, at three times this capacity unless that is measured.
fn measure(mode: Mode, capacity: f64, duration: Duration) -> Result<Sample> {
    let cores = cpu::available_cores();
    let (first, last) = (cores[0], cores[cores.len() - 1]);
    let on_first = || Loops::builder().count(1).pinning(Pinning::Cores(vec![first])).start();
    let (loops, callers) = (on_first()?, on_first()?);
    let server = serve(mode, &loops)?;
    let pool = server.pool(POOL).context("the pool was given")?;
    block_on(pool.run(move || cpu::pin_current_thread(last)))??;
    let used = || cpu::thread_run_time(loops.get(0).thread_id());
    let used_before = used()?;
    let address = server.addresses().next().context("it listens")?.clone();
    let run = callers.get(0).spawn(move || async move {
        let limits = Limits { connections_per_origin: 4096, dials_per_origin: 4096, ..Limits::default() };
        let client = Client::builder().limits(limits).build();
        let url = format!("http://{}/work", address.location());
        match mode {
            Mode::Capacity => in_turns(&client, &url, duration).await,
            _ => at_a_rate(&client, &url, OVERLOAD * capacity, duration).await,
        }
    });
    let mut sample = run.wait()?;
    let used = (used()? - used_before).as_secs_f64();
    sample.loop_us = used * 1e6 / (sample.asked * duration.as_secs_f64());
    ensure!(sample.in_time > 0.0 || mode != Mode::Capacity, "nothing was answered");
    server.shutdown(Duration::from_secs(1)).wait();
    Ok(sample)
}

fn serve(mode: Mode, loops: &Loops) -> Result<ServerHandle> {
    let order = if mode == Mode::LatestFirst { PoolOrder::LatestFirst } else { PoolOrder::OldestFirst };
    let limits = PoolLimits { threads: 1, order, ..PoolLimits::default() };
    let handler = work.on_pool(POOL);
    let router = match mode {
        Mode::Capacity | Mode::NoDeadline => Router::new().get("/work", handler),
        _ => Router::new().get("/work", handler.queue_deadline(DEADLINE)),
    };
    Ok(Server::new(router).pool(POOL, limits).on(loops).listen("tcp:127.0.0.1:0").start()?)
}

/// Takes so much time of its core.
fn work() -> &'static str {
    let used = || cpu::current_thread_cpu().map_or(WORK, |used| used.total());
    let end = used() + WORK;
    while used() < end {
        (0..1000).for_each(|_| std::hint::spin_loop());
    }
    "done"
}

/// Two at a time, so that the thread always has one.
async fn in_turns(client: &Client, url: &str, duration: Duration) -> Sample {
    let tally = Rc::new(Tally::default());
    let callers: Vec<_> = (0..2)
        .map(|_| {
            let (client, url, tally, end) =
                (client.clone(), url.to_owned(), Rc::clone(&tally), Instant::now() + duration);
            anywire_loops::spawn(async move {
                while Instant::now() < end {
                    tally.ask(&client, &url, precise()).await;
                }
            })
        })
        .collect();
    for caller in callers {
        let _ = caller.await;
    }
    tally.sample(duration)
}

/// So many a second, whatever becomes of them.
async fn at_a_rate(client: &Client, url: &str, rate: f64, duration: Duration) -> Sample {
    let tally = Rc::new(Tally::default());
    let begin = precise();
    let mut ticks = tokio::time::interval(Duration::from_millis(1));
    let mut sent = 0;
    loop {
        ticks.tick().await;
        let passed = precise() - begin;
        if passed >= duration {
            break;
        }
        while (f64::from(sent) / rate) < passed.as_secs_f64() {
            let due = begin + Duration::from_secs_f64(f64::from(sent) / rate);
            let (client, url, tally) = (client.clone(), url.to_owned(), Rc::clone(&tally));
            drop(anywire_loops::spawn(async move { tally.ask(&client, &url, due).await }));
            sent += 1;
        }
    }
    // The last ones end, or are given up.
    tokio::time::sleep(PATIENCE).await;
    tally.sample(duration)
}

#[derive(Default)]
struct Tally {
    asked: Cell<u32>,
    in_time: Cell<u32>,
    refused: Cell<u32>,
    late: Cell<u32>,
}

impl Tally {
    /// Asks once, and waits for so long from when that was due.
    async fn ask(&self, client: &Client, url: &str, due: Instant) {
        self.asked.set(self.asked.get() + 1);
        let answer = async { client.get(url).send().await?.text().await };
        let refused = |text: &str| text != "done";
        let count = match tokio::time::timeout_at((due + PATIENCE).into(), answer).await {
            Ok(Ok(text)) if refused(&text) => &self.refused,
            Ok(Ok(_)) => &self.in_time,
            Ok(Err(_)) | Err(_) => &self.late,
        };
        count.set(count.get() + 1);
    }

    fn sample(&self, duration: Duration) -> Sample {
        let rate = |count: &Cell<u32>| f64::from(count.get()) / duration.as_secs_f64();
        Sample {
            asked: rate(&self.asked),
            in_time: rate(&self.in_time),
            refused: rate(&self.refused),
            late: rate(&self.late),
            loop_us: 0.0,
        }
    }
}

const POOL: &str = "bench";
/// How much more is asked than can be stood.
const OVERLOAD: f64 = 3.0;
/// CPU time of a function.
const WORK: Duration = Duration::from_millis(2);
/// How long a function may wait.
pub(super) const DEADLINE: Duration = Duration::from_millis(50);
/// How long those wait who ask.
pub(super) const PATIENCE: Duration = Duration::from_millis(100);
