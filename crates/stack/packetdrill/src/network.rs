//! Packets to frames and back, and time handed to the engine.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use anywire_tcp::{Cidr, Engine, Frames, Instant, Limits, Mac, Ready, Route, Via};

use crate::call::give_up;
use crate::setup::Setup;

/// The engine, and the packets between it and packetdrill.
pub(crate) struct Network {
    engine: Engine,
    setup: Setup,
    now: Instant,
    /// When a packet went in or out last.
    heard_at: Instant,
    /// One at a time, on its way out.
    frames: Frames,
    /// Packets that have left and that packetdrill has not taken yet, each with its time.
    left: VecDeque<(Instant, Vec<u8>)>,
}

impl Network {
    pub(crate) fn new(setup: Setup) -> Self {
        let now = Instant::from_micros(START_MICROS);
        let engine = engine_of(&setup);
        let left = VecDeque::new();
        Self { engine, setup, now, heard_at: now, frames: Frames::with_room(1, Frames::FRAME_BYTES), left }
    }

    /// Makes the engine anew if what scripts set by `sysctl` asks for another one. Before the first socket nothing is lost.
    pub(crate) fn read_settings(&mut self) {
        self.setup.read_settings();
        self.engine = engine_of(&self.setup);
        self.engine.advance(self.now);
    }

    pub(crate) const fn engine(&mut self) -> &mut Engine {
        &mut self.engine
    }

    pub(crate) const fn setup(&self) -> &Setup {
        &self.setup
    }

    /// Makes everything that is opened from now on go through packets of this size.
    pub(crate) fn set_mtu(&mut self, mtu: u16) {
        self.setup.mtu = mtu;
        add_routes(&mut self.engine, mtu);
    }

    /// What a connection queues at most.
    pub(crate) const fn send_bytes_max(&self) -> usize {
        SEND_BYTES_MAX
    }

    pub(crate) const fn micros(&self) -> u64 {
        self.now.as_micros()
    }

    pub(crate) const fn last_heard_micros(&self) -> u64 {
        self.heard_at.as_micros()
    }

    /// The smallest step of time: each call that asks for the time sees it move.
    pub(crate) fn tick(&mut self) {
        self.advance(self.micros() + 1);
    }

    /// Hands an IP packet to the engine; false if it is none.
    pub(crate) fn inject(&mut self, packet: &[u8]) -> bool {
        let ether_type: [u8; 2] = match packet.first().map(|byte| byte >> 4) {
            Some(4) => [0x08, 0x00],
            Some(6) => [0x86, 0xdd],
            _ => return false,
        };
        self.heard_at = self.now;
        // The engine keeps the batch until the next one.
        let mut frames = Frames::with_room(1, HEADER_BYTES + packet.len());
        let is_put = frames.push_with(HEADER_BYTES + packet.len(), |frame| {
            frame[..6].copy_from_slice(&OURS.bytes());
            frame[6..12].copy_from_slice(&PEER.bytes());
            frame[12..14].copy_from_slice(&ether_type);
            frame[14..].copy_from_slice(packet);
            frame.len()
        });
        debug_assert!(is_put, "it was made for this one");
        self.engine.receive(self.now, &mut frames);
        self.engine.advance(self.now);
        self.pump();
        true
    }

    /// Takes out what the engine has to send.
    pub(crate) fn pump(&mut self) {
        loop {
            self.frames.clear();
            self.engine.transmit(self.now, &mut self.frames);
            let Some(frame) = self.frames.get(0) else { return };
            let mut packet = frame[HEADER_BYTES..].to_vec();
            if !self.setup.shows_push {
                hide_push(&mut packet);
            }
            self.left.push_back((self.now, packet));
            self.heard_at = self.now;
        }
    }

    /// When the engine wants to be woken, if ever; not before the next moment.
    pub(crate) fn next_deadline(&self) -> Option<u64> {
        self.engine.next_deadline().map(|at| at.as_micros().max(self.micros() + 1))
    }

    /// Lets time pass, with everything that the engine has to do on the way.
    pub(crate) fn advance(&mut self, to_micros: u64) {
        while let Some(next) = self.next_deadline().filter(|next| *next < to_micros) {
            self.advance_to(next);
        }
        self.advance_to(to_micros);
    }

    fn advance_to(&mut self, micros: u64) {
        self.now = Instant::from_micros(micros.max(self.micros()));
        self.engine.advance(self.now);
        self.pump();
    }

    /// The next packet that has left, and when it did.
    pub(crate) fn take_packet(&mut self) -> Option<(u64, Vec<u8>)> {
        self.left.pop_front().map(|(at, packet)| (at.as_micros(), packet))
    }

