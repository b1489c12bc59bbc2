//! An `xdp:` device in a test: what arrives, and datagrams that are written by hand.

use std::net::{IpAddr, Ipv4Addr};

use anywire_stack::device::Device;
use anywire_stack::xdp::{Attachment, Claim, Options, Wanted, WantedMode, Xdp};
use anywire_tcp::{Frames, Instant};

use super::{Pair, eventually};

/// The addresses of the stack, and of their kernel.
pub(crate) const STACK: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 2);
pub(crate) const THEIRS: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);

/// All queues of our end, with the address of the stack.
pub(crate) fn open(pair: &Pair, mode: WantedMode, options: Options) -> (Xdp, Claim) {
    pair.ours.run(|| {
        let attachment = Attachment::attach("near", mode).expect("nothing is in the way");
        let share = attachment.share(0, 1).expect("one loop serves all queues");
        let device = Xdp::open(&attachment, share, options).expect("the queues are free");
        let claim = attachment.claim(Wanted::Address(IpAddr::V4(STACK))).expect("there is room");
        (device, claim)
    })
}

/// Waits for a frame that this knows, and lets others go.
#[track_caller]
pub(crate) fn await_frame<T>(device: &mut Xdp, mut known: impl FnMut(&[u8]) -> Option<T>) -> T {
    let mut frames = device.batch();
    eventually("the frame", || {
        frames.clear();
        device.receive(Instant::default(), &mut frames);
        frames.iter().find_map(&mut known)
    })
}

/// The payload of a UDP datagram over IPv4 without options to this port.
pub(crate) fn datagram_to(frame: &[u8], port: u16) -> Option<&[u8]> {
    let is_udp = frame.get(12..15)? == [8, 0, 0x45] && frame[23] == 17;
    (is_udp && frame.get(36..38)? == port.to_be_bytes()).then(|| {
        let length = usize::from(u16::from_be_bytes([frame[38], frame[39]]));
        &frame[42..34 + length]
    })
}

/// A UDP datagram from the stack to their kernel, without a checksum, as IPv4 allows.
pub(crate) fn datagram(port: u16, payload: &[u8]) -> Vec<u8> {
    let length = |bytes: usize| (bytes as u16).to_be_bytes();
    let mut ip = vec![0x45, 0];
    ip.extend(length(28 + payload.len()));
    ip.extend([0, 0, 0x40, 0, 64, 17, 0, 0]);
    ip.extend(STACK.octets());
    ip.extend(THEIRS.octets());
    let sum: u32 = ip.chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    ip[10..12].copy_from_slice(&(!(sum as u16)).to_be_bytes());
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0];
    frame.extend(ip);
    frame.extend(port.to_be_bytes());
    frame.extend(port.to_be_bytes());
    frame.extend(length(8 + payload.len()));
    frame.extend([0, 0]);
    frame.extend(payload);
    frame
}

/// Sends frames until all have left.
#[track_caller]
pub(crate) fn send_all(device: &mut Xdp, frames: impl IntoIterator<Item = Vec<u8>>) {
    let mut batch = device.batch();
    for frame in frames {
        if batch.room() == 0 {
            send_batch(device, &mut batch);
        }
        assert!(batch.push(&frame), "a batch has room for frames of the MTU");
    }
    send_batch(device, &mut batch);
}

fn send_batch(device: &mut Xdp, batch: &mut Frames) {
    eventually("room in the ring", || {
        device.transmit(Instant::default(), batch);
        batch.is_empty().then_some(())
    });
}
