//! A destructor that panics ends nothing: neither its loop, nor other tasks, nor the process, wherever it runs.

use std::panic::panic_any;
use std::sync::mpsc;
use std::time::Duration;

use anywire_loops::{Limits, Loops, TaskError, current, local, spawn};

use crate::common::{Blocked, Bomb, assert_goes_on, wait_for};

fn one_loop() -> Loops {
    Loops::start(1).expect("one loop can be had")
}

#[test]
fn of_a_closure_that_was_aborted_in_the_inbox() {
    let loops = one_loop();
    let blocked = Blocked::new(&loops.get(0));
    let (bomb, other) = (Bomb(3), Bomb(3));
    let aborted = loops.get(0).spawn(move || {
        let _bomb = bomb;
        async {}
    });
    // Its handle is dropped too, so the loop holds the last reference.
    let unattended = loops.get(0).spawn(move || {
        let _bomb = other;
        async {}
    });
    unattended.abort();
    drop(unattended);
    let behind = loops.get(0).spawn(|| async { 1 });
    aborted.abort();
    blocked.free();
    assert_eq!(aborted.wait(), Err(TaskError::Aborted));
    assert_eq!(behind.wait(), Ok(1));
    assert_goes_on(&loops.get(0));
    assert_eq!(loops.get(0).counters().panics, 2);
}

#[test]
fn of_a_closure_that_was_refused() {
    let limits = Limits { hand_overs_waiting: 1, ..Limits::default() };
    let loops = Loops::builder().count(1).limits(limits).start().expect("one loop can be had");
    let one = loops.get(0);
    let bombed = |bomb: Bomb| {
        move || {
            let _bomb = bomb;
            async {}
        }
    };
    let blocked = Blocked::new(&one);
    let waiting = one.spawn(|| async { 1 });
    assert_eq!(one.spawn(bombed(Bomb(2))).wait(), Err(TaskError::Full));
    blocked.free();
    assert_eq!(waiting.wait(), Ok(1));
    drop(loops);
    // From some moment on the loop has ended; either way nothing unwinds into the caller.
    while one.spawn(bombed(Bomb(1))).wait() != Err(TaskError::Stopped) {}
}

#[test]
fn of_closures_that_wait_when_their_loop_ends() {
    let loops = one_loop();
    let one = loops.get(0);
    let blocked = Blocked::new(&one);
    // More than a loop begins before it is cut; the last are bombs.
    const MANY: u32 = 20_000;
    let tasks: Vec<_> = (0..MANY)
        .map(|number| {
            let bomb = Bomb(number.saturating_sub(MANY - 10));
            one.spawn(move || {
                let held = bomb;
                async move {
                    let _held = held;
                    std::future::pending::<()>().await;
                }
            })
        })
        .collect();
    drop(loops);
    blocked.free();
    for task in tasks {
        assert_eq!(task.wait(), Err(TaskError::Stopped));
    }
    assert!(one.counters().tasks_spawned < u64::from(MANY) - 10, "the bombs had not begun");
}

#[test]
fn of_what_a_panic_carries() {
    let loops = one_loop();
    let one = loops.get(0);
    let unnamed = || Err::<(), _>(TaskError::Panicked("(a panic without text)".into()));
    for depth in [1, 2, 5, 100] {
        let in_closure = one.spawn(move || -> std::future::Ready<()> { panic_any(Bomb(depth)) });
        assert_eq!(in_closure.wait(), unnamed());
        let in_future = one.spawn(move || async move { panic_any(Bomb(depth)) });
        assert_eq!(in_future.wait(), unnamed());
        let in_local = one.spawn(move || async move { spawn(async move { panic_any(Bomb(depth)) }).await });
        assert_eq!(in_local.wait(), Ok(unnamed()));
        drop(one.spawn(move || async move { drop(spawn(async move { panic_any(Bomb(depth)) })) }));
    }
    assert_goes_on(&one);
    assert_eq!(one.counters().panics, 16);
}

