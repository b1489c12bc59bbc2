//! What a device may leave to others, in software: a checksum is finished, a super-frame is cut into its segments, and segments that
//! follow one another are found, to leave as one super-frame.
//!
//! A frame that is neither TCP nor UDP, or whose lengths do not agree, has nothing to be done here.

mod join;

use anywire_sys::checksum::ones_complement_sum;
use anywire_tcp::{Checksum, Meta};

pub(crate) use self::join::{FRAMES_MAX, Run};

/// Where the parts of a packet of TCP or UDP lie in its frame: all in bytes from the start of the frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) is_v4: bool,
    pub(crate) is_tcp: bool,
    /// The header of TCP or UDP.
    pub(crate) transport_at: usize,
    pub(crate) payload_at: usize,
    /// Behind the packet. What is there is padding.
    pub(crate) end: usize,
}

impl Layout {
    /// That of a frame, if it holds all of a packet of TCP or UDP, over IPv4 or IPv6 without extensions.
    pub(crate) fn of(frame: &[u8]) -> Option<Self> {
        let (is_v4, transport_at, end, protocol) = match two(frame, 12)? {
            ETHERTYPE_IPV4 => {
                let header_bytes = usize::from(frame.get(IP_AT)? & 15) * 4;
                // More fragments, or an offset.
                if header_bytes < 20 || two(frame, IP_AT + 6)? & 0x3fff != 0 {
                    return None;
                }
                let end = IP_AT + usize::from(two(frame, IP_AT + 2)?);
                (true, IP_AT + header_bytes, end, *frame.get(IP_AT + 9)?)
            }
            ETHERTYPE_IPV6 => {
                let end = IP_AT + 40 + usize::from(two(frame, IP_AT + 4)?);
                (false, IP_AT + 40, end, *frame.get(IP_AT + 6)?)
            }
            _ => return None,
        };
        let (is_tcp, payload_at) = match protocol {
            TCP => (true, transport_at + usize::from(frame.get(transport_at + 12)? >> 4) * 4),
            UDP => (false, transport_at + 8),
            _ => return None,
        };
        let is_whole = payload_at >= transport_at + if is_tcp { 20 } else { 8 };
        (is_whole && payload_at <= end && end <= frame.len()).then_some(Self {
            is_v4,
            is_tcp,
            transport_at,
            payload_at,
            end,
        })
    }

    /// Where the checksum is.
    pub(crate) const fn checksum_at(&self) -> usize {
        self.transport_at + if self.is_tcp { 16 } else { 6 }
    }

    /// The sum of the pseudo header (RFC 9293 3.1, RFC 8200 8.1) of a packet with so many bytes from the header of TCP or UDP on.
    fn pseudo_sum(&self, frame: &[u8], transport_bytes: usize) -> u64 {
        let addresses =
            if self.is_v4 { &frame[IP_AT + 12..IP_AT + 20] } else { &frame[IP_AT + 8..IP_AT + 40] };
        let protocol = u16::from(if self.is_tcp { TCP } else { UDP });
        let around = u64::from(protocol.swap_bytes()) + u64::from((transport_bytes as u16).swap_bytes());
        ones_complement_sum(addresses, around)
    }

    /// Whether the checksum is a partial one: the sum of the pseudo header alone.
    pub(crate) fn is_partial(&self, frame: &[u8]) -> bool {
        let sum = fold(self.pseudo_sum(frame, self.end - self.transport_at));
        frame[self.checksum_at()..].starts_with(&sum.to_le_bytes())
    }

    /// Makes the checksum a partial one: the sum of the pseudo header alone. `headers` reach up to the payload.
    pub(crate) fn leave_partial(&self, headers: &mut [u8], transport_bytes: usize) {
        let sum = fold(self.pseudo_sum(headers, transport_bytes));
        headers[self.checksum_at()..][..2].copy_from_slice(&sum.to_le_bytes());
    }

    /// Writes how long the packet is, with so many bytes from the header of TCP or UDP on; with IPv4, the header's checksum too.
    pub(crate) fn set_length(&self, headers: &mut [u8], transport_bytes: usize) {
        if self.is_v4 {
            let length = (self.transport_at - IP_AT + transport_bytes) as u16;
            headers[IP_AT + 2..IP_AT + 4].copy_from_slice(&length.to_be_bytes());
            headers[IP_AT + 10..IP_AT + 12].fill(0);
            let sum = ones_complement_sum(&headers[IP_AT..self.transport_at], 0);
            headers[IP_AT + 10..IP_AT + 12].copy_from_slice(&(!fold(sum)).to_le_bytes());
        } else {
            headers[IP_AT + 4..IP_AT + 6].copy_from_slice(&(transport_bytes as u16).to_be_bytes());
        }
    }
}

