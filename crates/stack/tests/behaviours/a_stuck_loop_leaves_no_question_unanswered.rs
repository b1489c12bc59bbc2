//! A neighbour that asks for an address gets one answer, from the loop that receives the question: a loop that is stuck costs the others no
//! neighbour, though it was the first that had the address.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::net::Ipv4Addr;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use std::time::Duration;

use anywire_packet::arp::{Arp, Operation};
use anywire_packet::ethernet::{EtherType, Link};
use anywire_stack::device::{Capabilities, Device, DeviceCounters};
use anywire_stack::shards::{Host, HostOptions, Mac, Shards};
use anywire_stack::stream::Driver;
use anywire_tcp::{Frames, Instant};

use crate::hosts::run;

const OURS: Mac = Mac::new([2, 0, 0, 0, 0, 2]);
const THEIRS: Mac = Mac::new([2, 0, 0, 0, 0, 1]);

/// One queue of the device, as the network behind it sees it.
#[derive(Clone, Default)]
struct Queue {
    arriving: Arc<Mutex<VecDeque<Vec<u8>>>>,
    sent: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl Device for Queue {
    fn capabilities(&self) -> Capabilities {
        Capabilities::new(1500)
    }

    fn receive(&mut self, _: Instant, frames: &mut Frames) -> usize {
        let mut arriving = self.arriving.lock().expect("nobody panics");
        while frames.room() > 0
            && let Some(frame) = arriving.pop_front()
        {
            assert!(frames.push(&frame), "there is room");
        }
        frames.len()
    }

    fn room(&self) -> usize {
        Frames::BATCH
    }

    fn transmit(&mut self, _: Instant, frames: &mut Frames) -> usize {
        let count = frames.len();
        self.sent.lock().expect("nobody panics").extend(frames.iter().map(<[u8]>::to_vec));
        frames.clear();
        count
    }

    fn counters(&self) -> DeviceCounters {
        DeviceCounters::default()
    }
}

impl Queue {
    fn asks(&self, target: [u8; 4]) {
        let question = Arp::request(THEIRS, Ipv4Addr::new(10, 0, 0, 1), target.into());
        self.arriving
            .lock()
            .expect("nobody panics")
            .push_back(question.frame(Mac::BROADCAST, THEIRS).to_vec());
    }

    /// The addresses for which answers have left since the last call.
    fn answered(&self) -> Vec<[u8; 4]> {
        let sent = std::mem::take(&mut *self.sent.lock().expect("nobody panics"));
        let messages = sent.iter().filter_map(|frame| match Link::parse(frame) {
            Some((_, EtherType::ARP, packet)) => Arp::parse(packet),
            _ => None,
        });
        let answers = messages.filter(|arp| arp.operation == Operation::Reply && arp.target_mac == THEIRS);
        answers.map(|arp| arp.sender.octets()).collect()
    }
}

/// Whether the task that drives a loop is stuck, and how it is woken afterwards.
#[derive(Clone, Default)]
struct Brake(Rc<RefCell<(bool, Option<Waker>)>>);

impl Brake {
    fn drive(&self, driver: Driver) {
        let (brake, mut driver) = (self.clone(), Box::pin(driver));
        drop(tokio::task::spawn_local(poll_fn(move |cx| {
            if brake.0.borrow().0 {
                brake.0.borrow_mut().1 = Some(cx.waker().clone());
                return Poll::Pending;
            }
            driver.as_mut().poll(cx)
        })));
    }

    fn set(&self, is_stuck: bool) {
        self.0.borrow_mut().0 = is_stuck;
        let waiting = self.0.borrow_mut().1.take();
        waiting.into_iter().for_each(Waker::wake);
    }
}

async fn a_while() {
    tokio::time::sleep(Duration::from_millis(100)).await;
}

#[test]
fn whoever_receives_it_answers() {
    run(async || {
        let (queues, brakes) = ([(); 2].map(|()| Queue::default()), [(); 2].map(|()| Brake::default()));
        let shards = Shards::new(Capabilities::new(1500), None, 99);
        let mut hosts = Vec::new();
        for (number, (queue, brake)) in (1..).zip(queues.iter().zip(&brakes)) {
            let queue: Box<dyn Device + Send> = Box::new(queue.clone());
            let shard = shards.join([queue]).expect("there is room");
            let options = HostOptions::new([number; 4], number, OURS);
            let (host, driver, watch) = Host::start(shard, options, |_| ()).expect("memory");
            brake.drive(driver);
            tokio::task::spawn_local(watch);
            hosts.push(host);
        }
        let [both, first, second] = [[10, 0, 0, 2], [10, 0, 0, 3], [10, 0, 0, 4]];
        for (host, address) in [(0, both), (1, both), (0, first), (1, second)] {
            let own = format!("{}/24", Ipv4Addr::from(address)).parse().expect("a network");
            hosts[host].join(own, None).await.expect("nobody has it");
        }
        a_while().await;
        queues.iter().for_each(|queue| drop(queue.answered()));

        // Each queue gets the questions for all three.
        for queue in &queues {
            [both, first, second, [10, 0, 0, 9]].into_iter().for_each(|address| queue.asks(address));
            a_while().await;
            let mut all: Vec<_> = queues.iter().flat_map(Queue::answered).collect();
            all.sort_unstable();
            assert_eq!(all, [both, first, second], "one answer for each address of ours");
        }

        // The first one leads the address that both have.
        for (stuck, other) in [(0, 1), (1, 0)] {
            brakes[stuck].set(true);
            queues[other].asks(both);
            a_while().await;
            assert_eq!((queues[other].answered(), queues[stuck].answered()), (vec![both], vec![]));
            brakes[stuck].set(false);
            a_while().await;
            assert_eq!(queues[stuck].answered(), Vec::<[u8; 4]>::new(), "it was answered");
        }
    });
}
