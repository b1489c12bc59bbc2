//! A loop that sends for others still reads its queue, and what has no room to leave holds up neither what arrives nor the core.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::task::Waker;

use anywire_packet::Flags;

use super::{FakeQueue, at, device, hears, join, nobodys, segment, sends};
use crate::device::{Device, DeviceCounters};

#[test]
fn loops_that_send_much_leave_the_queue_its_turn() {
    let (shards, queue) = (device(), FakeQueue::default());
    let (mut first, mut second) = (join(&shards, [&queue]), join(&shards, []));
    let mut heard = 0;
    for round in 0..50 {
        // More than is sent for it.
        sends(&mut second, round, 64);
        sends(&mut second, round, 64);
        queue.behind().arriving.push_back(nobodys(round as u8));
        let arrived = hears(&mut first, round);
        heard = arrived.last().map_or(heard, |frame| usize::from(frame[0]) + 1);
        assert!(heard + 3 > round as usize, "{heard} frames of {round}");
    }
    assert!(queue.behind().sent.len() > 50 * 30, "and it sends for others meanwhile");
}

/// Nor do other loops that pass on what belongs to it.
#[test]
fn loops_that_pass_much_on_leave_the_queue_its_turn() {
    let (shards, queues) = (device(), [(); 2].map(|()| FakeQueue::default()));
    let (mut first, mut second) = (join(&shards, [&queues[0]]), join(&shards, [&queues[1]]));
    let port = *shards.give_blocks(first.number())[0].ports().start();
    let ours = segment(port, 80, Flags::ACK);
    let mut missing = 0;
    for round in 0..50 {
        queues[1].behind().arriving.extend(vec![ours.clone(); 100]);
        hears(&mut second, round);
        hears(&mut second, round);
        queues[0].behind().arriving.push_back(nobodys(round as u8));
        let is_there = hears(&mut first, round).contains(&nobodys(round as u8));
        missing = if is_there || queues[0].behind().arriving.is_empty() { 0 } else { missing + 1 };
        assert!(missing < 3, "the queue is not read");
    }
}

#[test]
fn what_arrives_does_not_wait_for_what_has_no_room_to_leave() {
    let (shards, queues) = (device(), [(); 2].map(|()| FakeQueue::default()));
    let (mut first, mut second) = (join(&shards, [&queues[0]]), join(&shards, [&queues[1]]));
    let mut third = join(&shards, []);
    // The third loop sends by the queue of one of them, and both are full.
    queues.iter().for_each(|queue| queue.behind().is_full = true);
    while sends(&mut third, 0, 64) > 0 {}
    for (own, other) in [(0, 1), (1, 0)] {
        let (own_shard, other_shard) =
            if own == 0 { (&mut first, &mut second) } else { (&mut second, &mut first) };
        hears(own_shard, 1);
        let port = *shards.give_blocks(own_shard.number())[0].ports().start();
        let ours = segment(port, 80, Flags::ACK);
        queues[other].behind().arriving.push_back(ours.clone());
        hears(other_shard, 1);
        queues[own].behind().arriving.push_back(nobodys(7));
        let heard: Vec<_> = (0..3).flat_map(|_| hears(own_shard, 1)).collect();
        assert!(heard.contains(&ours) && heard.contains(&nobodys(7)), "{}", heard.len());
    }
}

#[test]
fn a_loop_sleeps_while_nothing_can_leave() {
    let (shards, queue) = (device(), FakeQueue::default());
    let (mut first, mut second) = (join(&shards, [&queue]), join(&shards, []));
    queue.behind().is_full = true;
    while sends(&mut second, 0, 64) > 0 {}
    let sleeps = (0..10).any(|_| hears(&mut first, 1).is_empty() && !first.before_sleep(Waker::noop()));
    assert!(sleeps, "it looks again and again");
    assert!(first.next_deadline().is_some_and(|deadline| deadline <= at(11)), "and looks for room");
    assert!(!second.before_sleep(Waker::noop()), "so does the one that sends by it");
    queue.behind().is_full = false;
    for millis in 2..200 {
        hears(&mut first, millis);
    }
    assert!(queue.behind().sent.len() > 128 && second.room() > 0, "all of it leaves once there is room");
    assert!(second.before_sleep(Waker::noop()), "there is room again");
}

#[test]
fn a_queue_with_more_than_is_passed_on_at_once_is_read_on() {
    let (shards, queue) = (device(), FakeQueue::default());
    let (mut first, second) = (join(&shards, [&queue]), join(&shards, []));
    let port = *shards.give_blocks(second.number())[0].ports().start();
    queue.behind().arriving.extend(vec![segment(port, 80, Flags::ACK); 2000]);
    let mut looks = 0;
    while !hears(&mut first, 1).is_empty() || first.before_sleep(Waker::noop()) {
        looks += 1;
        assert!(looks < 100, "it never sleeps");
    }
    assert!(queue.behind().arriving.is_empty(), "it sleeps while frames wait");
}

/// A frame of the usual full length.
fn long(port: u16) -> Vec<u8> {
    let mut frame = segment(port, 80, Flags::ACK);
    // What follows the packet is padding.
    frame.resize(1514, 0);
    frame
}

