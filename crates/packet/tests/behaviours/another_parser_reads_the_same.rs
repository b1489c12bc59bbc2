//! What is written here, etherparse reads as the same; and what etherparse writes is read here as the same.

use std::net::IpAddr;

use anywire_packet::arp::{Arp, Operation};
use anywire_packet::ethernet::{EtherType, HEADER, VlanTag};
use anywire_packet::icmp::{emit_echo_reply, port_unreachable};
use anywire_packet::udp::Udp;
use anywire_packet::{
    Addresses, Checks, Flags, Icmp, Link, Mac, OptionsOut, Outgoing, Packet, Parsed, Seq, emit, general,
};
use etherparse::{
    Icmpv4Type, Icmpv6Type, NetSlice, PacketBuilder, SlicedPacket, TransportSlice, VlanId, icmpv4, icmpv6,
};
use proptest::prelude::*;

const US: [u8; 6] = [2, 0, 0, 0, 0, 1];
const THEM: [u8; 6] = [2, 0, 0, 0, 0, 2];

/// Hosts, no martians.
fn hosts() -> impl Strategy<Value = Addresses> {
    let v4 = 0x0a00_0001_u32..0x0aff_ffff;
    let v6 = 0xfd_u128 << 120..0xfe << 120;
    prop_oneof![
        (v4.clone(), v4).prop_map(|(local, remote)| Addresses::V4 { local, remote }),
        (v6.clone(), v6).prop_map(|(local, remote)| Addresses::V6 { local, remote }),
    ]
}

/// Which addresses etherparse finds, source and destination.
fn ends(packet: &SlicedPacket<'_>) -> Option<(IpAddr, IpAddr)> {
    match packet.net.as_ref()? {
        NetSlice::Ipv4(slice) => {
            Some((slice.header().source_addr().into(), slice.header().destination_addr().into()))
        }
        NetSlice::Ipv6(slice) => {
            Some((slice.header().source_addr().into(), slice.header().destination_addr().into()))
        }
        NetSlice::Arp(_) => None,
    }
}

/// A frame by etherparse from the remote of `addresses` to the local one.
fn by_etherparse(addresses: Addresses) -> etherparse::PacketBuilderStep<etherparse::IpHeaders> {
    let builder = PacketBuilder::ethernet2(THEM, US);
    match addresses {
        Addresses::V4 { local, remote } => builder.ipv4(remote.to_be_bytes(), local.to_be_bytes(), 64),
        Addresses::V6 { local, remote } => builder.ipv6(remote.to_be_bytes(), local.to_be_bytes(), 64),
    }
}

