//! A segment that leaves: headers, options, payload and checksums, written in one go.
//!
//! [`emit`] copies a payload behind the headers and sums it on the way. If the payload is in place already, at
//! [`headers_len`], or if there is none, the caller describes it and calls [`emit_headers`]. Headers are summed from the
//! values that go into them, never from the bytes just written: reading those back in larger words would stall. For what
//! nearly every segment is, [`plain`](fn@plain) writes and sums eight bytes at a time.

use super::checksum;
use super::ethernet::{self, EtherType, Link};
use super::fields::put;
use super::ip::{self, Addresses};
use super::options::{OptionsOut, TIMESTAMPS_ALONE};
use super::parse::{Checks, FRAME_MAX};
use super::plain::{self, V4, V4_TIMESTAMPS, V6, V6_TIMESTAMPS};
use super::syn;
use super::tcp::{self, Flags};
use crate::seq::Seq;

/// The fields of a segment that leaves.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Outgoing {
    /// Ours.
    pub local_port: u16,
    /// The peer's.
    pub remote_port: u16,
    /// The sequence number of its first byte.
    pub seq: Seq,
    /// The next number that we expect; it means something with the flag ACK.
    pub ack: Seq,
    /// The control bits.
    pub flags: Flags,
    /// The window field, scaled already.
    pub window: u16,
    /// DSCP and ECN of the IP header.
    pub traffic_class: u8,
    /// Routers may fragment the packet, and this tells its fragments from others. Of IPv4 alone.
    pub fragment_id: Option<u16>,
}

/// Writes a whole frame to the front of `out` and gives its length; zero if there is no room, or if the
/// payload is longer than [`FRAME_MAX`] allows.
// Always, so that what the caller has in registers stays there.
#[inline(always)]
pub fn emit(
    out: &mut [u8],
    link: &Link,
    addresses: &Addresses,
    segment: &Outgoing,
    options: &OptionsOut<'_>,
    payload: &[u8],
    checks: Checks,
) -> usize {
    let headers = headers_len(addresses, options);
    let Some(room) = out.get_mut(headers..headers + payload.len()) else { return 0 };
    let payload = Payload::put(room, payload, checks);
    emit_headers(out, link, addresses, segment, options, payload, checks)
}

/// What headers say of the payload behind them.
// Two numbers are passed in registers, like two plain arguments.
#[derive(Clone, Copy)]
pub struct Payload {
    len: usize,
    /// Its [`checksum::sum`], or any value if the caller wants no checksum.
    sum: u64,
}

impl Payload {
    /// No payload.
    pub const NONE: Self = Self { len: 0, sum: 0 };

    /// Puts a payload in its place, which is as long.
    #[inline(always)]
    pub fn put(room: &mut [u8], payload: &[u8], checks: Checks) -> Self {
        let len = payload.len();
        if checks.tcp {
            return Self { len, sum: checksum::sum_copy(payload, room) };
        }
        room.copy_from_slice(payload);
        Self { len, sum: 0 }
    }

    /// The same for a payload whose sum is known.
    #[inline]
    pub fn put_summed(room: &mut [u8], payload: &[u8], sum: u64) -> Self {
        room.copy_from_slice(payload);
        Self { len: payload.len(), sum }
    }
}

/// Bytes in front of the payload.
#[inline]
pub fn headers_len(addresses: &Addresses, options: &OptionsOut<'_>) -> usize {
    let options = match options.at_most_timestamps() {
        Some(Some(_)) => V4_TIMESTAMPS - V4,
        Some(None) => 0,
        None => options.len(),
    };
    ethernet::HEADER + addresses.header_len() + tcp::HEADER + options
}

/// Writes the headers in front of a payload that is in its place already. Gives the length of the frame; zero if
/// there is no room, or if the payload is longer than [`FRAME_MAX`] allows.
#[inline(always)]
pub fn emit_headers(
    out: &mut [u8],
    link: &Link,
    addresses: &Addresses,
    segment: &Outgoing,
    options: &OptionsOut<'_>,
    payload: Payload,
    checks: Checks,
) -> usize {
    if segment.fragment_id.is_some() {
        return general(out, link, addresses, segment, options, payload, checks);
    }
    match (addresses.is_v4(), options.at_most_timestamps()) {
        (true, Some(Some(timestamps))) => {
            at_fixed_places::<V4_TIMESTAMPS>(out, link, addresses, segment, timestamps, payload, checks)
        }
        (true, Some(None)) => at_fixed_places::<V4>(out, link, addresses, segment, (0, 0), payload, checks),
        (false, Some(Some(timestamps))) => {
            at_fixed_places::<V6_TIMESTAMPS>(out, link, addresses, segment, timestamps, payload, checks)
        }
        (false, Some(None)) => at_fixed_places::<V6>(out, link, addresses, segment, (0, 0), payload, checks),
        (_, None) => general(out, link, addresses, segment, options, payload, checks),
    }
}

