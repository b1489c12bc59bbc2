//! A pool's room, order and counts stay right, in whatever order functions come, end, are refused and are given up.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use std::time::Duration;

use anywire_loops::{Loops, Pool, PoolError, PoolLimits, PoolOrder, block_on};

use crate::common::pool::{await_counters, give, hold, start};
use crate::common::{Bomb, HANG, poll_with};

/// Waits to be told when it is dropped.
struct SlowToDrop {
    begins: Sender<()>,
    goes_on: Receiver<()>,
}

impl Drop for SlowToDrop {
    fn drop(&mut self) {
        let _ = self.begins.send(());
        let _ = self.goes_on.recv();
    }
}

/// A pool counts its room once for several functions, and anew when it has fewer threads.
#[test]
fn a_smaller_pool_has_less_room_at_once() {
    let pool = start(3, 0);
    assert_eq!(block_on(pool.run(|| 1)), Ok(1));
    pool.resize(1).expect("no thread is needed");
    let held = hold(&pool);
    assert_eq!(poll_with(&mut pool.run(|| 2), Waker::noop()), Poll::Ready(Err(PoolError::Full)));
    held.end();
}

#[test]
fn the_latest_of_all_is_first_though_others_wait_already() {
    let limits = PoolLimits { threads: 1, queue: 9, order: PoolOrder::LatestFirst };
    let pool = Pool::start("test", limits).expect("a thread");
    let held = hold(&pool);
    let (sender, ran) = channel();
    let task = |number| {
        let sender = sender.clone();
        let mut task = pool.run(move || _ = sender.send(number));
        give(&mut task);
        task
    };
    let mut tasks = vec![task(1), task(2)];
    // To count them, the pool moves them to where its threads look.
    assert_eq!(pool.counters().queued, 2);
    tasks.push(task(3));
    held.end();
    tasks.into_iter().for_each(|task| assert_eq!(block_on(task), Ok(())));
    assert_eq!(ran.try_iter().collect::<Vec<_>>(), [3, 2, 1]);
}

#[test]
fn those_that_run_are_counted_one_by_one() {
    let pool = start(3, 0);
    let [first, second, third] = [hold(&pool), hold(&pool), hold(&pool)];
    assert_eq!(pool.counters().running, 3);
    second.end();
    await_counters(&pool, |counters| counters.running <= 2);
    assert_eq!(pool.counters().running, 2);
    // So there is room for one more, and no other.
    let again = hold(&pool);
    assert_eq!(block_on(pool.run(|| ())), Err(PoolError::Full));
    [first, again, third].into_iter().for_each(|held| held.end());
}

/// What a refused function has captured is dropped by the thread that refuses it. Meanwhile that thread is neither asleep nor searching, so
/// another one is called for what comes.
#[test]
fn a_thread_that_drops_what_is_late_holds_up_no_other() {
    let pool = start(2, 10);
    let (one, other) = (hold(&pool), hold(&pool));
    let ((begins, has_begun), (goes_on, told)) = (channel(), channel());
    let captured = SlowToDrop { begins, goes_on: told };
    let mut late = pool.run(move || drop(captured)).queue_deadline(Duration::from_nanos(1));
    give(&mut late);
    one.end();
    has_begun.recv_timeout(HANG).expect("a thread refuses it");
    other.end();
    for number in 0..100 {
        assert_eq!(block_on(pool.run(move || number)), Ok(number));
    }
    goes_on.send(()).expect("it waits");
    assert_eq!(block_on(late), Err(PoolError::Late));
}

/// Also while no thread is free to find it late, and though its task lives on.
#[test]
fn what_is_refused_at_once_is_dropped_at_once() {
    let pool = start(1, 0);
    let held = hold(&pool);
    let value = Arc::new(());
    for (deadline, expected) in [(Duration::ZERO, PoolError::Late), (Duration::MAX, PoolError::Full)] {
        let captured = Arc::clone(&value);
        let mut task = pool.run(move || drop(captured)).queue_deadline(deadline);
        assert_eq!(poll_with(&mut task, Waker::noop()), Poll::Ready(Err(expected)));
        assert_eq!(Arc::strong_count(&value), 1);
        drop(task);
    }
    let counters = pool.counters();
    assert_eq!((counters.rejected_late, counters.rejected_full, counters.abandoned), (1, 1, 0));
    held.end();
}

#[test]
fn what_is_late_on_a_loop_is_dropped_though_its_task_lives_on() {
    let (pool, loops) = (start(1, 10), Loops::start(1).expect("a loop starts"));
    let held = hold(&pool);
    let value = Arc::new(());
    let captured = Arc::clone(&value);
    let mut late = pool.run(move || drop(captured)).queue_deadline(Duration::from_nanos(1));
    let run = loops.get(0).spawn(move || async move {
        assert_eq!((&mut late).await, Err(PoolError::Late));
        assert_eq!(Arc::strong_count(&value), 1);
    });
    run.wait().expect("nothing in it panics");
    held.end();
}

#[test]
fn a_refused_function_that_cannot_be_dropped_harms_nobody() {
    let pool = start(1, 10);
    let held = hold(&pool);
    let bomb = Bomb(40);
    let mut late = pool.run(move || drop(bomb)).queue_deadline(Duration::from_nanos(1));
    let mut next = pool.run(|| 7);
    give(&mut late);
    give(&mut next);
    held.end();
    assert_eq!((block_on(late), block_on(next)), (Err(PoolError::Late), Ok(7)));
    let counters = pool.counters();
    assert_eq!((counters.threads, counters.panics, counters.rejected_late), (1, 0, 1));
}

#[test]
fn a_function_is_given_up_until_a_thread_has_it() {
    let pool = start(1, 10);
    let (ran, has_run) = channel();
    let ran = Mutex::new(ran);
    let mut never_given = pool.run(|| unreachable!("it is given up"));
    assert!(never_given.give_up());
    let (goes_on, told) = channel::<()>();
    let mut running = pool.run(move || {
        let _ = ran.lock().expect("no panic").send(());
        let _ = told.recv();
        7
    });
    give(&mut running);
    has_run.recv_timeout(HANG).expect("a thread takes it");
    let mut queued = pool.run(|| unreachable!("it is given up"));
    give(&mut queued);
    assert!(queued.give_up());
    assert!(poll_with(&mut queued, Waker::noop()).is_pending(), "it is never ready");
    assert_eq!((pool.counters().queued, pool.counters().abandoned), (0, 1));
    assert!(!running.give_up());
    drop(goes_on);
    assert_eq!(block_on(&mut running), Ok(7));
    assert!(!running.give_up(), "it has ended");
}
