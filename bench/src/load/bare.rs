//! The limit of pacing: a loop that does nothing but wait for each intended time, with a timer of the kernel and then by looking at the
//! clock all the time. In a process of its own: this program, started again with `tick`.

use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use anywire_load::Latency;
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};

/// This program, which ticks at a rate.
pub(super) fn command(per_second: f64, time: Duration) -> Result<Command> {
    let mut command =
        Command::new(std::env::current_exe().context("this program does not know its own path")?);
    command.arg("tick").arg(per_second.to_string()).arg(time.as_secs_f64().to_string());
    Ok(command)
}

/// Body of `bench tick RATE SECONDS`: prints by how many microseconds one tick in a hundred was late, or more.
///
/// # Errors
/// There is no timer.
pub fn tick(per_second: f64, seconds: f64) -> Result<()> {
    let timer = TimerFd::new(ClockId::CLOCK_MONOTONIC, TimerFlags::empty()).context("there is no timer")?;
    let mut lag = Latency::new();
    let begin = Instant::now();
    for number in 0..(per_second * seconds) as u64 {
        let due = begin + Duration::from_secs_f64(number as f64 / per_second);
        let left = due.saturating_duration_since(Instant::now());
        if left > SPIN {
            let sleep = TimeSpec::from_duration(left - SPIN);
            timer.set(Expiration::OneShot(sleep), TimerSetTimeFlags::empty())?;
            timer.wait()?;
        }
        let mut now = Instant::now();
        while now < due {
            std::hint::spin_loop();
            now = Instant::now();
        }
        lag.record(now - due);
    }
    println!("{}", lag.summary().context("the rate or the time is none")?.p99);
    Ok(())
}

/// As long before the intended time as the loop begins to look at the clock.
const SPIN: Duration = Duration::from_micros(50);
