//! Loom tries the orders in which senders and a loop can take the steps of the inbox's protocol, and what each thread
//! may see of the others' memory: no hand-over is lost, no loop sleeps on one, and a sleeping loop is woken once.
//!
//! The inbox is the real one: its file, compiled once more with loom's locks and atomics.

use std::collections::VecDeque;
use std::task::{Wake, Waker};

use loom::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread::{self, JoinHandle};

use inbox::{BATCH, Inbox, Refused};

#[path = "../src/inbox.rs"]
#[allow(dead_code, reason = "what only the loop's counters ask is not asked here")]
mod inbox;

mod sync {
    pub(crate) use loom::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering, fence};
    pub(crate) use loom::sync::{Mutex, MutexGuard};
    pub(crate) use std::sync::PoisonError;
}

/// What a runtime sleeps by: a wake-up that comes before the sleep is not lost.
#[derive(Default)]
struct Sleep {
    is_woken: Mutex<bool>,
    wakes: Condvar,
    /// How often it was woken.
    count: AtomicUsize,
}

impl Sleep {
    fn sleep(&self) {
        let mut is_woken = self.is_woken.lock().expect("no thread panics");
        while !*is_woken {
            is_woken = self.wakes.wait(is_woken).expect("no thread panics");
        }
        *is_woken = false;
    }
}

/// Loom's `Arc` makes no wakers.
struct WakesSleep(Arc<Sleep>);

impl Wake for WakesSleep {
    fn wake(self: std::sync::Arc<Self>) {
        self.0.count.fetch_add(1, SeqCst);
        *self.0.is_woken.lock().expect("no thread panics") = true;
        self.0.wakes.notify_one();
    }
}

/// A loop as far as its inbox sees it.
struct Loop {
    inbox: Arc<Inbox<u32>>,
    sleep: Arc<Sleep>,
    taken: Vec<u32>,
    in_hand: VecDeque<u32>,
}

impl Loop {
    fn new(waiting_max: usize) -> Self {
        let (inbox, sleep) = (Arc::new(Inbox::new(waiting_max)), Arc::new(Sleep::default()));
        inbox.set_waker(&Waker::from(std::sync::Arc::new(WakesSleep(Arc::clone(&sleep)))));
        Self { inbox, sleep, taken: Vec::new(), in_hand: VecDeque::new() }
    }

    /// Hands over from another thread, which ends when it has.
    fn sender(&self, jobs: &'static [u32]) -> JoinHandle<Vec<u32>> {
        let inbox = Arc::clone(&self.inbox);
        thread::spawn(move || jobs.iter().filter(|job| inbox.push(**job).is_ok()).copied().collect())
    }

    /// Takes one job, as after the poll of a task.
    fn take_one(&mut self) -> bool {
        if self.in_hand.is_empty() {
            self.inbox.take(&mut self.in_hand);
        }
        self.taken.extend(self.in_hand.front());
        self.in_hand.pop_front().is_some()
    }

    /// Sleeps as the runtime does, unless a wake-up is there already.
    fn sleep(&self) {
        self.inbox.parking();
        self.sleep.sleep();
        self.inbox.unparked();
    }

    /// Runs until so many jobs have been taken. A lost wake-up makes it sleep for ever, which loom reports.
    fn run_until_taken(&mut self, count: usize) {
        while self.taken.len() < count {
            // Between two sleeps one task is polled, and then all is taken, as the main future does.
            while self.take_one() {}
            if self.taken.len() < count {
                self.sleep();
            }
        }
    }
}

/// All orders with at most so many switches of threads where none was forced. Three find every fault that was put
/// into the protocol to try this test, and more take minutes.
fn model(check: impl Fn() + Send + Sync + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(check);
}

#[test]
fn two_senders_and_a_loop_that_sleeps() {
    model(|| {
        let mut one = Loop::new(10);
        let senders = [one.sender(&[1]), one.sender(&[2])];
        one.run_until_taken(2);
        one.taken.sort_unstable();
        assert_eq!(one.taken, [1, 2]);
        for sender in senders {
            sender.join().expect("no thread panics");
        }
        let woken = one.inbox.wake_ups();
        assert!(woken <= 2, "{woken} wake-ups for two hand-overs");
    });
}

#[test]
fn one_sender_keeps_its_order() {
    model(|| {
        let mut one = Loop::new(10);
        let sender = one.sender(&[1, 2, 3]);
        one.run_until_taken(3);
        assert_eq!(one.taken, [1, 2, 3]);
        sender.join().expect("no thread panics");
    });
}

