//! The ways from one loop to the others that share a device: a ring each way, with frames that belong to another loop, or that leave by
//! the queue of another.

use std::sync::Arc;

use anywire_tcp::{Checksum, Frames, Meta};

use super::directory::Shards;
use super::steering::Number;
use crate::mesh::link::{End, link};
use crate::mesh::mailbox::Mailbox;

/// See the module's documentation.
pub(super) struct Rings {
    own: Arc<Mailbox>,
    /// Each with the number of the loop at its other end.
    ends: Vec<(Number, End)>,
    /// The one that is read first.
    first: usize,
    /// A frame with what is known of it behind it.
    scratch: Vec<u8>,
}

/// What is to become of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    /// It has arrived for the other loop.
    In,
    /// The other loop is to send it.
    Out,
}

impl Rings {
    pub(super) fn new(own: Arc<Mailbox>) -> Self {
        Self { own, ends: Vec::new(), first: 0, scratch: Vec::new() }
    }

    /// Takes in the rings that others have laid, and throws those away whose other end has gone.
    pub(super) fn look_after(&mut self) {
        if self.own.has_mail() {
            for end in self.own.take_mail() {
                end.attach(self.own.number, &self.own.notifier);
                let Some(far) = end.far_number() else { continue };
                self.ends.push((far, end));
            }
        }
        for (_, end) in &mut self.ends {
            if end.is_full && end.writer.room(FRAME_BYTES) >= Frames::BATCH {
                end.is_full = false;
            }
        }
        self.ends.retain(|(_, end)| !end.is_over());
    }

    /// Writes a frame to another loop, which sees it after [`publish`](Self::publish). False if there is no room, or no such loop.
    pub(super) fn push(
        &mut self,
        shards: &Shards,
        to: Number,
        direction: Direction,
        frame: &[u8],
        meta: Meta,
    ) -> bool {
        let Some(place) = self.to(shards, to) else { return false };
        self.scratch.clear();
        self.scratch.extend_from_slice(frame);
        self.scratch.extend(trailer(direction, meta));
        let (_, end) = &mut self.ends[place];
        let is_written = end.writer.push(&self.scratch);
        end.has_unpublished |= is_written;
        is_written
    }

    /// How many frames of usual length another loop has room for.
    pub(super) fn room(&self, to: Number) -> usize {
        // Without a ring there will be one as soon as something is sent.
        let ring = self.ends.iter().find(|(number, end)| *number == to && !end.writer.is_closed());
        ring.map_or(Frames::BATCH, |(_, end)| end.writer.room(FRAME_BYTES).min(Frames::BATCH))
    }

    /// Whether more than half of the memory of a ring is free, so that frames which all loops get do not crowd out segments.
    pub(super) fn is_half_empty(&self, to: Number) -> bool {
        let ring = self.ends.iter().find(|(number, _)| *number == to);
        ring.is_none_or(|(_, end)| end.writer.room(FRAME_BYTES) > RING_BYTES / FRAME_BYTES / 2)
    }

    /// Shows the others what was written.
    pub(super) fn publish(&mut self) {
        for (_, end) in self.ends.iter_mut().filter(|(_, end)| end.has_unpublished) {
            end.publish();
            end.is_full |= end.writer.room(FRAME_BYTES) < Frames::BATCH;
        }
    }

    /// Reads frames while both batches have room for the longest: those that have arrived, and those that are to leave. Says whether
    /// something is left.
    pub(super) fn read(&mut self, arrived: &mut Frames, leaving: &mut Frames) -> bool {
        let count = self.ends.len();
        // Each time another one is the first, so that a busy one does not keep the others waiting.
        self.first = if self.first + 1 < count { self.first + 1 } else { 0 };
        let (later, sooner) = self.ends.split_at_mut(self.first);
        for (_, end) in sooner.iter_mut().chain(later) {
            loop {
                if !arrived.has_room_for(FRAME_BYTES_MAX) || !leaving.has_room_for(FRAME_BYTES_MAX) {
                    return true;
                }
                let count = end.read(1, |record| {
                    let Some((frame, direction, meta)) = parts(record) else { return };
                    let into = if direction == Direction::In { &mut *arrived } else { &mut *leaving };
                    if into.push(frame) && meta != Meta::default() {
                        into.describe_last(meta);
                    }
                });
                if count == 0 {
                    break;
                }
            }
        }
        false
    }

    /// Its owner is about to sleep: whether it had better not.
    pub(super) fn has_event(&self) -> bool {
        self.own.has_mail() || self.ends.iter().any(|(_, end)| end.has_event(Frames::BATCH, FRAME_BYTES))
    }

    /// The ring to a loop, which is laid if there is none.
    fn to(&mut self, shards: &Shards, to: Number) -> Option<usize> {
        let known = self.ends.iter().position(|(number, end)| *number == to && !end.writer.is_closed());
        if known.is_some() {
            return known;
        }
        let mailbox = shards.mailbox(to)?;
        let (near, far) = link(RING_BYTES);
        near.attach(self.own.number, &self.own.notifier);
        mailbox.send(far).then(|| {
            self.ends.push((to, near));
            self.ends.len() - 1
        })
    }
}

/// What is known of a frame beside its bytes.
fn trailer(direction: Direction, meta: Meta) -> [u8; TRAILER_BYTES] {
    let checksum = match meta.checksum {
        Checksum::Unchecked => 0,
        Checksum::Verified => 1,
        Checksum::Partial => 2,
    };
    let [high, low] = meta.segment_bytes.to_be_bytes();
    let flags = u8::from(direction == Direction::Out) | u8::from(meta.is_answered) << 1;
    [flags, checksum, high, low]
}

fn parts(record: &[u8]) -> Option<(&[u8], Direction, Meta)> {
    let (frame, &[flags, checksum, high, low]) = record.split_last_chunk()?;
    let checksum = match checksum {
        0 => Checksum::Unchecked,
        1 => Checksum::Verified,
        _ => Checksum::Partial,
    };
    let direction = if flags & 1 == 0 { Direction::In } else { Direction::Out };
    let segment_bytes = u16::from_be_bytes([high, low]);
    Some((frame, direction, Meta { checksum, segment_bytes, is_answered: flags & 2 != 0 }))
}

const TRAILER_BYTES: usize = 4;

/// Memory of each direction of a ring: some 340 frames of the usual length, or seven of the longest.
const RING_BYTES: usize = 512 << 10;

/// A frame of the usual length.
const FRAME_BYTES: usize = 1514 + TRAILER_BYTES;

/// The longest frame, a super-frame with a tag of a VLAN.
const FRAME_BYTES_MAX: usize = 14 + 4 + u16::MAX as usize;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_of_a_frame_goes_with_it() {
        for checksum in [Checksum::Unchecked, Checksum::Verified, Checksum::Partial] {
            for direction in [Direction::In, Direction::Out] {
                let meta =
                    Meta { checksum, segment_bytes: 1448, is_answered: checksum == Checksum::Verified };
                let record = [&b"frame"[..], &trailer(direction, meta)].concat();
                assert_eq!(parts(&record), Some((&b"frame"[..], direction, meta)));
            }
        }
        assert_eq!(parts(&[1, 2, 3]), None);
    }
}
