//! However many hand-overs wait, the loop's tasks, timers and sockets have their turns between them.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use anywire_loops::{Loops, TaskError, current, local, spawn};

use crate::common::{Blocked, HANG, wait_for};

/// How many hand-overs wait in these tests: below the default limit, and far above what a loop may take in one go.
const MANY: u32 = 50_000;
/// More than this in one go would be a loop that thinks of hand-overs only.
const IN_ONE_GO_MAX: u64 = 500;

#[derive(Default)]
struct Seen {
    since_turn: Cell<u64>,
    most_since_turn: Cell<u64>,
    most_live: Cell<u64>,
    turns: Cell<u64>,
}

#[test]
fn of_a_burst_only_some_are_taken_in_one_go() {
    let loops = Loops::start(1).expect("one loop can be had");
    let one = loops.get(0);
    let spinner = one.spawn(|| async {
        let seen = local(Seen::default);
        loop {
            // The runtime resumes this after it has looked after timers and sockets.
            tokio::task::yield_now().await;
            seen.turns.set(seen.turns.get() + 1);
            seen.since_turn.set(0);
        }
    });
    let blocked = Blocked::new(&one);
    let tasks: Vec<_> = (0..MANY)
        .map(|number| {
            one.spawn(move || {
                let seen = local(Seen::default);
                seen.since_turn.set(seen.since_turn.get() + 1);
                seen.most_since_turn.set(seen.most_since_turn.get().max(seen.since_turn.get()));
                let live = current().expect("on a loop").counters().tasks_live;
                seen.most_live.set(seen.most_live.get().max(live));
                async move { number }
            })
        })
        .collect();
    blocked.free();
    for (number, task) in tasks.into_iter().enumerate() {
        assert_eq!(task.wait(), Ok(number as u32), "in order, and none is lost");
    }
    let seen = one.spawn(|| async {
        let seen = local(Seen::default);
        (seen.most_since_turn.get(), seen.most_live.get())
    });
    let (most_since_turn, most_live) = seen.wait().expect("the loop runs");
    assert!(most_since_turn <= IN_ONE_GO_MAX, "{most_since_turn} hand-overs between two turns of a task");
    assert!(most_live <= IN_ONE_GO_MAX, "{most_live} tasks were made before they had their turns");
    spinner.abort();
}

#[test]
fn a_stream_of_them_does_not_stop_a_timer() {
    let loops = Loops::start(1).expect("one loop can be had");
    let one = loops.get(0);
    let (begin, may_begin) = tokio::sync::oneshot::channel();
    let (tell, told) = mpsc::channel();
    let timer = one.spawn(|| async move {
        may_begin.await.expect("the senders begin");
        for _ in 0..10 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        tell.send(()).expect("the test listens");
    });
    let enough = Arc::new(AtomicBool::new(false));
    let senders: Vec<_> = (0..2)
        .map(|_| {
            let (one, enough) = (one.clone(), Arc::clone(&enough));
            thread::spawn(move || {
                while !enough.load(Relaxed) {
                    drop(one.spawn(|| async {}));
                }
            })
        })
        .collect();
    begin.send(()).expect("the timer waits");
    wait_for(&told);
    enough.store(true, Relaxed);
    for sender in senders {
        sender.join().expect("it does not panic");
    }
    assert_eq!(timer.wait(), Ok(()));
}

#[test]
fn who_awaits_many_that_have_ended_gives_way() {
    let loops = Loops::start(2).expect("two loops can be had");
    let other = loops.get(1);
    let tasks: Vec<_> = (0..MANY).map(|number| other.spawn(move || async move { number })).collect();
    other.spawn(|| async {}).wait().expect("taken in order, so that those before it have ended");
    let turns = loops.get(0).spawn(|| async {
        let seen = local(Seen::default);
        let neighbour = spawn(async {
            let seen = local(Seen::default);
            loop {
                tokio::task::yield_now().await;
                seen.turns.set(seen.turns.get() + 1);
            }
        });
        for (number, task) in tasks.into_iter().enumerate() {
            assert_eq!(task.await, Ok(number as u32));
        }
        neighbour.abort();
        seen.turns.get()
    });
    let turns = turns.wait().expect("no assertion failed");
    assert!(turns > 10, "{turns} turns of a neighbour");
}

#[test]
fn being_told_to_stop_does_not_wait_for_those_before() {
    let loops = Loops::start(1).expect("one loop can be had");
    let one = loops.get(0);
    let blocked = Blocked::new(&one);
    let tasks: Vec<_> = (0..MANY).map(|_| one.spawn(std::future::pending::<()>)).collect();
    let (tell, told) = mpsc::channel();
    let ending = thread::spawn(move || {
        // The loop is blocked, so the first call leaves it behind.
        let first = loops.shutdown(Duration::ZERO);
        tell.send(first).expect("the test listens");
        loops.shutdown(HANG)
    });
    let first = wait_for(&told).expect("not on a loop");
    assert_eq!((first.tasks_cut, first.loops_stuck), (0, 1));
    blocked.free();
    let shutdown = ending.join().expect("it does not panic").expect("not on a loop");
    assert_eq!((shutdown.tasks_cut, shutdown.loops_stuck), (u64::from(MANY), 0));
    let begun = one.counters().tasks_spawned;
    assert!(begun < u64::from(MANY) / 2, "{begun} tasks begun after the loop was told to stop");
    for task in tasks {
        assert_eq!(task.wait(), Err(TaskError::Stopped));
    }
}

#[test]
fn those_before_the_end_are_begun_all_the_same() {
    let loops = Loops::start(1).expect("one loop can be had");
    let one = loops.get(0);
    let blocked = Blocked::new(&one);
    let tasks: Vec<_> = (0..MANY)
        .map(|number| {
            one.spawn(move || async move {
                let inner = spawn(async move { number });
                inner.await
            })
        })
        .collect();
    let ending = thread::spawn(move || loops.shutdown(HANG));
    blocked.free();
    for (number, task) in tasks.into_iter().enumerate() {
        assert_eq!(task.wait(), Ok(Ok(number as u32)));
    }
    assert!(ending.join().expect("it does not panic").expect("not on a loop").is_clean());
}
