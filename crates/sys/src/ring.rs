//! A ring of byte frames between two threads of one process: one writes, one reads, neither ever waits.
//!
//! It carries what must go from one core to another: frames between two switches. The writer copies frames in
//! and [publishes](Writer::publish) them together. The reader reads them in place and frees them together. So the
//! cache lines that both cores write to are touched once a batch, not once a frame.
//!
//! A frame takes its bytes, four for its length, and up to three to be aligned. It never wraps: what does not
//! fit before the end of the memory goes to its start, so that each frame is one slice. There is no wake-up
//! here: both ends are polled. The test `no_order_of_steps_loses_a_frame` compiles this file against loom.

use crate::sync::{Arc, AtomicBool, AtomicUsize, Ordering};
use crate::words::{WORD_BYTES, Words};

/// The two ends of a ring with `capacity_bytes` of memory, which is rounded up to a power of two, and to 64
/// at least.
///
/// # Panics
///
/// If it is more than 1 GiB.
///
/// ```
/// let (mut writer, mut reader) = anywire_sys::ring::pair(1024);
/// assert!(writer.push(b"one") && writer.push(b"two"));
/// writer.publish();
///
/// let mut seen = Vec::new();
/// assert_eq!(reader.read(64, |frame| seen.push(frame.to_vec())), 2);
/// assert_eq!(seen, [b"one", b"two"]);
/// ```
pub fn pair(capacity_bytes: usize) -> (Writer, Reader) {
    assert!(capacity_bytes <= CAPACITY_MAX_BYTES, "a ring of {capacity_bytes} bytes is more than 1 GiB");
    let capacity = capacity_bytes.next_power_of_two().max(64);
    let shared = Arc::new(Shared {
        words: Words::new(capacity / WORD_BYTES),
        written: Line(AtomicUsize::new(0)),
        read: Line(AtomicUsize::new(0)),
        is_closed: AtomicBool::new(false),
    });
    let writer = Writer { shared: Arc::clone(&shared), capacity, head: 0, published: 0, tail: 0 };
    let reader = Reader { shared, capacity, tail: 0, freed: 0, head: 0 };
    (writer, reader)
}

/// The end that frames are written to.
#[derive(Debug)]
pub struct Writer {
    shared: Arc<Shared>,
    capacity: usize,
    /// Where the next frame begins. Positions only grow (modulo 2^64); their place in the memory is their
    /// remainder.
    head: usize,
    /// How far the reader has been told.
    published: usize,
    /// How far the reader has read, when it was last looked at.
    tail: usize,
}

/// The end that frames are read from.
#[derive(Debug)]
pub struct Reader {
    shared: Arc<Shared>,
    capacity: usize,
    /// Where the next frame to be read begins.
    tail: usize,
    /// How far the writer has been told.
    freed: usize,
    /// How far the writer has written, when it was last looked at.
    head: usize,
}

/// What both ends see.
///
/// The words from `read` up to `written` are only ever read, by the one `Reader`; all others are written and read by the one
/// `Writer` alone. A word passes from one to the other by a store with `Release` of its position, which the other end loads
/// with `Acquire` before it touches the word.
struct Shared {
    words: Words,
    /// Where the next frame to be published begins. Written by the writer alone.
    written: Line<AtomicUsize>,
    /// Where the next frame to be freed begins. Written by the reader alone.
    read: Line<AtomicUsize>,
    /// Whether one end has been dropped.
    is_closed: AtomicBool,
}

/// Two lines of the cache for itself: the processor fetches them in pairs.
#[derive(Debug)]
#[repr(align(128))]
struct Line<T>(T);

impl Writer {
    /// Copies a frame in, which the reader sees after [`publish`](Self::publish). False if there is no room
    /// now, or if it is longer than [`frame_max_bytes`](Self::frame_max_bytes).
    #[inline]
    pub fn push(&mut self, frame: &[u8]) -> bool {
        if frame.len() > self.frame_max_bytes() {
            return false;
        }
        let needed = record_bytes(frame.len());
        let offset = self.head & (self.capacity - 1);
        let to_end = self.capacity - offset;
        let skipped = if needed > to_end { to_end } else { 0 };
        if self.free() < skipped + needed {
            self.tail = self.shared.read.0.load(Ordering::Acquire);
            if self.free() < skipped + needed {
                return false;
            }
        }
        let offset = if skipped > 0 {
            self.write_word(offset, SKIP);
            0
        } else {
            offset
        };
        self.write_word(offset, frame.len() as u32);
        self.write_bytes(offset + WORD_BYTES, frame);
        self.head = self.head.wrapping_add(skipped + needed);
        true
    }

    /// Makes the frames pushed so far visible to the reader.
    #[inline]
    pub fn publish(&mut self) {
        if self.published != self.head {
            self.published = self.head;
            self.shared.written.0.store(self.head, Ordering::Release);
        }
    }

