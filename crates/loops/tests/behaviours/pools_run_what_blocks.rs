//! A pool runs functions on threads of its own: bounded, in the order that was chosen, and without harm to other functions from
//! those that panic, come too late or are given up.

use std::hint;
use std::panic::panic_any;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::task::Waker;
use std::thread;
use std::time::{Duration, Instant};

use anywire_loops::{Loops, Pool, PoolError, PoolLimits, PoolOrder, PoolStartError, block_on};

use crate::common::pool::{await_counters, give, hold, start};
use crate::common::{Bomb, HANG, poll_with, waker_that_panics_when_dropped};

#[test]
fn results_come_back_to_any_caller() {
    let pool = start(2, 10);
    assert_eq!(block_on(pool.run(|| 6 * 7)), Ok(42));
    let loops = Loops::start(2).expect("loops start");
    let tasks = loops.iter().map(|one| {
        let pool = pool.clone();
        one.spawn(move || async move {
            let mut sum = 0;
            for number in 0..100 {
                sum += pool.run(move || number).await.expect("it runs");
            }
            sum
        })
    });
    let sums: Vec<_> = tasks.collect::<Vec<_>>().into_iter().map(|task| task.wait()).collect();
    assert_eq!(sums, [Ok(4950), Ok(4950)]);
    let counters = pool.counters();
    assert_eq!((counters.ended, counters.running, counters.queued), (201, 0, 0));
    assert_eq!((counters.threads, pool.queue_times().count()), (2, 201));
}

/// A loop that is busy takes them without a wake-up, and one that sleeps is woken once.
#[test]
fn many_results_wake_a_loop_once() {
    let (pool, loops) = (start(1, 100), Loops::start(1).expect("a loop starts"));
    let before = loops.get(0).counters();
    let run = loops.get(0).spawn(move || async move {
        let mut tasks: Vec<_> = (0..100).map(|number| pool.run(move || number)).collect();
        tasks.iter_mut().for_each(give);
        // Blocks the loop: the last of them may be on its way when it goes on.
        await_counters(&pool, |counters| counters.ended == 100);
        for (number, task) in (0..).zip(tasks) {
            assert_eq!(task.await, Ok(number));
        }
    });
    run.wait().expect("no panic");
    // Comes behind all of them.
    loops.get(0).spawn(|| async {}).wait().expect("the loop goes on");
    let after = loops.get(0).counters();
    // Two of them are for the tasks.
    assert!(after.wake_ups - before.wake_ups <= 3, "{after:?}");
    assert_eq!(after.hand_overs - before.hand_overs, 102);
}

/// A thread that is awake searches for a moment, and meanwhile none that sleeps is called: the searching one calls as many as are needed.
#[test]
fn functions_that_come_while_a_thread_searches_have_their_threads() {
    let pool = start(4, 100);
    for _ in 0..300 {
        let (is_over, present) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let ends = Arc::clone(&is_over);
        let mut first = pool.run(move || ends.store(true, Ordering::Relaxed));
        give(&mut first);
        while !is_over.load(Ordering::Relaxed) {
            hint::spin_loop();
        }
        let mut meeting: Vec<_> = (0..4)
            .map(|_| {
                let present = Arc::clone(&present);
                pool.run(move || {
                    present.fetch_add(1, Ordering::Relaxed);
                    let hang = Instant::now() + HANG;
                    while present.load(Ordering::Relaxed) < 4 && Instant::now() < hang {
                        thread::yield_now();
                    }
                    present.load(Ordering::Relaxed)
                })
            })
            .collect();
        meeting.iter_mut().for_each(give);
        for task in meeting {
            assert_eq!(block_on(task), Ok(4), "all four run at once");
        }
        assert_eq!(block_on(first), Ok(()));
    }
}

#[test]
fn a_function_that_is_one_too_many_is_refused_at_once() {
    let pool = start(1, 2);
    let held = hold(&pool);
    let mut waiting = [pool.run(|| 1), pool.run(|| 2)];
    waiting.iter_mut().for_each(give);
    assert_eq!(block_on(pool.run(|| 3)), Err(PoolError::Full));
    held.end();
    assert_eq!(waiting.map(block_on), [Ok(1), Ok(2)]);
    assert_eq!(pool.counters().rejected_full, 1);
    pool.resize_queue(0);
    // A thread that is free is no queue, and it is free as soon as a result is there.
    for number in 0..1000 {
        assert_eq!(block_on(pool.run(move || number)), Ok(number));
    }
    let held = hold(&pool);
    assert_eq!(block_on(pool.run(|| 3)), Err(PoolError::Full));
    held.end();
}

