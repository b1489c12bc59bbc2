//! What a filter sees of a frame.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use anywire_packet::Mac;
use anywire_packet::ethernet::{EtherType, Link};

use super::Protocol;

/// The parts that a filter may ask for, as far as the frame has them. Pairs are source and destination.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct View {
    pub(super) bytes: usize,
    pub(super) macs: Option<(Mac, Mac)>,
    ether_type: Option<EtherType>,
    pub(super) addresses: Option<(IpAddr, IpAddr)>,
    /// The number of the protocol behind IP.
    protocol: Option<u8>,
    pub(super) ports: Option<(u16, u16)>,
}

impl View {
    /// Checksums and lengths are not checked: a capture is often made for what is wrong.
    pub(super) fn of(frame: &[u8]) -> Self {
        let mut view = Self { bytes: frame.len(), ..Self::default() };
        let Some((link, ether_type, packet)) = Link::parse(frame) else { return view };
        view.macs = Some((link.source(), link.destination()));
        view.ether_type = Some(ether_type);
        match ether_type {
            EtherType::ARP => view.read_arp(packet),
            EtherType::IPV4 => view.read_v4(packet),
            EtherType::IPV6 => view.read_v6(packet),
            _ => {}
        }
        view
    }

    pub(super) fn is_of(&self, protocol: Protocol) -> bool {
        let (ether_type, number) = (self.ether_type, self.protocol);
        match protocol {
            Protocol::Ip => ether_type == Some(EtherType::IPV4),
            Protocol::Ip6 => ether_type == Some(EtherType::IPV6),
            Protocol::Arp => ether_type == Some(EtherType::ARP),
            Protocol::Tcp => number == Some(TCP),
            Protocol::Udp => number == Some(UDP),
            Protocol::Icmp => ether_type == Some(EtherType::IPV4) && number == Some(ICMP),
            Protocol::Icmp6 => ether_type == Some(EtherType::IPV6) && number == Some(ICMP_V6),
        }
    }

    /// Of IPv4 over Ethernet (RFC 826).
    fn read_arp(&mut self, packet: &[u8]) {
        let is_usual = packet.starts_with(&[0, 1, 8, 0, 6, 4]);
        if let (true, Some(sender), Some(target)) = (is_usual, four(packet, 14), four(packet, 24)) {
            self.addresses = Some((v4(sender), v4(target)));
        }
    }

    fn read_v4(&mut self, packet: &[u8]) {
        let Some(&head) = packet.first_chunk::<20>() else { return };
        let (Some(source), Some(destination)) = (four(&head, 12), four(&head, 16)) else { return };
        self.addresses = Some((v4(source), v4(destination)));
        self.protocol = Some(head[9]);
        let is_first = u16::from_be_bytes([head[6], head[7]]) & 0x1fff == 0;
        if is_first {
            self.read_ports(packet.get(usize::from(head[0] & 15) * 4..).unwrap_or_default());
        }
    }

    /// Extension headers are passed over (RFC 8200 4).
    fn read_v6(&mut self, packet: &[u8]) {
        let Some((head, mut rest)) = packet.split_first_chunk::<40>() else { return };
        let address = |at: usize| {
            let octets = head[at..].first_chunk::<16>().copied().unwrap_or_default();
            IpAddr::V6(Ipv6Addr::from(octets))
        };
        self.addresses = Some((address(8), address(24)));
        let mut next = head[6];
        loop {
            let length = match (next, rest) {
                (HOP_BY_HOP | ROUTING | DESTINATION, [_, length, ..]) => 8 + usize::from(*length) * 8,
                (FRAGMENT, [behind, _, high, low, ..]) => {
                    if u16::from_be_bytes([*high, *low]) >> 3 != 0 {
                        self.protocol = Some(*behind);
                        return;
                    }
                    8
                }
                _ => break,
            };
            (next, rest) = (rest[0], rest.get(length..).unwrap_or_default());
        }
        self.protocol = Some(next);
        self.read_ports(rest);
    }

    fn read_ports(&mut self, segment: &[u8]) {
        if let (Some(TCP | UDP), [a, b, c, d, ..]) = (self.protocol, segment) {
            self.ports = Some((u16::from_be_bytes([*a, *b]), u16::from_be_bytes([*c, *d])));
        }
    }
}

fn four(packet: &[u8], at: usize) -> Option<[u8; 4]> {
    packet.get(at..)?.first_chunk().copied()
}

fn v4(octets: [u8; 4]) -> IpAddr {
    IpAddr::V4(Ipv4Addr::from(octets))
}

const ICMP: u8 = 1;
const TCP: u8 = 6;
const UDP: u8 = 17;
const ICMP_V6: u8 = 58;
const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const DESTINATION: u8 = 60;
