//! A deadline comes at its time, to the millisecond and never early, wherever it was before.

use std::cell::{Cell, RefCell};
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use anywire_stack::swarm::{Deadline, Instant, Tasks, now, select, sleep, yield_now};

const DAY: Duration = Duration::from_secs(86_400);

/// What 32 bits of milliseconds tell apart: 49.7 days.
const WRAP: Duration = Duration::from_millis(1 << 32);

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

/// Up to a year. 24.9 days are 2^31 ms, and 49.7 are 2^32.
const SPANS: [Duration; 6] = [
    Duration::from_secs(10),
    DAY.saturating_mul(24),
    DAY.saturating_mul(25),
    DAY.saturating_mul(49),
    DAY.saturating_mul(50),
    DAY.saturating_mul(365),
];

#[test]
fn the_milliseconds_may_need_more_than_32_bits() {
    let wrap = WRAP.as_micros() as u64;
    for start in [wrap - 1_500_000, wrap - 3000, wrap - 1000, wrap - 1, wrap] {
        run(start, async {
            for wanted in [1, 2, 3, 1000].map(Duration::from_millis).into_iter().chain(SPANS) {
                let begun = now();
                Deadline::after(wanted).await;
                let late = now().since(begun).checked_sub(wanted).expect("not early");
                assert!(late < Duration::from_millis(1), "{wanted:?} after {begun:?}: {late:?} late");
            }
        });
    }
}

#[test]
fn it_may_be_far_away() {
    for wanted in SPANS {
        for first in SPANS {
            run(1_000_000, async move {
                let (mut deadline, begun) = (Deadline::after(first), now());
                // The executor has a note of the first time.
                select(&mut deadline, yield_now()).await;
                deadline.reset(wanted);
                (&mut deadline).await;
                assert_eq!(now().since(begun), wanted, "it was {first:?}");
            });
        }
    }
}

#[test]
fn it_has_passed_however_late_it_is_looked_at() {
    for span in SPANS {
        run(1_000_000, async move {
            let second = Duration::from_secs(1);
            let mut deadline = Deadline::after(second);
            select(&mut deadline, yield_now()).await;
            sleep(second + span).await;
            let looked = now();
            (&mut deadline).await;
            assert_eq!(now(), looked, "{span:?} after it had passed");
        });
    }
}

/// A note of long ago is not one of what is to come.
#[test]
fn it_comes_however_long_it_was_not_used() {
    for span in SPANS {
        // The note stands for the second from here on.
        for pause in [span, span.saturating_sub(Duration::from_millis(500)), WRAP - Duration::from_secs(1)] {
            run(1_000_000, async move {
                let second = Duration::from_secs(1);
                let mut deadline = Deadline::after(second);
                select(&mut deadline, yield_now()).await;
                deadline.clear();
                sleep(pause).await;
                deadline.reset(2 * second);
                let begun = now();
                (&mut deadline).await;
                assert_eq!(now().since(begun), 2 * second, "after {pause:?}");
            });
        }
    }
}

#[test]
fn what_is_too_far_away_is_no_time() {
    let mut tasks = Tasks::with_capacity(1).expect("addresses are free");
    tasks.advance(Instant::from_micros(u64::MAX / 2));
    tasks.spawn_at(0, async { Deadline::after(Duration::MAX).await }).expect("it is free");
    tasks.run(usize::MAX);
    assert_eq!((tasks.next_deadline(), tasks.counters().finished), (None, 0));
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
