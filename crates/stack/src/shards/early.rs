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
    use std::sync::Arc;

    use anywire_packet::Flags;

    use super::*;
    use crate::device::Device;
    use crate::shards::tests::{FakeQueue, device, hears, join, segment, service};
    use crate::shards::{Reservation, Shard, Shards};

    /// A loop with a service on which it does not listen yet.
    struct Late {
        shards: Arc<Shards>,
        service: Reservation,
        shard: Shard,
        queue: FakeQueue,
    }

    impl Late {
        fn new() -> Self {
            let (shards, queue) = (device(), FakeQueue::default());
            let shard = join(&shards, [&queue]);
            let service = shards.reserve(service(80), 1).expect("nobody listens there");
            Self { shards, service, shard, queue }
        }

        /// These arrive; gives what the loop hears at this time.
        fn hears(&mut self, millis: u64, arriving: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
            self.queue.behind().arriving.extend(arriving);
            hears(&mut self.shard, millis)
        }

        fn listens(&self) {
            self.shards.listen(self.service.address(), self.shard.number()).expect("a loop is missing");
        }

        fn dropped(&self) -> u64 {
            self.shard.counters().dropped_in
        }
    }

    fn syn(port: u16) -> Vec<u8> {
        segment(80, port, Flags::SYN)
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
        let other = late.shards.reserve(service(81), 1).expect("nobody listens there");
        assert!(late.hears(1500, Vec::new()).is_empty());
        drop(other);
        assert!(late.hears(1900, Vec::new()).is_empty());
        late.listens();
        assert_eq!((late.hears(3000, Vec::new()), late.dropped()), (Vec::new(), 1));
    }
}