#[inline(always)]
fn at_fixed_places<const LEN: usize>(
    out: &mut [u8],
    link: &Link,
    addresses: &Addresses,
    segment: &Outgoing,
    timestamps: (u32, u32),
    payload: Payload,
    checks: Checks,
) -> usize {
    let end = LEN + payload.len;
    if end > out.len() || end > FRAME_MAX {
        return 0;
    }
    let Some(head) = out.first_chunk_mut::<LEN>() else { return 0 };
    plain(head, link, addresses, segment, timestamps, payload, checks);
    end
}

/// The headers of a [plain segment](super::plain::Plain): `LEN` says of which version, which must be that of the addresses, and
/// whether with timestamps. The payload must have a length that fits into a frame.
#[inline(always)]
pub fn plain<const LEN: usize>(
    head: &mut [u8; LEN],
    link: &Link,
    addresses: &Addresses,
    segment: &Outgoing,
    (value, echo): (u32, u32),
    payload: Payload,
    checks: Checks,
) {
    debug_assert_eq!(
        plain::is_v6(LEN),
        !addresses.is_v4(),
        "headers of one version with addresses of the other"
    );
    let tcp = plain::tcp_at(LEN);
    let segment_len = LEN - tcp + payload.len;
    let ports = u32::from(segment.local_port) << 16 | u32::from(segment.remote_port);
    let flags = ((LEN - tcp) as u32) << 26 | u32::from(segment.flags.0) << 16;
    let ports_and_seq = eight(ports, segment.seq.0);
    let ack_and_window = eight(segment.ack.0, flags | u32::from(segment.window));
    let (list, timestamps) =
        if plain::has_timestamps(LEN) { (TIMESTAMPS_ALONE, eight(value, echo)) } else { (0, 0) };
    // The small fields are added before the swap: their sum has no carry.
    let around = u32::from(ip::TCP) + segment_len as u32 + (list >> 16) + (list & 0xffff);
    let tcp_sum = match *addresses {
        Addresses::V4 { local, remote } => {
            let between = eight(local, remote);
            write_v4(head, link, between, segment.traffic_class, segment_len, checks);
            let words = [payload.sum, between, ports_and_seq, ack_and_window, timestamps];
            checksum::sum_words_and(words, swapped(around))
        }
        Addresses::V6 { local, remote } => {
            write_v6(head, link, (local, remote), segment.traffic_class, segment_len);
            let [a, b, c, d] =
                [local >> 64, local, remote >> 64, remote].map(|half| (half as u64).swap_bytes());
            let words = [payload.sum, a, b, c, d, ports_and_seq, ack_and_window, timestamps];
            checksum::sum_words_and(words, swapped(around))
        }
    };
    let tcp_checksum = if checks.tcp { !checksum::fold(tcp_sum) } else { 0 };
    put(head, tcp, ports_and_seq.to_le_bytes());
    put(head, tcp + 8, ack_and_window.to_le_bytes());
    // And no urgent data.
    put(head, tcp + 16, u32::from(tcp_checksum).to_le_bytes());
    if plain::has_timestamps(LEN) {
        put(head, tcp + 20, list.to_be_bytes());
        put(head, tcp + 24, timestamps.to_le_bytes());
    }
}

/// The headers of Ethernet and IPv4 in front of a plain segment, whose addresses are one word.
#[inline(always)]
fn write_v4<const LEN: usize>(
    head: &mut [u8; LEN],
    link: &Link,
    addresses: u64,
    traffic_class: u8,
    segment_len: usize,
    checks: Checks,
) {
    let total = (segment_len + ip::V4) as u32;
    let version = 0x4500_0000 | u32::from(traffic_class) << 16;
    let hop = u16::from_be_bytes([ip::HOP_LIMIT, ip::TCP]);
    let around = (version >> 16) + total + u32::from(ip::DO_NOT_FRAGMENT) + u32::from(hop);
    let sum = checksum::sum_words_and([addresses], swapped(around));
    let checksum = if checks.ip { !checksum::fold(sum) } else { 0 };
    link.write(EtherType::IPV4, head);
    put(head, 14, (version | total).to_be_bytes());
    put(head, 18, u32::from(ip::DO_NOT_FRAGMENT).to_be_bytes());
    put(head, 22, hop.to_be_bytes());
    put(head, 24, checksum.to_le_bytes());
    put(head, 26, addresses.to_le_bytes());
}

