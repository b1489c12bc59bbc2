//! Segments that follow one another in a batch, to leave as one super-frame.

use anywire_packet::layout::Layout;
use anywire_tcp::{Checksum, Frames};

use super::{ACK, ECE, FIN, IP_AT, PSH, four, two};

/// Frames of a batch that are the segments of one super-frame: headers that differ in nothing that the cut does not restore.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Run {
    /// How many frames it is, from the first one on.
    pub(crate) count: usize,
    /// That of the first.
    pub(crate) layout: Layout,
    /// Bytes of payload in all of them.
    pub(crate) payload_bytes: usize,
    /// Bytes of payload in each but the last.
    pub(crate) segment_bytes: usize,
    /// Of the last one: what is said at the end of a text.
    flags: u8,
}

impl Run {
    /// The run that begins with frame `first`, of up to `frame_bytes_max` bytes as one super-frame. None if its checksum is not a partial
    /// one, so that it must leave as it is. A frame that nothing may follow is a run of its own.
    pub(crate) fn starting_at(frames: &Frames, first: usize, frame_bytes_max: usize) -> Option<Self> {
        let (head, meta) = (frames.get(first)?, frames.meta(first));
        if meta.checksum != Checksum::Partial {
            return None;
        }
        let layout = Layout::of(head)?;
        let payload_bytes = layout.end - layout.payload_at;
        let flags = if layout.is_tcp { head[layout.transport_at + 13] } else { 0 };
        let mut run = Self { count: 1, layout, payload_bytes, segment_bytes: payload_bytes, flags };
        if meta.segment_bytes > 0 {
            run.segment_bytes = usize::from(meta.segment_bytes);
            return Some(run);
        }
        if payload_bytes == 0 || !may_be_followed(head, &layout) {
            return Some(run);
        }
        let bytes_max = frame_bytes_max.min(IP_AT + usize::from(u16::MAX));
        while run.count < FRAMES_MAX
            && !run.is_ended()
            && let Some(next) = frames.get(first + run.count)
            && frames.meta(first + run.count) == meta
            && let Some(more) = run.continued_by(head, next)
            && layout.payload_at + run.payload_bytes + more <= bytes_max
        {
            run.count += 1;
            run.payload_bytes += more;
            run.flags = next[layout.transport_at + 13];
        }
        Some(run)
    }

    /// Writes the headers of the super-frame to `headers`, which holds those of the first frame.
    pub(crate) fn write_headers(&self, headers: &mut [u8]) {
        let layout = &self.layout;
        let transport_bytes = layout.payload_at - layout.transport_at + self.payload_bytes;
        if layout.is_tcp {
            headers[layout.transport_at + 13] |= self.flags;
        }
        layout.set_length(headers, transport_bytes);
        layout.leave_partial(headers, transport_bytes);
    }

    /// Whether its last segment is shorter than the others, or ends the text.
    const fn is_ended(&self) -> bool {
        self.payload_bytes < self.count * self.segment_bytes || self.flags & !(PSH | ECE) != ACK
    }

    /// The bytes of payload of `next`, if it is the segment behind those of the run, and its headers are those of `head` otherwise.
    fn continued_by(&self, head: &[u8], next: &[u8]) -> Option<usize> {
        let layout = &self.layout;
        let its = Layout::of(next)?;
        let length = its.end - its.payload_at;
        if (its.transport_at, its.payload_at, its.is_tcp) != (layout.transport_at, layout.payload_at, true)
            || length == 0
            || length > self.segment_bytes
        {
            return None;
        }
        let at = layout.transport_at;
        let flags = next[at + 13];
        let same = |from: usize, to: usize| head[from..to] == next[from..to];
        let same_network = if layout.is_v4 {
            same(0, IP_AT + 2) && same(IP_AT + 4, IP_AT + 10) && same(IP_AT + 12, at)
        } else {
            same(0, IP_AT + 4) && same(IP_AT + 6, at)
        };
        let is_next = same_network
            && same(at, at + 4)
            && four(next, at + 4)
                == four(head, at + 4).map(|seq| seq.wrapping_add(self.payload_bytes as u32))
            && same(at + 8, at + 13)
            && flags & !(PSH | FIN) == head[at + 13] & !PSH
            && same(at + 14, at + 16)
            && same(at + 18, layout.payload_at);
        is_next.then_some(length)
    }
}

/// Whether another segment may stand behind this one in a super-frame. Each packet of IPv4 must have its number free, so none may be
/// fragmented on its way (RFC 6864 4.1).
fn may_be_followed(head: &[u8], layout: &Layout) -> bool {
    let is_atomic = !layout.is_v4 || two(head, IP_AT + 6) == Some(DO_NOT_FRAGMENT);
    layout.is_tcp && head[layout.transport_at + 13] & !(PSH | ECE) == ACK && is_atomic
}

/// Frames of a run at most: a batch.
pub(crate) const FRAMES_MAX: usize = Frames::BATCH;

const DO_NOT_FRAGMENT: u16 = 0x4000;
