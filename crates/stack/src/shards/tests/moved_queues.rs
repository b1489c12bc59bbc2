//! Queues that go from loop to loop: their counters are each loop's own part, and each of them wakes the loop that has it.

use std::future::poll_fn;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::UnixDatagram;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use anywire_tcp::{Frames, Instant};

use super::{FakeQueue, device, hears, join, nobodys, sends};
use crate::device::{Capabilities, Device, DeviceCounters, Readiness};
use crate::shards::{NoShard, Shard};
use crate::wait::{Polling, Waiter};

#[test]
fn are_counted_once() {
    let (shards, queues) = (device(), [(); 2].map(|()| FakeQueue::default()));
    let mut first = join(&shards, &queues);
    let count = |shard: &Shard| {
        let DeviceCounters { frames_in, frames_out, .. } = shard.counters();
        (frames_in, frames_out)
    };
    let arrive =
        |count| queues.iter().for_each(|queue| queue.behind().arriving.extend(vec![nobodys(1); count]));
    arrive(10);
    (0..2).for_each(|_| drop(hears(&mut first, 1)));
    sends(&mut first, 1, 7);
    assert_eq!(count(&first), (20, 7));
    let mut second = join(&shards, []);
    (2..4).for_each(|millis| {
        [&mut first, &mut second].into_iter().for_each(|shard| drop(hears(shard, millis)))
    });
    assert_eq!((count(&first), count(&second)), ((20, 7), (0, 0)), "one of them was handed on");
    arrive(5);
    [&mut first, &mut second].into_iter().for_each(|shard| drop(hears(shard, 5)));
    assert_eq!((count(&first), count(&second)), ((25, 7), (5, 0)));
    sends(&mut second, 6, 3);
    drop(first);
    (7..9).for_each(|millis| drop(hears(&mut second, millis)));
    assert_eq!(count(&second), (5, 3), "the other one has gone there as well");
    arrive(1);
    (9..11).for_each(|millis| drop(hears(&mut second, millis)));
    assert_eq!(count(&second), (7, 3));
}

/// A loop that is stuck has a queue that nobody else reads, and gets no more of them.
#[test]
fn wait_for_no_loop_that_is_stuck() {
    let (shards, queues) = (device(), [(); 4].map(|()| FakeQueue::default()));
    let _stuck = join(&shards, &queues[..1]);
    let ends = join(&shards, &queues[1..3]);
    let mut goes_on = join(&shards, &queues[3..]);
    drop(ends);
    (1..3).for_each(|number| queues[number].behind().arriving.push_back(nobodys(number as u8)));
    let heard: Vec<_> = (0..6).flat_map(|_| hears(&mut goes_on, 1)).map(|frame| frame[0]).collect();
    assert!(heard.contains(&1) && heard.contains(&2), "{heard:?}");
}

/// The last one closes them, before another loop may open them anew.
#[test]
fn are_closed_with_the_last_loop() {
    /// A queue that somebody has open.
    struct Open(FakeQueue, Arc<AtomicUsize>);

    impl Drop for Open {
        fn drop(&mut self) {
            self.1.fetch_sub(1, Ordering::Relaxed);
        }
    }

    impl Device for Open {
        fn capabilities(&self) -> Capabilities {
            self.0.capabilities()
        }
        fn receive(&mut self, now: Instant, frames: &mut Frames) -> usize {
            self.0.receive(now, frames)
        }
        fn room(&self) -> usize {
            self.0.room()
        }
        fn transmit(&mut self, now: Instant, frames: &mut Frames) -> usize {
            self.0.transmit(now, frames)
        }
        fn counters(&self) -> DeviceCounters {
            self.0.counters()
        }
    }

    let (shards, open) = (device(), Arc::<AtomicUsize>::default());
    let another = || {
        open.fetch_add(1, Ordering::Relaxed);
        Box::new(Open(FakeQueue::default(), Arc::clone(&open))) as Box<dyn Device + Send>
    };
    assert_eq!(shards.join([]).expect_err("nobody sends for it"), NoShard::NoQueue);
    let (first, second) = (shards.join([another()]).expect("room"), shards.join([another()]).expect("room"));
    drop(first);
    assert_eq!((shards.loops(), open.load(Ordering::Relaxed)), (1, 2), "the other one may look");
    drop(second);
    assert_eq!(open.load(Ordering::Relaxed), 0);
    // It has decided that it sends by another, which has left meanwhile.
    assert_eq!(shards.join([]).expect_err("nobody sends for it"), NoShard::NoQueue);
    let alone = shards.join([another()]).expect("room");
    assert!(alone.room() > 0, "it sends itself");
}

/// A queue with a descriptor: each datagram is a frame.
struct Socket(UnixDatagram);

impl Socket {
    /// With its far end.
    fn new() -> (Self, UnixDatagram) {
        let (near, far) = UnixDatagram::pair().expect("two sockets");
        near.set_nonblocking(true).expect("a socket can");
        (Self(near), far)
    }
}

