//! One stream: how far both of its halves are, and its windows (RFC 9113 sections 5.1 and 5.2).

use std::cell::Cell;
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};
use std::thread::LocalKey;

use super::priority::{Priority, Ready};
use super::window::InWindow;
use super::{Code, MessageFault, frame};
use crate::Method;
use crate::free_list::{self, FreeList, Reused};

/// The number of a stream. A client's are odd.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub(super) u32);

impl StreamId {
    /// The number itself.
    pub fn get(self) -> u32 {
        self.0
    }
}

/// A map of one connection's streams, in which a look-up costs a multiplication.
pub type StreamMap<V> = HashMap<StreamId, V, BuildHasherDefault<IdHasher>>;

/// Hashes a [`StreamId`] without its lowest bit, which all streams of one end have in common.
///
/// It has no key. A peer may skip numbers (RFC 9113 section 5.1.1), and so choose which of its streams collide. That costs little, because
/// a connection has few of them at once ([`Limits::streams`](super::Limits::streams)).
#[derive(Debug, Default)]
pub struct IdHasher(u64);

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0 << 8 | u64::from(*byte);
        }
    }

    #[inline]
    fn write_u32(&mut self, id: u32) {
        // The map takes its place from the low bits and a mark from the high ones.
        self.0 = u64::from(id >> 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

/// The streams of a connection. Without one it has no memory for them: the map goes to a connection that is busy.
#[derive(Debug, Default)]
pub(super) struct Streams {
    busy: Option<Box<Map>>,
}

#[derive(Debug, Default)]
struct Map(StreamMap<Stream>);

impl Streams {
    #[inline]
    pub(super) fn get(&self, id: &StreamId) -> Option<&Stream> {
        self.busy.as_ref()?.0.get(id)
    }

    #[inline]
    pub(super) fn get_mut(&mut self, id: &StreamId) -> Option<&mut Stream> {
        self.busy.as_mut()?.0.get_mut(id)
    }

    pub(super) fn contains_key(&self, id: &StreamId) -> bool {
        self.get(id).is_some()
    }

    #[inline]
    pub(super) fn insert(&mut self, id: StreamId, stream: Stream) -> &mut Stream {
        // One that waits is empty.
        let map = self.busy.get_or_insert_with(Map::take);
        map.0.entry(id).insert_entry(stream).into_mut()
    }

    #[inline]
    pub(super) fn remove(&mut self, id: &StreamId) -> Option<Stream> {
        let map = self.busy.as_mut()?;
        let removed = map.0.remove(id);
        if map.0.is_empty()
            && let Some(map) = self.busy.take()
        {
            Map::give_back(map);
        }
        removed
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.busy.is_none()
    }

    pub(super) fn len(&self) -> usize {
        self.busy.as_ref().map_or(0, |map| map.0.len())
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (StreamId, &Stream)> {
        self.busy.iter().flat_map(|map| &map.0).map(|(id, stream)| (*id, stream))
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (StreamId, &mut Stream)> {
        self.busy.iter_mut().flat_map(|map| &mut map.0).map(|(id, stream)| (*id, stream))
    }
}

impl Map {
    /// The large one first: a connection that has had many streams at a time is likely to have as many again.
    fn take() -> Box<Self> {
        LARGE.try_with(Cell::take).ok().flatten().unwrap_or_else(free_list::take_unclean)
    }

    fn give_back(map: Box<Self>) {
        if map.is_small() || map.0.capacity() > LARGE_STREAMS_MAX {
            return free_list::give_back(map);
        }
        // Fails only while the thread ends.
        let _ = LARGE.try_with(|large| large.set(Some(map)));
    }
}

impl Reused for Map {
    fn kept() -> &'static LocalKey<FreeList<Self>> {
        &KEPT
    }

    #[cold]
    fn allocate() -> Box<Self> {
        Box::default()
    }

    #[inline]
    fn is_small(&self) -> bool {
        self.0.capacity() <= STREAMS_KEPT
    }

    fn clear(&mut self) {
        self.0.clear();
    }
}

thread_local! {
    static KEPT: FreeList<Map> = const { FreeList::new() };
    /// One with room for many. To let it grow anew took 100 instructions a stream.
    static LARGE: Cell<Option<Box<Map>>> = const { Cell::new(None) };
}

/// The most streams that a map has room for which is kept: 20 KiB a thread.
const LARGE_STREAMS_MAX: usize = 256;

/// Of maps for more streams one is kept: 256 of this size are 150 KiB a thread.
const STREAMS_KEPT: usize = 8;

/// The streams of a connection that were reset. Most connections have none.
#[derive(Debug, Default)]
pub(super) struct Resets {
    /// Those that have yet to become events: a `GOAWAY` refuses several streams at once.
    pub(super) events: VecDeque<(StreamId, Code)>,
    /// Those that we have reset lately: frames that were on their way are no fault.
    lately: VecDeque<StreamId>,
    /// The newest of the streams that we have reset before those. Which older ones we have reset is not known, so that frames
    /// for any of them are no fault.
    newest_forgotten: Option<StreamId>,
}

impl Resets {
    /// We have reset this stream.
    pub(super) fn remember(&mut self, id: StreamId) {
        if self.lately.len() == RESETS_REMEMBERED {
            self.newest_forgotten = self.newest_forgotten.max(self.lately.pop_front());
        }
        self.lately.push_back(id);
    }

    /// Whether we have, or may have, reset this stream.
    pub(super) fn may_have(&self, id: StreamId) -> bool {
        self.newest_forgotten >= Some(id) || self.lately.contains(&id)
    }
}

/// Resets of ours that are remembered one by one. A burst of resets may be longer: all streams of a connection can be reset in
/// one turn, with data of each on its way.
const RESETS_REMEMBERED: usize = 64;

/// How far one half of a stream is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Half {
    /// The head is still to come.
    Head,
    /// Data, and perhaps trailers.
    Body,
    Ended,
}

#[derive(Debug)]
pub(super) struct Stream {
    pub(super) incoming: Half,
    pub(super) outgoing: Half,
    /// What the peer may send.
    pub(super) in_window: InWindow,
    /// What has come and was not taken by its reader.
    pub(super) unread: u32,
    /// How much we may still send. Below 0 after the peer has made its window smaller.
    pub(super) out_window: i64,
    /// What is left of the length that the peer's head states.
    pub(super) left: Option<u64>,
    pub(super) kind: StreamKind,
    pub(super) priority: Priority,
    pub(super) turn: Turn,
}

/// What is on a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StreamKind {
    Message,
    /// The response to HEAD, which states a length, and no body follows.
    Head,
    /// Nothing but data: it was opened by a CONNECT, and that was not refused.
    Tunnel,
}

impl StreamKind {
    pub(super) fn of(method: &Method) -> Self {
        match *method {
            Method::HEAD => Self::Head,
            Method::CONNECT => Self::Tunnel,
            _ => Self::Message,
        }
    }
}

/// Whether the driver has something to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    Idle,
    /// It has, and this has its turn now, or waits for a window.
    Wanted,
    /// It is among those that can send.
    Queued,
}

