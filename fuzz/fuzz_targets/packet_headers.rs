//! No bytes make a reader of headers panic; what it reads and what is written for it read the same again.

#![no_main]

use anywire_packet::arp::Arp;
use anywire_packet::ethernet::{EtherType, Link, VlanTag};
use anywire_packet::icmp::{emit_echo_reply, port_unreachable};
use anywire_packet::ndp::Ndp;
use anywire_packet::udp::Udp;
use anywire_packet::{Addresses, Checks, Icmp, Packet, Parsed, general};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|frame: &[u8]| {
    let mut place = Parsed::default();
    for checks in [Checks::ALL, Checks::NONE] {
        match general(frame, checks, &mut place) {
            Ok(Packet::Tcp) => {
                let end = usize::from(place.payload_at) + usize::from(place.payload_len);
                assert!(end <= frame.len(), "the payload is in the frame");
                place.options(frame);
                place.addresses(frame);
            }
            Ok(Packet::Icmp(Icmp::EchoRequest(_))) => {
                let mut reply = vec![0; frame.len()];
                let len = emit_echo_reply(&mut reply, frame);
                assert!(len > 0 && len <= frame.len());
                assert!(matches!(
                    general(&reply[..len], Checks::ALL, &mut place),
                    Ok(Packet::Icmp(Icmp::Other))
                ));
            }
            _ => {}
        }
    }
    if let Some(told) = port_unreachable(frame) {
        assert!(matches!(general(&told, Checks::ALL, &mut place), Ok(Packet::Icmp(Icmp::Other))));
        assert!(told.len() <= 14 + 1280);
    }
    let Some((link, ether_type, packet)) = Link::parse(frame) else { return };
    match ether_type {
        EtherType::ARP => {
            if let Some(arp) = Arp::parse(packet) {
                assert_eq!(Arp::parse(&arp.frame(link.source(), link.destination())[14..]), Some(arp));
            }
        }
        EtherType::VLAN => {
            if let Some((tag, behind, _)) = VlanTag::parse(packet) {
                assert_eq!(packet[..4], tag.write(behind));
            }
        }
        _ => {}
    }
    if let Ok(Some(message)) = Ndp::parse(packet)
        && let Some(Addresses::V6 { local, remote }) = Addresses::of(frame)
    {
        let again = message.frame(link, remote.to_be_bytes().into(), local.to_be_bytes().into());
        assert_eq!(Ndp::parse(&again[14..]), Ok(Some(message)));
    }
    let between = Addresses::V4 { local: 1, remote: 2 };
    if let Ok((header, payload)) = Udp::parse(packet, &between) {
        let mut datagram = [&[0; 8][..], payload].concat();
        header.write(&mut datagram, &between);
        assert_eq!(Udp::parse(&datagram, &between), Ok((header, payload)));
    }
});