/// Finishes the checksum of TCP or UDP, whatever its field holds. False if the frame has none.
pub(crate) fn finish(frame: &mut [u8]) -> bool {
    let Some(layout) = Layout::of(frame) else { return false };
    let at = layout.checksum_at();
    frame[at..at + 2].fill(0);
    let pseudo = layout.pseudo_sum(frame, layout.end - layout.transport_at);
    let checksum = !fold(ones_complement_sum(&frame[layout.transport_at..layout.end], pseudo));
    // Zero would say that UDP has none (RFC 768).
    let checksum = if checksum == 0 && !layout.is_tcp { u16::MAX } else { checksum };
    frame[at..at + 2].copy_from_slice(&checksum.to_le_bytes());
    true
}

/// Finishes a checksum of any protocol, whose field holds the sum of its pseudo header. False if the places are not in the frame.
pub(crate) fn finish_at(frame: &mut [u8], start: usize, field_at: usize) -> bool {
    if frame.len() < field_at + 2 || field_at < start {
        return false;
    }
    let checksum = !fold(ones_complement_sum(&frame[start..], 0));
    frame[field_at..field_at + 2].copy_from_slice(&checksum.to_le_bytes());
    true
}

/// Cuts a super-frame into its segments, with [partial](Checksum::Partial) checksums. `scratch` is memory for one of them. A frame of one
/// segment comes out as it is.
pub(crate) fn segments(frame: &[u8], meta: Meta, scratch: &mut Vec<u8>, mut each: impl FnMut(&[u8], Meta)) {
    let layout = Layout::of(frame).filter(|layout| layout.is_tcp && meta.segment_bytes > 0);
    let Some(layout) = layout else { return each(frame, Meta { segment_bytes: 0, ..meta }) };
    let (headers, payload) = (&frame[..layout.payload_at], &frame[layout.payload_at..layout.end]);
    let segment_bytes = usize::from(meta.segment_bytes);
    let count = payload.len().div_ceil(segment_bytes).max(1);
    for number in 0..count {
        let start = number * segment_bytes;
        let part = &payload[start..payload.len().min(start + segment_bytes)];
        scratch.clear();
        scratch.extend_from_slice(headers);
        let transport_bytes = layout.payload_at - layout.transport_at + part.len();
        add(scratch, layout.transport_at + 4, start as u32);
        let flags = &mut scratch[layout.transport_at + 13];
        // What is said at the end of a text, and at the start of one.
        *flags &= !(if number + 1 < count { FIN | PSH } else { 0 } | if number > 0 { CWR } else { 0 });
        if layout.is_v4 {
            let id = two(scratch, IP_AT + 4).unwrap_or(0).wrapping_add(number as u16);
            scratch[IP_AT + 4..IP_AT + 6].copy_from_slice(&id.to_be_bytes());
        }
        layout.set_length(scratch, transport_bytes);
        layout.leave_partial(scratch, transport_bytes);
        scratch.extend_from_slice(part);
        each(scratch, Meta { checksum: Checksum::Partial, segment_bytes: 0 });
    }
}

/// Adds to a number of 32 bits that stands in a frame.
fn add(frame: &mut [u8], at: usize, more: u32) {
    if let Some(field) = frame.get_mut(at..).and_then(|rest| rest.first_chunk_mut()) {
        *field = u32::from_be_bytes(*field).wrapping_add(more).to_be_bytes();
    }
}

/// A number of 16 bits in a frame.
fn two(frame: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*frame.get(at..)?.first_chunk()?))
}

/// A number of 32 bits in a frame.
fn four(frame: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(*frame.get(at..)?.first_chunk()?))
}

/// A sum of little-endian words in 16 bits, whose bytes are those of the checksum.
const fn fold(sum: u64) -> u16 {
    let sum = (sum.wrapping_add(sum.rotate_left(32)) >> 32) as u32;
    (sum.wrapping_add(sum.rotate_left(16)) >> 16) as u16
}

const ETHERTYPE_IPV4: u16 = 0x0800;
const ETHERTYPE_IPV6: u16 = 0x86dd;
/// Where the packet starts in its frame.
const IP_AT: usize = crate::device::ETHERNET_BYTES;
const TCP: u8 = 6;
const UDP: u8 = 17;
const FIN: u8 = 1;
const PSH: u8 = 8;
const ACK: u8 = 16;
const ECE: u8 = 64;
const CWR: u8 = 128;

#[cfg(test)]
mod tests;
