//! Any number of hand-overs to a loop that is awake costs at most one wake-up; so does a burst to one that sleeps.

use std::sync::{Arc, Barrier};
use std::time::Duration;

use anywire_loops::{Loops, Task};

#[test]
fn hand_overs_to_a_busy_loop_wake_it_once() {
    let loops = Loops::start(1).expect("one loop can be had");
    let one = loops.get(0);
    let barrier = Arc::new(Barrier::new(2));
    let blocker = {
        let barrier = Arc::clone(&barrier);
        one.spawn(|| async move {
            // Once to say that the loop is busy, once to stay so.
            barrier.wait();
            barrier.wait();
        })
    };
    barrier.wait();
    let before = one.counters();
    let tasks: Vec<Task<usize>> = (0..1000).map(|number| one.spawn(move || async move { number })).collect();
    barrier.wait();
    blocker.wait().expect("the blocker ends");
    for (number, task) in tasks.into_iter().enumerate() {
        assert_eq!(task.wait(), Ok(number));
    }
    let after = one.counters();
    assert_eq!(after.hand_overs - before.hand_overs, 1000);
    assert_eq!(after.wake_ups, before.wake_ups, "an awake loop is not woken");
    assert_eq!((after.tasks_live, after.tasks_spawned), (0, 1001));
}

#[test]
fn a_loop_that_a_timer_has_woken_is_not_woken_again() {
    let loops = Loops::start(1).expect("one loop can be had");
    let one = loops.get(0);
    let barrier = Arc::new(Barrier::new(2));
    let blocker = {
        let barrier = Arc::clone(&barrier);
        one.spawn(|| async move {
            tokio::time::sleep(Duration::from_millis(1)).await;
            barrier.wait();
            barrier.wait();
        })
    };
    barrier.wait();
    let before = one.counters().wake_ups;
    let task = one.spawn(|| async {});
    assert_eq!(one.counters().wake_ups, before);
    barrier.wait();
    blocker.wait().expect("the blocker ends");
    task.wait().expect("the loop goes on");
}

#[test]
fn a_loop_hands_over_to_itself_without_a_wake_up() {
    let loops = Loops::start(1).expect("one loop can be had");
    let one = loops.get(0);
    let sum = one.spawn({
        let one = one.clone();
        || async move {
            let before = one.counters().wake_ups;
            let mut sum = 0;
            for number in 0..100 {
                // The closure does not run within the call, so it may borrow what the caller holds.
                sum += one.spawn(move || async move { number }).await.expect("the loop runs");
            }
            (sum, one.counters().wake_ups - before)
        }
    });
    assert_eq!(sum.wait(), Ok((4950, 0)));
}
