//! Frames as tests make them, and batches of them.
#![allow(dead_code, unreachable_pub, reason = "each test uses a part of it")]

use anywire_stack::device::{Capabilities, Device, DeviceCounters};
use anywire_tcp::{Frames, Instant, Mac};

/// The address of station `number`.
pub fn mac(number: u16) -> Mac {
    let [high, low] = number.to_be_bytes();
    Mac::new([2, 0, 0, 1, high, low])
}

pub const NOW: Instant = Instant::from_micros(0);

/// A frame of 60 bytes that says `mark`.
pub fn frame(from: Mac, to: Mac, mark: u32) -> Vec<u8> {
    let mut frame = [to.bytes(), from.bytes()].concat();
    frame.extend([0x88, 0xb5]);
    frame.extend(mark.to_be_bytes());
    frame.resize(60, 0);
    frame
}

/// What a frame says.
pub fn mark(frame: &[u8]) -> u32 {
    u32::from_be_bytes(frame[14..18].try_into().unwrap())
}

/// A device that brings frames without a pause, which are no connection's, and takes all that is sent to it.
pub struct Chatter {
    /// When it does not bring any more.
    pub falls_silent: std::time::Instant,
}

impl Device for Chatter {
    fn capabilities(&self) -> Capabilities {
        Capabilities::new(1500)
    }

    fn receive(&mut self, _: Instant, frames: &mut Frames) -> usize {
        if std::time::Instant::now() < self.falls_silent {
            assert!(frames.push(&frame(mac(2), mac(1), 1)), "it comes in empty");
        }
        frames.len()
    }

    fn room(&self) -> usize {
        Frames::BATCH
    }

    fn transmit(&mut self, _: Instant, frames: &mut Frames) -> usize {
        let taken = frames.len();
        frames.clear();
        taken
    }

    fn counters(&self) -> DeviceCounters {
        DeviceCounters::default()
    }
}

/// A batch of these.
pub fn batch(frames: impl IntoIterator<Item = Vec<u8>>) -> Frames {
    let mut batch = Frames::new();
    for frame in frames {
        assert!(batch.push(&frame), "a batch holds {}", Frames::BATCH);
    }
    batch
}

/// Sends one frame.
pub fn send(device: &mut impl Device, frame: Vec<u8>) -> usize {
    device.transmit(NOW, &mut batch([frame]))
}

/// Everything that has arrived at `now`.
pub fn received_at(device: &mut impl Device, now: Instant) -> Vec<Vec<u8>> {
    let (mut all, mut frames) = (Vec::new(), device.batch());
    while device.receive(now, &mut frames) > 0 {
        all.extend(frames.iter().map(<[u8]>::to_vec));
        frames.clear();
    }
    all
}

/// Everything that has arrived.
pub fn received(device: &mut impl Device) -> Vec<Vec<u8>> {
    received_at(device, NOW)
}

/// What the frames that have arrived say.
pub fn marks(device: &mut impl Device) -> Vec<u32> {
    received(device).iter().map(|frame| mark(frame)).collect()
}

/// The header of an IPv4 packet of 20 bytes or more, with a checksum, in a frame.
pub fn ipv4(from: Mac, to: Mac, source: [u8; 4], target: [u8; 4], ttl: u8, payload: &[u8]) -> Vec<u8> {
    let mut header = vec![0x45, 0, 0, 0, 0x12, 0x34, 0x40, 0, ttl, 17, 0, 0];
    header.extend([source, target].concat());
    let length = (header.len() + payload.len()) as u16;
    header[2..4].copy_from_slice(&length.to_be_bytes());
    let sum = internet_checksum(&header);
    header[10..12].copy_from_slice(&sum.to_be_bytes());
    [&to.bytes()[..], &from.bytes(), &[0x08, 0x00], &header, payload].concat()
}

/// The checksum of RFC 1071; 0 over a header that holds the right one.
pub fn internet_checksum(header: &[u8]) -> u16 {
    let sum = header.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1])).sum::<u32>();
    let sum = (sum & 0xffff) + (sum >> 16);
    !((sum & 0xffff) + (sum >> 16)) as u16
}
