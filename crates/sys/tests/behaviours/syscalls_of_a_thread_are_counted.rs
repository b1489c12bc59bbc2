//! The counter counts each system call of its thread, and of no other.
//!
//! Where the system does not let us count, the test says why and passes, except under `CI`, where it fails.

use std::fs;
use std::io::Read;
use std::sync::mpsc;

use anywire_sys::cpu;
use anywire_sys::syscalls::{CounterError, SyscallCounter};

fn counter_of(tid: i32) -> Option<SyscallCounter> {
    match SyscallCounter::for_thread(tid) {
        Ok(counter) => Some(counter),
        Err(why_not) => {
            assert!(std::env::var_os("CI").is_none(), "{why_not}");
            crate::skipped::say(why_not);
            None
        }
    }
}

#[test]
fn own_calls_are_counted_exactly() {
    let Some(counter) = counter_of(cpu::thread_id()) else {
        return;
    };
    let mut zeros = fs::File::open("/dev/zero").expect("every Linux has it");
    let mut byte = [0];
    for reads in [0, 1, 10, 1000] {
        counter.reset_and_enable().expect("the counter is open");
        for _ in 0..reads {
            zeros.read_exact(&mut byte).expect("zeros never end");
        }
        counter.disable().expect("the counter is open");
        // One more: the call that disables.
        assert_eq!(counter.read().expect("the counter is open"), reads + 1);
        assert_eq!(counter.read().expect("the counter is open"), reads + 1, "disabled, it stands still");
    }
}

#[test]
fn calls_of_another_thread_are_its_own() {
    let (tell_tid, tid) = mpsc::channel();
    let (go, wait) = mpsc::channel::<()>();
    let (done, finished) = mpsc::channel::<()>();
    let worker = std::thread::spawn(move || {
        tell_tid.send(cpu::thread_id()).expect("the test listens");
        let mut zeros = fs::File::open("/dev/zero").expect("every Linux has it");
        wait.recv().expect("the test says go");
        for _ in 0..100 {
            zeros.read_exact(&mut [0]).expect("zeros never end");
        }
        done.send(()).expect("the test listens");
        // Lives until the test has read the counter.
        let _ = wait.recv();
    });
    let tid = tid.recv().expect("the worker tells");
    if let Some(counter) = counter_of(tid) {
        counter.reset_and_enable().expect("the counter is open");
        go.send(()).expect("the worker waits");
        finished.recv().expect("the worker finishes");
        let count = counter.read().expect("the counter is open");
        // Beside the reads: waiting and waking, some futex calls each.
        assert!((100..200).contains(&count), "{count}");
    }
    drop(go);
    // Without a counter the worker never got its word and ends by the closed channel.
    let _ = worker.join();
}

#[test]
fn a_thread_that_does_not_exist_is_named() {
    if counter_of(cpu::thread_id()).is_none() {
        return;
    }
    let error = SyscallCounter::for_thread(i32::MAX).expect_err("no such thread");
    assert!(matches!(error, CounterError::NoSuchThread { tid: i32::MAX }), "{error}");
}
