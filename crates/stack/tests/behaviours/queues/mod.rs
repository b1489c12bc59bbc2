//! Loops that share a device whose queues are the test's own, and that can be stuck.
#![allow(dead_code, reason = "each test uses a part of it")]

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::net::Ipv4Addr;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use std::time::Duration;

use anywire_packet::arp::{Arp, Operation};
use anywire_packet::ethernet::{EtherType, Link};
use anywire_packet::{Addresses, Checks, Flags, OptionsOut, Outgoing, emit};
use anywire_stack::device::{Capabilities, Device, DeviceCounters};
use anywire_stack::shards::{HostOptions, Mac, Shards, SharedHost};
use anywire_stack::stream::Driver;
use anywire_tcp::{Frames, Instant};
use tokio::task::JoinHandle;

pub(crate) const OURS: Mac = Mac::new([2, 0, 0, 0, 0, 2]);
pub(crate) const THEIRS: Mac = Mac::new([2, 0, 0, 0, 0, 1]);

/// One queue of the device, as the network behind it sees it.
#[derive(Clone, Default)]
pub(crate) struct Queue {
    arriving: Arc<Mutex<VecDeque<Vec<u8>>>>,
    sent: Arc<Mutex<Vec<Vec<u8>>>>,
    /// The next loop that asks it for frames panics.
    pub(crate) fails: Arc<AtomicBool>,
}

impl Device for Queue {
    fn capabilities(&self) -> Capabilities {
        Capabilities::new(1500)
    }

    fn receive(&mut self, _: Instant, frames: &mut Frames) -> usize {
        assert!(!self.fails.swap(false, Ordering::Relaxed), "a device panics, as the test wishes");
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
    pub(crate) fn asks(&self, target: [u8; 4]) {
        let question = Arp::request(THEIRS, Ipv4Addr::new(10, 0, 0, 1), target.into());
        self.brings(question.frame(Mac::BROADCAST, THEIRS).to_vec());
    }

    pub(crate) fn brings(&self, frame: Vec<u8>) {
        self.arriving.lock().expect("nobody panics").push_back(frame);
    }

    /// The frames that have left since the last call.
    pub(crate) fn sent(&self) -> Vec<Vec<u8>> {
        std::mem::take(&mut *self.sent.lock().expect("nobody panics"))
    }

    /// The addresses for which answers have left since the last call.
    pub(crate) fn answered(&self) -> Vec<[u8; 4]> {
        let sent = self.sent();
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
pub(crate) struct Brake(Rc<RefCell<(bool, Option<Waker>)>>);

impl Brake {
    pub(crate) fn drive(&self, driver: Driver) -> JoinHandle<()> {
        let (brake, mut driver) = (self.clone(), Box::pin(driver));
        tokio::task::spawn_local(poll_fn(move |cx| {
            if brake.0.borrow().0 {
                brake.0.borrow_mut().1 = Some(cx.waker().clone());
                return Poll::Pending;
            }
            driver.as_mut().poll(cx)
        }))
    }

    pub(crate) fn set(&self, is_stuck: bool) {
        self.0.borrow_mut().0 = is_stuck;
        let waiting = self.0.borrow_mut().1.take();
        waiting.into_iter().for_each(Waker::wake);
    }
}

pub(crate) async fn a_while() {
    tokio::time::sleep(Duration::from_millis(100)).await;
}

/// Loops on one device.
pub(crate) struct Loops {
    pub(crate) shards: Arc<Shards>,
    pub(crate) queues: Vec<Queue>,
    pub(crate) brakes: Vec<Brake>,
    pub(crate) drivers: Vec<JoinHandle<()>>,
    pub(crate) hosts: Vec<SharedHost>,
}

impl Loops {
    /// So many, with a queue each.
    pub(crate) fn new(count: u64) -> Self {
        let shards = Shards::new(Capabilities::new(1500), None, [99; 2]);
        let (queues, brakes, drivers, hosts) = Default::default();
        let mut loops = Self { shards, queues, brakes, drivers, hosts };
        for number in 1..=count {
            let queue = Queue::default();
            let device: Box<dyn Device + Send> = Box::new(queue.clone());
            let shard = loops.shards.join([device]).expect("there is room");
            let options = HostOptions::new([number; 4], number, OURS);
            let (host, driver, watch) = SharedHost::start(shard, options, |_| ()).expect("memory");
            let brake = Brake::default();
            loops.drivers.push(brake.drive(driver));
            tokio::task::spawn_local(watch);
            loops.queues.push(queue);
            loops.brakes.push(brake);
            loops.hosts.push(host);
        }
        loops
    }

    /// Gives these loops an address.
    pub(crate) async fn join(&self, address: [u8; 4], loops: &[usize]) {
        for number in loops {
            let own = format!("{}/24", Ipv4Addr::from(address)).parse().expect("a network");
            self.hosts[*number].join(own, None).await.expect("nobody has it");
        }
    }

    /// Lets what has begun come to its end, and throws away what was sent.
    pub(crate) async fn settle(&self) {
        a_while().await;
        self.queues.iter().for_each(|queue| drop(queue.sent()));
    }
}

/// A SYN of the peer 10.0.0.1.
pub(crate) fn syn(from_port: u16, to: [u8; 4], to_port: u16) -> Vec<u8> {
    let addresses = Addresses::V4 { local: 0x0a00_0001, remote: u32::from_be_bytes(to) };
    let segment =
        Outgoing { local_port: from_port, remote_port: to_port, flags: Flags::SYN, ..Outgoing::default() };
    let mut frame = vec![0; 200];
    let link = Link::new(OURS, THEIRS);
    let length = emit(&mut frame, &link, &addresses, &segment, &OptionsOut::NONE, &[], Checks::ALL);
    frame.truncate(length);
    frame
}
