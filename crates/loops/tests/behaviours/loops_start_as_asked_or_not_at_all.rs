//! Options take effect, and impossible ones are refused with what would be possible.

use std::sync::{Arc, Barrier};

use anywire_loops::{Builder, Limits, Loops, Pinning, StartError, TaskError};
use anywire_sys::cpu;

#[test]
fn pinned_loops_run_on_their_cores() {
    let cores = cpu::available_cores();
    let loops = Loops::builder()
        .count(cores.len() + 1)
        .pinning(Pinning::Cores(cores.clone()))
        .name("pinned")
        .start()
        .expect("these cores are ours");
    for one in loops.iter() {
        let index = one.id().index();
        let core = cores[index % cores.len()];
        assert_eq!(one.core(), Some(core));
        let seen = one.spawn(|| async {
            (cpu::available_cores(), cpu::thread_id(), std::thread::current().name().map(str::to_owned))
        });
        assert_eq!(seen.wait(), Ok((vec![core], one.thread_id(), Some(format!("pinned-{index}")))));
    }
}

#[test]
fn without_a_count_there_is_one_for_each_core() {
    let loops = Loops::builder().start().expect("loops can be had");
    assert_eq!(loops.len(), cpu::available_cores().len());
    assert!(loops.iter().all(|one| one.core().is_none()));
}

#[test]
fn impossible_options_are_refused() {
    assert!(matches!(Loops::start(0), Err(StartError::Count(0))));
    assert!(matches!(Loops::start(Builder::COUNT_MAX + 1), Err(StartError::Count(_))));
    let none = Loops::builder().count(1).pinning(Pinning::Cores(Vec::new())).start();
    assert!(matches!(none, Err(StartError::NoCores)));
    let cores = vec![cpu::available_cores()[0], usize::MAX];
    let error = Loops::builder().count(2).pinning(Pinning::Cores(cores)).start().expect_err("no such core");
    assert!(matches!(error, StartError::Pin { core: usize::MAX, .. }), "{error}");
    assert!(error.to_string().contains("choose one of"), "{error}");
}

#[test]
fn hand_overs_beyond_the_limit_are_refused() {
    let limits = Limits { hand_overs_waiting: 3, ..Limits::default() };
    let loops = Loops::builder().count(1).limits(limits).start().expect("one loop can be had");
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
    let waiting: Vec<_> = (0..3).map(|number| one.spawn(move || async move { number })).collect();
    assert_eq!(one.spawn(|| async { 3 }).wait(), Err(TaskError::Full));
    let always = one.spawn_always(|| async { "always" });
    assert_eq!(one.counters().refused, 1);
    barrier.wait();
    for (number, task) in waiting.into_iter().enumerate() {
        assert_eq!(task.wait(), Ok(number));
    }
    assert_eq!(always.wait(), Ok("always"));
    blocker.wait().expect("the blocker ends");
    assert_eq!(one.spawn(|| async { 4 }).wait(), Ok(4), "there is room again");
}

#[test]
fn a_busy_loop_has_a_busy_share() {
    let loops = Loops::start(1).expect("one loop can be had");
    let one = loops.get(0);
    let worked = one.spawn(|| async {
        // The thread has worked before its loop was there.
        let spent = || cpu::current_thread_cpu().expect("getrusage works").total();
        let before = spent();
        while (spent() - before).as_millis() < 20 {
            std::hint::spin_loop();
        }
    });
    worked.wait().expect("the loop runs");
    loops.shutdown(std::time::Duration::ZERO).expect("not on a loop");
    let counters = one.counters();
    assert!(counters.busy.as_millis() >= 20 && counters.up >= counters.busy.mul_f64(0.5), "{counters:?}");
    assert!(counters.busy_share() > 0.0 && counters.busy_share() <= 1.0, "{counters:?}");
}
