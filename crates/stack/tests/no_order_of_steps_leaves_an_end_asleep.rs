//! Loom tries the orders in which the two ends of a link can take their steps, and in which other threads wake a swarm's
//! task. No end sleeps on while there is a frame, room for one, or a wake, and no frame is lost.
//!
//! Link and list are the real ones: their files, compiled once more with loom's atomics and locks. The ring is one of loom's
//! atomics with the positions of the real one, which has a model test of its own in `sys`.

use std::task::{Wake, Waker};

use loom::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;

#[path = "../src/ring_link/link.rs"]
#[allow(dead_code, unreachable_pub, reason = "a part of it is used here")]
mod link;
#[path = "../src/swarm/remote.rs"]
#[allow(dead_code, unreachable_pub, reason = "a part of it is used here")]
mod remote;
mod sync {
    pub(crate) use std::sync::{Arc, OnceLock, PoisonError};

    pub(crate) use loom::sync::atomic::{AtomicBool, AtomicU16, Ordering, fence};
    pub(crate) use loom::sync::{Mutex, MutexGuard};

    pub(crate) use crate::ring;
}

/// The ring as its two ends see each other: by positions, which count frames here.
mod ring {
    use std::sync::Arc;

    use loom::sync::atomic::Ordering::{Acquire, Release};
    use loom::sync::atomic::{AtomicBool, AtomicUsize};

    #[derive(Debug, Default)]
    struct Shared {
        written: AtomicUsize,
        read: AtomicUsize,
        is_closed: AtomicBool,
        /// Of the standard library: loom must not take it for something that orders the steps of both ends.
        frames: std::sync::Mutex<Vec<Vec<u8>>>,
    }

    #[derive(Debug)]
    pub(crate) struct Writer {
        shared: Arc<Shared>,
        head: usize,
    }

    #[derive(Debug)]
    pub(crate) struct Reader {
        shared: Arc<Shared>,
        tail: usize,
    }

    pub(crate) fn pair(_: usize) -> (Writer, Reader) {
        let shared = Arc::new(Shared::default());
        (Writer { shared: Arc::clone(&shared), head: 0 }, Reader { shared, tail: 0 })
    }

    impl Writer {
        pub(crate) fn push(&mut self, frame: &[u8]) -> bool {
            let has_room = self.room(0) > 0;
            if has_room {
                self.shared.frames.lock().expect("no thread panics").push(frame.to_vec());
                self.head += 1;
            }
            has_room
        }

        pub(crate) fn publish(&self) {
            self.shared.written.store(self.head, Release);
        }

        pub(crate) fn room(&self, _: usize) -> usize {
            CAPACITY - (self.head - self.shared.read.load(Acquire))
        }
    }

    impl Reader {
        pub(crate) fn read(&mut self, frames_max: usize, mut take: impl FnMut(&[u8])) -> usize {
            let waiting = self.shared.written.load(Acquire) - self.tail;
            let count = waiting.min(frames_max);
            for frame in &self.shared.frames.lock().expect("no thread panics")[self.tail..self.tail + count] {
                take(frame);
            }
            if count > 0 {
                self.tail += count;
                self.shared.read.store(self.tail, Release);
            }
            count
        }

        pub(crate) fn is_empty(&self) -> bool {
            self.tail == self.shared.written.load(Acquire)
        }

        pub(crate) fn is_closed(&self) -> bool {
            self.shared.is_closed.load(Acquire)
        }
    }

    impl Drop for Writer {
        fn drop(&mut self) {
            self.publish();
            self.shared.is_closed.store(true, Release);
        }
    }

    impl Drop for Reader {
        fn drop(&mut self) {
            self.shared.is_closed.store(true, Release);
        }
    }

    const CAPACITY: usize = 2;
}

/// What a thread sleeps by: a wake-up that comes before the sleep is not lost.
#[derive(Default)]
struct Sleep {
    is_woken: Mutex<bool>,
    wakes: Condvar,
}

impl Sleep {
    fn sleep(&self) {
        let mut is_woken = self.is_woken.lock().expect("no thread panics");
        while !*is_woken {
            is_woken = self.wakes.wait(is_woken).expect("no thread panics");
        }
        *is_woken = false;
    }

    fn end(&self) {
        *self.is_woken.lock().expect("no thread panics") = true;
        self.wakes.notify_one();
    }
}

/// Loom's `Arc` makes no wakers.
struct EndsSleep(Arc<Sleep>);

