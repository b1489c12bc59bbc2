//! ICMP for IPv4 and IPv6 (RFC 792, RFC 4443): errors about segments that we sent, and echo.
//!
//! An error comes with the four-tuple and the sequence number that it quotes. So the engine can check that the segment is
//! one of its own and still in flight, before it believes the rest (RFC 5927 4). Other messages than errors about TCP and
//! echo requests (neighbour discovery, say) are named by their type and left to others.

use super::checksum;
use super::ethernet::{self, EtherType, Link};
use super::fields::{four, sixteen, two};
use super::ip::{self, Addresses};
use super::parse::Refusal;
use super::udp::Udp;
use crate::seq::Seq;

/// A message that arrived whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Icmp {
    /// An echo request; [`emit_echo_reply`] answers it, if the local address is ours.
    EchoRequest(Addresses),
    /// An error about a segment of TCP.
    Error(IcmpError),
    /// Any other message.
    Other,
}

/// An error about a segment of ours.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IcmpError {
    /// What has happened to the segment.
    pub kind: ErrorKind,
    /// As we see them: local sent the segment.
    pub addresses: Addresses,
    /// The port that the segment came from.
    pub local_port: u16,
    /// The port that it was for.
    pub remote_port: u16,
    /// Its sequence number.
    pub seq: Seq,
}

/// The kind of the error.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ErrorKind {
    /// The protocol or the port is unreachable. This alone is hard (RFC 1122 4.2.3.9), and only before a connection stands
    /// (RFC 5927 5.2).
    Refused,
    /// The packet is longer than a hop takes, which takes this many bytes of IP packet.
    TooBig {
        /// Bytes of the longest IP packet that passes.
        mtu: u32,
    },
    /// It may pass.
    Soft,
    /// A Source Quench, which is to be discarded (RFC 9293 MUST-55, RFC 6633).
    SourceQuench,
    /// No ICMP: the packet has not left, because its neighbour does not answer.
    Undelivered,
}

/// The message in `payload`. `is_to_one` says that the frame and both addresses are of single hosts.
pub(crate) fn parse(header: &ip::Header, payload: &[u8], is_to_one: bool) -> Result<Icmp, Refusal> {
    let (head, body) = payload.split_first_chunk::<HEADER>().ok_or(Refusal::IcmpHeader)?;
    let is_v6 = !header.addresses.is_v4();
    if is_v6 != (header.protocol == ip::ICMP_V6) {
        return Err(Refusal::IcmpHeader);
    }
    // Only the newer protocol takes in a pseudo header (RFC 4443 2.3).
    let pseudo = if is_v6 { header.addresses.pseudo(header.protocol, payload.len()) } else { 0 };
    if checksum::header(pseudo, checksum::sum(payload, 0)) != 0 {
        return Err(Refusal::IcmpChecksum);
    }
    let &[kind, code, _, _, rest @ ..] = head;
    if kind == if is_v6 { 128 } else { 8 } && code == 0 {
        return if is_to_one { Ok(Icmp::EchoRequest(header.addresses)) } else { Err(Refusal::Address) };
    }
    let kind = if is_v6 { error_v6(kind, code, rest) } else { error_v4(kind, code, rest, body) };
    let Some(kind) = kind else { return Ok(Icmp::Other) };
    if !is_to_one {
        return Err(Refusal::Address);
    }
    Ok(about(body, is_v6, kind)?.map_or(Icmp::Other, Icmp::Error))
}

/// What has happened to the segment in `packet`, of which at least the front is there. Nothing if it is no TCP.
fn about(packet: &[u8], is_v6: bool, kind: ErrorKind) -> Result<Option<IcmpError>, Refusal> {
    let (addresses, protocol, segment) =
        if is_v6 { quoted_v6(packet) } else { quoted_v4(packet) }.ok_or(Refusal::IcmpHeader)?;
    if protocol != ip::TCP {
        return Ok(None);
    }
    // The eight bytes that are always quoted hold the ports and the sequence number (RFC 792).
    let quoted = segment.first_chunk::<8>().ok_or(Refusal::IcmpHeader)?;
    Ok(Some(IcmpError {
        kind,
        addresses,
        local_port: two(quoted, 0),
        remote_port: two(quoted, 2),
        seq: Seq(four(quoted, 4)),
    }))
}

/// What it means for a connection that a frame with one of its segments has not left. None if it holds no segment.
pub fn undelivered(frame: &[u8]) -> Option<IcmpError> {
    let (_, ether_type, packet) = Link::parse(frame)?;
    let is_v6 = match ether_type {
        EtherType::IPV4 => false,
        EtherType::IPV6 => true,
        _ => return None,
    };
    about(packet, is_v6, ErrorKind::Undelivered).ok()?
}

fn error_v4(kind: u8, code: u8, rest: [u8; 4], quoted: &[u8]) -> Option<ErrorKind> {
    Some(match (kind, code) {
        (3, 2 | 3) => ErrorKind::Refused,
        (3, 4) => match two(&rest, 2) {
            0 => ErrorKind::TooBig { mtu: plateau_below(quoted) },
            mtu => ErrorKind::TooBig { mtu: u32::from(mtu) },
        },
        // Unreachable, source quench, time exceeded, a problem with a parameter.
        (4, _) => ErrorKind::SourceQuench,
        (3 | 11 | 12, _) => ErrorKind::Soft,
        _ => return None,
    })
}

fn error_v6(kind: u8, code: u8, rest: [u8; 4]) -> Option<ErrorKind> {
    Some(match (kind, code) {
        // A next header that it does not know is the protocol being out of reach (RFC 9293 3.9.2.2).
        (1, 4) | (4, 1) => ErrorKind::Refused,
        (2, _) => ErrorKind::TooBig { mtu: u32::from_be_bytes(rest) },
        // Unreachable, time exceeded, a problem with a parameter.
        (1 | 3 | 4, _) => ErrorKind::Soft,
        _ => return None,
    })
}

