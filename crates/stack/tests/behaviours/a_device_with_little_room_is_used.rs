//! A device gets as many frames as it has room for, though that may never be a whole batch, and never more.
//! (RFC 9293 3.8.6.2.1 and 3.10.4: what may leave leaves.)

use std::cell::Cell;
use std::rc::Rc;
use std::task::Waker;
use std::time::Duration;

use crate::hosts::{Notifiers, bytes, echo, exchange, interface_on, run};
use crate::hub::Hub;
use crate::swarms::{Net, QUICK, address, engine, mac, settings};
use anywire_stack::device::{Capabilities, Device, DeviceCounters, Readiness};
use anywire_stack::impair::{Impair, Impairment};
use anywire_stack::stream::Interface;
use anywire_stack::swarm::{Incoming, Swarm};
use anywire_tcp::{ConnectOptions, Frames, Instant};
use tokio::time;

const ROOMS: [usize; 5] = [1, 2, 8, 63, 64];

/// A device whose ring has so many places, all of them free again after each look.
struct Ring<D> {
    device: D,
    places: usize,
    /// Frames that were handed over without room for them.
    too_many: Rc<Cell<usize>>,
}

impl<D: Device> Device for Ring<D> {
    fn capabilities(&self) -> Capabilities {
        self.device.capabilities()
    }

    fn receive(&mut self, now: Instant, frames: &mut Frames) -> usize {
        self.device.receive(now, frames)
    }

    fn room(&self) -> usize {
        self.device.room().min(self.places)
    }

    fn transmit(&mut self, now: Instant, frames: &mut Frames) -> usize {
        self.too_many.update(|before| before + frames.len().saturating_sub(self.room()));
        self.device.transmit(now, frames)
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.device.next_deadline()
    }

    fn readiness(&self) -> Readiness<'_> {
        self.device.readiness()
    }

    fn before_sleep(&mut self, owner: &Waker) -> bool {
        self.device.before_sleep(owner)
    }

    fn counters(&self) -> DeviceCounters {
        self.device.counters()
    }
}

/// A device that loses all that it is given, and has so much room.
struct Sink(Rc<Cell<usize>>);

impl Device for Sink {
    fn capabilities(&self) -> Capabilities {
        Capabilities::new(1500)
    }

    fn receive(&mut self, _: Instant, _: &mut Frames) -> usize {
        0
    }

    fn room(&self) -> usize {
        self.0.get()
    }

    fn transmit(&mut self, _: Instant, frames: &mut Frames) -> usize {
        let taken = frames.len().min(self.room());
        frames.remove_first(taken);
        taken
    }

    fn readiness(&self) -> Readiness<'_> {
        Readiness::Hook
    }

    fn counters(&self) -> DeviceCounters {
        DeviceCounters::default()
    }
}

#[test]
fn timers_do_not_wait_for_room() {
    run(async || {
        let (room, started) = (Rc::new(Cell::new(64)), time::Instant::now());
        let (host, driver) = interface_on(1, Sink(Rc::clone(&room)));
        tokio::task::spawn_local(driver);
        let start =
            |last| host.start(None, address(last, 80), ConnectOptions::default()).expect("a way there");
        let _first = start(2);
        tokio::task::yield_now().await;
        let next_timer =
            || host.with_engine(|engine| engine.next_timer()).expect("a SYN waits for its answer");
        let due = next_timer();
        // The engine's clock begins at one second.
        let at = started + Duration::from_micros(due.as_micros() - 1_000_000);
        // From then on the driver looks each ten milliseconds whether there is room again.
        time::sleep_until(at - Duration::from_millis(25)).await;
        room.set(0);
        let _second = start(3);
        time::sleep_until(at + Duration::from_millis(2)).await;
        assert!(next_timer() > due, "it has expired");
    });
}

/// Whether an echo comes back within ten minutes of the tests' clock.
async fn comes_back(client: &Interface) -> bool {
    let all = async {
        let stream = client.connect(address(2, 80)).await?;
        exchange(stream, bytes(0, 100_000)).await
    };
    let back = time::timeout(Duration::from_secs(600), all).await;
    back.is_ok_and(|back| back.expect("it ends well") == bytes(0, 100_000))
}

#[test]
fn by_streams() {
    for places in ROOMS {
        let too_many = Rc::new(Cell::new(0));
        run(async || {
            let (hub, notifiers) = (Hub::default(), Notifiers::default());
            let host = |last| {
                let adapter = hub.adapter(mac(last));
                let device =
                    Ring { device: notifiers.attach(adapter), places, too_many: Rc::clone(&too_many) };
                let (host, driver) = Interface::new(engine(settings(last), last), device);
                tokio::task::spawn_local(driver);
                host
            };
            let (client, server) = (host(1), host(2));
            let mut listener = server.listen(address(2, 80), Default::default()).expect("the port is free");
            tokio::task::spawn_local(async move {
                echo(listener.accept().await.expect("it has come")).await;
            });
            assert!(comes_back(&client).await, "{places} places");
        });
        assert_eq!(too_many.get(), 0, "{places} places");
    }
}

/// A wrapper around a device says what the device says.
#[test]
fn behind_a_bad_network() {
    run(async || {
        let (hub, notifiers) = (Hub::default(), Notifiers::default());
        let too_many = Rc::new(Cell::new(0));
        let host = |last: u8| {
            let adapter = hub.adapter(mac(last));
            let ring = Ring { device: adapter, places: 8, too_many: Rc::clone(&too_many) };
            let device =
                Impair::new(ring, Impairment { loss: 0.01, seed: last.into(), ..Impairment::default() });
            let (host, driver) = Interface::new(engine(settings(last), last), notifiers.attach(device));
            tokio::task::spawn_local(driver);
            host
        };
        let (client, server) = (host(1), host(2));
        let mut listener = server.listen(address(2, 80), Default::default()).expect("the port is free");
        tokio::task::spawn_local(async move {
            echo(listener.accept().await.expect("it has come")).await;
        });
        assert!(comes_back(&client).await);
        assert_eq!(too_many.get(), 0);
    });
}

#[test]
fn by_swarms() {
    for places in ROOMS {
        let (too_many, done) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
        let (hub, mut net) = (Hub::default(), Net::new());
        let device = |host| {
            let device = hub.adapter(mac(host));
            Ring { device, places, too_many: Rc::clone(&too_many) }
        };
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
                done.set(done.get() + 1);
            }
        })
        .expect("address space");
        for port in 1000..1050 {
            client.open(address(2, port), address(1, 7), QUICK).expect("room");
        }
        net.pass(200, &mut [&mut server, &mut client]);
        assert_eq!((done.get(), too_many.get()), (50, 0), "{places} places");
    }
}
