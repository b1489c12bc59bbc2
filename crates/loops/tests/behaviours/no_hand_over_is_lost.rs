//! Threads that hand over at the very moment when a loop goes to sleep are never forgotten.
//!
//! Each waits for its answer before the next, so one that is lost would stop the test for ever.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;

use anywire_loops::Loops;

#[test]
fn one_after_another_from_many_threads() {
    const THREADS: u64 = 4;
    const EACH: u64 = 5_000;
    let loops = Loops::start(2).expect("two loops can be had");
    let seen = Arc::new(AtomicU64::new(0));
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (loops, seen) = (&loops, &seen);
            scope.spawn(move || {
                for number in 0..EACH {
                    let seen = Arc::clone(seen);
                    let task = loops.next_in_turn().spawn(move || async move {
                        seen.fetch_add(1, Relaxed);
                        if number % 3 == 0 {
                            tokio::task::yield_now().await;
                        }
                        (thread, number)
                    });
                    assert_eq!(task.wait(), Ok((thread, number)));
                }
            });
        }
    });
    assert_eq!(seen.load(Relaxed), THREADS * EACH);
    let counters = loops.counters();
    assert_eq!(counters.iter().map(|one| one.hand_overs).sum::<u64>(), THREADS * EACH);
    assert!(counters.iter().all(|one| one.wake_ups <= one.hand_overs && one.tasks_live == 0), "{counters:?}");
}

#[test]
fn in_bursts_from_many_threads() {
    let loops = Loops::start(1).expect("one loop can be had");
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for burst in 0..300u64 {
                    let tasks: Vec<_> =
                        (0..burst % 40).map(|n| loops.pick().spawn(move || async move { n })).collect();
                    for (number, task) in tasks.into_iter().enumerate() {
                        assert_eq!(task.wait(), Ok(number as u64));
                    }
                }
            });
        }
    });
}

#[test]
fn between_loops_that_call_each_other() {
    let loops = Loops::start(2).expect("two loops can be had");
    let players: Vec<_> = (0..2)
        .map(|number| {
            let other = loops.get(1 - number);
            loops.get(number).spawn(move || async move {
                let mut sum = 0;
                for round in 0..5_000u64 {
                    sum += other.spawn(move || async move { round }).await.expect("the other loop runs");
                }
                sum
            })
        })
        .collect();
    for player in players {
        assert_eq!(player.wait(), Ok(4_999 * 5_000 / 2));
    }
}
