//! An interface that goes down, comes up or goes away while it is used is told as an event, and frames flow again when it is back.

use std::net::UdpSocket;
use std::task::Waker;

use anywire_stack::device::{Device, LinkEvent};
use anywire_stack::xdp::{Options, WantedMode, Xdp};
use anywire_tcp::Instant;

use crate::networks::frames::{STACK, await_frame, datagram, datagram_to, open, send_all};
use crate::networks::{Pair, eventually};

/// As a loop does that has nothing else to do.
fn await_event(device: &mut Xdp) -> LinkEvent {
    let mut frames = device.batch();
    eventually("an event", || {
        frames.clear();
        device.receive(Instant::default(), &mut frames);
        let event = device.link_event();
        device.before_sleep(Waker::noop());
        event
    })
}

/// The same of what nobody tells: the device asks once a second.
fn await_later_event(device: &mut Xdp) -> LinkEvent {
    let (mut frames, mut now) = (device.batch(), Instant::default());
    eventually("an event", || {
        frames.clear();
        now = now + std::time::Duration::from_secs(1);
        device.receive(now, &mut frames);
        device.link_event()
    })
}

#[test]
fn an_interface_goes_down_up_and_away() {
    let Some(pair) = Pair::new() else { return };
    let (mut device, claim) = open(&pair, WantedMode::Any, Options::default());
    assert_eq!(device.link_event(), None);
    pair.ours.ip("link set near down");
    assert_eq!(await_event(&mut device), LinkEvent::Down);
    // What is sent meanwhile does not keep the loop awake.
    let mut batch = device.batch();
    assert!(batch.push(&datagram(9, b"lost")));
    device.transmit(Instant::default(), &mut batch);
    assert!(!device.before_sleep(Waker::noop()));
    pair.ours.ip("link set near up");
    assert_eq!(await_event(&mut device), LinkEvent::Up);

    let socket = pair.theirs.run(|| UdpSocket::bind("10.77.0.1:0").expect("a free port"));
    socket.send_to(b"back", (STACK, 9)).expect("it leaves");
    await_frame(&mut device, |frame| (datagram_to(frame, 9)? == b"back").then_some(()));
    let port = socket.local_addr().expect("it is bound").port();
    send_all(&mut device, [datagram(port, b"too")]);
    let mut bytes = [0; 10];
    let came = socket.recv(&mut bytes).expect("a datagram");
    assert_eq!(&bytes[..came], b"too");

    assert!(device.attachment().is_attached());
    pair.ours.ip("link del near");
    assert_eq!(await_event(&mut device), LinkEvent::Gone);
    assert!(!device.attachment().is_attached());
    assert!(batch.push(&datagram(9, b"lost")));
    device.transmit(Instant::default(), &mut batch);
    assert!(!device.before_sleep(Waker::noop()), "nothing keeps the loop awake");
    // A claim of what has gone is dropped as any other.
    drop((claim, device));
}

/// Some 200 KB of messages for one watch: a host that starts containers, or a loop that was held up.
#[test]
fn though_the_kernel_had_more_to_tell_than_it_keeps() {
    let Some(pair) = Pair::new() else { return };
    let (mut device, claim) = open(&pair, WantedMode::Any, Options::default());
    assert_eq!(device.link_event(), None);
    let mut after_a_flood = |change: &str| {
        let address = |number| format!("address add 10.9.{}.{}/32 dev lo\n", number / 250, number % 250);
        let adding: String = (0..2000).map(address).collect();
        for lines in [&adding, &adding.replace(" add ", " del ")] {
            pair.ours.ip_batch(lines);
        }
        pair.ours.ip(change);
        // It tells all addresses that the kernel has as well.
        eventually("an event of the link", || {
            Some(await_event(&mut device)).filter(|event| !matches!(event, LinkEvent::KernelHasAddress(_)))
        })
    };
    assert_eq!(after_a_flood("link set near down"), LinkEvent::Down);
    assert_eq!(after_a_flood("link set near up"), LinkEvent::Up);
    assert_eq!(after_a_flood("link set near down"), LinkEvent::Down, "it was told of another time");
    assert_eq!(after_a_flood("link del near"), LinkEvent::Gone);
    drop((claim, device));
}

/// It always has something to do, or spins. One that sleeps is woken once a second, since nobody tells when a program is detached.
#[test]
fn to_a_loop_that_never_sleeps() {
    let Some(pair) = Pair::new() else { return };
    let (mut device, claim) = open(&pair, WantedMode::Any, Options::default());
    let mut frames = device.batch();
    let mut event_at = |seconds: u64| {
        frames.clear();
        device.receive(Instant::from_micros(seconds * 1_000_000), &mut frames);
        (device.link_event(), device.next_deadline())
    };
    let next = |seconds: u64| Some(Instant::from_micros(seconds * 1_000_000));
    assert_eq!(event_at(1), (None, next(2)));
    pair.ours.ip(&format!("addr add {STACK}/32 dev lo"));
    assert_eq!(event_at(2), (Some(LinkEvent::KernelHasAddress(STACK.into())), next(3)));
    pair.ours.ip("link del near");
    assert_eq!(event_at(3), (Some(LinkEvent::Gone), None));
    drop((claim, device));
}

#[test]
fn a_lower_mtu_holds_from_then_on() {
    let Some(pair) = Pair::new() else { return };
    let (mut device, claim) = open(&pair, WantedMode::Any, Options::default());
    assert_eq!((device.link_event(), device.capabilities().mtu), (None, 1500));
    // Some time after the interface is up the kernel has an address of its own, of the link, and tells that as well.
    let mut later = || {
        eventually("an event of the link", || {
            Some(await_event(&mut device)).filter(|event| !matches!(event, LinkEvent::KernelHasAddress(_)))
        })
    };
    pair.ours.ip("link set near mtu 1000");
    assert_eq!(later(), LinkEvent::MtuLowered { mtu: 1000 });
    // What was made for the smaller one stays.
    pair.ours.ip("link set near mtu 1400");
    pair.ours.ip("link set near mtu 900");
    assert_eq!(later(), LinkEvent::MtuLowered { mtu: 900 });
    assert_eq!(device.capabilities().mtu, 900);
    drop((claim, device));
}

/// `bpftool link detach`: the interface is still there.
#[test]
fn a_program_that_is_detached_is_no_interface_that_was_removed() {
    for is_removed in [false, true] {
        let Some(pair) = Pair::new() else { return };
        let (mut device, claim) = open(&pair, WantedMode::Any, Options::default());
        let attachment = std::sync::Arc::clone(device.attachment());
        let was_detached = || pair.ours.run(|| attachment.was_detached());
        assert!(!was_detached());
        if is_removed {
            pair.ours.ip("link del near");
        } else {
            attachment.detach().expect("it is attached");
        }
        assert_eq!(await_later_event(&mut device), LinkEvent::Gone);
        assert_eq!(was_detached(), !is_removed);
        drop((attachment, claim, device));
    }
}
