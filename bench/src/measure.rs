//! What a process and its descendants used: CPU time, memory, descriptors, system calls, read from `/proc` and `perf`.
//!
//! CPU time is the scheduler's own run time in nanoseconds (`/proc/PID/task/TID/schedstat`), summed over all threads;
//! the kernel's work for a connection on loopback runs in the thread that sends, so it is in there. The split into user
//! and system time comes from `/proc/PID/stat`, which counts ticks of 10 ms, and is applied to that sum.

use std::fs;
use std::io;
use std::time::Duration;

use anyhow::{Context, Result};
use anywire_sys::syscalls::SyscallCounter;

/// A process and all its descendants, named by the id of the eldest.
#[derive(Clone, Copy)]
pub struct Family {
    eldest: u32,
}

impl Family {
    /// The family of this process.
    pub fn of(process: u32) -> Self {
        Self { eldest: process }
    }

    /// CPU time used so far by the threads that live now.
    ///
    /// # Errors
    /// The process is gone.
    pub fn cpu(&self) -> Result<Cpu> {
        let mut cpu = Cpu::default();
        for process in self.processes()? {
            for thread in threads(process)? {
                let Ok(text) = fs::read_to_string(format!("/proc/{process}/task/{thread}/schedstat")) else {
                    continue; // it ended since it was listed
                };
                let nanoseconds = text.split_whitespace().next().and_then(|field| field.parse().ok());
                cpu.run += Duration::from_nanos(nanoseconds.context("schedstat without a number")?);
            }
            let stat = read(&format!("/proc/{process}/stat"))?;
            let mut fields = fields_after_name(&stat);
            cpu.user_ticks += number(fields.nth(STAT_UTIME))?;
            cpu.system_ticks += number(fields.next())?;
        }
        Ok(cpu)
    }

    /// Memory that is resident now.
    ///
    /// # Errors
    /// The process is gone, or belongs to another user.
    pub fn memory(&self) -> Result<Memory> {
        let mut memory = Memory::default();
        for process in self.processes()? {
            let rollup = read(&format!("/proc/{process}/smaps_rollup"))?;
            memory.resident_bytes += kibibytes(&rollup, "Rss:")? * 1024;
            memory.anonymous_bytes += kibibytes(&rollup, "Anonymous:")? * 1024;
        }
        Ok(memory)
    }

    /// Open descriptors that are sockets.
    ///
    /// # Errors
    /// The process is gone, or belongs to another user.
    pub fn sockets(&self) -> Result<usize> {
        let mut count = 0;
        for process in self.processes()? {
            for entry in fs::read_dir(format!("/proc/{process}/fd"))
                .context("reading the server's descriptors failed")?
            {
                let is_socket = entry.is_ok_and(|entry| {
                    fs::read_link(entry.path())
                        .is_ok_and(|target| target.to_string_lossy().starts_with("socket:"))
                });
                count += usize::from(is_socket);
            }
        }
        Ok(count)
    }

    /// Starts to count the system calls of the threads that live now.
    ///
    /// # Errors
    /// The kernel does not allow it: the message says what would help.
    pub fn count_system_calls(&self) -> Result<SystemCalls> {
        let mut counters = Vec::new();
        for process in self.processes()? {
            for thread in threads(process)? {
                let counter = SyscallCounter::for_thread(thread)?;
                counter.reset_and_enable()?;
                counters.push(counter);
            }
        }
        Ok(SystemCalls { counters })
    }

    /// The eldest and all its descendants.
    fn processes(&self) -> Result<Vec<u32>> {
        let mut found = vec![self.eldest];
        let mut next = 0;
        while next < found.len() {
            let process = found[next];
            for thread in threads(process)? {
                let path = format!("/proc/{process}/task/{thread}/children");
                let children = fs::read_to_string(path).unwrap_or_default();
                found.extend(children.split_whitespace().filter_map(|child| child.parse::<u32>().ok()));
            }
            next += 1;
        }
        Ok(found)
    }
}

