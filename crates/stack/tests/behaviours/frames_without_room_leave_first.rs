//! Frames that a device has no room for stay with their owner, who sends them before others, once, and in their order.

use std::cell::RefCell;
use std::rc::Rc;
use std::task::Waker;
use std::time::Duration;

use anywire_stack::capture::{Capture, Limits};
use anywire_stack::device::{Capabilities, Device, DeviceCounters, Readiness};
use anywire_stack::impair::{Impair, Impairment};
use anywire_stack::pair::{Endpoint, Settings};
use anywire_stack::stream::Interface;
use anywire_stack::swarm::{Incoming, Swarm};
use anywire_tcp::{Frames, Instant};

use crate::hosts::{Notifiers, bytes, echo, exchange, run};
use crate::hub::Hub;
use crate::support::{NOW, batch, frame, mark};
use crate::swarms::{Net, QUICK, address, engine, mac, settings};

/// A device that takes three frames a call, and every fifth time none, whatever room it seemed to have: as a socket may.
struct Moody<D> {
    device: D,
    calls: usize,
    /// Where in its batch the next frame is that leaves.
    left: usize,
}

impl<D> Moody<D> {
    fn new(device: D) -> Self {
        Self { device, calls: 0, left: 0 }
    }
}

impl<D: Device> Device for Moody<D> {
    fn capabilities(&self) -> Capabilities {
        self.device.capabilities()
    }

    fn receive(&mut self, now: Instant, frames: &mut Frames) -> usize {
        self.device.receive(now, frames)
    }

    fn room(&self) -> usize {
        self.device.room()
    }

    fn transmit(&mut self, now: Instant, frames: &mut Frames) -> usize {
        assert!(self.left == 0 || frames.len() == self.left, "what was left comes first, and alone");
        self.calls += 1;
        let takes = if self.calls.is_multiple_of(5) { 0 } else { frames.len().min(3) };
        if takes > 0 {
            let mut taken = frames.select(0..takes);
            // The port may keep the memory that it is given.
            let mut own = self.device.batch();
            taken.iter().for_each(|frame| assert!(own.push(frame)));
            taken.clear();
            assert_eq!(self.device.transmit(now, &mut own), takes);
            frames.remove_first(takes);
        }
        self.left = frames.len();
        takes
    }

    fn readiness(&self) -> Readiness<'_> {
        self.device.readiness()
    }

    /// Room for a few frames is there again at once.
    fn before_sleep(&mut self, owner: &Waker) -> bool {
        self.device.before_sleep(owner) || self.left > 0
    }

    fn counters(&self) -> DeviceCounters {
        self.device.counters()
    }
}

#[test]
fn by_streams() {
    run(async || {
        let (hub, notifiers) = (Hub::default(), Notifiers::default());
        let host = |last| {
            let adapter = hub.adapter(mac(last));
            let (host, driver) =
                Interface::new(engine(settings(last), last), Moody::new(notifiers.attach(adapter)));
            tokio::task::spawn_local(driver);
            host
        };
        let (client, server) = (host(1), host(2));
        let mut listener = server.listen(address(2, 80), Default::default()).expect("the port is free");
        tokio::task::spawn_local(async move {
            echo(listener.accept().await.expect("it has come")).await;
        });
        let all = async {
            let stream = client.connect(address(2, 80)).await?;
            exchange(stream, bytes(0, 200_000)).await
        };
        let back = tokio::time::timeout(Duration::from_secs(600), all).await.expect("in time");
        assert!(back.expect("it ends well") == bytes(0, 200_000));
        for host in [client, server] {
            assert_eq!(host.with_engine(|engine| engine.counters().retransmits), 0);
        }
    });
}

#[test]
fn by_swarms() {
    let (hub, mut net) = (Hub::default(), Net::new());
    let device = |host| Moody::new(hub.adapter(mac(host)));
    let done = Rc::new(RefCell::new(0));
    let mut server =
        Swarm::new(engine(settings(1), 1), device(1), 100, |mut incoming: Incoming| async move {
            while let Some(received) = incoming.conn.recv().await {
                incoming.conn.send(received).await;
            }
        })
        .expect("address space");
    server.engine().listen(address(1, 7), QUICK).expect("a free port");
    let mut client = Swarm::new(engine(settings(2), 2), device(2), 100, |mut incoming: Incoming| {
        let done = Rc::clone(&done);
        async move {
            let sent = bytes(0, 5000);
            incoming.conn.send(&sent[..]).await;
            let mut back = vec![0; sent.len()];
            incoming.conn.read_exact(&mut back).await.expect("it comes back");
            assert!(back == sent);
            *done.borrow_mut() += 1;
        }
    })
    .expect("address space");
    for port in 1000..1050 {
        client.open(address(2, port), address(1, 7), QUICK).expect("room");
    }
    net.pass(1000, &mut [&mut server, &mut client]);
    assert_eq!(*done.borrow(), 50);
}

/// Sends 30 frames through a device, as its owner has to, and gives what arrives.
fn sent_through<D: Device>(device: &mut D, other: &mut Endpoint) -> Vec<u32> {
    let (mut seen, mut arrived) = (Vec::new(), other.batch());
    let mut frames = batch((0..30).map(|number| frame(mac(1), mac(2), number)));
    for step in 0..100 {
        let now = NOW + Duration::from_micros(50 * step);
        device.transmit(now, &mut frames);
        while other.receive(now, &mut arrived) > 0 {
            seen.extend(arrived.iter().map(mark));
            arrived.clear();
        }
    }
    assert!(frames.is_empty());
    seen
}

fn ends() -> (Moody<Endpoint>, Endpoint) {
    let [one, two] = Endpoint::pair(Settings::default());
    (Moody::new(one), two)
}

#[test]
fn a_capture_has_each_once() {
    let (one, mut other) = ends();
    let mut one = Capture::new(one, Vec::new(), Limits::default());
    assert!(sent_through(&mut one, &mut other).into_iter().eq(0..30));
    assert_eq!(one.capture_counters().frames_written, 30);
}

#[test]
fn a_bad_network_is_passed_once() {
    for reorder in [0.0, 0.3] {
        let (one, mut other) = ends();
        let mut one = Impair::new(one, Impairment { loss: 0.5, reorder, seed: 3, ..Impairment::default() });
        let seen = sent_through(&mut one, &mut other);
        let counters = one.outgoing_counters();
        assert_eq!((counters.frames, counters.lost), (30, 30 - seen.len() as u64));
        assert!((5..25).contains(&seen.len()) && (reorder > 0.0 || seen.is_sorted()), "{seen:?}");
    }
}
