//! A function on a pool and its result back on the loop, beside two threads that tell each other in the same way and do nothing else, and
//! beside tokio's `spawn_blocking`, which does the same work.

use std::cell::Cell;
use std::panic::resume_unwind;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use anywire_ladder::hand_over::{Options as LadderOptions, Way, measure};
use anywire_loops::{Loops, Pinning, Pool, PoolLimits, block_on};
use anywire_sys::cpu;
use tokio::task::{JoinError, LocalSet, spawn_blocking as spawn_blocking_in_tokio, spawn_local};
use tokio::time::sleep;

/// CPU time of both threads in microseconds for one hand-over of the ladder's way.
pub(super) fn ladder(in_flight: usize, duration: Duration) -> Result<f64> {
    let options = LadderOptions { in_flight: vec![in_flight], duration, syscall_duration: Duration::ZERO };
    let found = measure(&options, || false, |_, _| ())?;
    let row = found.rows.iter().find(|row| row.way == Way::FutexIfAsleep).context("no row")?;
    row.cpu_us_per_hand_over.context("nothing was handed over")
}

/// The same of a pool with one thread and one loop, on the cores that the ladder has: half of what a function costs that does nothing,
/// there and back.
pub(super) fn pool(in_flight: usize, duration: Duration) -> Result<f64> {
    let cores = cpu::available_cores();
    let (first, last) = (cores[0], cores[cores.len() - 1]);
    let loops = Loops::builder().count(1).pinning(Pinning::Cores(vec![first])).start()?;
    let pool = Pool::start("bench", PoolLimits { threads: 1, queue: in_flight, ..PoolLimits::default() })?;
    let thread = block_on(pool.run(move || cpu::pin_current_thread(last).map(|()| cpu::thread_id())))??;
    let (is_over, count) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let tasks: Vec<_> = (0..in_flight)
        .map(|_| {
            let (pool, is_over, count) = (pool.clone(), Arc::clone(&is_over), Arc::clone(&count));
            loops.get(0).spawn(move || async move {
                while !is_over.load(Ordering::Relaxed) {
                    pool.run(|| ()).await?;
                    // The loop alone writes it.
                    count.store(count.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
                }
                Ok::<_, anywire_loops::PoolError>(())
            })
        })
        .collect();
    let used = || {
        Ok::<_, std::io::Error>(
            cpu::thread_run_time(loops.get(0).thread_id())? + cpu::thread_run_time(thread)?,
        )
    };
    thread::sleep(duration / 10);
    let (used_before, before) = (used()?, count.load(Ordering::Relaxed));
    thread::sleep(duration);
    let (used, run) = (used()? - used_before, count.load(Ordering::Relaxed) - before);
    is_over.store(true, Ordering::Relaxed);
    for task in tasks {
        task.wait()??;
    }
    of_each(used, run)
}

/// The same of `spawn_blocking`, on a runtime of one thread that may have one more for what blocks.
pub(super) fn spawn_blocking(in_flight: usize, duration: Duration) -> Result<f64> {
    let cores = cpu::available_cores();
    let (first, last) = (cores[0], cores[cores.len() - 1]);
    let measured = thread::spawn(move || {
        cpu::pin_current_thread(first)?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .max_blocking_threads(1)
            .thread_keep_alive(KEEP_ALIVE)
            .build()?;
        let own = cpu::thread_id();
        LocalSet::new().block_on(&runtime, async move {
            let pinned =
                spawn_blocking_in_tokio(move || cpu::pin_current_thread(last).map(|()| cpu::thread_id()));
            let thread = pinned.await??;
            let (is_over, count) = (Rc::new(Cell::new(false)), Rc::new(Cell::new(0_u64)));
            let tasks: Vec<_> = (0..in_flight)
                .map(|_| {
                    let (is_over, count) = (Rc::clone(&is_over), Rc::clone(&count));
                    spawn_local(async move {
                        while !is_over.get() {
                            spawn_blocking_in_tokio(|| ()).await?;
                            count.set(count.get() + 1);
                        }
                        Ok::<_, JoinError>(())
                    })
                })
                .collect();
            let used = || Ok::<_, std::io::Error>(cpu::thread_run_time(own)? + cpu::thread_run_time(thread)?);
            sleep(duration / 10).await;
            let (used_before, before) = (used()?, count.get());
            sleep(duration).await;
            let (used, run) = (used()? - used_before, count.get() - before);
            is_over.set(true);
            for task in tasks {
                task.await??;
            }
            of_each(used, run)
        })
    });
    measured.join().unwrap_or_else(|panic| resume_unwind(panic))
}

/// CPU time of a hand-over, in microseconds.
fn of_each(used: Duration, run: u64) -> Result<f64> {
    ensure!(run > 0, "no function has run");
    Ok(used.as_secs_f64() * 1e6 / (2 * run) as f64)
}

/// Longer than a measurement, so that it has the same thread all the time.
const KEEP_ALIVE: Duration = Duration::from_secs(3600);