/// CPU time of a family at one moment.
#[derive(Clone, Copy, Default)]
pub struct Cpu {
    run: Duration,
    user_ticks: u64,
    system_ticks: u64,
}

impl Cpu {
    /// The use since an earlier moment.
    pub fn since(&self, earlier: &Self) -> CpuUsed {
        let user = self.user_ticks.saturating_sub(earlier.user_ticks) as f64;
        let system = self.system_ticks.saturating_sub(earlier.system_ticks) as f64;
        let total_us = self.run.saturating_sub(earlier.run).as_nanos() as f64 / 1000.0;
        let user_share = if user + system > 0.0 { user / (user + system) } else { 0.0 };
        CpuUsed { user_us: total_us * user_share, system_us: total_us * (1.0 - user_share) }
    }
}

/// CPU time of an interval, in microseconds.
#[derive(Clone, Copy, Default)]
pub struct CpuUsed {
    /// In user code.
    pub user_us: f64,
    /// In the kernel.
    pub system_us: f64,
}

impl CpuUsed {
    /// Both together.
    pub fn total_us(&self) -> f64 {
        self.user_us + self.system_us
    }
}

/// Resident memory of a family, in bytes.
#[derive(Clone, Copy, Default)]
pub struct Memory {
    /// All of it: code that was touched, heap, stacks.
    pub resident_bytes: u64,
    /// The part that no file stands behind: heap and stacks.
    pub anonymous_bytes: u64,
}

/// Counts system calls until it is asked how many there were.
pub struct SystemCalls {
    counters: Vec<SyscallCounter>,
}

impl SystemCalls {
    /// Stops counting and gives the sum over all threads.
    ///
    /// # Errors
    /// The counter cannot be read.
    pub fn finish(self) -> Result<u64> {
        let mut sum = 0;
        for counter in &self.counters {
            counter.disable()?;
        }
        for counter in &self.counters {
            sum += counter.read()?;
        }
        Ok(sum)
    }
}

fn threads(process: u32) -> Result<Vec<i32>> {
    let listing = fs::read_dir(format!("/proc/{process}/task"))
        .with_context(|| format!("process {process} is gone"))?;
    let names = listing.collect::<io::Result<Vec<_>>>()?;
    Ok(names.iter().filter_map(|name| name.file_name().to_str()?.parse().ok()).collect())
}

fn read(path: &str) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("reading {path} failed"))
}

/// The fields of `/proc/PID/stat` from the third on. The second, the name in brackets, may hold spaces and brackets.
fn fields_after_name(stat: &str) -> std::str::SplitWhitespace<'_> {
    stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace()
}

fn number(field: Option<&str>) -> Result<u64> {
    field.context("a field is missing in /proc")?.parse().context("a field in /proc is no number")
}

fn kibibytes(rollup: &str, name: &str) -> Result<u64> {
    let line = rollup.lines().find_map(|line| line.strip_prefix(name));
    number(line.and_then(|line| line.split_whitespace().next()))
}

/// Place of `utime` (field 14 of proc_pid_stat(5)) among the fields after the name, counted from 0.
const STAT_UTIME: usize = 11;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_family_has_cpu_time_memory_and_sockets() {
        let ours = Family::of(std::process::id());
        let before = ours.sockets().unwrap();
        let _socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        assert!(ours.sockets().unwrap() > before);
        assert!(ours.cpu().unwrap().run > Duration::ZERO);
        let memory = ours.memory().unwrap();
        assert!(memory.resident_bytes >= memory.anonymous_bytes && memory.anonymous_bytes > 0);
    }

    #[test]
    fn a_name_with_brackets_and_spaces_does_not_shift_the_fields() {
        assert_eq!(fields_after_name("7 (a) b (c)) S 1 2").collect::<Vec<_>>(), ["S", "1", "2"]);
    }
}
