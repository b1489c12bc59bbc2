//! The ways from one loop to the others that share a device: rings with frames that belong to another loop, and rings with frames that
//! leave by the queue of another. Each kind has rings of its own, so what has no room to leave holds up nothing that has arrived.

use std::sync::Arc;

use anywire_tcp::{Checksum, Frames, Meta};

use super::directory::Shards;
use super::peer::Peer;
use super::steering::LoopNumber;
use crate::ring_link::{End, link};

/// The rings of one kind. See the module's documentation.
pub(super) struct Rings {
    own: Arc<Peer>,
    direction: Direction,
    /// Each with the number of the loop at its other end.
    ends: Vec<(LoopNumber, End)>,
    /// The one that is read first.
    first: usize,
    /// A frame with what is known of it behind it.
    scratch: Vec<u8>,
}

/// What is to become of the frames of a ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    /// The frames have arrived for the loop that reads the ring.
    In,
    /// The loop that reads the ring is to send the frames.
    Out,
}

impl Rings {
    pub(super) fn new(own: Arc<Peer>, direction: Direction) -> Self {
        Self { own, direction, ends: Vec::new(), first: 0, scratch: Vec::new() }
    }

    /// Takes in the rings that others have laid, and throws those away whose other end has gone.
    pub(super) fn look_after(&mut self) {
        let mailbox = self.own.mailbox(self.direction);
        if mailbox.has_mail() {
            for end in mailbox.take_mail() {
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
    pub(super) fn push(&mut self, shards: &Shards, to: LoopNumber, frame: &[u8], meta: Meta) -> bool {
        let Some(place) = self.to(shards, to) else { return false };
        self.scratch.clear();
        self.scratch.extend_from_slice(frame);
        self.scratch.extend(trailer(meta));
        let (_, end) = &mut self.ends[place];
        let is_written = end.writer.push(&self.scratch);
        end.has_unpublished |= is_written;
        is_written
    }

    /// How many frames of usual length another loop has room for.
    pub(super) fn room(&self, to: LoopNumber) -> usize {
        // Without a ring there will be one as soon as something is sent.
        let ring = self.ends.iter().find(|(number, end)| *number == to && !end.writer.is_closed());
        ring.map_or(Frames::BATCH, |(_, end)| end.writer.room(FRAME_BYTES).min(Frames::BATCH))
    }

    /// A mark that changes each time that another loop takes something of what it was shown; none if it has taken all of that.
    pub(super) fn progress(&self, to: LoopNumber) -> Option<usize> {
        let (_, end) = self.ends.iter().find(|(number, end)| *number == to && !end.writer.is_closed())?;
        (!end.writer.is_empty()).then(|| end.writer.progress())
    }

    /// Whether more than half of the memory of a ring is free, so that frames which all loops get do not crowd out segments.
    pub(super) fn is_half_empty(&self, to: LoopNumber) -> bool {
        let ring = self.ends.iter().find(|(number, _)| *number == to);
        ring.is_none_or(|(_, end)| end.writer.room(FRAME_BYTES) > RING_BYTES / FRAME_BYTES / 2)
    }

    /// Shows the others what was written. Whether each of them has room for a batch of the longest frames again.
    pub(super) fn publish(&mut self) -> bool {
        let mut have_room = true;
        for (_, end) in self.ends.iter_mut().filter(|(_, end)| end.has_unpublished) {
            end.publish();
            let room = end.writer.room(FRAME_BYTES);
            end.is_full |= room < Frames::BATCH;
            have_room &= room * FRAME_BYTES >= BATCH_BYTES;
        }
        have_room
    }

    /// Reads frames while the batch has room for the longest. Whether something may be left.
    pub(super) fn read(&mut self, frames: &mut Frames) -> bool {
        let count = self.ends.len();
        // Each time another one is the first, so that a busy one does not keep the others waiting.
        self.first = if self.first + 1 < count { self.first + 1 } else { 0 };
        let (later, sooner) = self.ends.split_at_mut(self.first);
        for (_, end) in sooner.iter_mut().chain(later) {
            loop {
                if !frames.has_room_for(FRAME_BYTES_MAX) {
                    return true;
                }
                let count = end.read(1, |record| {
                    if let Some((frame, meta)) = parts(record)
                        && frames.push(frame)
                        && meta != Meta::default()
                    {
                        frames.describe_last(meta);
                    }
                });
                if count == 0 {
                    break;
                }
            }
        }
        false
    }

    /// Its owner is about to sleep: whether it had better not. `may_read` says that it would take in what has come.
    pub(super) fn has_event(&self, may_read: bool) -> bool {
        if !may_read {
            return self.ends.iter().any(|(_, end)| end.has_room_again(Frames::BATCH, FRAME_BYTES));
        }
        self.own.mailbox(self.direction).has_mail()
            || self.ends.iter().any(|(_, end)| end.has_event(Frames::BATCH, FRAME_BYTES))
    }

    /// The ring to a loop, which is laid if there is none.
    fn to(&mut self, shards: &Shards, to: LoopNumber) -> Option<usize> {
        let known = self.ends.iter().position(|(number, end)| *number == to && !end.writer.is_closed());
        if known.is_some() {
            return known;
        }
        let peer = shards.peer(to)?;
        let (near, far) = link(RING_BYTES);
        near.attach(self.own.number, &self.own.notifier);
        peer.mailbox(self.direction).send(far).then(|| {
            self.ends.push((to, near));
            self.ends.len() - 1
        })
    }
}

/// What is known of a frame beside its bytes.
fn trailer(meta: Meta) -> [u8; TRAILER_BYTES] {
    let checksum = match meta.checksum {
        Checksum::Unchecked => 0,
        Checksum::Verified => 1,
        Checksum::Partial => 2,
    };
    let [high, low] = meta.segment_bytes.to_be_bytes();
    [u8::from(meta.is_answered), checksum, high, low]
}

fn parts(record: &[u8]) -> Option<(&[u8], Meta)> {
    let (frame, &[is_answered, checksum, high, low]) = record.split_last_chunk()?;
    let checksum = match checksum {
        0 => Checksum::Unchecked,
        1 => Checksum::Verified,
        _ => Checksum::Partial,
    };
    let segment_bytes = u16::from_be_bytes([high, low]);
    Some((frame, Meta { checksum, segment_bytes, is_answered: is_answered != 0 }))
}

const TRAILER_BYTES: usize = 4;

/// Memory of a ring: some 340 frames of the usual length, or seven of the longest.
const RING_BYTES: usize = 512 << 10;

/// What a batch of the longest frames takes: as much as the batch of a TAP device has.
pub(super) const BATCH_BYTES: usize = 4 * (64 << 10);

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
            for is_answered in [false, true] {
                let meta = Meta { checksum, segment_bytes: 1448, is_answered };
                let record = [&b"frame"[..], &trailer(meta)].concat();
                assert_eq!(parts(&record), Some((&b"frame"[..], meta)));
            }
        }
        assert_eq!(parts(&[1, 2, 3]), None);
    }
}
