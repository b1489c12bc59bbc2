//! A task outlives its handle, unless it is aborted: then its values are dropped on its loop.

use std::sync::{Arc, Barrier, mpsc};

use anywire_loops::{Loops, TaskError, current, spawn};

struct TellsDrop(mpsc::Sender<bool>);

impl Drop for TellsDrop {
    fn drop(&mut self) {
        let _ = self.0.send(current().is_some());
    }
}

#[test]
fn a_dropped_handle_lets_the_task_run_on() {
    let loops = Loops::start(1).expect("one loop can be had");
    let (tell, told) = mpsc::channel();
    drop(loops.get(0).spawn(move || async move {
        let inner = tell.clone();
        drop(spawn(async move {
            tokio::task::yield_now().await;
            inner.send("inner").expect("the test listens");
        }));
        tokio::task::yield_now().await;
        tell.send("outer").expect("the test listens");
    }));
    let mut names: Vec<_> = told.into_iter().collect();
    names.sort_unstable();
    assert_eq!(names, ["inner", "outer"]);
}

#[test]
fn aborted_while_it_waits() {
    let loops = Loops::start(1).expect("one loop can be had");
    let (tell, told) = mpsc::channel();
    let (begun, has_begun) = mpsc::channel();
    let guard = TellsDrop(tell);
    let task = loops.get(0).spawn(move || async move {
        let _guard = guard;
        begun.send(()).expect("the test listens");
        std::future::pending::<()>().await;
    });
    has_begun.recv().expect("it begins");
    task.abort();
    task.abort();
    assert_eq!(task.wait(), Err(TaskError::Aborted));
    assert_eq!(told.recv(), Ok(true), "dropped on the loop");
    assert_eq!(loops.get(0).counters().tasks_live, 0);
}

#[test]
fn aborted_before_it_begins() {
    let loops = Loops::start(1).expect("one loop can be had");
    let one = loops.get(0);
    let barrier = Arc::new(Barrier::new(2));
    let blocker = {
        let barrier = Arc::clone(&barrier);
        one.spawn(|| async move {
            barrier.wait();
            barrier.wait();
        })
    };
    barrier.wait();
    let (tell, told) = mpsc::channel();
    let guard = TellsDrop(tell);
    let task = one.spawn(move || {
        let _guard = guard;
        // Not even the closure runs.
        if true {
            unreachable!("it was aborted first")
        }
        async {}
    });
    task.abort();
    barrier.wait();
    assert_eq!(task.wait(), Err::<(), _>(TaskError::Aborted));
    blocker.wait().expect("the blocker ends");
    assert_eq!(told.recv(), Ok(true), "what it held is dropped on the loop");
    let counters = one.counters();
    assert_eq!((counters.panics, counters.tasks_spawned), (0, 1), "the blocker alone has begun");
}

#[test]
fn aborted_after_its_end_it_keeps_its_outcome() {
    let loops = Loops::start(1).expect("one loop can be had");
    let task = loops.get(0).spawn(|| async { 5 });
    loops.get(0).spawn(|| async {}).wait().expect("the loop runs");
    task.abort();
    assert_eq!(task.wait(), Ok(5));
}

#[test]
fn local_tasks_can_be_aborted_too() {
    let loops = Loops::start(1).expect("one loop can be had");
    let outcome = loops.get(0).spawn(|| async {
        let task = spawn(std::future::pending::<()>());
        tokio::task::yield_now().await;
        assert!(!task.is_finished());
        task.abort();
        task.await
    });
    assert_eq!(outcome.wait(), Ok(Err(TaskError::Aborted)));
}

#[test]
fn waiting_on_a_loop_is_refused() {
    let loops = Loops::start(2).expect("two loops can be had");
    let other = loops.get(1);
    let outcome = loops.get(0).spawn(move || async move { other.spawn(|| async {}).wait() });
    assert!(matches!(outcome.wait(), Err(TaskError::Panicked(text)) if text.contains("await it instead")));
}