#[test]
fn a_loop_that_takes_one_and_sleeps_remembers_the_others() {
    model(|| {
        let mut one = Loop::new(10);
        let sender = one.sender(&[1, 2]);
        while one.taken.len() < 2 {
            // One at a time, as a busy loop does, with a sleep after each.
            if !one.take_one() || one.taken.len() < 2 {
                one.sleep();
            }
        }
        assert_eq!(one.taken, [1, 2]);
        sender.join().expect("no thread panics");
    });
}

#[test]
fn a_sleeping_loop_is_woken_by_the_first_only() {
    model(|| {
        let mut one = Loop::new(10);
        // It is about to sleep, and nothing waits.
        one.inbox.parking();
        let senders = [one.sender(&[1]), one.sender(&[2])];
        for sender in senders {
            sender.join().expect("no thread panics");
        }
        assert_eq!((one.inbox.wake_ups(), one.sleep.count.load(SeqCst)), (1, 1));
        one.sleep.sleep();
        one.inbox.unparked();
        one.run_until_taken(2);
        assert_eq!(one.inbox.wake_ups(), 1);
    });
}

#[test]
fn what_is_pushed_while_a_loop_ends_is_taken_or_refused() {
    model(|| {
        let mut one = Loop::new(10);
        let senders = [one.sender(&[1]), one.sender(&[2])];
        // Ends by itself: whatever was accepted has been taken by then.
        while !one.inbox.close_if_empty() {
            while one.take_one() {}
        }
        assert!(one.inbox.close().is_empty());
        let mut accepted: Vec<u32> =
            senders.into_iter().flat_map(|sender| sender.join().expect("no thread panics")).collect();
        accepted.sort_unstable();
        one.taken.sort_unstable();
        assert_eq!(one.taken, accepted);
    });
}

#[test]
fn what_is_pushed_while_a_loop_is_cut_is_given_back_or_refused() {
    model(|| {
        let mut one = Loop::new(10);
        let senders = [one.sender(&[1]), one.sender(&[2])];
        one.take_one();
        let mut seen: Vec<u32> =
            one.taken.drain(..).chain(one.in_hand.drain(..)).chain(one.inbox.close()).collect();
        let mut accepted: Vec<u32> =
            senders.into_iter().flat_map(|sender| sender.join().expect("no thread panics")).collect();
        accepted.sort_unstable();
        seen.sort_unstable();
        assert_eq!(seen, accepted);
        assert!(one.inbox.close().is_empty());
    });
}

#[test]
fn a_loop_with_something_to_do_does_not_sleep() {
    model(|| {
        let one = Loop::new(10);
        assert!(one.inbox.push(1).is_ok());
        assert_eq!(one.sleep.count.load(SeqCst), 0, "awake: no wake-up");
        one.inbox.parking();
        assert_eq!(one.sleep.count.load(SeqCst), 1, "it wakes itself");
        assert_eq!(one.inbox.wake_ups(), 0, "which is not a wake-up from outside");
        assert!(one.inbox.push(2).is_ok());
        assert_eq!(one.sleep.count.load(SeqCst), 1);
    });
}

#[test]
fn a_batch_is_bounded_and_the_rest_stays() {
    model(|| {
        let mut one = Loop::new(usize::MAX);
        let count = BATCH as u32 + 10;
        for job in 1..=count {
            assert!(one.inbox.push(job).is_ok());
        }
        assert_eq!(one.inbox.push_first(0), Ok(()));
        one.inbox.take(&mut one.in_hand);
        assert_eq!(one.in_hand.len(), BATCH);
        assert!(one.inbox.is_pending());
        while one.take_one() {}
        assert!(
            one.taken.iter().copied().eq(0..=count),
            "what was pushed first leads, the rest keeps its order"
        );
        assert!(!one.inbox.is_pending());
    });
}

#[test]
fn the_limit_refuses_and_counts() {
    model(|| {
        let one = Loop::new(2);
        assert!(one.inbox.push(1).is_ok() && one.inbox.push(2).is_ok());
        assert!(matches!(one.inbox.push(3), Err(Refused::Full(3))));
        assert_eq!(one.inbox.refused(), 1);
        assert_eq!(one.inbox.push_first(0), Ok(()));
        assert!(!one.inbox.close_if_empty());
        assert_eq!(one.inbox.close(), [0, 1, 2]);
        assert!(matches!(one.inbox.push(4), Err(Refused::Closed(4))));
        assert_eq!(one.inbox.push_first(5), Err(5));
        assert!(one.inbox.close().is_empty());
    });
}