    /// How many frames of `frame_bytes` are sure to have room now.
    pub fn room(&self, frame_bytes: usize) -> usize {
        // What a skip at the end may cost is less than one frame.
        let tail = self.shared.read.0.load(Ordering::Acquire);
        let free = self.capacity - self.head.wrapping_sub(tail);
        (free / record_bytes(frame_bytes)).saturating_sub(1)
    }

    /// Whether the reader has taken all that it was shown.
    pub fn is_empty(&self) -> bool {
        self.shared.read.0.load(Ordering::Acquire) == self.published
    }

    /// A mark that changes each time that the reader takes something.
    pub fn progress(&self) -> usize {
        self.shared.read.0.load(Ordering::Acquire)
    }

    /// The longest frame that it ever takes: a quarter of its memory, so that a frame always has room in an
    /// empty ring.
    pub const fn frame_max_bytes(&self) -> usize {
        self.capacity / 4
    }

    /// Whether the reader was dropped: further frames will not be read.
    pub fn is_closed(&self) -> bool {
        self.shared.is_closed.load(Ordering::Acquire)
    }

    const fn free(&self) -> usize {
        self.capacity - self.head.wrapping_sub(self.tail)
    }

    #[inline]
    #[allow(unsafe_code)]
    fn write_word(&self, offset: usize, word: u32) {
        // SAFETY: `push` has made sure that the word is free. It lies at `head` or after it and less than `capacity` beyond
        // `read`, so the reader does not touch it before it is published. Only `push` calls this, by the only reference to
        // the only writer.
        unsafe { self.shared.words.write_word(offset / WORD_BYTES, word) }
    }

    #[inline]
    #[allow(unsafe_code)]
    fn write_bytes(&self, offset: usize, bytes: &[u8]) {
        // SAFETY: the words are free, as in `write_word`. `bytes` are no part of them: what the reader lends out of a ring is
        // not freed before its loan has ended.
        unsafe { self.shared.words.write_bytes(offset / WORD_BYTES, bytes) }
    }
}

impl Reader {
    /// Shows up to `frames_max` frames to `take`, in the order in which they were pushed, and frees their
    /// room. Gives their number.
    #[inline]
    pub fn read(&mut self, frames_max: usize, mut take: impl FnMut(&[u8])) -> usize {
        let freed = Freed { reader: self };
        let mut count = 0;
        while count < frames_max {
            let Some(frame) = freed.reader.next_frame() else { break };
            take(frame);
            count += 1;
        }
        count
    }

    /// Whether nothing waits now.
    pub fn is_empty(&self) -> bool {
        self.tail == self.shared.written.0.load(Ordering::Acquire)
    }

    /// Whether the writer has gone: once the ring is empty, nothing more will come.
    pub fn is_closed(&self) -> bool {
        self.shared.is_closed.load(Ordering::Acquire)
    }

    /// The next frame; its room is not free yet.
    #[inline]
    fn next_frame(&mut self) -> Option<&[u8]> {
        if self.tail == self.head {
            self.head = self.shared.written.0.load(Ordering::Acquire);
            if self.tail == self.head {
                return None;
            }
        }
        let mut offset = self.tail & (self.capacity - 1);
        let mut length = self.word(offset);
        if length == SKIP {
            self.tail = self.tail.wrapping_add(self.capacity - offset);
            offset = 0;
            length = self.word(0);
        }
        self.tail = self.tail.wrapping_add(record_bytes(length as usize));
        Some(self.bytes(offset + WORD_BYTES, length as usize))
    }

    #[inline]
    #[allow(unsafe_code)]
    fn word(&self, offset: usize) -> u32 {
        // SAFETY: `next_frame` asks for words from `tail` up to `head` only, which are published and not
        // freed yet: the writer does not touch them.
        unsafe { self.shared.words.word(offset / WORD_BYTES) }
    }

    #[inline]
    #[allow(unsafe_code)]
    fn bytes(&self, offset: usize, length: usize) -> &[u8] {
        // SAFETY: the words are published, as in `word`; they are freed after the caller's borrow of the reader has ended, by
        // `Freed`.
        unsafe { self.shared.words.bytes(offset / WORD_BYTES, length) }
    }
}

/// Frees the room of the frames that were read, also if their reader panics.
struct Freed<'a> {
    reader: &'a mut Reader,
}

impl Drop for Freed<'_> {
    fn drop(&mut self) {
        // An empty poll leaves the line alone, which the writer reads.
        if self.reader.freed != self.reader.tail {
            self.reader.freed = self.reader.tail;
            self.reader.shared.read.0.store(self.reader.tail, Ordering::Release);
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.publish();
        self.shared.is_closed.store(true, Ordering::Release);
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.shared.is_closed.store(true, Ordering::Release);
    }
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared")
            .field("written", &self.written)
            .field("read", &self.read)
            .finish_non_exhaustive()
    }
}

/// What a frame of so many bytes takes up.
const fn record_bytes(frame_bytes: usize) -> usize {
    WORD_BYTES + frame_bytes.next_multiple_of(WORD_BYTES)
}

/// In the place of a length: the next frame is at the start of the memory.
const SKIP: u32 = u32::MAX;
const CAPACITY_MAX_BYTES: usize = 1 << 30;
