//! Multicast listener discovery for IPv6 (RFC 3810, and RFC 2710 for routers that know no other): which groups a host listens to. A switch
//! that watches for that sends it nothing of others.
//!
//! A host listens to all sources of a group, so records name none.

use std::net::Ipv6Addr;
use std::time::Duration;

use crate::checksum;
use crate::ethernet::{EtherType, HEADER, Link, Mac};
use crate::ip::{self, Addresses};
use crate::ndp::{ALL_NODES, group_mac};
use crate::parse::Refusal;

/// A question of a router: who listens?
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Query {
    /// To this group; without one, to any.
    pub group: Option<Ipv6Addr>,
    /// An answer is to come within this time.
    pub response_max: Duration,
    /// The version of the question, which is that of the answer.
    pub version: Version,
}

/// The versions of the protocol.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Version {
    /// Of RFC 2710.
    V1,
    /// Of RFC 3810.
    #[default]
    V2,
}

/// What a host says of a group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Listening {
    /// It listens, as it has before.
    Still,
    /// It listens from now on.
    Begins,
    /// It listens no more.
    Ends,
}

impl Query {
    /// The query in an IPv6 packet, if it is one and as RFC 3810 5.1.14 and 6.2 ask. Nothing for other messages of ICMP.
    ///
    /// # Errors
    /// For a query that is not as it must be.
    pub fn parse(packet: &[u8]) -> Result<Option<Self>, Refusal> {
        let header = ip::Header::parse_v6(packet)?;
        let Addresses::V6 { remote: source, .. } = header.addresses else { return Ok(None) };
        let message = &packet[header.start..header.end];
        if header.protocol != ip::ICMP_V6 || message.first() != Some(&QUERY) {
            return Ok(None);
        }
        let pseudo = header.addresses.pseudo(header.protocol, message.len());
        if checksum::header(pseudo, checksum::sum(message, 0)) != 0 {
            return Err(Refusal::IcmpChecksum);
        }
        let (head, rest) = message.split_first_chunk::<24>().ok_or(Refusal::IcmpHeader)?;
        // 24 bytes are a query of the first version, and 28 the least of the second (8.1).
        if matches!(rest.len(), 1..4) || packet[7] != 1 || !has_router_alert(&packet[..header.start]) {
            return Err(Refusal::IcmpHeader);
        }
        let (_, group) = head.split_first_chunk::<8>().ok_or(Refusal::IcmpHeader)?;
        let group = Ipv6Addr::from_octets(group.try_into().map_err(|_| Refusal::IcmpHeader)?);
        let is_of_group = !group.is_unspecified();
        if !Ipv6Addr::from_bits(source).is_unicast_link_local() || is_of_group && !group.is_multicast() {
            return Err(Refusal::Address);
        }
        let code = u64::from(u16::from_be_bytes([head[4], head[5]]));
        let version = if rest.is_empty() { Version::V1 } else { Version::V2 };
        let millis = match version {
            Version::V2 if code >= 0x8000 => (code & 0xfff | 0x1000) << ((code >> 12 & 7) + 3),
            _ => code,
        };
        Ok(Some(Self {
            group: is_of_group.then_some(group),
            response_max: Duration::from_millis(millis),
            version,
        }))
    }

    /// A frame with the query, as a router sends it: to all nodes, or to the group. The time is at most 65.5 seconds in the first version
    /// and 2.3 hours in the second, which rounds times above 32 seconds down.
    pub fn frame(&self, mac: Mac, source: Ipv6Addr) -> Vec<u8> {
        let millis = self.response_max.as_millis();
        let code = match self.version {
            Version::V2 if millis >= 0x8000 => {
                let millis = millis.min(0x1fff << 10) as u32;
                let exponent = millis.ilog2() - 12;
                0x8000 | (exponent - 3) << 12 | millis >> exponent & 0xfff
            }
            _ => millis.min(0xffff) as u32,
        };
        let [_, _, high, low] = code.to_be_bytes();
        let group = self.group.unwrap_or(Ipv6Addr::UNSPECIFIED).octets();
        let mut message = [&[QUERY, 0, 0, 0, high, low, 0, 0], &group[..]].concat();
        if self.version == Version::V2 {
            // It asks for no sources, and says nothing of the router.
            message.extend([0; 4]);
        }
        frame(mac, source, self.group.unwrap_or(ALL_NODES), message)
    }
}