#[test]
fn of_an_output_that_nobody_takes() {
    let loops = one_loop();
    let one = loops.get(0);
    let blocked = Blocked::new(&one);
    drop(one.spawn(|| async { Bomb(2) }));
    drop(one.spawn(|| async {
        drop(spawn(async { Bomb(3) }));
        // Its output is there before its handle is dropped.
        let finished = spawn(async { Bomb(3) });
        while !finished.is_finished() {
            tokio::task::yield_now().await;
        }
        drop(finished);
    }));
    blocked.free();
    assert_goes_on(&one);
    assert_eq!(one.counters().panics, 3);
    // If the caller drops the handle, the panic does not unwind into the caller either.
    let task = one.spawn(|| async { Bomb(2) });
    one.spawn(|| async {}).wait().expect("taken in order, so that the task before it is over");
    drop(task);
}

#[test]
fn of_a_future_at_its_end() {
    struct Bombed {
        _held: Bomb,
    }
    impl Future for Bombed {
        type Output = Bomb;
        fn poll(self: std::pin::Pin<&mut Self>, _: &mut std::task::Context<'_>) -> std::task::Poll<Bomb> {
            std::task::Poll::Ready(Bomb(2))
        }
    }
    let loops = one_loop();
    let one = loops.get(0);
    // Future and output both panic when dropped. The caller gets the output all the same.
    let mut output =
        one.spawn(|| Bombed { _held: Bomb(2) }).wait().expect("the future gave it before it was dropped");
    output.0 = 0;
    drop(one.spawn(|| async { drop(spawn(Bombed { _held: Bomb(2) })) }));
    assert_goes_on(&one);
    assert_eq!(one.counters().panics, 3);
}

#[test]
fn of_a_task_that_is_aborted_or_cut() {
    let loops = one_loop();
    let one = loops.get(0);
    let (tell, told) = mpsc::channel();
    let unending = |depth| {
        let tell = tell.clone();
        move || async move {
            let _bomb = Bomb(depth);
            tell.send(()).expect("the test listens");
            std::future::pending::<()>().await;
        }
    };
    let aborted = one.spawn(unending(3));
    wait_for(&told);
    aborted.abort();
    assert_eq!(aborted.wait(), Err(TaskError::Aborted));
    let aborted_here = one.spawn({
        let unending = unending(3);
        move || async move {
            let task = spawn(unending());
            tokio::task::yield_now().await;
            task.abort();
            task.await
        }
    });
    assert_eq!(aborted_here.wait(), Ok(Err(TaskError::Aborted)));
    assert_eq!(one.counters().panics, 2);

    let cut = [one.spawn(unending(1)), one.spawn(unending(2)), one.spawn(unending(3))];
    let shutdown = loops.shutdown(Duration::ZERO).expect("not on a loop");
    assert_eq!((shutdown.tasks_cut, shutdown.loops_stuck), (3, 0));
    for task in cut {
        assert_eq!(task.wait(), Err(TaskError::Stopped));
    }
}

#[test]
fn of_values_that_a_loop_keeps() {
    struct First(#[expect(dead_code, reason = "dropped, not read")] Bomb);
    struct Second(mpsc::Sender<bool>);
    impl Drop for Second {
        fn drop(&mut self) {
            let _ = self.0.send(current().is_some());
        }
    }
    struct Third(#[expect(dead_code, reason = "dropped, not read")] Bomb);
    let loops = one_loop();
    let (tell, told) = mpsc::channel();
    let made = loops.get(0).spawn(|| async {
        local(|| First(Bomb(2)));
        local(|| Second(tell));
        local(|| Third(Bomb(2)));
    });
    made.wait().expect("the loop runs");
    assert!(loops.shutdown(Duration::from_secs(600)).expect("not on a loop").is_clean());
    assert!(wait_for(&told), "dropped on the loop");
    assert_eq!(loops.get(0).counters().panics, 2);
}
