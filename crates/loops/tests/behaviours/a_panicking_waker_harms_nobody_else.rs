//! If a waker panics, when it wakes or when it is dropped, all other tasks are still woken.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::mpsc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use anywire_loops::{Deadline, Loops, TaskError, spawn, stopping};

use crate::common::{
    Blocked, assert_goes_on, panicking_waker, poll_with, wait_for, waker_that_panics_when_dropped,
};

fn one_loop() -> Loops {
    Loops::start(1).expect("one loop can be had")
}

fn both() -> [Waker; 2] {
    [panicking_waker(), waker_that_panics_when_dropped()]
}

#[test]
fn of_who_waits_for_a_task_from_elsewhere() {
    let loops = one_loop();
    let one = loops.get(0);
    let blocked = Blocked::new(&one);
    let mut tasks = Vec::new();
    for waker in both() {
        let mut task = one.spawn(|| async { 1 });
        assert!(poll_with(&mut task, &waker).is_pending());
        let mut in_closure = one.spawn(|| -> std::future::Ready<()> { panic!("before the future") });
        assert!(poll_with(&mut in_closure, &waker).is_pending());
        let mut aborted = one.spawn(std::future::pending::<()>);
        assert!(poll_with(&mut aborted, &waker).is_pending());
        aborted.abort();
        tasks.push((task, in_closure, aborted));
    }
    blocked.free();
    assert_goes_on(&one);
    assert_eq!(one.counters().panics, 5, "a closure panicked twice, and the first waker thrice");
    // The handles hold the last clone of the second waker.
    drop(tasks);
}

#[test]
fn of_who_waited_before() {
    let loops = one_loop();
    let blocked = Blocked::new(&loops.get(0));
    let mut task = loops.get(0).spawn(|| async { 1 });
    assert!(poll_with(&mut task, &waker_that_panics_when_dropped()).is_pending());
    // Another waiter replaces it, and drops the waker of the first.
    assert!(poll_with(&mut task, Waker::noop()).is_pending());
    blocked.free();
    assert_eq!(task.wait(), Ok(1));
}

#[test]
fn of_who_waits_when_a_loop_ends() {
    let loops = one_loop();
    let one = loops.get(0);
    let mut bombed = one.spawn(std::future::pending::<()>);
    assert!(poll_with(&mut bombed, &panicking_waker()).is_pending());
    let behind = one.spawn(std::future::pending::<()>);
    let shutdown = loops.shutdown(Duration::ZERO).expect("not on a loop");
    assert_eq!((shutdown.tasks_cut, shutdown.loops_stuck), (2, 0));
    assert_eq!(behind.wait(), Err(TaskError::Stopped));
}

#[test]
fn of_who_waits_for_a_task_of_the_loop() {
    let loops = one_loop();
    let one = loops.get(0);
    let checked = one.spawn(|| async {
        for waker in both() {
            let mut task = spawn(tokio::task::yield_now());
            assert!(poll_with(&mut task, &waker).is_pending());
            drop(waker);
            while !task.is_finished() {
                tokio::task::yield_now().await;
            }
            assert_eq!(task.await, Ok(()));
        }
    });
    assert_eq!(checked.wait(), Ok(()));
    assert_goes_on(&one);
    assert_eq!(one.counters().panics, 2);
}

#[test]
fn of_who_has_to_give_way() {
    let loops = Loops::start(2).expect("two loops can be had");
    let (one, other) = (loops.get(0), loops.get(1));
    let mut tasks: Vec<_> = (0..1000).map(|_| other.spawn(|| async {})).collect();
    other.spawn(|| async {}).wait().expect("taken in order, so that those before it have ended");
    let asked = one.spawn(move || async move {
        // After some that have ended, the runtime wants others to have their turns.
        let polled = tasks.iter_mut().map(|task| poll_with(task, &panicking_waker()));
        polled.filter(Poll::is_pending).count()
    });
    assert!(asked.wait().expect("nothing in it panics") > 0);
    assert_goes_on(&one);
}

#[test]
fn of_who_waits_for_a_deadline() {
    let loops = one_loop();
    let one = loops.get(0);
    let (tell, told) = mpsc::channel();
    let waiting: Vec<_> = (0..5)
        .map(|number| {
            let tell = tell.clone();
            one.spawn(move || async move {
                let deadline = Deadline::new();
                deadline.set(Duration::ZERO);
                let bombs = both().map(|waker| {
                    let deadline = Deadline::new();
                    deadline.set(Duration::ZERO);
                    assert!(deadline.poll_expired(&mut Context::from_waker(&waker)).is_pending());
                    deadline
                });
                poll_fn(|context| deadline.poll_expired(context)).await;
                drop(bombs);
                tell.send(number).expect("the test listens");
            })
        })
        .collect();
    for _ in &waiting {
        wait_for(&told);
    }
    for task in waiting {
        task.wait().expect("nothing in it panics");
    }
    // Five wakers of each kind; and the deadlines after them still expire.
    assert_eq!(one.counters().panics, 10);
    let later = one.spawn(|| async {
        let deadline = Deadline::new();
        deadline.set(Duration::ZERO);
        poll_fn(|context| deadline.poll_expired(context)).await;
    });
    assert_eq!(later.wait(), Ok(()));
}

#[test]
fn of_who_waits_for_the_end() {
    let loops = one_loop();
    let one = loops.get(0);
    let (tell, told) = mpsc::channel();
    let tasks: Vec<_> = (0..100)
        .map(|number| {
            let tell = tell.clone();
            one.spawn(move || async move {
                let mut end = pin!(stopping());
                if number % 3 == 0 {
                    let [wakes, drops] = both();
                    let waker = if number % 2 == 0 { wakes } else { drops };
                    assert!(end.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
                    tell.send(()).expect("the test listens");
                    // Ends when the others have.
                    std::future::pending::<()>().await;
                }
                let mut told = false;
                poll_fn(|context| {
                    let polled = end.as_mut().poll(context);
                    if !told {
                        told = true;
                        tell.send(()).expect("the test listens");
                    }
                    polled
                })
                .await;
            })
        })
        .collect();
    for _ in &tasks {
        wait_for(&told);
    }
    let ending = std::thread::spawn(move || loops.shutdown(Duration::from_secs(600)));
    let (bombed, told): (Vec<_>, Vec<_>) =
        tasks.into_iter().enumerate().partition(|(number, _)| number % 3 == 0);
    for (number, task) in told {
        assert_eq!(task.wait(), Ok(()), "task {number} is told");
    }
    for (_, task) in bombed {
        task.abort();
        assert_eq!(task.wait(), Err(TaskError::Aborted));
    }
    assert!(ending.join().expect("it does not panic").expect("not on a loop").is_clean());
}
