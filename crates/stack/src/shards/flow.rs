//! Whom a frame concerns, of the loops that share a device.

use std::net::IpAddr;

use anywire_packet::arp::{Arp, Operation};
use anywire_packet::ethernet::{EtherType, Link};
use anywire_packet::ip::{self, Header};
use anywire_packet::mld::Query;
use anywire_packet::ndp::Ndp;
use anywire_packet::{Addresses, Checks, Flags, Icmp, Packet, Parsed, general};

/// Both ends of a connection, as we see them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Flow {
    pub(super) addresses: Addresses,
    pub(super) local_port: u16,
    pub(super) remote_port: u16,
    /// The frame would open it.
    pub(super) is_syn: bool,
}

/// Whom a frame that has arrived concerns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Concerns {
    /// The loop with this connection, if there is one: it is a segment, or an error of ICMP about one of ours.
    Flow(Flow),
    /// All loops: neighbours are known to each of them (ARP, neighbour discovery), and each reports groups of its own (MLD).
    All {
        /// The address that a neighbour asks for.
        asked: Option<IpAddr>,
    },
    /// One loop that has this address, if any has: echo, datagrams, what will be refused.
    Any {
        /// The destination; none of what is no packet.
        to: Option<IpAddr>,
    },
}

impl Concerns {
    pub(super) fn of(frame: &[u8]) -> Self {
        let Some((_, ether_type, packet)) = Link::parse(frame) else { return Self::Any { to: None } };
        let header = match ether_type {
            EtherType::IPV4 => Header::parse_v4(packet, Checks::NONE),
            EtherType::IPV6 => Header::parse_v6(packet),
            EtherType::ARP => {
                let question = Arp::parse(packet).filter(|arp| arp.operation == Operation::Request);
                return Self::All { asked: question.map(|arp| arp.target.into()) };
            }
            _ => return Self::Any { to: None },
        };
        let Ok(Header { addresses, protocol, start, end, .. }) = header else {
            return Self::Any { to: None };
        };
        let any = Self::Any { to: Some(addresses.ips().0) };
        match protocol {
            ip::TCP => match packet.get(start..end).and_then(|segment| segment.first_chunk()) {
                Some(&[a, b, c, d, _, _, _, _, _, _, _, _, _, flags]) => Self::Flow(Flow {
                    addresses,
                    local_port: u16::from_be_bytes([c, d]),
                    remote_port: u16::from_be_bytes([a, b]),
                    is_syn: Flags(flags).has(Flags::SYN) && !Flags(flags).has(Flags::ACK),
                }),
                None => any,
            },
            ip::ICMP | ip::ICMP_V6 => Self::of_icmp(frame).unwrap_or(any),
            _ => any,
        }
    }