#[test]
fn a_queue_that_is_made_shorter_or_longer_is_so_at_once() {
    let pool = start(1, 10);
    let held = hold(&pool);
    let mut waiting = vec![pool.run(|| 1)];
    waiting.iter_mut().for_each(give);
    pool.resize_queue(1);
    assert_eq!(block_on(pool.run(|| 3)), Err(PoolError::Full));
    pool.resize_queue(2);
    let mut second = pool.run(|| 2);
    give(&mut second);
    waiting.push(second);
    assert_eq!(block_on(pool.run(|| 3)), Err(PoolError::Full));
    assert_eq!((pool.counters().queued, pool.counters().rejected_full), (2, 2));
    held.end();
    assert_eq!(waiting.into_iter().map(block_on).collect::<Vec<_>>(), [Ok(1), Ok(2)]);
}

#[test]
fn a_function_that_is_late_is_never_run() {
    for order in [PoolOrder::OldestFirst, PoolOrder::LatestFirst] {
        let pool = Pool::start("test", PoolLimits { threads: 1, queue: 200, order }).expect("a thread");
        let held = hold(&pool);
        let has_run = Arc::new(AtomicBool::new(false));
        let runs = || {
            let has_run = Arc::clone(&has_run);
            pool.run(move || has_run.store(true, Ordering::Relaxed)).queue_deadline(Duration::from_nanos(1))
        };
        // On a loop it is told when the time has passed, though no thread is free.
        let loops = Loops::start(1).expect("a loop starts");
        let late = runs();
        assert_eq!(loops.get(0).spawn(move || late).wait(), Ok(Err(PoolError::Late)));
        assert_eq!((pool.counters().queued, pool.counters().rejected_late), (0, 1));
        // Elsewhere a thread finds them, more of them than it takes out at once.
        let mut late: Vec<_> = (0..150).map(|_| runs()).collect();
        late.iter_mut().for_each(give);
        held.end();
        late.into_iter().for_each(|late| assert_eq!(block_on(late), Err(PoolError::Late)));
        assert_eq!(pool.counters().rejected_late, 151);
        // As long as the time itself, it has passed.
        let at_once = pool.run(|| ()).queue_deadline(Duration::ZERO);
        assert_eq!(block_on(at_once), Err(PoolError::Late));
        assert!(!has_run.load(Ordering::Relaxed));
        let in_time = pool.run(|| 7).queue_deadline(Duration::MAX);
        assert_eq!(block_on(in_time), Ok(7));
    }
}

#[test]
fn the_latest_is_first_if_asked_for() {
    for (order, expected) in [(PoolOrder::OldestFirst, [1, 2, 3]), (PoolOrder::LatestFirst, [3, 2, 1])] {
        let pool = Pool::start("test", PoolLimits { threads: 1, queue: 9, order }).expect("a thread");
        let held = hold(&pool);
        let ran = Arc::new(Mutex::new(Vec::new()));
        let mut tasks = [1, 2, 3].map(|number| {
            let ran = Arc::clone(&ran);
            pool.run(move || ran.lock().expect("no panic").push(number))
        });
        tasks.iter_mut().for_each(give);
        held.end();
        assert_eq!(tasks.map(block_on), [Ok(()), Ok(()), Ok(())]);
        assert_eq!(*ran.lock().expect("no panic"), expected);
    }
}

#[test]
fn a_pool_is_resized_while_it_runs() {
    let pool = start(1, 10);
    let first = hold(&pool);
    let (began, has_begun) = channel();
    let (goes_on, told) = channel::<()>();
    let mut second = pool.run(move || {
        let _ = began.send(());
        let _ = told.recv();
    });
    give(&mut second);
    pool.resize(3).expect("threads can be had");
    has_begun.recv_timeout(HANG).expect("a new thread takes what waited");
    assert_eq!((pool.counters().threads, pool.counters().running), (3, 2));
    // The idle one ends at once, and one of the two that are busy once its function has ended.
    pool.resize(1).expect("no thread is needed");
    await_counters(&pool, |counters| counters.threads == 2);
    drop(goes_on);
    block_on(second).expect("it ends");
    await_counters(&pool, |counters| counters.threads == 1);
    first.end();
    assert_eq!(block_on(pool.run(|| 1)), Ok(1));
    assert_eq!(pool.counters().threads, 1);
    for wrong in [0, Pool::THREADS_MAX + 1] {
        assert!(matches!(pool.resize(wrong), Err(PoolStartError::Threads(threads)) if threads == wrong));
    }
    assert_eq!(pool.limits(), PoolLimits { threads: 1, queue: 10, ..PoolLimits::default() });
}

