//! A function on a pool and its result back on the loop, beside two threads that tell each other in the same way and do nothing else.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use anywire_ladder::hand_over::{Options as LadderOptions, Way, measure};
use anywire_loops::{Loops, Pinning, Pool, PoolLimits, block_on};
use anywire_sys::cpu;

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
    ensure!(run > 0, "no function has run");
    Ok(used.as_secs_f64() * 1e6 / (2 * run) as f64)
}
