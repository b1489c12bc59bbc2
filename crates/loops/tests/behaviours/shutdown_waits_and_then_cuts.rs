//! Shutdown lets tasks finish until its deadline, cuts the rest, and says how many.

use std::sync::{Arc, Barrier, mpsc};
use std::thread;
use std::time::Duration;

use anywire_loops::{Loops, ShutdownError, TaskError, stopping};

/// Long enough that a test which gets there has failed.
const NEVER: Duration = Duration::from_secs(600);

/// A longer wait than this is a hang.
const HANG: Duration = Duration::from_secs(60);

struct TellsDrop(mpsc::Sender<&'static str>);

impl Drop for TellsDrop {
    fn drop(&mut self) {
        let _ = self.0.send("dropped");
    }
}

#[test]
fn tasks_that_listen_end_by_themselves() {
    let loops = Loops::start(2).expect("two loops can be had");
    let tasks: Vec<_> = loops
        .iter()
        .map(|one| {
            one.spawn(|| async {
                stopping().await;
                // What is left to do may need its loop, and tasks of its own.
                let last_words = anywire_loops::spawn(async { "good-bye" });
                // A second time it resolves at once.
                stopping().await;
                last_words.await.expect("the loop still runs")
            })
        })
        .collect();
    let shutdown = loops.shutdown(NEVER).expect("not on a loop");
    assert!(shutdown.is_clean(), "{shutdown:?}");
    for task in tasks {
        assert_eq!(task.wait(), Ok("good-bye"));
    }
}

#[test]
fn tasks_that_do_not_are_cut_at_the_deadline() {
    let loops = Loops::start(2).expect("two loops can be had");
    let (tell, told) = mpsc::channel();
    let tasks: Vec<_> = loops
        .iter()
        .map(|one| {
            let guard = TellsDrop(tell.clone());
            one.spawn(|| async move {
                let _guard = guard;
                std::future::pending::<()>().await;
            })
        })
        .collect();
    let shutdown = loops.shutdown(Duration::from_millis(10)).expect("not on a loop");
    assert_eq!((shutdown.tasks_cut, shutdown.loops_stuck), (2, 0));
    assert_eq!(told.try_iter().count(), 2, "their values were dropped");
    for task in tasks {
        assert_eq!(task.wait(), Err(TaskError::Stopped));
    }
    // Afterwards: refused, typed, and no harm.
    assert_eq!(loops.get(0).spawn(|| async {}).wait(), Err(TaskError::Stopped));
    let again = loops.shutdown(NEVER).expect("not on a loop");
    assert_eq!(again.tasks_cut, 2);
    let counters = loops.get(1).counters();
    assert!(counters.up > Duration::ZERO && counters.up == loops.get(1).counters().up, "it has ended");
}

#[test]
fn each_task_that_is_cut_is_counted() {
    let loops = Loops::start(2).expect("two loops can be had");
    let tasks: Vec<_> = [0, 1, 1, 1, 1]
        .map(|index| {
            loops.get(index).spawn(|| async {
                // A task of the loop counts like one that was handed over.
                let _inner = anywire_loops::spawn(std::future::pending::<()>());
                std::future::pending::<()>().await;
            })
        })
        .into();
    for one in loops.iter() {
        one.spawn(|| async {}).wait().expect("taken in order, so that those before it have begun");
    }
    let shutdown = loops.shutdown(Duration::ZERO).expect("not on a loop");
    assert_eq!((shutdown.tasks_cut, shutdown.loops_stuck), (10, 0));
    for task in tasks {
        assert_eq!(task.wait(), Err(TaskError::Stopped));
    }
}

#[test]
fn a_later_deadline_does_not_replace_an_earlier_one() {
    let loops = Loops::start(1).expect("one loop can be had");
    let (tell, told) = mpsc::channel();
    let task = loops.get(0).spawn(|| async move {
        stopping().await;
        tell.send(()).expect("the test listens");
        std::future::pending::<()>().await;
    });
    loops.get(0).spawn(|| async {}).wait().expect("taken in order, so that the task before it has begun");
    let in_time = |deadline| {
        let loops = loops.clone();
        let (tell, told) = mpsc::channel();
        thread::spawn(move || tell.send(loops.shutdown(deadline)));
        told
    };
    // Long enough for the second to be heard of before it.
    let first = in_time(Duration::from_millis(500));
    told.recv_timeout(HANG).expect("the loop is told");
    let second = in_time(NEVER);
    for outcome in [first, second] {
        let shutdown = outcome.recv_timeout(HANG).expect("cut at the first deadline").expect("not on a loop");
        assert_eq!(shutdown.tasks_cut, 1);
    }
    assert_eq!(task.wait(), Err(TaskError::Stopped));
}

#[test]
fn an_earlier_deadline_replaces_a_later_one() {
    let loops = Loops::start(1).expect("one loop can be had");
    let (tell, told) = mpsc::channel();
    drop(loops.get(0).spawn(|| async move {
        stopping().await;
        tell.send(()).expect("the test listens");
        std::future::pending::<()>().await;
    }));
    let patient = thread::spawn({
        let loops = loops.clone();
        move || loops.shutdown(NEVER)
    });
    told.recv_timeout(HANG).expect("the loop is told");
    assert_eq!(loops.shutdown(Duration::ZERO).expect("not on a loop").tasks_cut, 1);
    assert_eq!(patient.join().expect("it does not panic").expect("not on a loop").tasks_cut, 1);
}

#[test]
fn an_endless_deadline_is_fine() {
    let loops = Loops::start(1).expect("one loop can be had");
    assert!(loops.shutdown(Duration::MAX).expect("not on a loop").is_clean());
}

#[test]
fn a_loop_cannot_shut_itself_down() {
    let loops = Loops::start(1).expect("one loop can be had");
    let outcome = loops.get(0).spawn({
        let loops = loops.clone();
        move || async move { loops.shutdown(NEVER) }
    });
    assert_eq!(outcome.wait(), Ok(Err(ShutdownError::OnLoop)));
    assert!(loops.shutdown(NEVER).expect("not on a loop").is_clean());
}

#[test]
fn a_loop_that_is_blocked_is_left_behind() {
    let loops = Loops::start(2).expect("two loops can be had");
    let barrier = Arc::new(Barrier::new(2));
    let blocker = {
        let barrier = Arc::clone(&barrier);
        loops.get(0).spawn(|| async move {
            barrier.wait();
            barrier.wait();
        })
    };
    barrier.wait();
    let shutdown = loops.shutdown(Duration::ZERO).expect("not on a loop");
    assert_eq!((shutdown.tasks_cut, shutdown.loops_stuck), (0, 1));
    barrier.wait();
    assert_eq!(blocker.wait(), Ok(()));
    assert!(loops.shutdown(NEVER).expect("not on a loop").is_clean(), "now it has ended too");
}
