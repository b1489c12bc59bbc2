//! Each loop hears once of what becomes of the link: by its own queue, by the first of several, or by the loop that it sends by.

use super::{FakeQueue, WakeUps, device, hears, join};
use crate::device::{Device, LinkEvent};
use crate::shards::Shard;

fn news(shard: &mut Shard) -> Vec<LinkEvent> {
    hears(shard, 1);
    std::iter::from_fn(|| shard.link_event()).collect()
}

#[test]
fn reach_each_loop_once() {
    let (shards, queues) = (device(), [(); 3].map(|()| FakeQueue::default()));
    let (mut first, mut second) = (join(&shards, &queues[..2]), join(&shards, &queues[2..]));
    let mut without = [(); 2].map(|()| join(&shards, []));
    // One of the two gets a queue of the first.
    for shard in [&mut first, &mut second].into_iter().chain(&mut without) {
        hears(shard, 1);
    }
    let (wake_ups, waker) = WakeUps::counted();
    for shard in &mut without {
        hears(shard, 1);
        assert!(!shard.before_sleep(&waker), "nothing has happened");
    }
    let all = [LinkEvent::Down, LinkEvent::KernelHasAddress([10, 0, 0, 2].into()), LinkEvent::Up];
    queues.iter().for_each(|queue| queue.behind().news.extend(all));
    assert_eq!((news(&mut first), news(&mut second)), (all.to_vec(), all.to_vec()));
    assert!(wake_ups.so_far() > 0, "those that sleep are woken");
    for shard in &mut without {
        assert_eq!(news(shard), all);
        assert!(!shard.before_sleep(&waker), "it has heard of all");
    }
}

#[test]
fn reach_a_loop_that_joins_late() {
    let (shards, queue) = (device(), FakeQueue::default());
    let mut first = join(&shards, [&queue]);
    queue.behind().news.push_back(LinkEvent::Down);
    assert_eq!(news(&mut first), [LinkEvent::Down]);
    let mut without = join(&shards, []);
    assert_eq!(news(&mut without), [LinkEvent::Down]);
    queue.behind().news.push_back(LinkEvent::Up);
    assert_eq!(news(&mut first), [LinkEvent::Up]);
    assert_eq!(news(&mut without), [LinkEvent::Up]);
    assert_eq!(news(&mut join(&shards, [])), [], "it is up, as each loop takes it for");
}

/// Its routes are made by what the device says.
#[test]
fn of_a_lower_mtu_reach_a_loop_that_joins_late() {
    let (shards, queue) = (device(), FakeQueue::default());
    let mut first = join(&shards, [&queue]);
    let before = first.capabilities().mtu;
    let event = LinkEvent::MtuLowered { mtu: before - 500 };
    queue.behind().news.push_back(event);
    assert_eq!(news(&mut first), [event]);
    assert_eq!([first, join(&shards, [])].map(|shard| shard.capabilities().mtu), [before - 500; 2]);
}

/// A loop that sent by one that has not heard of it, and ends, would take the link for down for ever.
#[test]
fn reach_a_loop_whose_uplink_ends() {
    let (shards, queues) = (device(), [(); 2].map(|()| FakeQueue::default()));
    let mut with_queue = queues.each_ref().map(|queue| Some(join(&shards, [queue])));
    let mut without = [(); 2].map(|()| join(&shards, []));
    for queue in &queues {
        queue.behind().news.push_back(LinkEvent::Down);
    }
    with_queue.iter_mut().flatten().for_each(|shard| assert_eq!(news(shard), [LinkEvent::Down]));
    without.iter_mut().for_each(|shard| assert_eq!(news(shard), [LinkEvent::Down]));
    queues[1].behind().news.push_back(LinkEvent::Up);
    with_queue[1].iter_mut().for_each(|shard| assert_eq!(news(shard), [LinkEvent::Up]));
    let heard = without.each_mut().map(news);
    assert!(heard.contains(&vec![]), "one sends by the first: {heard:?}");
    with_queue[0] = None;
    for (shard, mut heard) in without.iter_mut().zip(heard) {
        heard.extend(news(shard));
        assert_eq!(heard, [LinkEvent::Up]);
    }
    queues[1].behind().news.extend([LinkEvent::Down, LinkEvent::Up]);
    with_queue[1].iter_mut().for_each(|shard| assert_eq!(news(shard).len(), 2));
}

#[test]
fn come_from_the_first_of_several_queues() {
    let (shards, queues) = (device(), [(); 3].map(|()| FakeQueue::default()));
    let mut only = join(&shards, &queues);
    queues.iter().for_each(|queue| queue.behind().news.push_back(LinkEvent::Down));
    assert_eq!(news(&mut only), [LinkEvent::Down]);
    queues.iter().for_each(|queue| queue.behind().news.push_back(LinkEvent::Up));
    assert_eq!(news(&mut only), [LinkEvent::Up]);
    queues[2].behind().news.push_back(LinkEvent::Gone);
    assert_eq!(news(&mut only), [LinkEvent::Gone], "the device is gone, whoever says so");
    assert_eq!(news(&mut join(&shards, [])), [LinkEvent::Gone]);
}
