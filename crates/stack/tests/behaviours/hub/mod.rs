//! A network of several hosts for tests: brings each frame to the host whose address it is for, and what is for nobody's to all others.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use anywire_stack::device::{Capabilities, Device, DeviceCounters};
use anywire_tcp::{Frames, Instant, Mac};

/// The network. Clones are the same one.
#[derive(Clone, Default)]
pub(crate) struct Hub {
    hosts: Rc<RefCell<Vec<(Mac, Queue)>>>,
}

/// The frames that wait for one host.
type Queue = VecDeque<Vec<u8>>;

/// What a host has of it.
pub(crate) struct Adapter {
    hub: Hub,
    mac: Mac,
    counters: DeviceCounters,
}

impl Hub {
    /// A device for the host of this address.
    pub(crate) fn adapter(&self, mac: Mac) -> Adapter {
        self.hosts.borrow_mut().push((mac, Queue::new()));
        Adapter { hub: self.clone(), mac, counters: DeviceCounters::default() }
    }
}

impl Device for Adapter {
    fn capabilities(&self) -> Capabilities {
        Capabilities::new(1500)
    }

    fn receive(&mut self, _: Instant, frames: &mut Frames) -> usize {
        let mut hosts = self.hub.hosts.borrow_mut();
        let (_, queue) =
            hosts.iter_mut().find(|(mac, _)| *mac == self.mac).expect("it is there while it lives");
        while let Some(frame) = queue.front()
            && frames.push(frame)
        {
            self.counters.frames_in += 1;
            self.counters.bytes_in += frame.len() as u64;
            queue.pop_front();
        }
        frames.len()
    }

    fn room(&self) -> usize {
        let hosts = self.hub.hosts.borrow();
        let others = hosts.iter().filter(|(mac, _)| *mac != self.mac);
        QUEUE_FRAMES - others.map(|(_, queue)| queue.len()).max().unwrap_or(0).min(QUEUE_FRAMES)
    }

    fn transmit(&mut self, _: Instant, frames: &mut Frames) -> usize {
        let taken = frames.len().min(self.room());
        let mut hosts = self.hub.hosts.borrow_mut();
        for frame in frames.iter().take(taken) {
            let to = frame.first_chunk().map(|bytes| Mac::new(*bytes));
            let is_for_one = hosts.iter().any(|(mac, _)| Some(*mac) == to);
            for (mac, queue) in &mut *hosts {
                if *mac != self.mac && (!is_for_one || Some(*mac) == to) {
                    queue.push_back(frame.to_vec());
                }
            }
            self.counters.bytes_out += frame.len() as u64;
        }
        self.counters.frames_out += taken as u64;
        frames.remove_first(taken);
        taken
    }

    fn counters(&self) -> DeviceCounters {
        self.counters
    }
}

impl Drop for Adapter {
    fn drop(&mut self) {
        self.hub.hosts.borrow_mut().retain(|(mac, _)| *mac != self.mac);
    }
}

/// Frames that wait for one host; senders wait if there are as many for any.
const QUEUE_FRAMES: usize = 1024;
