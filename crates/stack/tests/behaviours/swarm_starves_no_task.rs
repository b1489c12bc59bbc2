//! Each wake of a task is one poll, in order: no task is passed over, or polled twice for one wake.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use anywire_stack::swarm::{self, Limits, SpawnError, Tasks, current, park, sleep, wake, yield_now};
use anywire_tcp::Instant;
use proptest::prelude::*;

const SMALL_RING: Limits = Limits { ring_entries: 1024, wakes_an_advance: 100 };

#[test]
fn yielding_tasks_go_round_in_the_order_of_their_wakes() {
    let order = Rc::new(RefCell::new(Vec::new()));
    let mut tasks = Tasks::with_capacity(8).expect("addresses are free");
    for index in [5, 0, 3] {
        let order = Rc::clone(&order);
        let task = async move {
            for _ in 0..3 {
                order.borrow_mut().push(current());
                yield_now().await;
            }
        };
        tasks.spawn_at(index, task).expect("it is free");
    }
    assert_eq!((tasks.len(), tasks.ready()), (3, 3));
    let mut finished = Vec::new();
    assert_eq!(tasks.run_with(10, |index| finished.push(index)), 10);
    assert_eq!((tasks.ready(), &finished), (2, &vec![5]));
    assert_eq!(tasks.run_with(10, |index| finished.push(index)), 2);
    assert_eq!(*order.borrow(), [5, 0, 3, 5, 0, 3, 5, 0, 3]);
    assert_eq!((finished, tasks.is_empty()), (vec![5, 0, 3], true));
}

#[test]
fn however_often_a_task_is_woken_it_is_polled_once() {
    let polls = Rc::new(Cell::new(0));
    let counted = Rc::clone(&polls);
    let mut tasks = Tasks::with_capacity(4).expect("addresses are free");
    let task = async move {
        loop {
            park().await;
            counted.set(counted.get() + 1);
            // A task that wakes itself is polled once more.
            if counted.get() == 1 {
                wake(2);
                wake(current());
            }
        }
    };
    tasks.spawn_at(2, task).expect("it is free");
    tasks.run(usize::MAX);
    tasks.wake(2);
    tasks.wake_all(&[2, 2, 2]);
    tasks.remote().wake(2);
    // Of no task: neither harm nor use.
    tasks.wake_all(&[0, 3, 4, u32::MAX]);
    assert_eq!(tasks.ready(), 1);
    assert_eq!((tasks.run(usize::MAX), polls.get()), (2, 2));
}

#[test]
fn a_task_may_wake_very_many() {
    let count = 5000;
    let awake = Rc::new(Cell::new(0));
    let mut tasks = Tasks::with_limits(count, SMALL_RING).expect("addresses are free");
    let make = |index: u32| {
        let awake = Rc::clone(&awake);
        async move {
            park().await;
            if index == 0 {
                (0..count as u32).rev().for_each(wake);
            } else {
                awake.set(awake.get() + 1);
            }
        }
    };
    assert_eq!(tasks.spawn_many(count, make), Ok(0..count as u32));
    tasks.run(usize::MAX);
    tasks.wake(0);
    assert_eq!(tasks.run(usize::MAX), count);
    assert_eq!((awake.get(), tasks.len()), (count - 1, 0));
}

#[test]
fn a_wake_is_not_kept_back_while_others_are_busy() {
    let awake = Rc::new(Cell::new(false));
    let mut tasks = Tasks::with_capacity(4).expect("addresses are free");
    let make = |index: u32| {
        let awake = Rc::clone(&awake);
        async move {
            match index {
                0 => {
                    yield_now().await;
                    wake(1);
                }
                1 => {
                    park().await;
                    awake.set(true);
                }
                _ => loop {
                    yield_now().await;
                },
            }
        }
    };
    tasks.spawn_many(4, make).expect("there is room");
    tasks.run(200);
    assert_eq!((awake.get(), tasks.len()), (true, 2));
}

