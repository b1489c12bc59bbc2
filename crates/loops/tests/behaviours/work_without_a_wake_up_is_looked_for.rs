//! Work that raises no event is looked for before a loop sleeps, for as long as is asked for; others have their turns
//! meanwhile, and it ends.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use anywire_loops::{AddedSource, LoopHandle, Loops, Source, add_source};

const HANG: Duration = Duration::from_secs(60);

/// A number that other threads raise without waking anybody.
struct Raised {
    number: Arc<AtomicU32>,
    seen: Cell<u32>,
    waiting: RefCell<Option<Waker>>,
    looks: Cell<u32>,
    sleeps: Cell<u32>,
}

impl Source for Raised {
    fn look(&self) -> bool {
        self.looks.set(self.looks.get() + 1);
        let number = self.number.load(SeqCst);
        if self.seen.replace(number) == number {
            return false;
        }
        let waiting = self.waiting.take();
        waiting.into_iter().for_each(Waker::wake);
        true
    }

    fn prepare_to_sleep(&self) {
        self.sleeps.set(self.sleeps.get() + 1);
        self.look();
    }
}

fn add(number: &Arc<AtomicU32>) -> (Rc<Raised>, AddedSource) {
    let source = Rc::new(Raised {
        number: Arc::clone(number),
        seen: Cell::new(0),
        waiting: RefCell::default(),
        looks: Cell::new(0),
        sleeps: Cell::new(0),
    });
    (Rc::clone(&source), add_source(source))
}

/// Waits for the number to become that large, and has the loop spin meanwhile.
async fn wait_for(source: &Raised, added: &AddedSource, number: u32, spin: Duration) {
    poll_fn(|cx| {
        if source.seen.get() >= number {
            return Poll::Ready(());
        }
        *source.waiting.borrow_mut() = Some(cx.waker().clone());
        added.spin(spin);
        Poll::Pending
    })
    .await;
}