/// Threads come and go while functions come, and each of those runs once.
#[test]
fn resizing_loses_nothing() {
    let pool = start(1, 10_000);
    let ran = Arc::new(AtomicUsize::new(0));
    let has_ended = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            for threads in (1..=4).cycle().take(400) {
                pool.resize(threads).expect("threads can be had");
            }
            has_ended.store(true, Ordering::Relaxed);
        });
        for _ in 0..2 {
            scope.spawn(|| {
                while !has_ended.load(Ordering::Relaxed) {
                    let mut some = Vec::new();
                    for _ in 0..20 {
                        let ran = Arc::clone(&ran);
                        some.push(pool.run(move || ran.fetch_add(1, Ordering::Relaxed)));
                    }
                    some.iter_mut().for_each(|task| _ = poll_with(task, Waker::noop()));
                    some.into_iter().for_each(|task| _ = block_on(task).expect("it runs"));
                }
            });
        }
    });
    assert_eq!(pool.counters().ended, ran.load(Ordering::Relaxed) as u64);
}

#[test]
fn a_panic_costs_its_own_function() {
    let pool = start(1, 10);
    let panics: [fn(); 3] = [|| panic!("bang"), || panic_any(Bomb(1)), || panic_any(Bomb(40))];
    for panics in panics {
        assert!(matches!(block_on(pool.run(panics)), Err(PoolError::Panicked(_))));
    }
    // Of a destructor, on the way in and on the way out, and of a waker.
    let held = hold(&pool);
    let captured = Bomb(1);
    let mut given_up = pool.run(move || drop(captured));
    give(&mut given_up);
    drop(given_up);
    let waker = waker_that_panics_when_dropped();
    let mut task = pool.run(|| 7);
    assert!(poll_with(&mut task, &waker).is_pending());
    drop(waker);
    give(&mut task);
    held.end();
    assert_eq!(block_on(task), Ok(7));
    let counters = pool.counters();
    assert_eq!((counters.panics, counters.abandoned, counters.threads), (3, 1, 1));
}

#[test]
fn who_waits_for_nothing_is_told_nothing() {
    let pool = start(1, 10);
    let (began, has_begun) = channel();
    let (goes_on, told) = channel::<()>();
    let (asked, answer) = channel();
    let mut task = pool.run(move || {
        let _ = began.send(());
        let _ = told.recv();
        let _ = asked.send(Pool::is_abandoned());
        Bomb(1)
    });
    give(&mut task);
    has_begun.recv_timeout(HANG).expect("it runs");
    // One that has not begun is taken out of the queue.
    let mut waiting = pool.run(|| unreachable!("nobody wants it"));
    give(&mut waiting);
    drop(waiting);
    assert_eq!((pool.counters().queued, pool.counters().abandoned), (0, 1));
    drop(task);
    drop(goes_on);
    assert_eq!(answer.recv_timeout(HANG), Ok(true));
    assert_eq!(block_on(pool.run(Pool::is_abandoned)), Ok(false));
    assert!(!Pool::is_abandoned());
    let counters = pool.counters();
    assert_eq!((counters.abandoned, counters.ended), (2, 2));
}

/// However the end of a function and that of its task follow each other.
#[test]
fn results_that_nobody_takes_are_counted() {
    let pool = start(1, 10);
    let results: [fn(); 2] = [|| (), || panic!("bang")];
    for result in results {
        let mut task = pool.run(result);
        give(&mut task);
        // Once the next one has run, this one has ended.
        assert_eq!(block_on(pool.run(|| 7)), Ok(7));
        drop(task);
    }
    let mut taken = pool.run(|| ());
    assert_eq!(block_on(&mut taken), Ok(()));
    drop(taken);
    let held = hold(&pool);
    let mut refused = pool.run(|| ());
    give(&mut refused);
    pool.stop();
    held.end();
    drop(refused);
    let counters = pool.counters();
    assert_eq!((counters.abandoned, counters.panics), (2, 1));
}

#[test]
fn a_pool_that_stops_refuses_what_waits() {
    let pool = start(1, 10);
    let held = hold(&pool);
    let mut waiting = pool.run(|| ());
    give(&mut waiting);
    pool.stop();
    assert_eq!(block_on(waiting), Err(PoolError::Stopped));
    assert_eq!(block_on(pool.run(|| ())), Err(PoolError::Stopped));
    assert_eq!(pool.counters().running, 1);
    // What runs ends as it likes, and is heard.
    held.end();
    await_counters(&pool, |counters| counters.threads == 0);
    pool.resize(2).expect("a stopped pool starts no thread");
    assert_eq!(pool.counters().threads, 0);
}

/// A pool whose last handle is gone ends, also while a function of it runs.
#[test]
fn a_pool_ends_with_its_last_handle() {
    let (began, has_begun): (_, Receiver<()>) = channel();
    let (goes_on, told) = channel::<()>();
    let (ended, has_ended) = channel();
    let ends = thread::spawn(move || {
        let pool = start(1, 10);
        let mut task = pool.run(move || {
            let _ = began.send(());
            let _ = told.recv();
            let _ = ended.send(());
        });
        drop(pool);
        give(&mut task);
        has_begun.recv_timeout(HANG).expect("it runs");
    });
    ends.join().expect("the task holds the pool until it is dropped");
    drop(goes_on);
    has_ended.recv_timeout(HANG).expect("it goes on");
}
