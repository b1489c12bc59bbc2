//! Linux and a stack that know nothing of each other find each other by ARP and neighbour discovery, whoever begins.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};

use anywire_stack::device::Device;
use anywire_stack::ip::{self, Event, Layer, Probing};
use anywire_stack::stream::Interface;
use anywire_stack::tap::{Options, Tap};
use anywire_tcp::Instant;

use crate::hosts::{bytes, echo, exchange, next_event};
use crate::kernel::{
    TAP, Version, in_own_network, kernel, lonely_engine, runtime, set_kernel_addresses, shell,
};

/// A host with one address, of which the kernel knows nothing.
async fn alone(version: Version) -> Interface {
    let tap = Tap::open(TAP, Options::default()).expect("it was made");
    shell("ip link set tap0 up");
    set_kernel_addresses();
    let mut settings = ip::Settings::new(7);
    settings.probing = Probing::OFF;
    let mut layer =
        Layer::new(tap.capabilities().mac.expect("a TAP has one"), settings, ip::Limits::default());
    let ours = version.ours(0).ip();
    layer.add_address(Instant::default(), ours).expect("room");
    let (interface, driver) = Interface::with_layer(lonely_engine(&tap), layer, tap);
    tokio::task::spawn_local(driver);
    assert_eq!(next_event(&interface).await, Some(Event::AddressReady(ours)));
    interface
}

#[test]
fn when_the_kernel_calls() {
    in_own_network("tap_finds_its_neighbours::when_the_kernel_calls", || {
        for version in Version::BOTH {
            runtime().block_on(async {
                let ours = alone(version).await;
                let mut listener =
                    ours.listen(version.ours(80), Default::default()).expect("the port is free");
                let accepting = tokio::task::spawn_local(async move {
                    echo(listener.accept().await.expect("it has come")).await;
                });
                kernel(move || {
                    let mut socket = TcpStream::connect(version.ours(80)).expect("somebody listens");
                    socket.write_all(&bytes(3, 50_000)).expect("it takes all");
                    socket.shutdown(Shutdown::Write).expect("it is open");
                    let mut back = Vec::new();
                    socket.read_to_end(&mut back).expect("it ends well");
                    assert!(back == bytes(3, 50_000), "{version:?}");
                })
                .await;
                accepting.await.expect("it ends well");
            });
        }
    });
}

#[test]
fn when_we_call() {
    in_own_network("tap_finds_its_neighbours::when_we_call", || {
        for version in Version::BOTH {
            runtime().block_on(async {
                let ours = alone(version).await;
                let listener = TcpListener::bind(version.kernel(0)).expect("a free port");
                let address = listener.local_addr().expect("it is bound");
                let echoing = tokio::task::spawn_blocking(move || {
                    let (socket, _) = listener.accept().expect("it comes");
                    std::io::copy(&mut &socket, &mut &socket).expect("it ends well");
                });
                let stream = ours.connect(address).await.expect("the kernel listens");
                let sent = bytes(5, 50_000);
                assert!(exchange(stream, sent.clone()).await.expect("it ends well") == sent, "{version:?}");
                echoing.await.expect("it ends well");
                assert_eq!(ours.layer_counters().expect("it has a layer").resolved, 1);
            });
        }
    });
}
