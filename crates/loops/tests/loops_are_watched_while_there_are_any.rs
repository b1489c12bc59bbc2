//! One thread watches all loops of the process. It starts with the first that wants it, and ends with the last.

#[path = "behaviours/common/mod.rs"]
mod common;

use std::fs;
use std::time::Duration;

use anywire_loops::{Limits, Loops};
use common::eventually;

/// Threads of this process that watch loops.
fn watchers() -> usize {
    let tasks = fs::read_dir("/proc/self/task").expect("Linux has it");
    let names = tasks.filter_map(|task| fs::read_to_string(task.ok()?.path().join("comm")).ok());
    names.filter(|name| name.trim() == "loops-watch").count()
}

#[test]
fn one_thread_from_the_first_loop_to_the_last() {
    let unwatched = Limits { stall_after: Duration::MAX, ..Limits::default() };
    let others = Loops::builder().count(1).limits(unwatched).start().expect("one loop can be had");
    others.get(0).spawn(|| async {}).wait().expect("it runs");
    assert_eq!(watchers(), 0, "nobody wants it");
    for _ in 0..3 {
        let first = Loops::start(2).expect("two loops can be had");
        let last = Loops::start(1).expect("one loop can be had");
        eventually("there is one", || watchers() == 1);
        first.shutdown(Duration::ZERO).expect("not on a loop");
        assert_eq!(watchers(), 1, "for all");
        last.shutdown(Duration::ZERO).expect("not on a loop");
        eventually("it ends", || watchers() == 0);
    }
}
