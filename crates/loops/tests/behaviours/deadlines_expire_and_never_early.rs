//! Deadlines on a running loop: they wake their task, never early, and cost nothing once gone.

use std::future::poll_fn;
use std::rc::Rc;
use std::time::{Duration, Instant};

use anywire_loops::deadline::TICK;
use anywire_loops::{Deadline, Loops, clock, spawn};

async fn expired(deadline: &Deadline) {
    poll_fn(|context| deadline.poll_expired(context)).await;
}

#[test]
fn many_at_once_each_at_its_time() {
    let loops = Loops::start(1).expect("one loop can be had");
    let checked = loops.get(0).spawn(|| async {
        let tasks: Vec<_> = (0..200u64)
            .map(|number| {
                spawn(async move {
                    let after = Duration::from_millis(number * 3);
                    let deadline = Deadline::new();
                    let start = Instant::now();
                    deadline.set(after);
                    assert!(!deadline.is_expired());
                    expired(&deadline).await;
                    assert!(deadline.is_expired());
                    let elapsed = start.elapsed();
                    assert!(elapsed >= after, "{after:?} expired after {elapsed:?}");
                })
            })
            .collect();
        for task in tasks {
            task.await.expect("no assertion failed");
        }
    });
    checked.wait().expect("no assertion failed");
}

/// On the loop's own timer, whose time passes only while nothing else happens.
#[test]
fn late_by_a_millisecond_and_a_hundredth_at_most() {
    const LENGTHS_MS: [u64; 9] = [0, 1, 10, 99, 150, 1000, 10_000, 30_000, 60_000];
    let loops = Loops::start(1).expect("one loop can be had");
    let checked = loops.get(0).spawn(|| async {
        tokio::time::pause();
        let ways: [fn(&Deadline, Duration); 3] = [
            |deadline, after| deadline.set(after),
            |deadline, after| deadline.set_from(clock::precise(), after),
            |deadline, after| deadline.set_at(clock::precise() + after),
        ];
        // Some ticks lie between them, and each begins somewhere between two.
        let tasks = LENGTHS_MS.iter().flat_map(|ms| ways.map(|set| (Duration::from_millis(*ms), set))).map(
            |(after, set)| {
                spawn(async move {
                    let deadline = Deadline::new();
                    for pause_us in [0, 1, 41_300, 99_999] {
                        tokio::time::sleep(Duration::from_micros(pause_us)).await;
                        let start = clock::precise();
                        set(&deadline, after);
                        expired(&deadline).await;
                        let late = (clock::precise() - start).checked_sub(after);
                        let late = late.unwrap_or_else(|| panic!("{after:?} is early"));
                        assert!(
                            late <= Duration::from_millis(1) + after / 100,
                            "{after:?} is late by {late:?}"
                        );
                    }
                })
            },
        );
        for task in tasks.collect::<Vec<_>>() {
            task.await.expect("no assertion failed");
        }
    });
    checked.wait().expect("no assertion failed");
}

#[test]
fn a_blocked_loop_does_not_make_them_early() {
    let loops = Loops::start(1).expect("one loop can be had");
    let checked = loops.get(0).spawn(|| async {
        let deadline = Deadline::new();
        for _ in 0..3 {
            // Blocks the loop for some ticks, so that the wheel lags behind when the deadline is set.
            let blocked = Instant::now();
            while blocked.elapsed() < 3 * TICK + TICK / 2 {
                std::hint::spin_loop();
            }
            let start = Instant::now();
            deadline.set(TICK);
            expired(&deadline).await;
            let elapsed = start.elapsed();
            assert!(elapsed >= TICK, "expired after {elapsed:?}");
        }
    });
    checked.wait().expect("no assertion failed");
}

#[test]
fn endless_ones_do_not_overflow_and_disturb_no_others() {
    let loops = Loops::start(1).expect("one loop can be had");
    let checked = loops.get(0).spawn(|| async {
        let endless =
            [Duration::MAX, Duration::from_secs(u64::MAX), Duration::from_secs(1 << 40)].map(|endless| {
                let deadline = Deadline::new();
                deadline.set(endless);
                deadline
            });
        let short = Deadline::new();
        for _ in 0..2 {
            short.set(TICK);
            expired(&short).await;
            assert!(endless.iter().all(|deadline| !deadline.is_expired()));
        }
        // One that was endless can be set to a time that comes.
        endless[0].set(Duration::ZERO);
        expired(&endless[0]).await;
    });
    checked.wait().expect("no assertion failed");
}

#[test]
fn setting_anew_and_clearing_need_no_poll() {
    let loops = Loops::start(1).expect("one loop can be had");
    let checked = loops.get(0).spawn(|| async {
        let late = Rc::new(Deadline::new());
        late.set(Duration::from_secs(600));
        let waiting = spawn({
            let late = Rc::clone(&late);
            async move { expired(&late).await }
        });
        let cleared = Deadline::new();
        cleared.set(Duration::ZERO);
        tokio::task::yield_now().await;
        // The task waits already; now its deadline is nearer.
        late.set(Duration::ZERO);
        cleared.clear();
        waiting.await.expect("it is woken");
        assert!(!cleared.is_expired());
        cleared.set(Duration::ZERO);
        expired(&cleared).await;
    });
    checked.wait().expect("no assertion failed");
}

#[test]
fn the_coarse_clock_follows_the_true_one() {
    let loops = Loops::start(1).expect("one loop can be had");
    let checked = loops.get(0).spawn(|| async {
        let deadline = Deadline::new();
        let first = clock::now();
        assert_eq!(clock::now(), first, "between ticks it stands still");
        assert!(first <= Instant::now());
        let first_of_day = clock::unix_time();
        deadline.set(TICK);
        expired(&deadline).await;
        assert!(clock::now() >= first + TICK, "it has moved on");
        assert!(clock::now() <= Instant::now());
        assert_ne!(clock::unix_time(), first_of_day);
        drop(deadline);
        // Once the ticks have ended, the true time is read.
        loop {
            let before = Instant::now();
            if clock::now() >= before {
                break;
            }
            tokio::task::yield_now().await;
        }
        // And they begin again with the next deadline.
        let deadline = Deadline::new();
        deadline.set(Duration::ZERO);
        expired(&deadline).await;
    });
    checked.wait().expect("no assertion failed");
    let before = Instant::now();
    assert!(clock::now() >= before, "no loop: the true time");
}

#[test]
fn they_do_not_hold_up_a_shutdown() {
    let loops = Loops::start(1).expect("one loop can be had");
    loops
        .get(0)
        .spawn(|| async {
            let kept = anywire_loops::local(Deadline::new);
            kept.set(Duration::from_secs(600));
        })
        .wait()
        .expect("the loop runs");
    assert!(loops.shutdown(Duration::from_secs(600)).expect("not on a loop").is_clean());
}
