//! Frames come from a kernel and go to it by AF_XDP: in native and in generic mode, over one queue and over several.

use std::net::UdpSocket;
use std::task::Waker;

use anywire_stack::device::{Device, Readiness};
use anywire_stack::xdp::{AttachMode, Attachment, Options, WantedMode, Xdp};
use anywire_tcp::{Checksum, Instant, Meta};
use rustix::event::{PollFd, PollFlags, poll};

use crate::networks::frames::{STACK, THEIRS, await_frame, datagram, datagram_to, open, send_all};
use crate::networks::{Pair, eventually};

/// A socket of their kernel, which never waits forever.
fn their_socket(pair: &Pair) -> UdpSocket {
    pair.theirs.run(|| {
        let socket = UdpSocket::bind((THEIRS, 0)).expect("a free port");
        socket.set_read_timeout(Some(std::time::Duration::from_secs(20))).expect("a timeout");
        socket
    })
}

#[test]
fn frames_go_both_ways_in_each_mode() {
    let Some(pair) = Pair::new() else { return };
    for (mode, expected) in
        [(WantedMode::Any, AttachMode::Native), (WantedMode::Generic, AttachMode::Generic)]
    {
        let (mut device, _claim) = open(&pair, mode, Options::default());
        assert_eq!(device.attachment().mode(), expected);
        assert!(!device.is_zero_copy(), "veth has none");
        let socket = their_socket(&pair);
        let port = socket.local_addr().expect("it is bound").port();
        for length in [1, 18, 100, 1472] {
            let payload: Vec<u8> = (0..length).map(|at| at as u8).collect();
            socket.send_to(&payload, (STACK, 9)).expect("the neighbour is known");
            await_frame(&mut device, |frame| (datagram_to(frame, 9)? == payload).then_some(()));
            send_all(&mut device, [datagram(port, &payload)]);
            let mut answer = [0; 2000];
            let (came, from) = socket.recv_from(&mut answer).expect("a datagram");
            assert_eq!((&answer[..came], from.ip()), (&payload[..], STACK.into()), "{mode:?} {length}");
        }
        let counters = device.counters();
        assert!(counters.frames_in >= 4 && counters.frames_out == 4, "{counters:?}");
        // The two short ones are padded to 60 bytes.
        assert_eq!(counters.bytes_out, 60 + 60 + 142 + 1514);
        assert_eq!((counters.dropped_in, counters.dropped_out), (0, 0));
        assert_eq!(device.socket_counters(), Default::default());
    }
}

/// A part of a frame that leaves would be counted neither as sent nor as dropped.
#[test]
fn what_the_device_does_not_promise_is_dropped_whole() {
    let Some(pair) = Pair::new() else { return };
    let (mut device, _claim) = open(&pair, WantedMode::Any, Options::default());
    assert!(!device.capabilities().transmit_checksum && device.capabilities().segmentation.is_none());
    let mut frames = device.batch();
    for meta in [
        Meta { checksum: Checksum::Partial, ..Meta::default() },
        Meta { segment_bytes: 100, ..Meta::default() },
    ] {
        assert!(frames.push(&datagram(9, &[7; 400])));
        frames.describe_last(meta);
    }
    device.transmit(Instant::default(), &mut frames);
    let counters = device.counters();
    assert!(frames.is_empty());
    assert_eq!((counters.frames_out, counters.bytes_out, counters.dropped_out), (0, 0, 2));
}

