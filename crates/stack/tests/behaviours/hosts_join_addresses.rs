//! A host on a shared device that has joined an address has routes to other networks, also by a gateway that is named later. It gets the
//! packets of its address, unless that is in use elsewhere, and gives it back at its end.

use std::cell::Cell;
use std::io::ErrorKind;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anywire_stack::device::{Capabilities, Device, DeviceCounters};
use anywire_stack::shards::{HostOptions, JoinError, Mac, Shards, SharedHost};
use anywire_stack::xdp::{Attachment, Options, WantedMode, Xdp};
use anywire_sys::thread_bound::ThreadBound;
use anywire_tcp::{Cidr, ConnectOptions, Frames};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::hosts::run;
use crate::kernel::runtime;
use crate::networks::Pair;
use crate::support::Chatter;

/// The host of one loop.
fn host(shards: &Arc<Shards>, device: impl Device + Send + 'static) -> SharedHost {
    host_and_tasks(shards, device).0
}

/// The same, with what drives it and what follows its addresses.
fn host_and_tasks(
    shards: &Arc<Shards>,
    device: impl Device + Send + 'static,
) -> (SharedHost, JoinHandle<()>, JoinHandle<()>) {
    let queue: Box<dyn Device + Send> = Box::new(device);
    let shard = shards.join([queue]).expect("there is room");
    let options = HostOptions::new([7; 4], 7, Mac::new([2, 0, 0, 0, 0, 1]));
    let (host, driver, watch) = SharedHost::start(shard, options, |_| ()).expect("memory");
    (host, tokio::task::spawn_local(driver), tokio::task::spawn_local(watch))
}

fn network(text: &str) -> Cidr {
    text.parse().expect("an address and a prefix")
}

#[test]
fn and_reach_others_by_a_gateway_that_comes_later() {
    run(async || {
        let nobody = Chatter { falls_silent: Instant::now() };
        let host = host(&Shards::new(nobody.capabilities(), None, [77; 2]), nobody);
        let reaches = |remote: &str| {
            let remote = remote.parse().expect("an address and port");
            let started = host.interface().start(None, remote, ConnectOptions::default());
            started.map(drop).map_err(|error| error.kind())
        };
        host.join(network("10.0.0.2/24"), None).await.expect("nobody has it");
        assert_eq!(reaches("10.0.0.9:80"), Ok(()));
        assert_eq!(reaches("10.0.1.9:80"), Err(ErrorKind::NetworkUnreachable));
        host.join(network("10.0.0.2/16"), None).await.expect("it is there");
        assert_eq!(reaches("10.0.1.9:80"), Ok(()));
        assert_eq!(reaches("192.0.2.9:80"), Err(ErrorKind::NetworkUnreachable));
        host.join(network("10.0.0.2/24"), Some([10, 0, 0, 1].into())).await.expect("it is there");
        assert_eq!(reaches("192.0.2.9:80"), Ok(()));
        let family = host.join(network("10.0.0.2/24"), Some("fd00::1".parse().expect("an address"))).await;
        assert!(matches!(family, Err(JoinError::Route(_))), "{family:?}");
    });
}

#[test]
fn and_give_them_back_with_the_last_host() {
    run(async || {
        let nobody = || Chatter { falls_silent: Instant::now() };
        let shards = Shards::new(nobody().capabilities(), None, [77; 2]);
        let own = network("10.0.0.2/24");
        let (first, driver, watch) = host_and_tasks(&shards, nobody());
        first.join(own, None).await.expect("nobody has it");
        let last = first.clone();
        drop(first);
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert!(!driver.is_finished() && shards.has_address(own.address()), "a clone is there");
        drop(last);
        for (task, ends) in [("the driver", driver), ("the watch", watch)] {
            let ended = timeout(Duration::from_secs(10), ends).await;
            ended.unwrap_or_else(|_| panic!("{task} never ends")).expect("no panic");
        }
        assert_eq!((shards.loops(), shards.has_address(own.address())), (0, false));
        host(&shards, nobody()).join(own, None).await.expect("nobody has it any more");
    });
}

/// Nobody would ever say how it went.
#[test]
fn and_say_so_if_nobody_drives_them_any_more() {
    run(async || {
        let nobody = || Chatter { falls_silent: Instant::now() };
        let shards = Shards::new(nobody().capabilities(), None, [77; 2]);
        let fails = Rc::new(Cell::new(false));
        let (first, driver, watch) =
            host_and_tasks(&shards, Faulty { fails: ThreadBound::new(Rc::clone(&fails)) });
        let (own, other) = (network("10.0.0.2/24"), network("10.0.0.3/24"));
        first.join(own, None).await.expect("nobody has it");
        fails.set(true);
        let joined = first.join(other, None).await;
        assert!(matches!(joined, Err(JoinError::Stopped)), "{joined:?}");
        assert!(driver.await.expect_err("its device panics").is_panic());
        watch.await.expect("no panic");
        assert!(matches!(first.join(other, None).await, Err(JoinError::Stopped)));
        // Another one is in its place, though the first one is there.
        assert_eq!((shards.loops(), shards.has_address(own.address())), (0, false));
        host(&shards, nobody()).join(own, None).await.expect("nobody has it any more");
    });
}

