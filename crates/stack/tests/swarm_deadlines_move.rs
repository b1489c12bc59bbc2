//! A deadline comes at its time, to the millisecond and never early, wherever it was before.

use std::cell::{Cell, RefCell};
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use anywire_stack::swarm::{Deadline, Instant, Tasks, now, select, sleep, yield_now};

const DAY: Duration = Duration::from_secs(86_400);

/// Runs one task from a moment on, until it ends.
fn run(from_micros: u64, task: impl Future<Output = ()>) {
    let mut tasks = Tasks::with_capacity(1).expect("addresses are free");
    tasks.advance(Instant::from_micros(from_micros));
    tasks.spawn_at(0, task).expect("it is free");
    tasks.run(usize::MAX);
    while let Some(at) = tasks.next_deadline().filter(|_| !tasks.is_empty()) {
        tasks.advance(at);
        tasks.run(usize::MAX);
    }
    assert_eq!(tasks.counters().finished, 1);
}

#[test]
fn one_that_was_waited_for_may_become_earlier() {
    run(1_000_000, async {
        let (mut deadline, begun) = (Deadline::after(Duration::from_secs(10)), now());
        for seconds in [5, 7, 1] {
            select(&mut deadline, yield_now()).await;
            deadline.reset(Duration::from_secs(seconds));
        }
        (&mut deadline).await;
        assert_eq!(now().since(begun), Duration::from_secs(1));
        // And later again, after it has passed.
        deadline.reset(Duration::from_secs(3));
        (&mut deadline).await;
        assert_eq!(now().since(begun), Duration::from_secs(4));
    });
}

#[test]
fn it_is_never_early() {
    for start in [1_000_000, 1_000_001, 1_000_999] {
        run(start, async {
            for micros in [0, 1, 999, 1000, 1001, 123_456] {
                let (wanted, begun) = (Duration::from_micros(micros), now());
                Deadline::after(wanted).await;
                let late = now().since(begun).checked_sub(wanted).expect("not early");
                assert!(late < Duration::from_millis(1), "{micros} after {begun:?}: {late:?} late");
            }
        });
    }
}

#[test]
fn the_milliseconds_may_wrap() {
    // In 49 days, which 32 bits of milliseconds are.
    let wrap = (1 << 32) * 1000;
    for start in [wrap - 1_500_000, wrap - 3000, wrap - 1000, wrap - 1, wrap] {
        run(start, async {
            for wanted in [1, 2, 3, 1000].map(Duration::from_millis).into_iter().chain([20 * DAY]) {
                let begun = now();
                Deadline::after(wanted).await;
                let late = now().since(begun).checked_sub(wanted).expect("not early");
                assert!(late <= Duration::from_millis(1), "{wanted:?} after {begun:?}: {late:?} late");
            }
        });
    }
}

#[test]
fn the_longest_time_is_24_days() {
    run(1_000_000, async {
        let begun = now();
        Deadline::after(100 * DAY).await;
        let days = now().since(begun).as_secs() / DAY.as_secs();
        assert_eq!(days, 24);
    });
}

#[test]
fn a_task_may_wait_for_many_at_once() {
    let ended = RefCell::new(Vec::new());
    run(1_000_000, async {
        let mut all: Vec<_> =
            (1..=50_u64).rev().map(|millis| Deadline::after(Duration::from_millis(millis))).collect();
        let begun = now();
        std::future::poll_fn(|context| {
            let before = all.len();
            all.retain_mut(|deadline| Pin::new(deadline).poll(context).is_pending());
            if all.len() < before {
                ended.borrow_mut().push((now().since(begun).as_millis(), before - all.len()));
            }
            if all.is_empty() { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    });
    assert_eq!(ended.into_inner(), (1..=50).map(|millis| (millis, 1)).collect::<Vec<_>>());
}

#[test]
fn a_million_moves_take_no_memory() {
    let moves = Cell::new(0);
    let mut tasks = Tasks::with_capacity(1).expect("addresses are free");
    let task = async {
        let mut deadline = Deadline::never();
        for _ in 0..1_000_000 {
            deadline.reset(Duration::from_secs(300));
            select(&mut deadline, yield_now()).await;
            deadline.clear();
            moves.set(moves.get() + 1);
        }
        sleep(Duration::from_secs(1)).await;
    };
    tasks.spawn_at(0, task).expect("it is free");
    for step in 0..100 {
        tasks.advance(Instant::from_micros(1_000_000 + step * 1000));
        tasks.run(30_000);
    }
    assert_eq!(moves.get(), 1_000_000);
    assert!(tasks.bytes() < 1 << 20, "{} bytes", tasks.bytes());
}
