//! A local kernel leaves TCP checksums unfinished: the device says so of each such frame, and of no other.

use std::net::{SocketAddr, TcpStream};

use anywire_stack::device::Device;
use anywire_stack::xdp::{Options, Wanted, WantedMode, Xdp};
use anywire_tcp::{Checksum, Instant};

use crate::networks::frames::{THEIRS, datagram, open, send_all};
use crate::networks::{Pair, eventually};

/// Begins to connect from their kernel, and returns what is known of the checksum of its SYN.
fn checksum_of_a_syn(pair: &Pair, device: &mut Xdp, to: SocketAddr) -> Checksum {
    let dialled = pair.theirs.run(|| {
        let family = rustix::net::AddressFamily::from_raw(if to.is_ipv4() { 2 } else { 10 });
        let flags = rustix::net::SocketFlags::NONBLOCK;
        let socket =
            rustix::net::socket_with(family, rustix::net::SocketType::STREAM, flags, None).expect("a socket");
        assert_eq!(rustix::net::connect(&socket, &to), Err(rustix::io::Errno::INPROGRESS));
        socket
    });
    let mut frames = device.batch();
    let checksum = eventually("a SYN", || {
        frames.clear();
        device.receive(Instant::default(), &mut frames);
        let is_syn = |frame: &[u8]| {
            let tcp_at = if frame[12..14] == [8, 0] { 34 } else { 54 };
            frame.get(tcp_at + 13) == Some(&2)
        };
        (0..frames.len()).find(|&at| is_syn(&frames[at])).map(|at| frames.meta(at).checksum)
    });
    drop(TcpStream::from(dialled));
    checksum
}

#[test]
fn a_local_sender_leaves_checksums_partial() {
    let Some(pair) = Pair::new() else { return };
    for mode in [WantedMode::Native, WantedMode::Generic] {
        // With and without a program on their end.
        for theirs_too in [false, true] {
            let (mut device, claim) = open(&pair, mode, Options::default());
            let address = "fd77::2".parse().expect("it is an address");
            let v6 = device.attachment().claim(Wanted::Address(address)).expect("the group is joined");
            let their_program = theirs_too.then(|| {
                pair.theirs.run(|| {
                    anywire_stack::xdp::Attachment::attach("far", mode).expect("nothing is in the way")
                })
            });
            assert!(device.capabilities().receive_checksum);
            for to in ["10.77.0.2:80", "[fd77::2]:80"] {
                let to = to.parse().expect("it is an address");
                let checksum = checksum_of_a_syn(&pair, &mut device, to);
                assert_eq!(checksum, Checksum::Partial, "{mode:?} {theirs_too} {to}");
            }
            assert!(device.partial_checksums() >= 2);
            drop((their_program, claim, v6));
        }
    }
}

/// A sender that finishes its checksums, or has none, is taken at its word.
#[test]
fn a_whole_checksum_is_not_partial() {
    let Some(pair) = Pair::new() else { return };
    // Both ends are devices of ours.
    let (mut ours, _claim) = open(&pair, WantedMode::Any, Options::default());
    let mut frames = ours.batch();
    let (mut theirs, _their_claim) = pair.theirs.run(|| {
        let attachment =
            anywire_stack::xdp::Attachment::attach("far", WantedMode::Any).expect("nothing is in the way");
        let device = Xdp::open(&attachment, 0..1, Options::default()).expect("the queue is free");
        let claim = attachment.claim(Wanted::Address(THEIRS.into())).expect("there is room");
        (device, claim)
    });
    send_all(&mut ours, [datagram(9, b"without a checksum")]);
    eventually("the datagram", || (theirs.receive(Instant::default(), &mut frames) > 0).then_some(()));
    assert_eq!((frames.meta(0).checksum, theirs.partial_checksums()), (Checksum::Unchecked, 0));
}