    /// The connection whose segment an error quotes, or all loops if it is a message of neighbour discovery or a query of MLD.
    fn of_icmp(frame: &[u8]) -> Option<Self> {
        match general(frame, Checks::NONE, &mut Parsed::default()) {
            Ok(Packet::Icmp(Icmp::Error(error))) => Some(Self::Flow(Flow {
                addresses: error.addresses,
                local_port: error.local_port,
                remote_port: error.remote_port,
                is_syn: false,
            })),
            Ok(Packet::Icmp(Icmp::Other)) => match Ndp::parse(Link::parse(frame)?.2) {
                Ok(Some(Ndp::Solicitation { target, .. })) => Some(Self::All { asked: Some(target.into()) }),
                Ok(Some(Ndp::Advertisement { .. })) => Some(Self::All { asked: None }),
                Ok(None) => Query::parse(Link::parse(frame)?.2).ok()?.map(|_| Self::All { asked: None }),
                Err(_) => None,
            },
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv6Addr;
    use std::time::Duration;

    use anywire_packet::mld::Version;
    use anywire_packet::ndp::{Advertised, group_mac, solicited_node};
    use anywire_packet::{Mac, OptionsOut, Outgoing, emit};
    use proptest::prelude::*;

    use super::*;

    const LINK: [Mac; 2] = [Mac::new([2, 0, 0, 0, 0, 1]), Mac::new([2, 0, 0, 0, 0, 2])];

    fn segment(addresses: &Addresses, local_port: u16, remote_port: u16, payload: &[u8]) -> Vec<u8> {
        let segment = Outgoing { local_port, remote_port, flags: Flags::ACK, ..Outgoing::default() };
        let mut frame = vec![0; 2000];
        let link = Link::new(LINK[0], LINK[1]);
        let length = emit(&mut frame, &link, addresses, &segment, &OptionsOut::NONE, payload, Checks::ALL);
        frame.truncate(length);
        frame
    }

    proptest! {
        /// The engine that sent it reads `local` where the one that gets it reads `remote`.
        #[test]
        fn a_segment_leads_to_its_connection(
            v4: bool, local: u128, remote: u128, ports: (u16, u16), payload in prop::collection::vec(0_u8.., 0..1000),
        ) {
            let (here, there) = if v4 {
                let (local, remote) = (local as u32, remote as u32);
                (Addresses::V4 { local, remote }, Addresses::V4 { local: remote, remote: local })
            } else {
                (Addresses::V6 { local, remote }, Addresses::V6 { local: remote, remote: local })
            };
            let frame = segment(&there, ports.1, ports.0, &payload);
            let flow = Flow { addresses: here, local_port: ports.0, remote_port: ports.1, is_syn: false };
            prop_assert_eq!(Concerns::of(&frame), Concerns::Flow(flow));
        }

        #[test]
        fn any_bytes_concern_somebody(frame in prop::collection::vec(0_u8.., 0..120), v4: Option<bool>) {
            let mut frame = frame;
            if let (Some(v4), Some(ether_type)) = (v4, frame.get_mut(12..15)) {
                ether_type.copy_from_slice(if v4 { &[8, 0, 0x45] } else { &[0x86, 0xdd, 0x60] });
            }
            Concerns::of(&frame);
        }
    }

    #[test]
    fn questions_for_neighbours_concern_all() {
        let ask = Arp::request(LINK[0], [10, 0, 0, 1].into(), [10, 0, 0, 2].into());
        let asked = Some([10, 0, 0, 2].into());
        assert_eq!(Concerns::of(&ask.frame(Mac::BROADCAST, LINK[0])), Concerns::All { asked });
        let told = ask.reply(LINK[1]).frame(LINK[0], LINK[1]);
        assert_eq!(Concerns::of(&told), Concerns::All { asked: None });
        let [asking, target] = [1, 2].map(|last| Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, last));
        let group = solicited_node(target);
        let ask = Ndp::Solicitation { target, source_mac: Some(LINK[0]) };
        let frame = ask.frame(Link::new(group_mac(group), LINK[0]), asking, group);
        assert_eq!(Concerns::of(&frame), Concerns::All { asked: Some(target.into()) });
        let flags = Advertised { router: false, solicited: true, overrides: true };
        let told = Ndp::Advertisement { target, target_mac: Some(LINK[1]), flags };
        let frame = told.frame(Link::new(LINK[0], LINK[1]), target, asking);
        assert_eq!(Concerns::of(&frame), Concerns::All { asked: None });
        assert_eq!(Concerns::of(&[]), Concerns::Any { to: None });
        // Each loop reports groups of its own.
        let router = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 9);
        let query = Query { group: None, response_max: Duration::from_secs(10), version: Version::V2 };
        assert_eq!(Concerns::of(&query.frame(LINK[1], router)), Concerns::All { asked: None });
        // Echo replies and router advertisements are no such questions, however many come.
        for kind in [129, 134] {
            let mut other = frame.clone();
            other[54] = kind;
            assert_eq!(Concerns::of(&other), Concerns::Any { to: Some(asking.into()) });
        }
    }

    /// "Fragmentation needed", which quotes a segment of ours.
    #[test]
    fn an_error_leads_to_the_connection_that_it_is_about() {
        let (local, remote) = (0x0a00_0002, 0x0a00_0001);
        let quoted = segment(&Addresses::V4 { local, remote }, 50_000, 80, b"quoted");
        let mut frame = segment(&Addresses::V4 { local: remote, remote: local }, 0, 0, &[]);
        frame.truncate(34);
        // ICMP, without a look at checksums of IP.
        frame[23] = 1;
        let mut message = vec![3, 4, 0, 0, 0, 0, 5, 0];
        message.extend(&quoted[14..42]);
        let checksum = !message.chunks(2).fold(0_u32, |sum, pair| {
            let sum = sum + u32::from(u16::from_be_bytes([pair[0], pair[1]]));
            (sum & 0xffff) + (sum >> 16)
        }) as u16;
        message[2..4].copy_from_slice(&checksum.to_be_bytes());
        frame.extend(message);
        let length = (frame.len() - 14) as u16;
        frame[16..18].copy_from_slice(&length.to_be_bytes());
        let addresses = Addresses::V4 { local, remote };
        let flow = Flow { addresses, local_port: 50_000, remote_port: 80, is_syn: false };
        assert_eq!(Concerns::of(&frame), Concerns::Flow(flow));
    }
}
