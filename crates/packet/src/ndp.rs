//! Neighbour discovery for IPv6 (RFC 4861): solicitations and advertisements of neighbours, with the link-layer address option.
//!
//! Routers are not discovered: their messages are of no interest here.

use std::net::Ipv6Addr;

use crate::checksum;
use crate::ethernet::{EtherType, HEADER, Link, Mac};
use crate::ip::{self, Addresses};
use crate::parse::Refusal;

/// A message between neighbours.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ndp {
    /// Who has this address (4.3)?
    Solicitation {
        /// The address.
        target: Ipv6Addr,
        /// The interface of the sender. None in a probe, whose sender has no address yet.
        source_mac: Option<Mac>,
    },
    /// The sender has this address (4.4).
    Advertisement {
        /// The address.
        target: Ipv6Addr,
        /// The interface that has it.
        target_mac: Option<Mac>,
        /// What it says beside that.
        flags: Advertised,
    },
}

/// The flags of an advertisement.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Advertised {
    /// The sender is a router.
    pub router: bool,
    /// It answers a solicitation, and so confirms that the neighbour is there.
    pub solicited: bool,
    /// It may replace an interface that is known.
    pub overrides: bool,
}

impl Ndp {
    /// The message in an IPv6 packet, if it is one of these two and as RFC 4861 7.1.1 and 7.1.2 ask. Nothing for other messages of
    /// ICMP.
    ///
    /// # Errors
    /// For a message of these kinds that is not as it must be.
    pub fn parse(packet: &[u8]) -> Result<Option<Self>, Refusal> {
        let header = ip::Header::parse_v6(packet)?;
        let Addresses::V6 { local: destination, remote: source } = header.addresses else { return Ok(None) };
        let (destination, source) = (Ipv6Addr::from_bits(destination), Ipv6Addr::from_bits(source));
        let message = &packet[header.start..header.end];
        let (kind, rest) = match message {
            [kind @ (SOLICITATION | ADVERTISEMENT), _, _, _, rest @ ..] if header.protocol == ip::ICMP_V6 => {
                (*kind, rest)
            }
            _ => return Ok(None),
        };
        let pseudo = header.addresses.pseudo(header.protocol, message.len());
        if checksum::header(pseudo, checksum::sum(message, 0)) != 0 {
            return Err(Refusal::IcmpChecksum);
        }
        // Only neighbours can send with all hops left (RFC 4861 3.1).
        if packet[7] != HOP_LIMIT || message[1] != 0 {
            return Err(Refusal::IcmpHeader);
        }
        let (head, options) = rest.split_first_chunk::<20>().ok_or(Refusal::IcmpHeader)?;
        let (flags, target) = head.split_first_chunk::<4>().ok_or(Refusal::IcmpHeader)?;
        let target = Ipv6Addr::from_octets(target.try_into().map_err(|_| Refusal::IcmpHeader)?);
        let wanted = if kind == SOLICITATION { SOURCE_MAC } else { TARGET_MAC };
        let mac = link_address(options, wanted)?;
        if target.is_multicast() || mac.is_some_and(Mac::is_group) {
            return Err(Refusal::Address);
        }
        if kind == SOLICITATION {
            let is_probe = source.is_unspecified();
            if is_probe && (mac.is_some() || destination != solicited_node(target)) {
                return Err(Refusal::Address);
            }
            return Ok(Some(Self::Solicitation { target, source_mac: mac }));
        }
        let flags = Advertised {
            router: flags[0] & 0x80 != 0,
            solicited: flags[0] & 0x40 != 0,
            overrides: flags[0] & 0x20 != 0,
        };
        if flags.solicited && destination.is_multicast() || source.is_unspecified() {
            return Err(Refusal::Address);
        }
        Ok(Some(Self::Advertisement { target, target_mac: mac, flags }))
    }

