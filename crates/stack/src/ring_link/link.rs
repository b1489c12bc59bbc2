//! A link between two loops: one ring per direction, and the notification state of both owners.
//!
//! No wake-up is sent in vain: an owner announces that it sleeps, and then looks for frames once more. A sender first
//! shows its frames and then asks whether the other sleeps. Between the two steps of each there is a fence, so that
//! at least one of them sees the other. The test `no_order_of_steps_leaves_an_end_asleep` compiles this file against
//! loom.

use std::task::Waker;

use crate::sync::ring::{self, Reader, Writer};
use crate::sync::{Arc, AtomicBool, AtomicU16, Mutex, OnceLock, Ordering, PoisonError, fence};

/// Wakes the task that drives a loop's device, if it sleeps.
#[derive(Debug, Default)]
pub(crate) struct Notifier {
    sleeps: AtomicBool,
    owner: Mutex<Option<Waker>>,
}

impl Notifier {
    /// The owner is about to sleep, and looks once more after this.
    pub(crate) fn announce_sleep(&self, owner: &Waker) {
        let mut place = self.owner.lock().unwrap_or_else(PoisonError::into_inner);
        place.get_or_insert_with(|| owner.clone()).clone_from(owner);
        drop(place);
        // A swap here and below, so that all changes have one order, even if two threads notify at a time. Loom lets a plain
        // store come before a swap that has read the value before it.
        self.sleeps.swap(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    pub(crate) fn cancel_sleep(&self) {
        self.sleeps.swap(false, Ordering::Relaxed);
    }

    /// Wakes the owner if it sleeps. Call this after the frames were published.
    pub(crate) fn notify(&self) {
        fence(Ordering::SeqCst);
        if self.sleeps.load(Ordering::Relaxed) && self.sleeps.swap(false, Ordering::Relaxed) {
            let owner = self.owner.lock().unwrap_or_else(PoisonError::into_inner).clone();
            if let Some(owner) = owner {
                owner.wake();
            }
        }
    }
}

/// What both ends of a link see of one of them, beside the rings.
#[derive(Debug, Default)]
struct Side {
    /// Of the endpoint that has this end; none before there is one.
    notifier: OnceLock<Arc<Notifier>>,
    /// The number of that endpoint, or 0.
    number: AtomicU16,
    /// It waits for the other side to take something out.
    is_short_of_room: AtomicBool,
}

/// One end of a link.
#[derive(Debug)]
pub(crate) struct End {
    pub(crate) writer: Writer,
    reader: Reader,
    /// There was no room for a batch, and its owner wants to be woken once there is.
    pub(crate) is_full: bool,
    /// Something was written that the other side has not been told of.
    pub(crate) has_unpublished: bool,
    side: Which,
}

/// Which end it is. Dropped after the rings, so that who is woken by it finds them closed.
#[derive(Debug)]
struct Which {
    sides: Arc<[Side; 2]>,
    own: usize,
}

/// Both ends of a new link.
pub(crate) fn link(ring_bytes: usize) -> (End, End) {
    let (one_writer, other_reader) = ring::pair(ring_bytes);
    let (other_writer, one_reader) = ring::pair(ring_bytes);
    let sides: Arc<[Side; 2]> = Arc::default();
    let end = |writer, reader, own| End {
        writer,
        reader,
        is_full: false,
        has_unpublished: false,
        side: Which { sides: Arc::clone(&sides), own },
    };
    (end(one_writer, one_reader, 0), end(other_writer, other_reader, 1))
}

impl End {
    /// It belongs to the endpoint of this number from now on.
    pub(crate) fn attach(&self, number: u16, notifier: &Arc<Notifier>) {
        let side = &self.side.sides[self.side.own];
        side.number.store(number, Ordering::Relaxed);
        // An end is attached once.
        let _ = side.notifier.set(Arc::clone(notifier));
    }

    /// The number of the endpoint at the other end, if there is one yet.
    pub(crate) fn far_number(&self) -> Option<u16> {
        let number = self.side.far().number.load(Ordering::Relaxed);
        (number != 0).then_some(number)
    }

    /// Takes up to `frames_max` frames out.
    #[inline]
    pub(crate) fn read(&mut self, frames_max: usize, take: impl FnMut(&[u8])) -> usize {
        let count = self.reader.read(frames_max, take);
        if count > 0 {
            fence(Ordering::SeqCst);
            let far = self.side.far();
            if far.is_short_of_room.load(Ordering::Relaxed)
                && far.is_short_of_room.swap(false, Ordering::Relaxed)
            {
                self.side.notify();
            }
        }
        count
    }

    /// Shows the written frames to the other side.
    #[inline]
    pub(crate) fn publish(&mut self) {
        self.has_unpublished = false;
        self.writer.publish();
        self.side.notify();
    }

    /// Whether nothing will ever come again: the other end was dropped, and all it has sent was taken.
    pub(crate) fn is_over(&self) -> bool {
        // The order matters: frames that were sent before the drop are seen then.
        self.reader.is_closed() && self.reader.is_empty()
    }

    /// Its owner is about to sleep: whether it had better not. `room_min` is how much room it waits for, in
    /// frames of `frame_bytes`, if there is less.
    pub(crate) fn has_event(&self, room_min: usize, frame_bytes: usize) -> bool {
        self.has_room_again(room_min, frame_bytes) || self.has_arrivals()
    }

    /// The same for an owner that reads nothing for now.
    pub(crate) fn has_room_again(&self, room_min: usize, frame_bytes: usize) -> bool {
        if !self.is_full {
            return false;
        }
        let side = &self.side.sides[self.side.own];
        side.is_short_of_room.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        self.writer.room(frame_bytes) >= room_min
    }

    /// Whether there is something to read, or will never be again.
    fn has_arrivals(&self) -> bool {
        !self.reader.is_empty() || self.reader.is_closed()
    }
}

impl Which {
    fn far(&self) -> &Side {
        &self.sides[1 - self.own]
    }

    fn notify(&self) {
        let far = self.far();
        let notifier = far.notifier.get().or_else(|| {
            // The far end may have been attached just now; see the module's documentation.
            fence(Ordering::SeqCst);
            far.notifier.get()
        });
        if let Some(notifier) = notifier {
            notifier.notify();
        }
    }
}

impl Drop for Which {
    fn drop(&mut self) {
        self.notify();
    }
}
