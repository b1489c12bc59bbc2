//! What a device may leave to others, in software: a super-frame is cut into its segments, and segments that follow one another are found,
//! to leave as one super-frame.
//!
//! A frame that is neither TCP nor UDP, or whose lengths do not agree, has nothing to be done here.

mod join;

use anywire_packet::layout::Layout;
use anywire_tcp::{Checksum, Meta};

pub(crate) use self::join::{FRAMES_MAX, Run};

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
        each(scratch, Meta { checksum: Checksum::Partial, segment_bytes: 0, ..Meta::default() });
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

/// Where the packet starts in its frame.
const IP_AT: usize = crate::device::ETHERNET_BYTES;
const FIN: u8 = 1;
const PSH: u8 = 8;
const ACK: u8 = 16;
const ECE: u8 = 64;
const CWR: u8 = 128;

#[cfg(test)]
mod tests;
