//! A task of a swarm takes the bytes that it keeps across an await, rounded up, and no more.

use std::time::Duration;

use anywire_stack::swarm::{Limits, Tasks, park, sleep, yield_now};

/// Bytes of one task, without its bit.
fn task_bytes<F: Future<Output = ()>>(_: impl FnOnce(u32) -> F) -> usize {
    Tasks::<F>::TASK_BYTES
}

#[test]
fn a_number_and_a_state_take_16_bytes() {
    let yields = |value: u32| async move {
        for round in 0..value {
            std::hint::black_box(round);
            yield_now().await;
        }
    };
    let parks = |neighbour: u32| async move {
        loop {
            park().await;
            anywire_stack::swarm::wake(neighbour);
        }
    };
    let sleeps = |value: u32| async move {
        loop {
            sleep(Duration::from_millis(u64::from(value))).await;
        }
    };
    // The loop's range takes 8 bytes, the argument stays where it came in.
    assert!(task_bytes(yields) <= 20, "{}", task_bytes(yields));
    assert!(task_bytes(parks) <= 12, "{}", task_bytes(parks));
    assert!(task_bytes(sleeps) <= 20, "{}", task_bytes(sleeps));
}

#[test]
fn a_million_ready_tasks_take_less_than_40_bytes_each() {
    let count = 1_000_000;
    let mut tasks = Tasks::with_capacity(count).expect("addresses are free");
    let task = |value: u32| async move {
        let mut sum = value;
        loop {
            sum = std::hint::black_box(sum.wrapping_add(value));
            yield_now().await;
        }
    };
    tasks.spawn_many(count, task).expect("there is room");
    tasks.run(3 * count);
    assert!(tasks.bytes() <= 17 * count, "{}", tasks.bytes());

    // Even with a ring for everybody, and with all of them asleep.
    let limits = Limits { ring_entries: count, ..Limits::default() };
    let mut tasks = Tasks::with_limits(count, limits).expect("addresses are free");
    let task = |value: u32| async move { sleep(Duration::from_millis(u64::from(value % 7))).await };
    tasks.spawn_many(count, task).expect("there is room");
    tasks.run(count);
    assert!(tasks.bytes() <= 40 * count, "{}", tasks.bytes());
}
