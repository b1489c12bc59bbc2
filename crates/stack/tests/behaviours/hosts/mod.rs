//! Hosts on one network, for tests of streams: on a clock that moves only while everybody waits.
#![allow(dead_code, reason = "each test uses a part of it")]

mod notifiers;

use std::cell::RefCell;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;

use anywire_stack::capture::Capture;
use anywire_stack::device::Device;
use anywire_stack::impair::{Impair, Impairment};
use anywire_stack::ip::{self, Layer};
use anywire_stack::stream::{Driver, Interface, Stream};
use anywire_tcp::{Cidr, Engine, Instant, Limits, Mac, Route, Settings, Via};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::hub::{Adapter, Hub};

pub(crate) use notifiers::Notifiers;

pub(crate) const SERVER: u8 = 2;
pub(crate) const CLIENT: u8 = 1;

/// A network, whose hosts are named by the last byte of their addresses.
pub(crate) struct Network {
    hub: Hub,
    notifiers: Notifiers,
}

impl Network {
    pub(crate) fn new() -> Self {
        Self { hub: Hub::default(), notifiers: Notifiers::default() }
    }

    pub(crate) fn host(&self, last: u8) -> Interface {
        self.host_behind(last, Impairment::default())
    }

    /// A host whose frames pass a bad network.
    pub(crate) fn host_behind(&self, last: u8, impairment: Impairment) -> Interface {
        let (net, driver) = self.host_and_driver(last, impairment);
        tokio::task::spawn_local(driver);
        net
    }

    /// The same with so many bytes of each connection on the way.
    pub(crate) fn host_with_room(&self, last: u8, impairment: Impairment, bytes: u32) -> Interface {
        let (mut settings, mut limits) = (settings(last), limits());
        (settings.receive_window, limits.send_bytes) = (bytes, bytes);
        let device = self.notifiers.attach(Impair::new(self.adapter(last), impairment));
        let (net, driver) = Interface::new(engine(last, settings, limits), device);
        tokio::task::spawn_local(driver);
        net
    }

    pub(crate) fn host_and_driver(&self, last: u8, impairment: Impairment) -> (Interface, Driver) {
        Interface::new(
            engine(last, settings(last), limits()),
            self.notifiers.attach(Impair::new(self.adapter(last), impairment)),
        )
    }

    /// A host that is told nothing of the others, with interface `last`, which wants this address.
    pub(crate) fn host_alone(&self, last: u8, address: SocketAddr) -> Interface {
        let mut engine = bare_engine(last, settings(last), limits());
        let network = "10.0.0.0/24".parse().expect("a network");
        engine.add_route(Route { network, via: Via::OnLink, mtu: 1500, source: None }).expect("a good route");
        let mut layer = Layer::new(mac(last), ip::Settings::new(last.into()), ip::Limits::default());
        layer.add_address(Instant::default(), address.ip()).expect("room");
        let (net, driver) = Interface::with_layer(engine, layer, self.notifiers.attach(self.adapter(last)));
        tokio::task::spawn_local(driver);
        net
    }

    /// A host whose frames are written down, as pcap.
    pub(crate) fn host_written_down(&self, last: u8) -> (Interface, Written) {
        let written = Written::default();
        let device = Capture::new(self.adapter(last), written.clone(), Default::default());
        let (net, driver) =
            Interface::new(engine(last, settings(last), limits()), self.notifiers.attach(device));
        tokio::task::spawn_local(driver);
        (net, written)
    }

    fn adapter(&self, last: u8) -> Adapter {
        self.hub.adapter(mac(last))
    }
}

/// The next event below TCP.
pub(crate) async fn next_event(host: &Interface) -> Option<ip::Event> {
    host.events().expect("nobody else listens").next().await
}

/// An interface on a device of the test's own, with the host's address and neighbours, and its driver.
pub(crate) fn interface_on(last: u8, device: impl Device + 'static) -> (Interface, Driver) {
    Interface::new(engine(last, settings(last), limits()), device)
}