impl Device for Socket {
    fn capabilities(&self) -> Capabilities {
        Capabilities::new(1500)
    }

    fn receive(&mut self, _: Instant, frames: &mut Frames) -> usize {
        while frames.room() > 0 && self.0.recv(&mut [0]).is_ok() {
            assert!(frames.push(&nobodys(1)), "there is room");
        }
        frames.len()
    }

    fn room(&self) -> usize {
        Frames::BATCH
    }

    fn transmit(&mut self, _: Instant, frames: &mut Frames) -> usize {
        let count = frames.len();
        frames.clear();
        count
    }

    fn readiness(&self) -> Readiness<'_> {
        Readiness::Descriptor(self.0.as_fd())
    }

    fn counters(&self) -> DeviceCounters {
        DeviceCounters::default()
    }
}

/// Looks until the loop may sleep.
fn falls_asleep(shard: &mut Shard, waiter: &mut Waiter, cx: &mut Context<'_>) -> usize {
    let mut heard = 0;
    loop {
        let count = hears(shard, 1).len();
        heard += count;
        if !waiter.stays_awake(count > 0, shard, cx) {
            return heard;
        }
    }
}

/// The loop falls asleep, and then something is sent to this queue. Whether it hears that within five seconds, and how often it has
/// looked until then.
async fn hears_when_asleep(shard: &mut Shard, waiter: &mut Waiter, far: &UnixDatagram) -> (bool, usize) {
    let mut looks = 0;
    let woken = poll_fn(|cx| {
        let heard = falls_asleep(shard, waiter, cx);
        looks += 1;
        if looks == 1 {
            far.send(&[1]).expect("it has room");
        }
        if heard == 0 { Poll::Pending } else { Poll::Ready(()) }
    });
    let is_heard = tokio::time::timeout(Duration::from_secs(5), woken).await.is_ok();
    (is_heard, looks)
}

/// Descriptors in place of all free ones whose numbers are below that of the device.
fn descriptors_up_to(shard: &Shard) -> Vec<OwnedFd> {
    let Readiness::Descriptor(descriptor) = shard.readiness() else { return Vec::new() };
    let another = || descriptor.try_clone_to_owned().expect("descriptors are left");
    let number = descriptor.as_raw_fd();
    std::iter::repeat_with(another).take_while(|another| another.as_raw_fd() < number).collect()
}

/// The loop waits meanwhile, so its descriptors are known to it by their numbers, some of which are free again.
#[test]
fn wake_the_loop_that_has_them() {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_all().start_paused(true).build().expect("a runtime");
    runtime.block_on(async {
        let (shards, mut waiter) = (device(), Waiter::default());
        waiter.polling = Polling::Sleep;
        let mut far_ends = Vec::new();
        let mut shards: Vec<_> = (0..4)
            .map(|_| {
                let (queue, far) = Socket::new();
                far_ends.push(far);
                shards.join([Box::new(queue) as Box<dyn Device + Send>]).expect("there is room")
            })
            .collect();
        let (mut first, mut plugs) = (shards.remove(0), Vec::new());
        for (ended, next) in shards.into_iter().enumerate() {
            falls_asleep(&mut first, &mut waiter, &mut Context::from_waker(Waker::noop()));
            // So that a descriptor that is closed and made anew gets its number again.
            plugs.extend(descriptors_up_to(&first));
            drop(next);
            for far in &far_ends[..ended + 2] {
                let began = tokio::time::Instant::now();
                let woken = hears_when_asleep(&mut first, &mut waiter, far).await;
                // The clock moves on if nobody is woken, and then there is a last look.
                let took = began.elapsed();
                assert_eq!((woken, took), ((true, 2), Duration::ZERO), "{} loops have ended", ended + 1);
            }
        }
    });
}

/// And not by those that others have meanwhile.
#[test]
fn wake_no_loop_that_had_them() {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_all().start_paused(true).build().expect("a runtime");
    runtime.block_on(async {
        let (shards, mut waiter) = (device(), Waiter::default());
        waiter.polling = Polling::Sleep;
        let (queues, far_ends): (Vec<_>, Vec<_>) = (0..3).map(|_| Socket::new()).unzip();
        let mut first =
            shards.join(queues.into_iter().map(|queue| Box::new(queue) as Box<_>)).expect("there is room");
        falls_asleep(&mut first, &mut waiter, &mut Context::from_waker(Waker::noop()));
        let mut second = shards.join([]).expect("there is room");
        falls_asleep(&mut first, &mut waiter, &mut Context::from_waker(Waker::noop()));
        hears(&mut second, 1);
        let mut heard = Vec::new();
        for far in &far_ends {
            heard.push(hears_when_asleep(&mut first, &mut waiter, far).await);
        }
        // The last one went to the other loop: there is one more look when the time is over.
        assert_eq!(heard, [(true, 2), (true, 2), (false, 2)]);
        assert_eq!(hears(&mut second, 1).len(), 1);
    });
}