/// Far more frames than chunks: each chunk is used again and again, in any order.
#[test]
fn chunks_are_used_again() {
    let Some(pair) = Pair::new() else { return };
    let (mut device, _claim) =
        open(&pair, WantedMode::Any, Options { depth: Some(16), ..Options::default() });
    let socket = their_socket(&pair);
    let port = socket.local_addr().expect("it is bound").port();
    for round in 0..200_u32 {
        for number in 0..5 {
            socket.send_to(&[round.to_be_bytes(), [number; 4]].concat(), (STACK, 9)).expect("it leaves");
        }
        let mut came = Vec::new();
        await_frame(&mut device, |frame| {
            came.extend(datagram_to(frame, 9).map(<[u8]>::to_vec));
            (came.len() == 5).then_some(())
        });
        let sent = (0..5).map(|number| [round.to_be_bytes(), [number; 4]].concat());
        assert!(came.into_iter().eq(sent), "in order, each once");
        send_all(&mut device, (0..5).map(|number| datagram(port, &[number; 8])));
        for number in 0..5 {
            let mut answer = [0; 100];
            let (came, _) = socket.recv_from(&mut answer).expect("a datagram");
            assert_eq!(&answer[..came], &[number; 8], "round {round}");
        }
    }
    assert_eq!(device.socket_counters(), Default::default());
}

/// The descriptor is readable when a frame has come, and no longer when it was taken.
#[test]
fn the_descriptor_tells_of_frames() {
    let Some(pair) = Pair::new() else { return };
    let (mut device, _claim) = open(&pair, WantedMode::Any, Options::default());
    let is_readable = |device: &Xdp| {
        let Readiness::Descriptor(descriptor) = device.readiness() else { panic!("it has a descriptor") };
        let mut polled = [PollFd::new(&descriptor, PollFlags::IN)];
        poll(&mut polled, Some(&Default::default())).expect("it is asked") == 1
    };
    let mut frames = device.batch();
    // The interface itself may still have something to tell. Nobody speaks to the stack unasked.
    eventually("quiet", || {
        let is_quiet = !device.before_sleep(Waker::noop()) && !is_readable(&device);
        device.link_event();
        is_quiet.then_some(())
    });
    their_socket(&pair).send_to(b"hello", (STACK, 9)).expect("it leaves");
    eventually("readiness", || is_readable(&device).then_some(()));
    assert!(device.before_sleep(Waker::noop()), "a frame has come");
    assert_eq!(device.receive(Instant::default(), &mut frames), 1);
    assert!(!is_readable(&device) && !device.before_sleep(Waker::noop()));
}

/// Two queues: of one loop over one UMEM, and of two loops.
#[test]
fn queues_are_shared_by_loops() {
    let Some(pair) = Pair::with("numtxqueues 2 numrxqueues 2") else { return };
    let sockets: Vec<_> = (0..32).map(|_| their_socket(&pair)).collect();
    let send_from_each = || {
        for (number, socket) in sockets.iter().enumerate() {
            socket.send_to(&[number as u8], (STACK, 9)).expect("it leaves");
        }
    };
    for loops in [1, 2] {
        let (mut devices, claim) = pair.ours.run(|| {
            let attachment = Attachment::attach("near", WantedMode::Any).expect("nothing is in the way");
            assert!(attachment.share(2, 3).is_err(), "there are two queues");
            let open = |place| {
                let share = attachment.share(place, loops).expect("there are two queues");
                Xdp::open(&attachment, share, Options::default()).expect("the queues are free")
            };
            let devices: Vec<_> = (0..loops).map(open).collect();
            let claim =
                attachment.claim(anywire_stack::xdp::Wanted::Address(STACK.into())).expect("there is room");
            (devices, claim)
        });
        send_from_each();
        let mut seen = [0; 32];
        let mut frames = devices[0].batch();
        let mut by_device = vec![0; devices.len()];
        eventually("a datagram of each socket", || {
            for (place, device) in devices.iter_mut().enumerate() {
                frames.clear();
                device.receive(Instant::default(), &mut frames);
                for payload in frames.iter().filter_map(|frame| datagram_to(frame, 9)) {
                    seen[usize::from(payload[0])] += 1;
                    by_device[place] += 1;
                }
            }
            seen.iter().all(|count| *count > 0).then_some(())
        });
        assert_eq!(seen, [1; 32], "each arrives once");
        assert!(by_device.iter().all(|count| *count > 0), "flows are spread over queues: {by_device:?}");
        drop((claim, devices));
    }
}