#[test]
fn no_task_waits_longer_than_a_round_when_more_are_ready_than_the_ring_holds() {
    let count = 20_000;
    let last_polls = Rc::new(RefCell::new(vec![0_u64; count]));
    let longest = Rc::new(Cell::new(0));
    let clock = Rc::new(Cell::new(0));
    let mut tasks = Tasks::with_limits(count, SMALL_RING).expect("addresses are free");
    let make = |index: u32| {
        let (last_polls, longest, clock) = (Rc::clone(&last_polls), Rc::clone(&longest), Rc::clone(&clock));
        async move {
            loop {
                clock.set(clock.get() + 1);
                let last = std::mem::replace(&mut last_polls.borrow_mut()[index as usize], clock.get());
                longest.set(longest.get().max(clock.get() - last));
                yield_now().await;
            }
        }
    };
    tasks.spawn_many(count, make).expect("there is room");
    tasks.run(10 * count);
    // A round, and the ring once more when the rounds begin.
    assert!(longest.get() <= count as u64 + 1024 + 512, "{}", longest.get());
}

#[test]
fn sleepers_wake_in_time_and_not_before() {
    let log = Rc::new(RefCell::new(Vec::new()));
    let mut tasks = Tasks::with_limits(300, SMALL_RING).expect("addresses are free");
    let make = |index: u32| {
        let log = Rc::clone(&log);
        async move {
            // 30 lengths: more than have a queue.
            sleep(Duration::from_micros(u64::from(1 + index % 30))).await;
            log.borrow_mut().push((swarm::now().as_micros(), index % 30));
        }
    };
    tasks.spawn_many(300, make).expect("there is room");
    tasks.advance(Instant::from_micros(1000));
    tasks.run(usize::MAX);
    assert_eq!(tasks.next_deadline(), Some(Instant::from_micros(1001)));
    // Wakes of other kinds do not end a sleep.
    tasks.wake_all(&Vec::from_iter(0..300));
    assert_eq!((tasks.run(usize::MAX), tasks.len()), (300, 300));
    for now in 1001..1020 {
        assert_eq!(tasks.advance(Instant::from_micros(now)), 10);
        assert_eq!(tasks.run(usize::MAX), 10);
    }
    assert!(log.borrow().iter().all(|(now, length)| *now == 1001 + u64::from(*length)));
    // No more than the limit at once.
    let woken: Vec<usize> = (0..3).map(|_| tasks.advance(Instant::from_micros(5000))).collect();
    assert_eq!(woken, [100, 10, 0]);
    tasks.run(usize::MAX);
    assert_eq!((tasks.len(), tasks.next_deadline()), (0, None));
}

