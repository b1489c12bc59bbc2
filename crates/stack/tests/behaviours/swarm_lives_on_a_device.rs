//! A swarm on a TAP device, found by a kernel that knows nothing of it: addresses that are taken away, and a link that goes down, up and
//! away.

use std::cell::RefCell;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::rc::Rc;

use anywire_stack::device::Device;
use anywire_stack::ip::{self, Event, Layer, Probing};
use anywire_stack::swarm::{Conn, Incoming, Swarm};
use anywire_stack::tap::{Options, Tap};
use anywire_tcp::{ConnectOptions, End, Status};

use crate::kernel::{
    TAP, Version, in_own_network, kernel, lonely_engine, runtime, set_kernel_addresses, shell,
};

/// How connections have ended.
type Ends = Rc<RefCell<Vec<Status>>>;

async fn echo(mut conn: Conn, ends: Ends) {
    while let Some(received) = conn.recv().await {
        conn.send(received).await;
    }
    ends.borrow_mut().push(conn.status());
}

/// A swarm with both addresses of the test, listening on port 7.
async fn listening<F: Future<Output = ()>, S: FnMut(Incoming) -> F>(start: S) -> Swarm<F, S, Tap> {
    let tap = Tap::open(TAP, Options::default()).expect("it was made");
    shell("ip link set tap0 up");
    set_kernel_addresses();
    let mut settings = ip::Settings::new(7);
    settings.probing = Probing::OFF;
    let mac = tap.capabilities().mac.expect("a TAP has one");
    let layer = Layer::new(mac, settings, ip::Limits::default());
    let mut swarm = Swarm::with_layer(lonely_engine(&tap), layer, tap, 100, start).expect("address space");
    for version in Version::BOTH {
        swarm.add_address(version.ours(0).ip()).expect("room");
        assert_eq!(swarm.run_until_event().await, Event::AddressReady(version.ours(0).ip()));
        swarm.engine().listen(version.ours(7), ConnectOptions::default()).expect("a free port");
    }
    swarm
}

/// The kernel's end of a connection that has echoed once.
fn called(version: Version) -> TcpStream {
    let mut socket = TcpStream::connect(version.ours(7)).expect("somebody listens");
    echoes(&mut socket, b"hello");
    socket
}

fn echoes(socket: &mut TcpStream, sent: &[u8; 5]) {
    socket.write_all(sent).expect("it takes all");
    let mut back = [0; 5];
    socket.read_exact(&mut back).expect("it comes back");
    assert_eq!(&back, sent);
}

#[test]
fn the_kernel_finds_it_and_hears_that_an_address_is_gone() {
    in_own_network("swarm_lives_on_a_device::the_kernel_finds_it_and_hears_that_an_address_is_gone", || {
        for version in Version::BOTH {
            runtime().block_on(async {
                let ends = Ends::default();
                let mut swarm = listening(|incoming| echo(incoming.conn, Rc::clone(&ends))).await;
                let mut socket = swarm.run_until(kernel(move || called(version))).await;
                let counters = swarm.layer().expect("it has one").counters();
                assert!(counters.answered > 0, "{counters:?}");

                assert_eq!(swarm.remove_address(version.ours(0).ip()), 1);
                let heard = swarm.run_until(kernel(move || socket.read(&mut [0; 9]))).await;
                assert_eq!(heard.map_err(|error| error.kind()), Err(ErrorKind::ConnectionReset));
                assert_eq!((&ends.borrow()[..], swarm.tasks()), (&[Status::Ended(End::NetworkDown)][..], 0));
            });
        }
    });
}

#[test]
fn a_link_goes_down_and_up_and_away() {
    in_own_network("swarm_lives_on_a_device::a_link_goes_down_and_up_and_away", || {
        runtime().block_on(async {
            let ends = Ends::default();
            let mut swarm = listening(|incoming| echo(incoming.conn, Rc::clone(&ends))).await;
            let mut socket = swarm.run_until(kernel(|| called(Version::V4))).await;

            kernel(|| shell("ip link set tap0 down")).await;
            // The kernel tells when something is to be sent: here, that there is a new address.
            swarm.add_address([10, 0, 0, 9].into()).expect("room");
            while swarm.run_until_event().await != Event::LinkDown {}
            kernel(|| {
                shell("ip link set tap0 up");
                set_kernel_addresses();
            })
            .await;
            assert_eq!(swarm.run_until_event().await, Event::LinkUp);
            let again = swarm.run_until(kernel(move || {
                echoes(&mut socket, b"again");
                socket
            }));
            let _socket = again.await;
            assert_eq!((swarm.counters().link_downs, ends.borrow().len()), (1, 0));

            kernel(|| shell("ip link del tap0")).await;
            while swarm.run_until_event().await != Event::DeviceGone {}
            swarm
                .run_until(async {
                    while ends.borrow().is_empty() {
                        tokio::task::yield_now().await
                    }
                })
                .await;
            assert_eq!((&ends.borrow()[..], swarm.tasks()), (&[Status::Ended(End::NetworkDown)][..], 0));
        });
    });
}