/// Frames that say this of each group. Without an address of the link, `source` is unspecified (RFC 3810 5.2.13, RFC 3590).
pub fn reports(
    version: Version,
    mac: Mac,
    source: Ipv6Addr,
    records: &[(Listening, Ipv6Addr)],
) -> Vec<Vec<u8>> {
    let one = |(listening, group): &(Listening, Ipv6Addr)| {
        let (kind, to) = match listening {
            Listening::Still | Listening::Begins => (REPORT, *group),
            Listening::Ends => (DONE, ALL_ROUTERS),
        };
        let message = [&[kind, 0, 0, 0, 0, 0, 0, 0], &group.octets()[..]].concat();
        frame(mac, source, to, message)
    };
    let many = |records: &[(Listening, Ipv6Addr)]| {
        let [high, low] = (records.len() as u16).to_be_bytes();
        let mut message = vec![REPORT_V2, 0, 0, 0, 0, 0, high, low];
        for (listening, group) in records {
            let kind = match listening {
                Listening::Still => MODE_IS_EXCLUDE,
                Listening::Begins => CHANGE_TO_EXCLUDE_MODE,
                Listening::Ends => CHANGE_TO_INCLUDE_MODE,
            };
            message.extend([kind, 0, 0, 0]);
            message.extend(group.octets());
        }
        frame(mac, source, ALL_MLDV2_ROUTERS, message)
    };
    match version {
        Version::V1 => records.iter().map(one).collect(),
        Version::V2 => records.chunks(RECORDS_MAX).map(many).collect(),
    }
}

/// A frame with a message, whose checksum is to be filled in.
fn frame(mac: Mac, source: Ipv6Addr, to: Ipv6Addr, mut message: Vec<u8>) -> Vec<u8> {
    let addresses = Addresses::V6 { local: source.to_bits(), remote: to.to_bits() };
    let pseudo = addresses.pseudo(ip::ICMP_V6, message.len());
    let checksum = checksum::header(pseudo, checksum::sum(&message, 0));
    message[2..4].copy_from_slice(&checksum.to_be_bytes());

    let mut frame = vec![0; HEADER + ip::V6];
    frame[..HEADER].copy_from_slice(&Link::new(group_mac(to), mac).header(EtherType::IPV6));
    let length = ALERT.len() + message.len();
    // There is room, so the header is written.
    let _ = ip::write(&mut frame[HEADER..], &addresses, ip::HOP_BY_HOP, 0, length, None);
    frame[HEADER + 7] = 1;
    frame.extend(ALERT);
    frame.extend(message);
    frame
}

/// Whether the headers of a packet begin with hop-by-hop options, one of which alerts routers to MLD (RFC 2711).
fn has_router_alert(headers: &[u8]) -> bool {
    if headers.get(6) != Some(&ip::HOP_BY_HOP) {
        return false;
    }
    let Some([_, eights, options @ ..]) = headers.get(ip::V6..) else { return false };
    let mut options = options.get(..6 + usize::from(*eights) * 8).unwrap_or_default();
    loop {
        match options {
            [5, 2, 0, 0, ..] => return true,
            [0, rest @ ..] => options = rest,
            [_, length, rest @ ..] => options = rest.get(usize::from(*length)..).unwrap_or_default(),
            _ => return false,
        }
    }
}

/// Hop-by-hop options in front of ICMP: routers are to look at the packet (RFC 2711), and padding.
const ALERT: [u8; 8] = [ip::ICMP_V6, 0, 5, 2, 0, 0, 1, 0];

/// As many as fit into a packet that each link carries.
const RECORDS_MAX: usize = (1280 - ip::V6 - ALERT.len() - 8) / 20;

/// RFC 4291 2.7.1.
const ALL_ROUTERS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 2);
/// RFC 3810 5.2.14.
const ALL_MLDV2_ROUTERS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 0x16);

const QUERY: u8 = 130;
const REPORT: u8 = 131;
const DONE: u8 = 132;
const REPORT_V2: u8 = 143;