/// A device that panics if the test wishes so.
struct Faulty {
    fails: ThreadBound<Rc<Cell<bool>>>,
}

impl Device for Faulty {
    fn capabilities(&self) -> Capabilities {
        Capabilities::new(1500)
    }

    fn receive(&mut self, _: anywire_tcp::Instant, _: &mut Frames) -> usize {
        assert!(!self.fails.get().is_some_and(|fails| fails.get()), "a device panics, as the test wishes");
        0
    }

    fn room(&self) -> usize {
        Frames::BATCH
    }

    fn transmit(&mut self, _: anywire_tcp::Instant, frames: &mut Frames) -> usize {
        let taken = frames.len();
        frames.clear();
        taken
    }

    fn counters(&self) -> DeviceCounters {
        DeviceCounters::default()
    }
}

#[test]
fn and_leave_the_packets_of_one_that_somebody_has() {
    let Some(pair) = Pair::new() else { return };
    pair.theirs.ip("addr add 10.77.0.9/24 dev far");
    let device = pair.ours.run(|| {
        let attachment = Attachment::attach("near", WantedMode::Any).expect("it is up");
        let queues = attachment.share(0, 1).expect("one loop serves all queues");
        Xdp::open(&attachment, queues, Options::default()).expect("they are free")
    });
    let attachment = Arc::clone(device.attachment());
    runtime().block_on(async {
        let shards = Shards::new(device.capabilities(), Some(Arc::clone(&attachment)), [77; 2]);
        let host = host(&shards, device);
        // Each claim holds the attachment.
        let holders = Arc::strong_count(&attachment);
        for _ in 0..2 {
            let taken = host.join(network("10.77.0.9/24"), None).await;
            let theirs: IpAddr = [10, 77, 0, 9].into();
            assert!(matches!(taken, Err(JoinError::InUse { address, .. }) if address == theirs), "{taken:?}");
            assert_eq!(Arc::strong_count(&attachment), holders);
        }
        host.join(network("10.77.0.2/24"), None).await.expect("nobody has it");
        assert_eq!(Arc::strong_count(&attachment), holders + 1, "packets come to this one");
    });
}

/// Whoever takes it away: the next one that joins gets it anew, and other loops do not take this one for one that has it.
#[test]
fn and_give_one_back_before_they_end() {
    run(async || {
        let nobody = || Chatter { falls_silent: Instant::now() };
        let shards = Shards::new(nobody().capabilities(), None, [77; 2]);
        let own = network("10.0.0.2/24");
        let [first, second] = [(); 2].map(|()| host(&shards, nobody()));
        let dials = |host: &SharedHost| {
            let remote = "10.0.0.9:80".parse().expect("an address and port");
            host.interface()
                .start(None, remote, ConnectOptions::default())
                .map(drop)
                .map_err(|error| error.kind())
        };
        first.join(own, None).await.expect("nobody has it");
        second.join(own, None).await.expect("the other loop has it");
        for _ in 0..2 {
            // At once, and after all have heard of it.
            first.interface().remove_address(own.address());
            assert!(!first.has_address(own.address()) && shards.has_address(own.address()));
            assert_eq!((dials(&first), dials(&second)), (Err(ErrorKind::AddrNotAvailable), Ok(())));
            first.join(own, None).await.expect("the other loop has it");
            assert_eq!(dials(&first), Ok(()));
            first.interface().remove_address(own.address());
            tokio::time::sleep(Duration::from_secs(1)).await;
            first.join(own, None).await.expect("the other loop has it");
            assert_eq!(dials(&first), Ok(()));
        }
        first.interface().remove_address(own.address());
        second.interface().remove_address(own.address());
        assert!(!shards.has_address(own.address()));
        first.join(own, None).await.expect("nobody has it");
        assert_eq!(dials(&first), Ok(()));
    });
}

/// The one that waits for it would wait for ever.
#[test]
fn and_hear_of_one_that_is_taken_away_before_it_is_ready() {
    run(async || {
        let nobody = Chatter { falls_silent: Instant::now() };
        let (shards, own) = (Shards::new(nobody.capabilities(), None, [77; 2]), network("10.0.0.2/24"));
        let host = host(&shards, nobody);
        let waiting = host.clone();
        let joining = tokio::task::spawn_local(async move { waiting.join(own, None).await });
        tokio::task::yield_now().await;
        assert!(host.has_address(own.address()), "it is awaited");
        host.interface().remove_address(own.address());
        let joined = joining.await.expect("no panic");
        assert!(matches!(joined, Err(JoinError::TakenAway(ip)) if ip == own.address()), "{joined:?}");
        host.join(own, None).await.expect("nobody has it");
    });
}
