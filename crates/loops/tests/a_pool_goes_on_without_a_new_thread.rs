//! A system that gives no further thread is an error of the call that asks for one. A pool goes on with the threads that it has.

use std::fs;

use anywire_loops::{Pool, PoolLimits, PoolStartError, block_on};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Alone in its process, whose memory it limits: a thread needs 2 MiB for its stack.
#[test]
fn it_has_those_that_there_are() {
    let pool = Pool::start("test", PoolLimits { threads: 1, ..PoolLimits::default() }).expect("a thread");
    assert_eq!(block_on(pool.run(|| 1)), Ok(1));
    let before = getrlimit(Resource::As);
    let little = Rlimit { current: Some(memory_bytes() + (1 << 20)), maximum: before.maximum };
    setrlimit(Resource::As, little).expect("a lower limit is allowed");
    let resized = pool.resize(100);
    setrlimit(Resource::As, before).expect("so is that of before");
    assert!(matches!(resized, Err(PoolStartError::Thread(_))), "{resized:?}");
    let threads = pool.limits().threads;
    assert!(threads < 100);
    assert_eq!(pool.counters().threads, threads as u64);
    assert_eq!(block_on(pool.run(|| 2)), Ok(2));
    pool.resize(threads + 1).expect("there is memory again");
    assert_eq!(pool.counters().threads, threads as u64 + 1);
}

/// What this process has mapped.
fn memory_bytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("Linux has it");
    let line = status.lines().find_map(|line| line.strip_prefix("VmSize:")).expect("each process has a size");
    let kib: u64 = line.trim().trim_end_matches(" kB").parse().expect("a number");
    kib * 1024
}
