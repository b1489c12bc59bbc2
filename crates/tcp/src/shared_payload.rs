//! A message to many connections: its bytes are kept once, however many send queues hold them.

use std::cell::Cell as StdCell;
use std::fmt;
use std::sync::Arc;

use anywire_packet::checksum;

use crate::engine::bytes_of_list;

/// Bytes that [`Engine::send_shared`](crate::Engine::send_shared) sends to any number of connections.
///
/// An engine keeps them once, with their checksum, until the last of its connections has them acknowledged. Each connection
/// adds 64 bytes. The count of those is the engine's own and not atomic; clones share the bytes by one that is. May be sent to
/// other threads, and be used with several engines.
///
/// A clone that was made before the first send counts as a further payload, and so does one that two engines send in turns. Its
/// bytes count again towards [`Limits::segment_bytes`](crate::Limits::segment_bytes), and its checksum is computed again. So
/// send one payload by reference, and give each engine a clone of its own.
///
/// ```
/// use anywire_tcp::SharedPayload;
///
/// let news = SharedPayload::from(b"to all".to_vec());
/// assert_eq!(news.bytes(), b"to all");
/// ```
#[derive(Clone)]
pub struct SharedPayload {
    bytes: Arc<[u8]>,
    /// Where the engine that it was last sent with keeps it. A hint: what is there is compared.
    place: StdCell<u32>,
}

impl SharedPayload {
    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl<B: Into<Arc<[u8]>>> From<B> for SharedPayload {
    fn from(bytes: B) -> Self {
        Self { bytes: bytes.into(), place: StdCell::new(u32::MAX) }
    }
}

impl fmt::Debug for SharedPayload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedPayload").field("len", &self.bytes.len()).finish()
    }
}

/// The payloads that an engine keeps, by place.
#[derive(Default)]
pub(crate) struct SharedPayloads {
    kept: Vec<Kept>,
    free: Vec<u32>,
}

struct Kept {
    /// `None` in a free place.
    bytes: Option<Arc<[u8]>>,
    sum: u64,
    /// Cells that refer to it.
    count: u32,
}

impl SharedPayloads {
    /// Where a payload is kept, if it is.
    #[inline]
    pub(crate) fn place_of(&self, payload: &SharedPayload) -> Option<u32> {
        let place = payload.place.get();
        let bytes = self.kept.get(place as usize)?.bytes.as_ref()?;
        // As long as the bytes are kept, no other payload has their address.
        Arc::ptr_eq(bytes, &payload.bytes).then_some(place)
    }

    /// Keeps a payload that is not kept yet, until its first cell is released.
    pub(crate) fn keep(&mut self, payload: &SharedPayload) -> u32 {
        let kept =
            Kept { bytes: Some(Arc::clone(&payload.bytes)), sum: checksum::sum(&payload.bytes, 0), count: 0 };
        let place = self.free.pop().unwrap_or(self.kept.len() as u32);
        match self.kept.get_mut(place as usize) {
            Some(free) => *free = kept,
            None => self.kept.push(kept),
        }
        payload.place.set(place);
        place
    }

    /// One more cell refers to it.
    #[inline]
    pub(crate) fn acquire(&mut self, place: u32) {
        self.kept[place as usize].count += 1;
    }

    /// A cell refers to it no longer. Gives the bytes of memory that are free now.
    #[inline]
    pub(crate) fn release(&mut self, place: u32) -> usize {
        let kept = &mut self.kept[place as usize];
        kept.count -= 1;
        if kept.count > 0 {
            return 0;
        }
        self.free.push(place);
        kept.bytes.take().map_or(0, |bytes| bytes.len())
    }

    /// Bytes of memory, those of the payloads and of the list of them.
    pub(crate) fn bytes(&self) -> usize {
        let kept = self.kept.iter().filter_map(|kept| kept.bytes.as_ref()).map(|bytes| bytes.len());
        kept.sum::<usize>() + bytes_of_list(&self.kept) + bytes_of_list(&self.free)
    }

    /// Its bytes, with their [`checksum::sum`].
    #[inline]
    pub(crate) fn get(&self, place: u32) -> (&[u8], u64) {
        let kept = &self.kept[place as usize];
        (kept.bytes.as_deref().unwrap_or_default(), kept.sum)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_is_kept_until_its_last_cell_is_released() {
        let (mut here, mut there) = (SharedPayloads::default(), SharedPayloads::default());
        let payload = SharedPayload::from(vec![7; 100]);
        let place = here.keep(&payload);
        here.acquire(place);
        here.acquire(place);
        assert_eq!(here.place_of(&payload), Some(place));
        assert_eq!(here.get(place), (&[7; 100][..], checksum::sum(&[7; 100], 0)));
        assert_eq!(here.release(place), 0);
        assert_eq!(here.release(place), 100);
        assert_eq!(here.place_of(&payload), None);
        // The place of one payload may be that of another one in another engine.
        let other = SharedPayload::from(vec![8; 10]);
        assert_eq!(there.keep(&other), place);
        assert_eq!(there.place_of(&payload), None);
        assert_eq!(here.keep(&payload), place, "the place is used again");
        assert_eq!(there.place_of(&payload.clone()), None);
    }
}