/// What a capture has written.
#[derive(Clone, Default)]
pub(crate) struct Written(Rc<RefCell<Vec<u8>>>);

impl Written {
    /// The frames so far.
    pub(crate) fn frames(&self) -> Vec<Vec<u8>> {
        let (file, mut frames) = (self.0.borrow(), Vec::new());
        let mut rest = &file[24..];
        while let Some((head, behind)) = rest.split_at_checked(16) {
            let length = u32::from_le_bytes([head[8], head[9], head[10], head[11]]) as usize;
            let (frame, behind) = behind.split_at(length);
            frames.push(frame.to_vec());
            rest = behind;
        }
        frames
    }
}

impl io::Write for Written {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.borrow_mut().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The engine of an interface, without addresses and routes.
/// Those of an engine with interface `last`.
fn settings(last: u8) -> Settings {
    Settings::new([7, 7, 7, u64::from(last)])
}

fn limits() -> Limits {
    let mut limits = Limits::default();
    (limits.connections, limits.half_open, limits.time_wait) = (10_000, 1000, 1000);
    limits
}

fn bare_engine(last: u8, settings: Settings, limits: Limits) -> Engine {
    let mut engine = Engine::new(settings, limits).expect("address space is there");
    engine.set_mac(mac(last));
    engine
}

fn engine(last: u8, settings: Settings, limits: Limits) -> Engine {
    let mut engine = bare_engine(last, settings, limits);
    engine.add_address([10, 0, 0, last].into()).expect("the first one");
    for neighbour in 1..=9 {
        let address = [10, 0, 0, neighbour].into();
        let route = Route { network: Cidr::host(address), via: Via::OnLink, mtu: 1500, source: None };
        engine.add_route(route).expect("a good route");
        engine.add_neighbour(address, mac(neighbour)).expect("room");
    }
    engine
}

fn mac(last: u8) -> Mac {
    Mac::new([2, 0, 0, 0, 1, last])
}

pub(crate) fn address(last: u8, port: u16) -> SocketAddr {
    ([10, 0, 0, last], port).into()
}

/// Runs a test on a runtime whose clock stands still, and jumps to the next timer when no task is ready.
pub(crate) fn run(test: impl AsyncFnOnce()) {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime =
        builder.enable_time().start_paused(true).build_local(Default::default()).expect("a runtime");
    runtime.block_on(test());
}

/// A client and a server on a good network, connected: the client's end first.
pub(crate) async fn pair() -> (Stream, Stream) {
    let network = Network::new();
    let (client, server) = (network.host(CLIENT), network.host(SERVER));
    let mut listener = server.listen(address(SERVER, 80), Default::default()).expect("the port is free");
    let dialled = client.connect(address(SERVER, 80)).await.expect("somebody listens");
    (dialled, listener.accept().await.expect("it has come"))
}

/// Bytes that differ from their neighbours, from `seed` on.
pub(crate) fn bytes(seed: usize, length: usize) -> Vec<u8> {
    (seed..seed + length).map(|at| (at % 251) as u8 ^ (at / 251 % 251) as u8).collect()
}

/// Sends back what comes, until the end.
pub(crate) async fn echo(stream: Stream) {
    let (mut reader, mut writer) = tokio::io::split(stream);
    if tokio::io::copy(&mut reader, &mut writer).await.is_ok() {
        let _ = writer.shutdown().await;
    }
}

/// Sends all of this while it reads, and gives what came back.
pub(crate) async fn exchange(stream: Stream, sent: Vec<u8>) -> io::Result<Vec<u8>> {
    let (mut reader, mut writer) = tokio::io::split(stream);
    let writing = tokio::task::spawn_local(async move {
        writer.write_all(&sent).await?;
        writer.shutdown().await
    });
    let mut back = Vec::new();
    reader.read_to_end(&mut back).await?;
    writing.await.expect("no panic")?;
    Ok(back)
}