/// The same with IPv6, which has no checksum.
#[inline(always)]
fn write_v6<const LEN: usize>(
    head: &mut [u8; LEN],
    link: &Link,
    (local, remote): (u128, u128),
    traffic_class: u8,
    segment_len: usize,
) {
    link.write(EtherType::IPV6, head);
    put(head, 14, (0x6000_0000 | u32::from(traffic_class) << 20).to_be_bytes());
    put(head, 18, (segment_len as u16).to_be_bytes());
    put(head, 20, [ip::TCP, ip::HOP_LIMIT]);
    put(head, 22, local.to_be_bytes());
    put(head, 38, remote.to_be_bytes());
}

/// Two fields as the word that sums take their bytes for.
#[inline]
const fn eight(first: u32, second: u32) -> u64 {
    ((first as u64) << 32 | second as u64).swap_bytes()
}

/// A number below 2^24, for a sum of words in swapped byte order: 256 times the number is congruent to its swapped form.
#[inline]
const fn swapped(number: u32) -> u32 {
    number << 8
}

/// Either version, any options: SYNs mostly.
#[cold]
#[inline(never)]
fn general(
    out: &mut [u8],
    link: &Link,
    addresses: &Addresses,
    segment: &Outgoing,
    options: &OptionsOut<'_>,
    payload: Payload,
    checks: Checks,
) -> usize {
    if let &Addresses::V4 { local, remote } = addresses
        && payload.len == 0
        && segment.fragment_id.is_none()
        && let Some(written) = syn::emit(out, link, (local, remote), segment, options, checks)
    {
        return written;
    }
    by_headers(out, link, addresses, segment, options, payload, checks)
}

/// Either version, any options, header by header.
fn by_headers(
    out: &mut [u8],
    link: &Link,
    addresses: &Addresses,
    segment: &Outgoing,
    options: &OptionsOut<'_>,
    payload: Payload,
    checks: Checks,
) -> usize {
    let end = headers_len(addresses, options) + payload.len;
    if end > out.len() || end > FRAME_MAX {
        return 0;
    }
    let list_len = options.len();
    let segment_len = tcp::HEADER + list_len + payload.len;
    let (front, packet) = out.split_at_mut(ethernet::HEADER);
    front.copy_from_slice(&link.header(addresses.ether_type()));
    let class = segment.traffic_class;
    let Some(start) = ip::write(packet, addresses, ip::TCP, class, segment_len, segment.fragment_id) else {
        return 0;
    };
    if addresses.is_v4() && !checks.ip {
        packet[10..12].fill(0);
    }
    let headers = &mut packet[start..start + tcp::HEADER + list_len];
    options.write(&mut headers[tcp::HEADER..]);
    let Some(head) = headers.first_chunk_mut::<{ tcp::HEADER }>() else { return 0 };
    put(head, 0, segment.local_port.to_be_bytes());
    put(head, 2, segment.remote_port.to_be_bytes());
    put(head, 4, segment.seq.0.to_be_bytes());
    put(head, 8, segment.ack.0.to_be_bytes());
    put(head, 12, [(((tcp::HEADER + list_len) / 4) << 4) as u8, segment.flags.0]);
    put(head, 14, segment.window.to_be_bytes());
    // The checksum, and no urgent data.
    put(head, tcp::CHECKSUM_AT, [0; 4]);
    if checks.tcp {
        let sum = checksum::sum_words([payload.sum], checksum::sum(headers, 0));
        let checksum = checksum::header(addresses.pseudo(ip::TCP, segment_len), sum);
        headers[tcp::CHECKSUM_AT..][..2].copy_from_slice(&checksum.to_be_bytes());
    }
    end
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::arbitrary::{checks, offer, segment};

    proptest! {
        #[test]
        fn both_ways_write_the_same_syn(
            addresses: (u32, u32),
            segment in segment(),
            options in offer(),
            checks in checks(),
        ) {
            let (link, mut here, mut there) = (Link::default(), [0; 100], [0; 100]);
            let written = syn::emit(&mut here, &link, addresses, &segment, &options, checks);
            let addresses = Addresses::V4 { local: addresses.0, remote: addresses.1 };
            let other = by_headers(&mut there, &link, &addresses, &segment, &options, Payload::NONE, checks);
            prop_assert_eq!(written, Some(other));
            prop_assert_eq!(here, there);
        }
    }
}