/// What the hop may take, if it is too old to say: the next lower of the sizes that networks have (RFC 1191
/// 7.1).
fn plateau_below(quoted: &[u8]) -> u32 {
    const PLATEAUS: [u32; 10] = [32000, 17914, 8166, 4352, 2002, 1492, 1006, 508, 296, 68];
    let len = quoted.get(2..4).map_or(0, |len| u32::from(len[0]) << 8 | u32::from(len[1]));
    PLATEAUS.into_iter().find(|plateau| *plateau < len).unwrap_or(68)
}

/// Addresses, protocol and payload of a packet that we sent. Only the front of the packet is present.
fn quoted_v4(packet: &[u8]) -> Option<(Addresses, u8, &[u8])> {
    let head = packet.first_chunk::<{ ip::V4 }>()?;
    let len = usize::from(head[0] & 15) * 4;
    let is_first = two(head, 6) & 0x1fff == 0;
    let is_whole = head[0] >> 4 == 4 && len >= ip::V4 && is_first;
    let addresses = Addresses::V4 { local: four(head, 12), remote: four(head, 16) };
    Some((addresses, head[9], packet.get(len..).filter(|_| is_whole)?))
}

fn quoted_v6(packet: &[u8]) -> Option<(Addresses, u8, &[u8])> {
    let (head, rest) = packet.split_first_chunk::<{ ip::V6 }>()?;
    let (protocol, skipped) = ip::skip_extensions(head[6], rest).ok().filter(|_| head[0] >> 4 == 6)?;
    let addresses = Addresses::V6 { local: sixteen(head, 8), remote: sixteen(head, 24) };
    Some((addresses, protocol, &rest[skipped..]))
}

/// Writes the answer to `request`, a frame in which [`Icmp::EchoRequest`] was found, to the front of `out`
/// and gives its length; zero if there is no room. The data goes back as it came (RFC 1122 3.2.2.6).
pub fn emit_echo_reply(out: &mut [u8], request: &[u8]) -> usize {
    write_echo_reply(out, request).unwrap_or(0)
}

fn write_echo_reply(out: &mut [u8], request: &[u8]) -> Option<usize> {
    let (link, ether_type, packet) = Link::parse(request)?;
    let header = match ether_type {
        EtherType::IPV4 => ip::Header::parse_v4(packet, super::Checks::NONE).ok()?,
        EtherType::IPV6 => ip::Header::parse_v6(packet).ok()?,
        _ => return None,
    };
    let message = &packet[header.start..header.end];
    let packet = out.get_mut(ethernet::HEADER..)?;
    let class = header.traffic_class;
    let start = ip::write(packet, &header.addresses, header.protocol, class, message.len(), None)?;
    let start = ethernet::HEADER + start;
    out[..ethernet::HEADER].copy_from_slice(&link.back().header(ether_type));
    let reply = out.get_mut(start..start + message.len())?;
    reply.copy_from_slice(message);
    let head = reply.first_chunk_mut::<HEADER>()?;
    // The type is all that changes: 8 becomes 0, or 128 becomes 129. The pseudo header is the same from both
    // sides.
    let old = u16::from_be_bytes([head[0], head[1]]);
    head[0] = if header.protocol == ip::ICMP_V6 { 129 } else { 0 };
    let new = u16::from_be_bytes([head[0], head[1]]);
    let checksum = checksum::update(u16::from_be_bytes([head[2], head[3]]), old, new);
    head[2..4].copy_from_slice(&checksum.to_be_bytes());
    Some(start + message.len())
}

/// A frame that tells the sender of `frame`, which holds a whole datagram of UDP, that nobody has its port (RFC 1122 3.2.2.1, RFC
/// 4443 3.1). None if it does not, or came from or for more than one host: such are not answered (RFC 1122 3.2.2).
pub fn port_unreachable(frame: &[u8]) -> Option<Vec<u8>> {
    let (link, ether_type, packet) = Link::parse(frame)?;
    let (header, kind, code, quoted_max) = match ether_type {
        EtherType::IPV4 => {
            (ip::Header::parse_v4(packet, super::Checks::ALL).ok()?, 3, 3, 576 - ip::V4 - HEADER)
        }
        EtherType::IPV6 => (ip::Header::parse_v6(packet).ok()?, 1, 4, 1280 - ip::V6 - HEADER),
        _ => return None,
    };
    let is_to_one = link.is_between_hosts() && header.addresses.are_of_hosts();
    if header.protocol != ip::UDP || !is_to_one {
        return None;
    }
    Udp::parse(&packet[header.start..header.end], &header.addresses).ok()?;
    let quoted = &packet[..header.end.min(quoted_max)];
    let mut message = [&[kind, code, 0, 0, 0, 0, 0, 0], quoted].concat();
    let protocol = if header.addresses.is_v4() { ip::ICMP } else { ip::ICMP_V6 };
    let pseudo = if header.addresses.is_v4() { 0 } else { header.addresses.pseudo(protocol, message.len()) };
    let checksum = checksum::header(pseudo, checksum::sum(&message, 0));
    message[2..4].copy_from_slice(&checksum.to_be_bytes());
    let mut out = vec![0; ethernet::HEADER + header.addresses.header_len()];
    out[..ethernet::HEADER].copy_from_slice(&link.back().header(ether_type));
    ip::write(&mut out[ethernet::HEADER..], &header.addresses, protocol, 0, message.len(), None)?;
    out.append(&mut message);
    Some(out)
}

/// Bytes in front of what an error quotes.
const HEADER: usize = 8;
