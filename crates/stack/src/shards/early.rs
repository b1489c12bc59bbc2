//! SYNs for a loop that has not begun to listen: they wait for it, but not for longer than their peers do.

use std::time::Duration;

use anywire_tcp::{Frames, Instant, Meta};

use super::flow::Flow;

/// See the module's documentation.
#[derive(Debug, Default)]
pub(super) struct EarlySyns {
    waiting: Vec<Syn>,
}

#[derive(Debug)]
struct Syn {
    flow: Flow,
    frame: Vec<u8>,
    meta: Meta,
    since: Instant,
}

impl EarlySyns {
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Keeps a SYN: in the place of an earlier one of the same connection, since a peer that is not answered sends it again. Says how many
    /// were dropped: that one, those that have waited too long, or this one if there is no room.
    pub(super) fn keep(&mut self, now: Instant, flow: Flow, frame: &[u8], meta: Meta) -> u64 {
        let before = self.waiting.len();
        self.waiting.retain(|syn| syn.flow != flow && !syn.is_old(now));
        let dropped = (before - self.waiting.len()) as u64;
        if self.waiting.len() >= EARLY_MAX {
            return dropped + 1;
        }
        self.waiting.push(Syn { flow, frame: frame.to_vec(), meta, since: now });
        dropped
    }

    /// Moves those to `frames` that need not wait any more. Says how many were dropped: those that have waited too long, or found no room.
    pub(super) fn release(
        &mut self,
        now: Instant,
        frames: &mut Frames,
        waits: impl Fn(&Flow) -> bool,
    ) -> u64 {
        let mut dropped = 0;
        self.waiting.retain(|syn| {
            let is_old = syn.is_old(now);
            if !is_old && waits(&syn.flow) {
                return true;
            }
            if !is_old && frames.push(&syn.frame) {
                frames.describe_last(syn.meta);
            } else {
                dropped += 1;
            }
            false
        });
        dropped
    }
}

impl Syn {
    fn is_old(&self, now: Instant) -> bool {
        now.since(self.since) > PATIENCE
    }
}

/// SYNs that wait for their loop: no more than a batch has room for.
const EARLY_MAX: usize = 32;

/// By then a peer that still waits has sent its SYN again: after one second the first time (RFC 6298, section 2).
const PATIENCE: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::sync::{Arc, Mutex};

    use anywire_packet::ethernet::Link;
    use anywire_packet::{Addresses, Checks, Flags, Mac, OptionsOut, Outgoing, emit};

    use super::*;
    use crate::device::{Capabilities, Device, DeviceCounters};
    use crate::shards::{Service, Shard, Shards};

    /// A queue that brings what it is given.
    #[derive(Clone, Default)]
    struct Queue {
        arriving: Arc<Mutex<Vec<Vec<u8>>>>,
    }

    impl Device for Queue {
        fn capabilities(&self) -> Capabilities {
            Capabilities::new(1500)
        }

        fn receive(&mut self, _: Instant, frames: &mut Frames) -> usize {
            let arriving = std::mem::take(&mut *self.arriving.lock().expect("no panic"));
            arriving.iter().for_each(|frame| assert!(frames.push(frame), "a batch has room"));
            frames.len()
        }

        fn room(&self) -> usize {
            Frames::BATCH
        }

        fn transmit(&mut self, _: Instant, _: &mut Frames) -> usize {
            0
        }

        fn counters(&self) -> DeviceCounters {
            DeviceCounters::default()
        }
    }

    /// A loop with a service on which it does not listen yet.
    struct Late {
        shards: Arc<Shards>,
        service: Service,
        shard: Shard,
        queue: Queue,
    }

    impl Late {
        fn new() -> Self {
            let queue = Queue::default();
            let shards = Shards::new(queue.capabilities(), None, 77);
            let device: Box<dyn Device + Send> = Box::new(queue.clone());
            let shard = shards.join([device]).expect("there is room");
            let service =
                shards.reserve(SocketAddr::from(([10, 0, 0, 2], 80)), 1).expect("nobody listens there");
            Self { shards, service, shard, queue }
        }

        /// These arrive; gives what the loop hears at this time.
        fn hears(&mut self, millis: u64, arriving: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
            *self.queue.arriving.lock().expect("no panic") = arriving;
            let mut frames = self.shard.batch();
            self.shard.receive(Instant::from_micros(millis * 1000), &mut frames);
            frames.iter().map(<[u8]>::to_vec).collect()
        }

        fn listens(&self) {
            self.shards.listen(self.service.address(), self.shard.number()).expect("a loop is missing");
        }

        fn dropped(&self) -> u64 {
            self.shard.counters().dropped_in
        }
    }

    fn syn(port: u16) -> Vec<u8> {
        let addresses = Addresses::V4 { local: 0x0a00_0009, remote: 0x0a00_0002 };
        let segment =
            Outgoing { local_port: port, remote_port: 80, flags: Flags::SYN, ..Outgoing::default() };
        let link = Link::new(Mac::new([2, 0, 0, 0, 0, 1]), Mac::new([2, 0, 0, 0, 0, 2]));
        let mut frame = vec![0; 200];
        let length = emit(&mut frame, &link, &addresses, &segment, &OptionsOut::NONE, &[], Checks::ALL);
        frame.truncate(length);
        frame
    }

    #[test]
    fn a_peer_that_sends_its_syn_again_takes_one_place() {
        let mut late = Late::new();
        let arriving = [vec![syn(1); 40], vec![syn(2)]].concat();
        assert!(late.hears(0, arriving).is_empty());
        late.listens();
        assert_eq!((late.hears(1000, Vec::new()), late.dropped()), (vec![syn(1), syn(2)], 39));
    }

    #[test]
    fn who_waits_beyond_the_limit_is_dropped_and_counted() {
        let mut late = Late::new();
        let ports = 0..EARLY_MAX as u16 + 2;
        assert!(late.hears(0, ports.map(syn).collect()).is_empty());
        assert_eq!(late.dropped(), 2);
        late.listens();
        assert_eq!(late.hears(1000, Vec::new()).len(), EARLY_MAX);
    }

    #[test]
    fn the_syn_of_a_peer_that_has_given_up_is_dropped_and_counted() {
        let mut late = Late::new();
        assert!(late.hears(0, vec![syn(1), syn(2)]).is_empty());
        assert!(late.hears(1500, vec![syn(1)]).is_empty());
        late.listens();
        assert_eq!((late.hears(3000, Vec::new()), late.dropped()), (vec![syn(1)], 2));
        assert!(late.hears(4000, Vec::new()).is_empty());
    }

    /// That another service has changed makes it no younger.
    #[test]
    fn a_syn_ages_whatever_changes_meanwhile() {
        let mut late = Late::new();
        assert!(late.hears(0, vec![syn(1)]).is_empty());
        let other =
            late.shards.reserve(SocketAddr::from(([10, 0, 0, 2], 81)), 1).expect("nobody listens there");
        assert!(late.hears(1500, Vec::new()).is_empty());
        drop(other);
        assert!(late.hears(1900, Vec::new()).is_empty());
        late.listens();
        assert_eq!((late.hears(3000, Vec::new()), late.dropped()), (Vec::new(), 1));
    }
}
