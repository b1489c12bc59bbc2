//! A panic in a task is caught, counted and returned by its handle. The loop and its other tasks go on.

use anywire_loops::{Loops, TaskError, spawn};

#[test]
fn a_panic_ends_only_its_task() {
    let loops = Loops::start(1).expect("one loop can be had");
    let one = loops.get(0);
    let (go, gate) = tokio::sync::oneshot::channel::<()>();
    let bystander = one.spawn(|| async { gate.await.is_ok() });

    let in_future = one.spawn(|| async {
        tokio::task::yield_now().await;
        panic!("number {}", 7)
    });
    assert_eq!(in_future.wait(), Err::<(), _>(TaskError::Panicked("number 7".into())));

    let in_closure = one.spawn(|| {
        if true {
            panic!("before the future")
        }
        async {}
    });
    assert_eq!(in_closure.wait(), Err(TaskError::Panicked("before the future".into())));

    let in_local_task = one.spawn(|| async {
        let task = spawn(async { std::panic::panic_any(5) });
        let outcome: Result<(), TaskError> = task.await;
        outcome
    });
    assert_eq!(in_local_task.wait(), Ok(Err(TaskError::Panicked("(a panic without text)".into()))));

    // This one is not awaited, and is counted all the same.
    drop(one.spawn(|| async { panic!("unheard") }));
    // Tasks begin in the order in which they were handed over, so that one is over now.
    one.spawn(|| async {}).wait().expect("the loop goes on");

    go.send(()).expect("the bystander still waits");
    assert_eq!(bystander.wait(), Ok(true));
    let counters = one.counters();
    assert_eq!((counters.panics, counters.tasks_live), (4, 0));
}

#[test]
fn a_panic_in_a_destructor_is_told_too() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("while dropped");
        }
    }
    let loops = Loops::start(1).expect("one loop can be had");
    let bomb = loops.get(0).spawn(|| async {
        let _bomb = Bomb;
        tokio::task::yield_now().await;
    });
    assert_eq!(bomb.wait(), Err(TaskError::Panicked("while dropped".into())));
    let aborted = loops.get(0).spawn(|| async {
        let task = spawn(async {
            let _bomb = Bomb;
            std::future::pending::<()>().await;
        });
        tokio::task::yield_now().await;
        task.abort();
        task.await
    });
    assert!(aborted.wait().expect("the loop goes on").is_err());
    assert_eq!(loops.get(0).spawn(|| async { 1 }).wait(), Ok(1));
}