proptest! {
    #[test]
    fn segments(
        addresses in hosts(),
        ports: (u16, u16),
        numbers: (u32, u32),
        flags in 0u8..0x40,
        window: u16,
        timestamps: Option<(u32, u32)>,
        payload in prop::collection::vec(any::<u8>(), 0..300),
    ) {
        let segment = Outgoing {
            local_port: ports.0,
            remote_port: ports.1,
            seq: Seq(numbers.0),
            ack: Seq(numbers.1),
            flags: Flags(flags),
            window,
            ..Outgoing::default()
        };
        let options = OptionsOut { timestamps, ..OptionsOut::NONE };
        let link = Link::new(Mac::new(THEM), Mac::new(US));
        let mut frame = vec![0; 1000];
        let len = emit(&mut frame, &link, &addresses, &segment, &options, &payload, Checks::ALL);
        frame.truncate(len);
        let packet = SlicedPacket::from_ethernet(&frame).expect("it is whole");
        prop_assert_eq!(ends(&packet), Some(addresses.ips()));
        let Some(TransportSlice::Tcp(tcp)) = packet.transport else { panic!("no TCP: {packet:?}") };
        let header = tcp.to_header();
        prop_assert_eq!((header.source_port, header.destination_port, header.window_size), (ports.0, ports.1, window));
        prop_assert_eq!((header.sequence_number, header.acknowledgment_number), numbers);
        prop_assert_eq!((header.syn, header.ack, header.fin), (flags & 2 != 0, flags & 16 != 0, flags & 1 != 0));
        prop_assert_eq!(tcp.payload(), &payload[..]);
        let checksum = match packet.net {
            Some(NetSlice::Ipv4(ip)) => {
                prop_assert_eq!(ip.header().to_header().calc_header_checksum(), ip.header().header_checksum());
                tcp.calc_checksum_ipv4(ip.header().source(), ip.header().destination())
            }
            Some(NetSlice::Ipv6(ip)) => tcp.calc_checksum_ipv6(ip.header().source(), ip.header().destination()),
            other => panic!("no IP: {other:?}"),
        };
        prop_assert_eq!(checksum.expect("it is short"), header.checksum);

        // And back.
        let mut theirs = Vec::new();
        let builder = by_etherparse(addresses).tcp(ports.0, ports.1, numbers.0, window).ack(numbers.1);
        builder.write(&mut theirs, &payload).expect("room");
        let mut read = Parsed::default();
        prop_assert_eq!(general(&theirs, Checks::ALL, &mut read), Ok(Packet::Tcp));
        prop_assert_eq!((read.remote_port(), read.local_port(), read.window), (ports.0, ports.1, window));
        prop_assert_eq!((read.seq, read.ack, usize::from(read.payload_len)), (Seq(numbers.0), Seq(numbers.1), payload.len()));
        prop_assert_eq!(read.addresses(&theirs), addresses);
    }

    #[test]
    fn datagrams(addresses in hosts(), ports: (u16, u16), payload in prop::collection::vec(any::<u8>(), 0..300)) {
        let mut theirs = Vec::new();
        by_etherparse(addresses).udp(ports.0, ports.1).write(&mut theirs, &payload).expect("room");
        let at = HEADER + addresses.header_len();
        let (header, read) = Udp::parse(&theirs[at..], &addresses).expect("a whole datagram");
        prop_assert_eq!((header.source, header.destination, read), (ports.0, ports.1, &payload[..]));
        let mut ours = [&[0; 8][..], &payload].concat();
        header.write(&mut ours, &addresses);
        prop_assert_eq!(&ours, &theirs[at..]);

        let told = port_unreachable(&theirs).expect("a datagram for one host");
        let packet = SlicedPacket::from_ethernet(&told).expect("it is whole");
        prop_assert_eq!(ends(&packet), Some(addresses.ips()));
        let (is_it, quoted) = match packet.transport {
            Some(TransportSlice::Icmpv4(icmp)) => (
                icmp.icmp_type() == Icmpv4Type::DestinationUnreachable(icmpv4::DestUnreachableHeader::Port),
                icmp.payload().to_vec(),
            ),
            Some(TransportSlice::Icmpv6(icmp)) => (
                icmp.icmp_type() == Icmpv6Type::DestinationUnreachable(icmpv6::DestUnreachableCode::Port),
                icmp.payload().to_vec(),
            ),
            other => panic!("no ICMP: {other:?}"),
        };
        prop_assert!(is_it);
        prop_assert_eq!(&quoted, &theirs[HEADER..]);
    }

    #[test]
    fn echoes(addresses in hosts(), id: u16, seq: u16, data in prop::collection::vec(any::<u8>(), 0..300)) {
        let mut request = Vec::new();
        let builder = by_etherparse(addresses);
        match addresses {
            Addresses::V4 { .. } => builder.icmpv4_echo_request(id, seq).write(&mut request, &data),
            Addresses::V6 { .. } => builder.icmpv6_echo_request(id, seq).write(&mut request, &data),
        }
        .expect("room");
        let mut place = Parsed::default();
        let read = general(&request, Checks::ALL, &mut place);
        prop_assert_eq!(read, Ok(Packet::Icmp(Icmp::EchoRequest(addresses))));
        let mut reply = vec![0; request.len()];
        prop_assert_eq!(emit_echo_reply(&mut reply, &request), request.len());
        let packet = SlicedPacket::from_ethernet(&reply).expect("it is whole");
        let wanted = etherparse::IcmpEchoHeader { id, seq };
        match packet.transport {
            Some(TransportSlice::Icmpv4(icmp)) => {
                prop_assert_eq!((icmp.icmp_type(), icmp.payload()), (Icmpv4Type::EchoReply(wanted), &data[..]));
            }
            Some(TransportSlice::Icmpv6(icmp)) => {
                prop_assert_eq!((icmp.icmp_type(), icmp.payload()), (Icmpv6Type::EchoReply(wanted), &data[..]));
                let (from, to) = (addresses.ips().0, addresses.ips().1);
                let (IpAddr::V6(from), IpAddr::V6(to)) = (from, to) else { panic!("of IPv6") };
                prop_assert!(icmp.is_checksum_valid(from.octets(), to.octets()));
            }
            other => panic!("no ICMP: {other:?}"),
        }
    }

    #[test]
    fn questions_of_arp(asks: bool, macs: ([u8; 6], [u8; 6]), ips: ([u8; 4], [u8; 4])) {
        let operation = if asks { Operation::Request } else { Operation::Reply };
        let ours = Arp {
            operation,
            sender_mac: Mac::new(macs.0),
            sender: ips.0.into(),
            target_mac: Mac::new(macs.1),
            target: ips.1.into(),
        };
        let frame = ours.frame(Mac::BROADCAST, Mac::new(US));
        let packet = SlicedPacket::from_ethernet(&frame).expect("it is whole");
        let Some(NetSlice::Arp(arp)) = packet.net else { panic!("no ARP: {packet:?}") };
        prop_assert_eq!((arp.operation().0, arp.sender_hw_addr(), arp.target_hw_addr()), (if asks { 1 } else { 2 }, &macs.0[..], &macs.1[..]));
        prop_assert_eq!((arp.sender_protocol_addr(), arp.target_protocol_addr()), (&ips.0[..], &ips.1[..]));
    }

    #[test]
    fn tags(id in 0u16..4096, payload in prop::collection::vec(any::<u8>(), 0..50)) {
        let mut theirs = Vec::new();
        let vlan = VlanId::try_new(id).expect("12 bits");
        let builder = PacketBuilder::ethernet2(THEM, US).single_vlan(vlan).ipv4([10, 0, 0, 2], [10, 0, 0, 1], 64);
        builder.udp(1, 2).write(&mut theirs, &payload).expect("room");
        let (_, ether_type, behind) = Link::parse(&theirs).expect("a header");
        prop_assert_eq!(ether_type, EtherType::VLAN);
        let (tag, inner, packet) = VlanTag::parse(behind).expect("a tag");
        prop_assert_eq!((tag, inner, packet.len()), (VlanTag::new(0, id), EtherType::IPV4, 28 + payload.len()));
    }
}