    /// A frame with the message.
    pub fn frame(&self, link: Link, source: Ipv6Addr, destination: Ipv6Addr) -> Vec<u8> {
        let (kind, flags, target, option) = match *self {
            Self::Solicitation { target, source_mac } => {
                (SOLICITATION, 0, target, source_mac.map(|mac| (SOURCE_MAC, mac)))
            }
            Self::Advertisement { target, target_mac, flags } => {
                let bits = u8::from(flags.router) << 7
                    | u8::from(flags.solicited) << 6
                    | u8::from(flags.overrides) << 5;
                (ADVERTISEMENT, bits, target, target_mac.map(|mac| (TARGET_MAC, mac)))
            }
        };
        let mut message = vec![kind, 0, 0, 0, flags, 0, 0, 0];
        message.extend(target.octets());
        if let Some((option, mac)) = option {
            message.extend([option, 1]);
            message.extend(mac.bytes());
        }
        let addresses = Addresses::V6 { local: source.to_bits(), remote: destination.to_bits() };
        let pseudo = addresses.pseudo(ip::ICMP_V6, message.len());
        let checksum = checksum::header(pseudo, checksum::sum(&message, 0));
        message[2..4].copy_from_slice(&checksum.to_be_bytes());

        let mut frame = vec![0; HEADER + ip::V6];
        frame[..HEADER].copy_from_slice(&link.header(EtherType::IPV6));
        // There is room, so the header is written.
        let _ = ip::write(&mut frame[HEADER..], &addresses, ip::ICMP_V6, 0, message.len(), None);
        frame[HEADER + 7] = HOP_LIMIT;
        frame.extend(message);
        frame
    }
}

/// The group of the nodes whose address ends as this one (RFC 4291 2.7.1): whom a solicitation is sent to.
pub const fn solicited_node(address: Ipv6Addr) -> Ipv6Addr {
    const GROUP: u128 = 0xff02_0000_0000_0000_0000_0001_ff00_0000;
    Ipv6Addr::from_bits(GROUP | address.to_bits() & 0x00ff_ffff)
}

/// The interfaces that listen to a group of IPv6 (RFC 2464 7).
pub const fn group_mac(group: Ipv6Addr) -> Mac {
    let [.., a, b, c, d] = group.octets();
    Mac::new([0x33, 0x33, a, b, c, d])
}

/// All nodes on the link (RFC 4291 2.7.1).
pub const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);

/// The Ethernet address in an option of this kind. Other options are passed over; one without a length makes the message bad (4.6).
fn link_address(mut options: &[u8], wanted: u8) -> Result<Option<Mac>, Refusal> {
    let mut found = None;
    while let [kind, eights, ..] = options {
        let len = usize::from(*eights) * 8;
        if len == 0 || len > options.len() {
            return Err(Refusal::IcmpHeader);
        }
        let (option, rest) = options.split_at(len);
        if let [_, 1, mac @ ..] = option
            && *kind == wanted
        {
            found = mac.first_chunk().map(|mac| Mac::new(*mac));
        }
        options = rest;
    }
    if options.is_empty() { Ok(found) } else { Err(Refusal::IcmpHeader) }
}

const SOLICITATION: u8 = 135;
const ADVERTISEMENT: u8 = 136;
const SOURCE_MAC: u8 = 1;
const TARGET_MAC: u8 = 2;