impl Stream {
    /// Whether both halves have ended.
    pub(super) fn has_ended(&self) -> bool {
        self.incoming == Half::Ended && self.outgoing == Half::Ended
    }

    /// So much of the body has come, perhaps the last of it. An error says how that differs from the length that its head
    /// states.
    #[inline]
    pub(super) fn keeps_its_length(&mut self, bytes: usize, end: bool) -> Result<(), MessageFault> {
        let Some(left) = self.left else { return Ok(()) };
        let Some(rest) = left.checked_sub(bytes as u64) else { return Err(MessageFault::BodyTooLong) };
        self.left = Some(rest);
        if rest == 0 || !end { Ok(()) } else { Err(MessageFault::BodyTooShort) }
    }

    /// Tells the peer of what was read, once it is worth a frame and if the peer has more to send.
    #[inline]
    pub(super) fn return_window(&mut self, id: StreamId, out: &mut Vec<u8>) {
        if self.incoming == Half::Body
            && let Some(increment) = self.in_window.give_back()
        {
            frame::window_update(out, id.0, increment);
        }
    }

    /// The driver has nothing to send.
    pub(super) fn leave_turn(&mut self, id: StreamId, ready: &mut Ready) {
        if std::mem::replace(&mut self.turn, Turn::Idle) == Turn::Queued {
            ready.remove(id, self.priority);
        }
    }

    /// Whether it has something to send, and its window lets it.
    pub(super) fn can_send(&self) -> bool {
        self.turn != Turn::Idle && self.outgoing == Half::Body && self.out_window > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream() -> Stream {
        Stream {
            incoming: Half::Body,
            outgoing: Half::Head,
            in_window: InWindow::new(1),
            unread: 0,
            out_window: 1,
            left: None,
            kind: StreamKind::Message,
            priority: Priority::UNSAID,
            turn: Turn::Idle,
        }
    }

    #[test]
    fn a_connection_without_streams_leaves_their_memory_to_others() {
        let [mut one, mut other] = [Streams::default(), Streams::default()];
        let place = std::ptr::from_ref(one.insert(StreamId(1), stream()));
        assert!(one.remove(&StreamId(3)).is_none() && one.len() == 1);
        assert!(one.remove(&StreamId(1)).is_some() && one.busy.is_none());
        assert_eq!(std::ptr::from_ref(other.insert(StreamId(1), stream())), place);
        assert_eq!((one.get(&StreamId(1)).is_none(), other.iter().count()), (true, 1));
        let room = |streams: &Streams| streams.busy.as_ref().map_or(0, |map| map.0.capacity());
        let burst = |streams: &mut Streams, count| {
            (1..=count).for_each(|n| _ = streams.insert(StreamId(n), stream()));
            (1..=count).for_each(|n| _ = streams.remove(&StreamId(n)));
        };
        // Of those with room for many a thread keeps one.
        other.remove(&StreamId(1));
        burst(&mut one, 100);
        one.insert(StreamId(1), stream());
        other.insert(StreamId(1), stream());
        assert!(room(&one) > STREAMS_KEPT && room(&one) <= LARGE_STREAMS_MAX, "{}", room(&one));
        assert!(room(&other) <= STREAMS_KEPT, "{}", room(&other));
        one.remove(&StreamId(1));
        // And none with room for more.
        burst(&mut one, 1000);
        one.insert(StreamId(1), stream());
        assert!(room(&one) <= STREAMS_KEPT);
    }
}