    /// The next events of a connection.
    pub(crate) fn next_ready(&mut self) -> Option<Ready> {
        self.engine.next_ready()
    }
}

fn engine_of(setup: &Setup) -> Engine {
    let mut limits = Limits::default();
    // packetdrill locks all its memory into RAM, including addresses that are only reserved.
    limits.connections = 1024;
    limits.half_open = 1024;
    limits.time_wait = 1024;
    limits.extensions = 1024;
    limits.segment_bytes = 16 << 20;
    limits.send_bytes = SEND_BYTES_MAX as u32;
    let engine = Engine::new(setup.settings.clone(), limits);
    let mut engine = engine.unwrap_or_else(|error| give_up(&format!("making the engine: {error}")));
    for address in &setup.addresses {
        if let Err(error) = engine.add_address(*address) {
            give_up(&format!("adding {address}: {error}"));
        }
    }
    add_routes(&mut engine, setup.mtu);
    engine
}

/// All peers are behind the same neighbour.
fn add_routes(engine: &mut Engine, mtu: u16) {
    engine.set_mac(OURS);
    let (v4, v6) = (Ipv4Addr::new(192, 0, 2, 1), Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1));
    for (network, gateway) in [(Cidr::ALL_V4, IpAddr::V4(v4)), (Cidr::ALL_V6, IpAddr::V6(v6))] {
        let mtu = if gateway.is_ipv6() { mtu.max(1280) } else { mtu };
        let route = Route { network, via: Via::Gateway(gateway), mtu, source: None };
        if let Err(error) = engine.add_route(route).and_then(|()| engine.add_neighbour(gateway, PEER)) {
            give_up(&format!("adding a route with an MTU of {mtu}: {error}"));
        }
    }
}

/// Clears the PSH flag of a TCP segment and mends its checksum (RFC 1624, equation 3).
fn hide_push(packet: &mut [u8]) {
    let at = match packet[0] >> 4 {
        4 if packet[9] == TCP => usize::from(packet[0] & 15) * 4,
        6 if packet[6] == TCP => 40,
        _ => return,
    };
    if packet[at + 13] & PSH == 0 {
        return;
    }
    packet[at + 13] &= !PSH;
    let sum = u16::from_be_bytes([packet[at + 16], packet[at + 17]]);
    // The sum of the words loses a constant: the flag's value in its word.
    let (mended, carry) = sum.overflowing_add(u16::from(PSH));
    packet[at + 16..at + 18].copy_from_slice(&(mended + u16::from(carry)).to_be_bytes());
}

const OURS: Mac = Mac::new([2, 0, 0, 0, 0, 1]);
const PEER: Mac = Mac::new([2, 0, 0, 0, 0, 2]);

/// An Ethernet II header.
const HEADER_BYTES: usize = 14;

const SEND_BYTES_MAX: usize = 1 << 20;

/// Any moment will do but the first.
const START_MICROS: u64 = 1_000_000_000;

/// The number of TCP in an IP header, and the flag in a TCP header.
const TCP: u8 = 6;
const PSH: u8 = 8;

#[cfg(test)]
mod tests {
    use super::*;

    /// The sum of a TCP header's words, folded: the same for all segments with right checksums and the same pseudo header.
    fn folded(segment: &[u8]) -> u16 {
        let words = segment.as_chunks::<2>().0.iter();
        let sum: u32 = words.map(|word| u32::from(u16::from_be_bytes(*word))).sum();
        ((sum & 0xffff) + (sum >> 16)) as u16
    }

    #[test]
    fn without_the_flag_the_checksum_is_still_right() {
        for sum in [0, 1, 0x1234, 0xfff6, 0xfff7, 0xfff8, 0xfffe, 0xffff_u16] {
            let mut packet = vec![0x45, 0, 0, 40, 0, 0, 0, 0, 64, TCP, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8];
            packet.extend([0x1f, 0x90, 0x0f, 0xa0, 1, 2, 3, 4, 5, 6, 7, 8, 0x50, 16 | PSH, 0xff, 0xff]);
            packet.extend(sum.to_be_bytes());
            packet.extend([0, 0]);
            let before = folded(&packet[20..]);
            hide_push(&mut packet);
            assert_eq!(packet[33], 16);
            // Zero has two forms in this arithmetic.
            assert_eq!(folded(&packet[20..]) % 0xffff, before % 0xffff, "{sum:#06x}");
            let once = packet.clone();
            hide_push(&mut packet);
            assert_eq!(packet, once);
        }
    }
}