/// What no router has let pass.
const HOP_LIMIT: u8 = 255;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const US: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1);
    const MAC: Mac = Mac::new([2, 0, 0, 0, 0, 1]);

    fn message() -> impl Strategy<Value = Ndp> {
        let mac = any::<Option<[u8; 6]>>().prop_map(|mac| {
            mac.map(|[first, rest @ ..]| Mac::new([first & !1, rest[0], rest[1], rest[2], rest[3], rest[4]]))
        });
        let target = (1u128..0xff << 120).prop_map(Ipv6Addr::from_bits);
        (any::<(bool, bool, bool, bool)>(), target, mac).prop_map(
            |((asks, router, solicited, overrides), target, mac)| {
                if asks {
                    return Ndp::Solicitation { target, source_mac: mac };
                }
                let flags = Advertised { router, solicited, overrides };
                Ndp::Advertisement { target, target_mac: mac, flags }
            },
        )
    }

    /// The packet of a message, changed and with its checksum right again.
    fn changed(
        message: Ndp,
        destination: Ipv6Addr,
        source: Ipv6Addr,
        change: impl Fn(&mut Vec<u8>),
    ) -> Vec<u8> {
        let mut packet = message.frame(Link::default(), source, destination)[HEADER..].to_vec();
        change(&mut packet);
        let len = packet.len() - ip::V6;
        packet[4..6].copy_from_slice(&(len as u16).to_be_bytes());
        packet[42..44].fill(0);
        let addresses = Addresses::V6 { local: source.to_bits(), remote: destination.to_bits() };
        let sum = checksum::header(addresses.pseudo(ip::ICMP_V6, len), checksum::sum(&packet[ip::V6..], 0));
        packet[42..44].copy_from_slice(&sum.to_be_bytes());
        packet
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(message in message()) {
            let frame = message.frame(Link::default(), US, Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 2));
            prop_assert_eq!(Ndp::parse(&frame[HEADER..]), Ok(Some(message)));
        }

        #[test]
        fn a_flipped_bit_is_refused(message in message(), at: prop::sample::Index, bit in 0u8..8) {
            let mut packet = changed(message, US, US, |_| {});
            // Traffic class and flow label are in no checksum.
            let at = 4 + at.index(packet.len() - 4);
            packet[at] ^= 1 << bit;
            prop_assert_ne!(Ndp::parse(&packet), Ok(Some(message)));
        }

        #[test]
        fn any_bytes_are_parsed(bytes: Vec<u8>, message in message()) {
            let _ = Ndp::parse(&bytes);
            let _ = Ndp::parse(&changed(message, US, US, |packet| packet.extend(&bytes)));
        }
    }

    #[test]
    fn what_rfc_4861_has_discarded_is_refused() {
        let any = Ipv6Addr::UNSPECIFIED;
        let asks = |source_mac| Ndp::Solicitation { target: US, source_mac };
        let says = |solicited| {
            let flags = Advertised { solicited, ..Advertised::default() };
            Ndp::Advertisement { target: US, target_mac: Some(MAC), flags }
        };
        let ours = solicited_node(US);
        let good = |_: &mut Vec<u8>| {};
        assert!(Ndp::parse(&changed(asks(None), ours, any, good)).is_ok());
        assert!(Ndp::parse(&changed(says(false), ALL_NODES, US, good)).is_ok());
        for (name, packet) in [
            ("hop limit", changed(asks(None), ours, US, |packet| packet[7] = 254)),
            ("code", changed(asks(None), ours, US, |packet| packet[41] = 1)),
            ("short", changed(asks(None), ours, US, |packet| packet.truncate(60))),
            ("target of a group", changed(asks(None), ours, US, |packet| packet[48] = 0xff)),
            ("option without a length", changed(asks(Some(MAC)), ours, US, |packet| packet[65] = 0)),
            ("option beyond the end", changed(asks(Some(MAC)), ours, US, |packet| packet[65] = 2)),
            ("a byte of an option", changed(asks(None), ours, US, |packet| packet.push(1))),
            ("interface of a group", changed(asks(Some(MAC)), ours, US, |packet| packet[66] |= 1)),
            ("probe to one", changed(asks(None), US, any, good)),
            ("probe that says from where", changed(asks(Some(MAC)), ours, any, good)),
            ("answer to a group", changed(says(true), ALL_NODES, US, good)),
            ("from nowhere", changed(says(false), ALL_NODES, any, good)),
        ] {
            assert!(Ndp::parse(&packet).is_err(), "{name}: {:?}", Ndp::parse(&packet));
        }
        assert_eq!(
            Ndp::parse(&changed(asks(None), US, US, |packet| packet[40] = 134)),
            Ok(None),
            "of a router"
        );
    }

    #[test]
    fn groups_are_those_of_the_rfcs() {
        let address: Ipv6Addr = "4037::1:800:200e:8c6c".parse().expect("an address");
        let group = solicited_node(address);
        assert_eq!(group.to_string(), "ff02::1:ff0e:8c6c");
        assert_eq!(group_mac(group).to_string(), "33:33:ff:0e:8c:6c");
    }
}