// Kinds of records (RFC 3810 5.2.12).
const MODE_IS_EXCLUDE: u8 = 2;
const CHANGE_TO_INCLUDE_MODE: u8 = 3;
const CHANGE_TO_EXCLUDE_MODE: u8 = 4;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ROUTER: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 9);
    const GROUP: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00, 2);
    const MAC: Mac = Mac::new([2, 0, 0, 0, 0, 1]);

    fn query(source: Ipv6Addr, group: Ipv6Addr, code: u16, rest: &[u8]) -> Vec<u8> {
        let [high, low] = code.to_be_bytes();
        let message = [&[QUERY, 0, 0, 0, high, low, 0, 0], &group.octets()[..], rest].concat();
        frame(MAC, source, GROUP, message)[HEADER..].to_vec()
    }

    #[test]
    fn queries_of_both_versions_are_read() {
        let any = Ipv6Addr::UNSPECIFIED;
        for (group, code, rest, is, response_max, version) in [
            (any, 10_000, &[][..], None, 10_000, Version::V1),
            (GROUP, 0xffff, &[], Some(GROUP), 0xffff, Version::V1),
            (any, 0x7fff, &[0, 0, 0, 0], None, 0x7fff, Version::V2),
            // An exponent of 0 and of 7 (RFC 3810 5.1.3).
            (GROUP, 0x8001, &[0, 0, 0, 0], Some(GROUP), 0x1001 << 3, Version::V2),
            (GROUP, 0xffff, &[0, 0, 0, 1, 0, 0, 0, 0], Some(GROUP), 0x1fff << 10, Version::V2),
        ] {
            let response_max = Duration::from_millis(response_max);
            let expected = Query { group: is, response_max, version };
            assert_eq!(Query::parse(&query(ROUTER, group, code, rest)), Ok(Some(expected)));
        }
    }

    #[test]
    fn what_rfc_3810_has_discarded_is_refused() {
        let any = Ipv6Addr::UNSPECIFIED;
        let changed = |change: fn(&mut Vec<u8>)| {
            let mut packet = query(ROUTER, any, 0, &[]);
            change(&mut packet);
            packet
        };
        assert!(Query::parse(&changed(|_| {})).is_ok_and(|query| query.is_some()));
        for (name, packet) in [
            ("hop limit", changed(|packet| packet[7] = 2)),
            ("no alert", changed(|packet| packet[42] = 6)),
            ("alert of another protocol", changed(|packet| packet[45] = 1)),
            ("checksum", changed(|packet| packet[50] ^= 1)),
            ("length", query(ROUTER, any, 0, &[0; 3])),
            ("not of this link", query(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 9), any, 0, &[])),
            ("from nowhere", query(any, any, 0, &[])),
            ("group of one", query(ROUTER, ROUTER, 0, &[])),
        ] {
            assert!(Query::parse(&packet).is_err(), "{name}");
        }
        let mut short = query(ROUTER, any, 0, &[]);
        short.truncate(60);
        short[5] = 20;
        assert!(Query::parse(&short).is_err());
        assert_eq!(Query::parse(&changed(|packet| packet[48] = REPORT)), Ok(None), "no query");
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(of_group: bool, v1: bool, millis in 0_u64..0x1fff << 10) {
            let version = if v1 { Version::V1 } else { Version::V2 };
            let group = of_group.then_some(GROUP);
            let written = Query { group, response_max: Duration::from_millis(millis), version };
            let read = Query::parse(&written.frame(MAC, ROUTER)[HEADER..]).expect("a query").expect("a query");
            prop_assert_eq!((read.group, read.version), (group, version));
            let most = if v1 { millis.min(0xffff) } else { millis };
            let least = if v1 || millis < 0x8000 { most } else { most - most / 4096 };
            prop_assert!((least..=most).contains(&(read.response_max.as_millis() as u64)), "{:?}", read);
        }

        #[test]
        fn any_bytes_are_parsed(bytes: Vec<u8>, rest: Vec<u8>, at: prop::sample::Index, bit in 0_u8..8) {
            let _ = Query::parse(&bytes);
            let mut packet = query(ROUTER, GROUP, 1000, &rest);
            let at = at.index(packet.len());
            packet[at] ^= 1 << bit;
            let _ = Query::parse(&packet);
        }

        /// However many there are, and each fits into a packet that each link carries.
        #[test]
        fn each_group_is_reported_once(count in 0_usize..200, v1: bool) {
            let kinds = [Listening::Still, Listening::Begins, Listening::Ends];
            let group = |number: usize| Ipv6Addr::from_bits(GROUP.to_bits() + number as u128);
            let records: Vec<_> = (0..count).map(|number| (kinds[number % 3], group(number))).collect();
            let version = if v1 { Version::V1 } else { Version::V2 };
            let mut told = Vec::new();
            for frame in reports(version, MAC, ROUTER, &records) {
                prop_assert!(frame.len() <= HEADER + 1280);
                let packet = &frame[HEADER..];
                let header = ip::Header::parse_v6(packet).expect("a packet");
                let message = &packet[header.start..header.end];
                prop_assert!(has_router_alert(&packet[..header.start]) && packet[7] == 1);
                let sum = checksum::sum(message, 0);
                prop_assert_eq!(checksum::header(header.addresses.pseudo(ip::ICMP_V6, message.len()), sum), 0);
                let groups = if v1 { message[8..].chunks(16) } else { message[8..].chunks(20) };
                for record in groups {
                    let kind = if v1 { message[0] } else { record[0] };
                    let kind = match kind {
                        MODE_IS_EXCLUDE => Listening::Still,
                        REPORT | CHANGE_TO_EXCLUDE_MODE => Listening::Begins,
                        _ => Listening::Ends,
                    };
                    told.push((kind, record[record.len() - 16..].to_vec()));
                }
            }
            let expected: Vec<_> = records.iter().map(|(kind, group)| {
                let kind = if v1 && *kind == Listening::Still { Listening::Begins } else { *kind };
                (kind, group.octets().to_vec())
            }).collect();
            prop_assert_eq!(told, expected);
        }
    }
}