fn eventually(what: &str, is_so: impl Fn() -> bool) {
    let hang = Instant::now() + HANG;
    while !is_so() {
        assert!(Instant::now() < hang, "{what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn start() -> (Loops, LoopHandle) {
    let loops = Loops::start(1).expect("a thread");
    let one = loops.get(0);
    (loops, one)
}

#[test]
fn it_is_found_without_an_event() {
    let (_loops, here) = start();
    let number = Arc::new(AtomicU32::new(0));
    let theirs = Arc::clone(&number);
    let found = here.spawn(move || async move {
        let (source, added) = add(&theirs);
        for expected in 1..=100 {
            wait_for(&source, &added, expected, HANG).await;
            theirs.fetch_add(1, SeqCst);
        }
        // Even numbers are answers.
        source.sleeps.get()
    });
    eventually("the first look comes", || here.counters().spins > 0);
    number.fetch_add(1, SeqCst);
    found.wait().expect("no panic");
}

#[test]
fn other_tasks_timers_and_hand_overs_have_their_turns() {
    let (_loops, here) = start();
    let number = Arc::new(AtomicU32::new(0));
    let theirs = Arc::clone(&number);
    let waiting = here.spawn(move || async move {
        let (source, added) = add(&theirs);
        wait_for(&source, &added, 1, HANG).await;
    });
    eventually("it looks", || here.counters().spins > 0);
    for _ in 0..100 {
        here.spawn(|| async { tokio::task::yield_now().await }).wait().expect("it has its turn");
    }
    here.spawn(|| async { tokio::time::sleep(Duration::from_millis(1)).await }).wait().expect("timers, too");
    assert_eq!(here.counters().spins_in_vain, 0, "it looked all the time");
    number.store(1, SeqCst);
    waiting.wait().expect("no panic");
}

#[test]
fn a_loop_that_never_sleeps_looks_now_and_then() {
    let (_loops, here) = start();
    let number = Arc::new(AtomicU32::new(0));
    let theirs = Arc::clone(&number);
    let waiting = here.spawn(move || async move {
        let busy = Rc::new(Cell::new(true));
        let is_busy = Rc::clone(&busy);
        drop(anywire_loops::spawn(async move {
            while is_busy.get() {
                tokio::task::yield_now().await;
            }
        }));
        let (source, added) = add(&theirs);
        for number in 1..=3 {
            wait_for(&source, &added, number, Duration::ZERO).await;
        }
        busy.set(false);
    });
    (1..=3).for_each(|raised| number.store(raised, SeqCst));
    waiting.wait().expect("no panic");
}

#[test]
fn a_source_that_always_has_work_hides_no_other_one() {
    struct Always;
    impl Source for Always {
        fn look(&self) -> bool {
            true
        }
        fn prepare_to_sleep(&self) {}
    }
    let (_loops, here) = start();
    let number = Arc::new(AtomicU32::new(0));
    let theirs = Arc::clone(&number);
    let waiting = here.spawn(move || async move {
        let _always = add_source(Rc::new(Always));
        let (source, added) = add(&theirs);
        wait_for(&source, &added, 1, HANG).await;
    });
    eventually("it looks", || here.counters().spins > 0);
    number.store(1, SeqCst);
    waiting.wait().expect("no panic");
}

#[test]
fn it_ends_when_the_time_has_passed_and_before_the_loop_sleeps_it_is_told() {
    let (_loops, here) = start();
    let task = here.spawn(move || async move {
        let (source, added) = add(&Arc::default());
        let waits = anywire_loops::spawn({
            let source = Rc::clone(&source);
            async move { wait_for(&source, &added, 1, Duration::from_micros(100)).await }
        });
        tokio::time::sleep(Duration::from_millis(20)).await;
        waits.abort();
        (source.looks.get(), source.sleeps.get())
    });
    let (looks, sleeps) = task.wait().expect("no panic");
    assert!(looks > 0 && sleeps > 0, "{looks} {sleeps}");
    assert_eq!(here.counters().spins_in_vain, 1);
    let spins = here.counters().spins;
    here.spawn(|| async { tokio::time::sleep(Duration::from_millis(5)).await }).wait().expect("no panic");
    assert_eq!(here.counters().spins, spins, "nobody asks for it");
}

#[test]
fn a_source_that_leaves_hides_no_other_one() {
    /// Leaves when the loop is about to sleep.
    #[derive(Default)]
    struct Leaves(RefCell<Option<AddedSource>>);
    impl Source for Leaves {
        fn look(&self) -> bool {
            false
        }
        fn prepare_to_sleep(&self) {
            drop(self.0.take());
        }
    }
    let (_loops, here) = start();
    let number = Arc::new(AtomicU32::new(0));
    let theirs = Arc::clone(&number);
    let told = here.spawn(move || async move {
        let (rounds, _added) = add(&Arc::default());
        let leaves = Rc::new(Leaves::default());
        *leaves.0.borrow_mut() = Some(add_source(Rc::clone(&leaves) as Rc<dyn Source>));
        let (source, added) = add(&theirs);
        // It comes without an event, and is found before the loop sleeps or never.
        theirs.store(1, SeqCst);
        let found = wait_for(&source, &added, 1, Duration::ZERO);
        tokio::time::timeout(HANG, found).await.expect("it is asked before the loop sleeps");
        assert!(leaves.0.borrow().is_none(), "it has left");
        (source.sleeps.get(), rounds.sleeps.get())
    });
    let (sleeps, rounds) = told.wait().expect("no panic");
    assert_eq!(sleeps, rounds, "it is asked each time");
}

#[test]
fn a_source_that_was_removed_is_asked_no_more() {
    let (_loops, here) = start();
    let asked = here.spawn(|| async {
        let (removed, added) = add(&Arc::default());
        let (rounds, _added) = add(&Arc::default());
        drop(added);
        while rounds.sleeps.get() == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        (removed.sleeps.get(), Rc::strong_count(&removed))
    });
    assert_eq!(asked.wait().expect("no panic"), (0, 1));
}

#[test]
fn a_source_that_panics_costs_nobody_the_loop() {
    struct Panics;
    impl Source for Panics {
        fn look(&self) -> bool {
            panic!("on purpose");
        }
        fn prepare_to_sleep(&self) {
            panic!("on purpose");
        }
    }
    let (_loops, here) = start();
    here.spawn(|| async {
        let added = add_source(Rc::new(Panics));
        added.spin(Duration::from_millis(1));
        tokio::time::sleep(Duration::from_millis(5)).await;
    })
    .wait()
    .expect("it ends well");
    assert!(here.counters().panics > 0);
    here.spawn(|| async {}).wait().expect("the loop lives");
}

#[test]
fn a_loop_that_spins_ends_when_it_is_told_to() {
    let (loops, here) = start();
    let waiting = here.spawn(move || async move {
        let (source, added) = add(&Arc::default());
        wait_for(&source, &added, 1, HANG).await;
    });
    eventually("it looks", || here.counters().spins > 0);
    let ended = loops.shutdown(Duration::from_millis(10)).expect("this is no loop");
    assert!(!ended.is_clean(), "the task was cut");
    waiting.wait().expect_err("it was cut");
}