impl Wake for EndsSleep {
    fn wake(self: std::sync::Arc<Self>) {
        self.0.end();
    }
}

/// The owner of an end, as an endpoint is one.
struct Owner {
    notifier: std::sync::Arc<link::Notifier>,
    sleep: Arc<Sleep>,
    waker: Waker,
}

impl Owner {
    fn new() -> Self {
        let sleep = Arc::new(Sleep::default());
        let waker = Waker::from(std::sync::Arc::new(EndsSleep(Arc::clone(&sleep))));
        Self { notifier: std::sync::Arc::default(), sleep, waker }
    }

    /// Sleeps, unless there is something when it looks for the last time.
    fn sleep_unless(&self, has_event: impl FnOnce() -> bool) {
        self.notifier.announce_sleep(&self.waker);
        if has_event() {
            self.notifier.cancel_sleep();
        } else {
            self.sleep.sleep();
        }
    }
}

/// All orders with at most so many switches of threads where none was forced.
fn model(preemptions: usize, check: impl Fn() + Send + Sync + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(preemptions);
    model.check(check);
}

#[test]
fn a_bell_wakes_its_owner_whoever_rings() {
    model(3, || {
        let owner = Owner::new();
        let shown = Arc::new(AtomicUsize::new(0));
        let senders = [(); 2].map(|()| {
            let (notifier, shown) = (std::sync::Arc::clone(&owner.notifier), Arc::clone(&shown));
            thread::spawn(move || {
                shown.fetch_add(1, Relaxed);
                notifier.notify();
            })
        });
        let mut seen = 0;
        while seen < 2 {
            owner.sleep_unless(|| shown.load(Relaxed) > seen);
            seen = shown.load(Relaxed);
        }
        for sender in senders {
            sender.join().expect("no thread panics");
        }
    });
}

/// One end sends more frames than have room, and sleeps until there is some; the other one takes them, and sleeps until there
/// are some.
#[test]
fn frames_and_room_wake_the_other_end_of_a_link() {
    model(2, || {
        let (mut near, mut far) = link::link(64);
        let (sends, takes) = (Owner::new(), Owner::new());
        near.attach(1, &sends.notifier);
        far.attach(2, &takes.notifier);
        let taking = thread::spawn(move || {
            let mut taken = Vec::new();
            while taken.len() < FRAMES {
                if far.read(1, |frame| taken.push(frame[0])) == 0 {
                    takes.sleep_unless(|| far.has_event(1, FRAME_BYTES));
                }
            }
            // Its end is open until all is compared.
            (taken, far)
        });
        for number in 0..FRAMES {
            while !near.writer.push(&[number as u8; FRAME_BYTES]) {
                near.publish();
                near.is_full = true;
                sends.sleep_unless(|| near.has_event(1, FRAME_BYTES));
            }
        }
        near.publish();
        let (taken, _far) = taking.join().expect("no thread panics");
        assert!(taken.iter().copied().eq(0..FRAMES as u8), "{taken:?}");
    });
}

#[test]
fn an_end_that_goes_wakes_the_other_one() {
    model(3, || {
        let (near, mut far) = link::link(64);
        let takes = Owner::new();
        far.attach(2, &takes.notifier);
        let going = thread::spawn(move || drop(near));
        while !far.is_over() {
            assert_eq!(far.read(1, |_| ()), 0);
            takes.sleep_unless(|| far.has_event(1, FRAME_BYTES));
        }
        going.join().expect("no thread panics");
    });
}

#[test]
fn wakes_of_tasks_from_other_threads_arrive_once_the_swarm_is_told() {
    model(3, || {
        let remote = remote::Remote::new(10);
        let sleep = Arc::new(Sleep::default());
        let ends = Arc::clone(&sleep);
        remote.notify_with(move || ends.end());
        let wakers = [1, 2].map(|task| {
            let remote = remote.clone();
            thread::spawn(move || remote.wake(task))
        });
        let (mut wakes, mut all) = (Vec::new(), Vec::new());
        while all.len() < 2 {
            sleep.sleep();
            assert!(remote.has_wakes() || !all.is_empty(), "it was told of nothing");
            remote.take(&mut wakes);
            all.append(&mut wakes);
        }
        all.sort_unstable();
        assert_eq!(all, [1, 2]);
        for waker in wakers {
            waker.join().expect("no thread panics");
        }
    });
}

/// Anything: the ring counts frames.
const FRAME_BYTES: usize = 16;
const FRAMES: usize = 4;