#[test]
fn more_sleeps_than_fit_into_one_poll_are_taken_in_the_next() {
    /// Polls a dozen sleeps at once, as a join does.
    async fn all() {
        let mut sleeps: Vec<_> = (1..=12).map(|step| Box::pin(sleep(Duration::from_micros(step)))).collect();
        poll_fn(|context| {
            sleeps.retain_mut(|sleep| sleep.as_mut().poll(context).is_pending());
            if sleeps.is_empty() { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
    let mut tasks = Tasks::with_capacity(1).expect("addresses are free");
    tasks.spawn_at(0, all()).expect("it is free");
    assert_eq!(tasks.run(usize::MAX), 2);
    while let Some(deadline) = tasks.next_deadline() {
        tasks.advance(deadline);
        tasks.run(usize::MAX);
    }
    assert!(tasks.is_empty());
}

#[test]
fn slots_are_used_again() {
    let mut tasks = Tasks::with_capacity(2).expect("addresses are free");
    let polls = Rc::new(Cell::new(0));
    let task = || {
        let polls = Rc::clone(&polls);
        async move {
            polls.set(polls.get() + 1);
            park().await;
        }
    };
    assert_eq!(tasks.spawn_at(1, task()), Ok(()));
    assert_eq!(tasks.spawn_at(1, task()), Err(SpawnError::Taken { index: 1 }));
    assert_eq!(tasks.spawn_at(2, task()), Err(SpawnError::Full { index: 2, capacity: 2 }));
    assert_eq!(tasks.spawn_many(1, |_| task()), Err(SpawnError::Full { index: 2, capacity: 2 }));
    // Removed while it was ready: its entry serves the next one, and serves it once.
    assert!(tasks.remove(1) && !tasks.remove(1) && !tasks.contains(1));
    assert_eq!(tasks.spawn_at(1, task()), Ok(()));
    assert_eq!((tasks.run(usize::MAX), polls.get()), (1, 1));
    // Removed while it was ready, and no task came after it.
    tasks.wake(1);
    assert!(tasks.remove(1));
    assert_eq!((tasks.run(usize::MAX), tasks.ready()), (0, 0));
    assert_eq!(Rc::strong_count(&polls), 1);
    assert_eq!(tasks.spawn_at(1, task()), Ok(()));
    assert_eq!(tasks.run(usize::MAX), 1);
}

/// The actions of a task of the model, one for each poll.
#[derive(Debug, Clone, Copy)]
enum Step {
    Yield,
    Park,
    Wake(u32),
    Sleep(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        Just(Step::Yield),
        Just(Step::Park),
        (0..40_u32).prop_map(Step::Wake),
        (0..50_u64).prop_map(Step::Sleep),
    ]
}

proptest! {
    /// Random scripts for tasks, and a driver that wakes, advances and runs in random portions. In the end
    /// each task is woken as often as its script parks, and all have gone through their scripts.
    #[test]
    fn every_script_ends(
        scripts in prop::collection::vec(prop::collection::vec(step(), 0..12), 40),
        driver in prop::collection::vec((0..40_u32, 0..20_usize, 0..10_u64), 0..60),
    ) {
        let done: Rc<RefCell<HashMap<u32, usize>>> = Rc::default();
        let mut tasks = Tasks::with_limits(40, SMALL_RING).expect("addresses are free");
        let expected: Vec<usize> = scripts.iter().map(Vec::len).collect();
        let mut scripts = scripts.into_iter();
        tasks
            .spawn_many(40, |index| {
                let script = scripts.next().unwrap_or_default();
                let done = Rc::clone(&done);
                async move {
                    for step in script {
                        match step {
                            Step::Yield => yield_now().await,
                            Step::Park => park().await,
                            Step::Wake(other) => wake(other),
                            Step::Sleep(micros) => {
                                let until = swarm::now() + Duration::from_micros(micros);
                                sleep(Duration::from_micros(micros)).await;
                                assert!(swarm::now() >= until);
                            }
                        }
                        *done.borrow_mut().entry(index).or_default() += 1;
                    }
                }
            })
            .expect("there is room");
        let mut now = Instant::default();
        for (index, limit, pass) in driver {
            tasks.wake(index);
            now = now + Duration::from_micros(pass);
            tasks.advance(now);
            prop_assert!(tasks.run(limit) <= limit);
        }
        for _ in 0..100 {
            now = now + Duration::from_micros(60);
            tasks.advance(now);
            tasks.wake_all(&Vec::from_iter(0..40));
            tasks.run(usize::MAX);
        }
        prop_assert_eq!((tasks.len(), tasks.ready(), tasks.counters().panicked), (0, 0, 0));
        let done: Vec<usize> = (0..40).map(|index| done.borrow().get(&index).copied().unwrap_or(0)).collect();
        prop_assert_eq!(done, expected);
    }
}

/// A sleep is "counted from this poll's `now` at the first poll", also if a task begins more of them at once than a poll can note.
#[test]
fn the_ninth_sleep_of_a_poll_counts_from_that_poll() {
    let mut tasks = Tasks::with_capacity(1).expect("addresses");
    tasks
        .spawn_at(0, async {
            let mut all: Vec<_> = (0..9).map(|_| sleep(Duration::from_millis(10))).collect();
            let mut over = [false; 9];
            poll_fn(|cx| {
                for (one, over) in all.iter_mut().zip(&mut over) {
                    *over = *over || Pin::new(one).poll(cx).is_ready();
                }
                if over == [true; 9] { Poll::Ready(()) } else { Poll::Pending }
            })
            .await;
        })
        .expect("free");
    tasks.run(1);
    tasks.advance(Instant::from_micros(5_000));
    tasks.run(usize::MAX);
    tasks.advance(Instant::from_micros(10_000));
    tasks.run(usize::MAX);
    assert_eq!(
        tasks.counters().finished,
        1,
        "ten milliseconds have passed; next {:?}",
        tasks.next_deadline()
    );
}

/// More tasks than can be counted do not fit: then none is spawned, and that is an error.
#[test]
fn more_tasks_than_can_be_counted_do_not_fit() {
    let mut tasks = Tasks::with_capacity(10).expect("addresses");
    for index in 0..5 {
        tasks.spawn_at(index, async {}).expect("free");
    }
    let spawned = tasks.spawn_many(usize::MAX - 2, |_| unreachable!("there is no room"));
    assert!(spawned.is_err(), "{spawned:?}");
}