/// Frames of the full length are passed on as fast as their loop takes them, though it gets all of them by the queue of another.
#[test]
fn a_loop_that_reads_meanwhile_loses_nothing() {
    let (shards, queue) = (device(), FakeQueue::default());
    let mut first = join(&shards, [&queue]);
    // The second loop has a thread of its own, and hears a batch each time that it is asked.
    let ((ask, asked), (tell, told)) = (mpsc::channel(), mpsc::channel());
    let of_second = Arc::clone(&shards);
    let thread = std::thread::spawn(move || {
        let mut second = join(&of_second, []);
        let port = *of_second.give_blocks(second.number())[0].ports().start();
        tell.send(usize::from(port)).expect("the test waits");
        asked.iter().for_each(|()| tell.send(hears(&mut second, 1).len()).expect("the test waits"));
    });
    let port = told.recv().expect("it has ports") as u16;
    let heard = Arc::<AtomicUsize>::default();
    let counted = Arc::clone(&heard);
    queue.behind().arriving.extend(vec![long(port); 1000]);
    queue.behind().on_receive = Some(Box::new(move |_| {
        ask.send(()).expect("the second loop is there");
        counted.fetch_add(told.recv().expect("it answers"), Ordering::Relaxed);
    }));
    (0..20).for_each(|_| assert!(hears(&mut first, 1).is_empty()));
    assert_eq!((heard.load(Ordering::Relaxed), first.counters().dropped_in), (1000, 0));
    queue.behind().on_receive = None;
    thread.join().expect("no panic");
}

/// And they wait in the queue for a loop that is held up for a while.
#[test]
fn what_there_is_no_room_for_waits_in_the_queue() {
    let (shards, queue) = (device(), FakeQueue::default());
    let (mut first, mut second) = (join(&shards, [&queue]), join(&shards, []));
    let port = *shards.give_blocks(second.number())[0].ports().start();
    queue.behind().arriving.extend(vec![long(port); 1000]);
    let mut heard = 0;
    for _ in 0..20 {
        hears(&mut first, 1);
        assert!(first.counters().dropped_in == 0, "{heard} were heard");
        heard += (0..5).map(|_| hears(&mut second, 1).len()).sum::<usize>();
    }
    assert_eq!(heard, 1000);
}

#[test]
fn a_stuck_loop_keeps_nobody_from_sending() {
    let (shards, queues) = (device(), [(); 2].map(|()| FakeQueue::default()));
    let mut with_queue = [&queues[0], &queues[1]].map(|queue| join(&shards, [queue]));
    let mut third = join(&shards, []);
    while sends(&mut third, 0, 64) > 0 {}
    with_queue.iter_mut().for_each(|shard| drop(hears(shard, 1)));
    let uplink = (0..2).find(|loop_of| !queues[*loop_of].behind().sent.is_empty()).expect("one sends for it");
    let other = 1 - uplink;
    // That one does nothing from now on.
    for millis in (10..1000).step_by(10) {
        hears(&mut third, millis);
        if third.room() > 0 {
            sends(&mut third, millis, 64);
        }
        hears(&mut with_queue[other], millis);
    }
    assert!(queues[other].behind().sent.len() > 1000, "by the other one, and all the time");
    assert!(queues[uplink].behind().sent.len() <= 64);
}

/// Nor one that sends so little that no ring is ever full, whatever other loops change meanwhile.
#[test]
fn a_stuck_loop_keeps_nobody_from_sending_a_little() {
    let (shards, queues) = (device(), [(); 2].map(|()| FakeQueue::default()));
    let mut with_queue = [&queues[0], &queues[1]].map(|queue| join(&shards, [queue]));
    let mut third = join(&shards, []);
    sends(&mut third, 0, 1);
    with_queue.iter_mut().for_each(|shard| drop(hears(shard, 1)));
    let uplink = (0..2).find(|loop_of| !queues[*loop_of].behind().sent.is_empty()).expect("one sends for it");
    let other = 1 - uplink;
    for millis in (50..1050).step_by(50) {
        hears(&mut third, millis);
        assert_eq!(sends(&mut third, millis, 1), 1);
        hears(&mut with_queue[other], millis);
        shards.give_blocks(with_queue[other].number());
    }
    let sent = |loop_of: usize| queues[loop_of].behind().sent.len();
    assert!(sent(other) > 10, "{} of 20 were sent", sent(other));
    // Once it has taken what waits, frames leave by it again.
    hears(&mut with_queue[uplink], 1100);
    let by_other = sent(other);
    for millis in [1100, 1101] {
        hears(&mut third, millis);
        sends(&mut third, millis, 1);
        with_queue.iter_mut().for_each(|shard| drop(hears(shard, millis)));
    }
    assert_eq!((sent(other), sent(0) + sent(1)), (by_other, 23));
}

/// The loop that has the frames does not read them, and the one that receives them goes on.
#[test]
fn a_full_ring_drops_and_counts() {
    let (shards, queues) = (device(), [(); 2].map(|()| FakeQueue::default()));
    let (mut first, stuck) = (join(&shards, [&queues[0]]), join(&shards, [&queues[1]]));
    let port = *shards.give_blocks(stuck.number())[0].ports().start();
    let mut sent = 0;
    while first.counters().dropped_in == 0 {
        queues[0].behind().arriving.push_back(segment(port, 80, Flags::ACK));
        assert!(hears(&mut first, 1).is_empty() && sent < 100_000);
        sent += 1;
    }
    let DeviceCounters { passed_on, dropped_in, .. } = first.counters();
    assert_eq!((passed_on, dropped_in), (sent - 1, 1));
    queues[0].behind().arriving.push_back(nobodys(7));
    assert_eq!(hears(&mut first, 1), [nobodys(7)]);
}
