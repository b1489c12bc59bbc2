//! A loop whose runtime panics has died: it says so, gets no more work, and a shutdown tells what it cost.

use std::pin::pin;
use std::sync::mpsc;
use std::task::Context;
use std::time::Duration;

use anywire_loops::{LoopState, Loops, TaskError};

use crate::common::{Bomb, HANG, assert_goes_on, panicking_waker, wait_for};

/// Ends a loop in the one way that is left: the runtime's timer calls a waker that panics.
fn kill(loops: &Loops, index: usize) {
    let killer = loops.get(index).spawn(|| async {
        let mut sleep = pin!(tokio::time::sleep(Duration::from_millis(1)));
        assert!(sleep.as_mut().poll(&mut Context::from_waker(&panicking_waker())).is_pending());
        std::future::pending::<()>().await;
    });
    assert_eq!(killer.wait(), Err(TaskError::Stopped));
}

#[test]
fn a_loop_that_died_is_known() {
    let loops = Loops::start(3).expect("three loops can be had");
    let (tell, told) = mpsc::channel();
    let unending: Vec<_> = loops
        .iter()
        .map(|one| {
            let tell = tell.clone();
            one.spawn(|| async move {
                let _bomb = Bomb(2);
                tell.send(()).expect("the test listens");
                std::future::pending::<()>().await;
            })
        })
        .collect();
    for _ in &unending {
        wait_for(&told);
    }
    kill(&loops, 1);

    let states: Vec<_> = loops.iter().map(|one| one.state()).collect();
    assert_eq!(states, [LoopState::Running, LoopState::Died, LoopState::Running]);
    assert_eq!(loops.get(1).counters().state, LoopState::Died);
    assert_eq!(loops.get(1).spawn(|| async {}).wait(), Err(TaskError::Stopped));
    for _ in 0..10 {
        for picked in [loops.pick(), loops.next_in_turn()] {
            assert_ne!(picked.id().index(), 1);
            assert_goes_on(&picked);
        }
    }
    let shutdown = loops.shutdown(Duration::ZERO).expect("not on a loop");
    // Of the dead loop two tasks, the one that killed it included; of each other loop one.
    assert_eq!((shutdown.loops_died, shutdown.loops_stuck, shutdown.tasks_cut), (1, 0, 4));
    assert!(!shutdown.is_clean());
    for task in unending {
        assert_eq!(task.wait(), Err(TaskError::Stopped));
    }
    let states: Vec<_> = loops.iter().map(|one| one.state()).collect();
    assert_eq!(states, [LoopState::Ended, LoopState::Died, LoopState::Ended]);
}

#[test]
fn with_all_loops_dead_work_is_refused() {
    let loops = Loops::start(2).expect("two loops can be had");
    kill(&loops, 0);
    kill(&loops, 1);
    for _ in 0..4 {
        assert_eq!(loops.pick().spawn(|| async {}).wait(), Err(TaskError::Stopped));
    }
    let shutdown = loops.shutdown(HANG).expect("not on a loop");
    assert_eq!((shutdown.loops_died, shutdown.tasks_cut), (2, 2));
}

#[test]
fn a_loop_that_dies_is_not_picked_by_what_it_drops() {
    struct Picks(Loops, mpsc::Sender<usize>);
    impl Drop for Picks {
        fn drop(&mut self) {
            let _ = self.1.send(self.0.pick().id().index());
        }
    }
    let loops = Loops::start(2).expect("two loops can be had");
    let (tell, told) = mpsc::channel();
    let picks = Picks(loops.clone(), tell);
    drop(loops.get(0).spawn(|| async move {
        let _picks = picks;
        std::future::pending::<()>().await;
    }));
    kill(&loops, 0);
    assert_eq!(wait_for(&told), 1);
}
