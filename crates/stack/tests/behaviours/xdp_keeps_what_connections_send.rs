//! What peers send on their connections finds room, however long a loop does not look, and whatever else comes meanwhile.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::mpsc;
use std::thread;

use anywire_stack::device::Device;
use anywire_stack::stream::Interface;
use anywire_stack::xdp::{Attachment, Options, WantedMode, Xdp};
use anywire_tcp::{Cidr, Engine, Instant, Limits, Mac, Route, Via};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::spawn_local;

use crate::networks::frames::{STACK, THEIRS, open, send_all};
use crate::networks::{Pair, eventually};

const SYN: u8 = 2;
const ACK: u8 = 16;

/// A segment from their kernel's address to the stack, as far as a device looks.
fn segment(flags: u8, number: u8) -> Vec<u8> {
    let mut frame =
        vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0, 0x45, 0, 0, 40, 0, 0, 0x40, 0, 64, 6, 1, 1];
    frame.extend(THEIRS.octets());
    frame.extend(STACK.octets());
    frame.extend([200, 1, 0, 80, 0, 0, 0, number, 0, 0, 0, 0, 0x50, flags, 0xff, 0xff, 1, 1, 0, 0]);
    frame.resize(60, 0);
    frame
}

/// Flags and number of a segment.
fn read(frame: &[u8]) -> Option<(u8, u8)> {
    (frame.get(12..15)? == [8, 0, 0x45] && frame[23] == 6).then(|| (frame[47], frame[41]))
}

#[test]
fn a_flood_takes_neither_place_nor_turn_from_connections() {
    let Some(pair) = Pair::new() else { return };
    const DEPTH: u32 = 32;
    let options = Options { depth: Some(DEPTH), ..Options::default() };
    let (mut device, _claim) = open(&pair, WantedMode::Any, options);
    let mut peer = pair.theirs.run(|| {
        let attachment = Attachment::attach("far", WantedMode::Any).expect("nothing is in the way");
        Xdp::open(&attachment, 0..1, Options::default()).expect("the queue is free")
    });
    send_all(&mut peer, (0..200).map(|number| segment(SYN, number)));
    send_all(&mut peer, (0..DEPTH as u8).map(|number| segment(ACK, number)));
    eventually("all", || {
        let counted = device.counters();
        (counted.receive_ring_full >= 200 - u64::from(DEPTH)).then_some(())
    });
    let (mut acks, mut syns, mut batch) = (Vec::new(), 0, device.batch());
    eventually("segments of connections", || {
        device.receive(Instant::default(), &mut batch);
        let came: Vec<_> = batch.iter().filter_map(read).collect();
        let of_flood = came.iter().filter(|(flags, _)| *flags == SYN).count();
        assert!(of_flood <= 16, "no more than a quarter of a batch");
        syns += of_flood;
        acks.extend(came.into_iter().filter(|(flags, _)| *flags == ACK).map(|(_, number)| number));
        batch.clear();
        (acks.len() == DEPTH as usize).then_some(())
    });
    assert_eq!(acks, (0..DEPTH as u8).collect::<Vec<_>>(), "none was lost");
    // They are served as well, if later.
    eventually("the rest", || {
        device.receive(Instant::default(), &mut batch);
        syns += batch.iter().filter(|frame| read(frame).is_some_and(|(flags, _)| flags == SYN)).count();
        batch.clear();
        (syns == DEPTH as usize).then_some(())
    });
    let counted = device.counters();
    assert_eq!(counted.dropped_in, 200 - u64::from(DEPTH), "{counted:?}");
    assert_eq!((counted.no_chunk, counted.invalid_descriptors), (0, 0), "{counted:?}");
}

/// More connections than a burst of which 1,024 frames found room, each with a request.
const CONNECTIONS: usize = 2500;

#[test]
fn a_loop_that_was_held_up_has_lost_no_request() {
    let Some(pair) = Pair::new() else { return };
    let (device, claim) = open(&pair, WantedMode::Any, Options::default());
    let at = SocketAddr::new(STACK.into(), 80);
    let (connected, all_connected) = mpsc::channel();
    let (sent, all_sent) = mpsc::channel();
    let theirs = &pair.theirs;
    thread::scope(|scope| {
        scope.spawn(move || {
            theirs.run(|| {
                let connect = |_| TcpStream::connect(at).expect("the stack listens");
                let mut sockets: Vec<_> = (0..CONNECTIONS).map(connect).collect();
                connected.send(()).expect("the loop waits");
                for socket in &mut sockets {
                    socket.write_all(&[7]).expect("it is open");
                }
                sent.send(()).expect("the loop waits");
                for socket in &mut sockets {
                    let mut answer = [0];
                    socket.read_exact(&mut answer).expect("an answer");
                    assert_eq!(answer, [7]);
                }
            });
        });
        let mut builder = tokio::runtime::Builder::new_current_thread();
        let runtime = builder.enable_all().build_local(Default::default()).expect("a runtime");
        runtime.block_on(async {
            let (interface, driver) = Interface::new(engine(), device);
            spawn_local(driver);
            let mut listener = interface.listen(at, Default::default()).expect("the port is free");
            let mut echoes = Vec::new();
            for _ in 0..CONNECTIONS {
                let mut stream = listener.accept().await.expect("it has come");
                echoes.push(spawn_local(async move {
                    let byte = stream.read_u8().await.expect("a request");
                    stream.write_u8(byte).await.expect("the peer reads");
                }));
            }
            // Nothing of the loop runs until all have been sent.
            all_connected.recv().expect("the peer goes on");
            all_sent.recv().expect("the peer goes on");
            for echo in echoes {
                echo.await.expect("no panic");
            }
            let counted = interface.device_counters();
            assert_eq!((counted.dropped_in, counted.no_chunk), (0, 0), "{counted:?}");
        });
    });
    drop(claim);
}

fn engine() -> Engine {
    let mut engine = Engine::new(anywire_tcp::Settings::new([7; 4]), Limits::default()).expect("memory");
    engine.set_mac(Mac::new([2, 0, 0, 0, 0, 1]));
    engine.add_address(STACK.into()).expect("there is room");
    let theirs = IpAddr::from(THEIRS);
    let route = Route { network: Cidr::host(theirs), via: Via::OnLink, mtu: 1500, source: None };
    engine.add_route(route).expect("a good route");
    engine.add_neighbour(theirs, Mac::new([2, 0, 0, 0, 0, 2])).expect("there is room");
    engine
}
