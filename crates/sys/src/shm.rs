//! Two byte rings in memory that two processes share, one for each direction. The peer is not trusted.
//!
//! One end [creates](create) the memory and passes its descriptor to the other one, which [opens](open) it. Each end then
//! has a [`Writer`] and a [`Reader`]. Neither ever waits and neither makes a system call. An end that wants to sleep
//! [announces](Watch::sleep) it first. The next call of the other end then tells it to send a wake-up, by a channel of the
//! caller's choice.
//!
//! # What a hostile peer can do
//! - The memory is a sealed memfd: its size is fixed, so no access to it can fault.
//! - A position that the peer writes is checked each time it is read. One that is impossible gives [`Broken`].
//! - Bytes are copied in and out. No reference into the memory is handed out, because its contents can change at any
//!   time. So a peer that writes where it must not garbles its own bytes and nothing else.
//!
//! The memory is one page of positions and then the two rings:
//!
//! | offset | holds |
//! | --- | --- |
//! | 0 | positions of the ring that the creating end writes |
//! | 512 | positions of the ring that the opening end writes |
//! | 4096 | the bytes of the first ring |
//! | 4096 + ring | the bytes of the second ring |

mod bytes;
mod positions;
mod region;

use std::io::{self, IoSlice};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;

use positions::{Awaited, Direction, Head, Tail};
use region::Region;

pub use positions::{Broken, Found};
pub use region::OpenError;

/// Makes memory with two rings of `ring_bytes` each, and gives this end's part and the descriptor for the other end.
///
/// ```
/// use std::io::IoSlice;
/// use std::os::fd::AsFd;
/// use anywire_sys::shm;
///
/// let (mut here, memory) = shm::create(4096)?;
/// let mut there = shm::open(memory.as_fd(), 4096)?;
/// assert_eq!(here.writer.write(&[IoSlice::new(b"hello")])?, 5);
/// let mut buffer = [0; 16];
/// assert_eq!(there.reader.read(&mut buffer)?, shm::Found::Bytes(5));
/// assert_eq!(&buffer[..5], b"hello");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// What `memfd_create(2)`, `ftruncate(2)` or `mmap(2)` said: descriptors or memory have run out.
///
/// # Panics
/// If `ring_bytes` is not a power of two from [`RING_MIN_BYTES`] to [`RING_MAX_BYTES`].
pub fn create(ring_bytes: usize) -> io::Result<(Ends, OwnedFd)> {
    let (region, memory) = Region::create(ring_bytes)?;
    Ok((Ends::of(region, 0), memory))
}

/// The other end's part of memory that a peer has created. The descriptor may be closed afterwards.
///
/// # Errors
/// [`OpenError`]: it is not memory of that size that is sealed.
///
/// # Panics
/// If `ring_bytes` is not a power of two from [`RING_MIN_BYTES`] to [`RING_MAX_BYTES`].
pub fn open(memory: BorrowedFd<'_>, ring_bytes: usize) -> Result<Ends, OpenError> {
    Ok(Ends::of(Region::open(memory, ring_bytes)?, 1))
}

/// One end of both rings.
#[derive(Debug)]
pub struct Ends {
    /// Of the ring that this end writes.
    pub writer: Writer,
    /// Of the ring that the peer writes.
    pub reader: Reader,
}

impl Ends {
    /// End 0 has created the memory and writes the first ring.
    fn of(region: Region, end: usize) -> Self {
        let region = Arc::new(region);
        let capacity = region.ring_bytes() as u64;
        let writer = Writer { region: Arc::clone(&region), ring: end, head: Head::new(capacity) };
        Self { writer, reader: Reader { region, ring: 1 - end, tail: Tail::new(capacity) } }
    }
}

/// The end of a ring that is written.
#[derive(Debug)]
pub struct Writer {
    region: Arc<Region>,
    ring: usize,
    head: Head,
}

impl Writer {
    /// Copies as many bytes in as have room, from the first slice on, and publishes them together. Gives their number,
    /// which is 0 if the ring is full.
    ///
    /// # Errors
    /// [`Broken`] if the reader's position is impossible.
    #[inline]
    pub fn write(&mut self, slices: &[IoSlice<'_>]) -> Result<usize, Broken> {
        let wanted = slices.iter().map(|slice| slice.len()).sum();
        let room = self.head.room(self.region.direction(self.ring), wanted)?;
        let mut written = 0;
        for slice in slices {
            let part = &slice[..slice.len().min(room - written)];
            self.region.copy_in(self.ring, self.head.position() + written as u64, part);
            written += part.len();
        }
        if written > 0 {
            self.head.publish(self.region.direction(self.ring), written);
        }
        Ok(written)
    }

    /// Bytes that have room now.
    ///
    /// # Errors
    /// [`Broken`] if the reader's position is impossible.
    pub fn room(&mut self) -> Result<usize, Broken> {
        self.head.room(self.region.direction(self.ring), usize::MAX)
    }

    /// Ends the stream: the reader finds the end behind all that was written. Of this and [`reset`](Self::reset) the first
    /// one counts.
    pub fn end(&mut self) {
        self.head.end(self.region.direction(self.ring));
    }

    /// Breaks the stream off: the reader finds all that was written, and then that it was cut.
    pub fn reset(&mut self) {
        self.head.reset(self.region.direction(self.ring));
    }

    /// Whether the reader has left, and will read no more.
    #[inline]
    pub fn is_reader_gone(&self) -> bool {
        self.head.is_reader_gone(self.region.direction(self.ring))
    }

    /// Whether the reader sleeps and has to be woken now; it is asked after [`write`](Self::write), [`end`](Self::end) or
    /// [`reset`](Self::reset). True once for each time that it goes to sleep.
    #[inline]
    #[must_use = "a reader that is not woken sleeps on"]
    pub fn must_wake(&self) -> bool {
        self.head.must_wake(self.region.direction(self.ring))
    }

    /// What to wait for if there was no room: some, or that the reader leaves.
    #[inline]
    pub fn watch(&self) -> Watch {
        Watch { region: Arc::clone(&self.region), ring: self.ring, awaited: self.head.awaited() }
    }
}

/// The end of a ring that is read.
#[derive(Debug)]
pub struct Reader {
    region: Arc<Region>,
    ring: usize,
    tail: Tail,
}

impl Reader {
    /// Copies as many bytes out as there are and as the buffer holds, and frees their room.
    ///
    /// # Errors
    /// [`Broken`] if the writer's position is impossible.
    #[inline]
    pub fn read(&mut self, buffer: &mut [u8]) -> Result<Found, Broken> {
        let direction = self.region.direction(self.ring);
        let found = self.tail.look(direction, buffer.len())?;
        let Found::Bytes(waiting) = found else { return Ok(found) };
        let read = waiting.min(buffer.len());
        self.region.copy_out(self.ring, self.tail.position(), &mut buffer[..read]);
        self.tail.free(direction, read);
        Ok(Found::Bytes(read))
    }

    /// What a read would find.
    ///
    /// # Errors
    /// [`Broken`] if the writer's position is impossible.
    #[inline]
    pub fn look(&mut self) -> Result<Found, Broken> {
        self.tail.look(self.region.direction(self.ring), 1)
    }

    /// Tells the writer that the reader has left.
    pub fn leave(&mut self) {
        self.tail.leave(self.region.direction(self.ring));
    }

    /// Whether the writer sleeps and has to be woken now; it is asked after [`read`](Self::read) or [`leave`](Self::leave).
    /// True once for each time that it goes to sleep. A writer is woken when half of the ring is free, so it does not wake
    /// up for each byte.
    #[inline]
    #[must_use = "a writer that is not woken sleeps on"]
    pub fn must_wake(&self) -> bool {
        self.tail.must_wake(self.region.direction(self.ring))
    }

    /// What to wait for if nothing could be read: bytes, or the end.
    #[inline]
    pub fn watch(&self) -> Watch {
        Watch { region: Arc::clone(&self.region), ring: self.ring, awaited: self.tail.awaited() }
    }
}

/// What one end of a ring waits for, by its last check.
#[derive(Debug)]
pub struct Watch {
    region: Arc<Region>,
    ring: usize,
    awaited: Awaited,
}

impl Watch {
    /// Whether the peer has changed anything since. It costs a load or two, so a loop can call it. The next look tells what
    /// has changed.
    #[inline]
    pub fn has_come(&self) -> bool {
        self.awaited.has_come(self.region.direction(self.ring))
    }

    /// Announces that this end will sleep, so that the peer has to wake it. False if the peer has changed something
    /// already: then the announcement is withdrawn, and this end must not sleep. The peer may have seen it all the same, and
    /// wakes this end.
    #[must_use = "an end that sleeps although something has come is not woken"]
    pub fn sleep(&self) -> bool {
        self.awaited.sleep(self.region.direction(self.ring))
    }

    /// Withdraws the announcement, because this end is awake for another reason. The peer may have woken it meanwhile.
    pub fn wake_up(&self) {
        self.awaited.wake_up(self.region.direction(self.ring));
    }
}

/// The smallest ring.
pub const RING_MIN_BYTES: usize = 4096;
/// The largest ring.
pub const RING_MAX_BYTES: usize = 1 << 30;

const _: () = assert!(size_of::<Direction>() == 512, "the peer has the same layout");

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    fn pair(ring_bytes: usize) -> (Ends, Ends) {
        let (here, memory) = create(ring_bytes).expect("memory");
        (here, open(memory.as_fd(), ring_bytes).expect("it was sealed"))
    }

    fn write(writer: &mut Writer, bytes: &[u8]) -> usize {
        writer.write(&[IoSlice::new(bytes)]).expect("an honest reader")
    }

    #[test]
    fn bytes_wrap_around_the_end_of_the_ring() {
        let (mut here, mut there) = pair(4096);
        let (mut sent, mut received) = (0u64, 0u64);
        let mut buffer = [0; 1000];
        for step in 0..10_000usize {
            let bytes: Vec<u8> = (0..step % 777).map(|at| ((sent + at as u64) % 251) as u8).collect();
            let (one, other) = bytes.split_at(bytes.len() / 3);
            sent += here.writer.write(&[IoSlice::new(one), IoSlice::new(other)]).expect("honest") as u64;
            if let Found::Bytes(read) = there.reader.read(&mut buffer[..step % 999 + 1]).expect("honest") {
                for byte in &buffer[..read] {
                    assert_eq!(u64::from(*byte), received % 251);
                    received += 1;
                }
            }
        }
        assert!(received > 1_000_000 && sent - received <= 4096, "{sent} {received}");
    }

    #[test]
    fn a_full_ring_takes_nothing_and_an_empty_one_gives_nothing() {
        let (mut here, mut there) = pair(4096);
        assert_eq!(write(&mut here.writer, &[7; 5000]), 4096);
        assert_eq!(write(&mut here.writer, &[7]), 0);
        assert_eq!(here.writer.room(), Ok(0));
        assert_eq!(there.reader.read(&mut [0; 10_000]), Ok(Found::Bytes(4096)));
        assert_eq!(there.reader.read(&mut [0; 1]), Ok(Found::Nothing));
        assert_eq!(here.writer.room(), Ok(4096));
    }

    #[test]
    fn the_end_stands_behind_the_bytes() {
        let (mut here, mut there) = pair(4096);
        write(&mut here.writer, b"last");
        here.writer.end();
        assert_eq!(there.reader.read(&mut [0; 3]), Ok(Found::Bytes(3)));
        assert_eq!(there.reader.read(&mut [0; 3]), Ok(Found::Bytes(1)));
        assert_eq!(there.reader.read(&mut [0; 3]), Ok(Found::End));
        write(&mut there.writer, b"the other direction");
        there.writer.reset();
        assert_eq!(here.reader.read(&mut [0; 64]), Ok(Found::Bytes(19)));
        assert_eq!(here.reader.look(), Ok(Found::Reset));
        here.reader.leave();
        assert!(there.writer.is_reader_gone() && !here.writer.is_reader_gone());
        let watch = here.reader.watch();
        assert!(watch.sleep(), "nothing has come since");
        watch.wake_up();
        assert!(there.writer.is_reader_gone(), "who has left does not come back by sleeping");
    }

    #[test]
    fn a_sleeper_is_woken_once() {
        let (mut here, mut there) = pair(4096);
        let sleep = |reader: &mut Reader| {
            reader.look().expect("an honest writer") == Found::Nothing && reader.watch().sleep()
        };
        assert!(sleep(&mut there.reader));
        write(&mut here.writer, b"one");
        assert!(here.writer.must_wake() && !here.writer.must_wake());
        assert!(!sleep(&mut there.reader), "there are bytes");
        write(&mut here.writer, &[0; 4096]);
        assert!(!here.writer.must_wake(), "it is awake");
        assert_eq!(here.writer.room(), Ok(0));
        let watch = here.writer.watch();
        assert!(watch.sleep() && !watch.has_come());
        assert_eq!(there.reader.read(&mut [0; 100]), Ok(Found::Bytes(100)));
        assert!(!there.reader.must_wake(), "little room is not worth it");
        assert_eq!(there.reader.read(&mut [0; 2000]), Ok(Found::Bytes(2000)));
        assert!(there.reader.must_wake() && !there.reader.must_wake());
        assert!(watch.has_come() && !watch.sleep(), "there is room");
    }

    #[test]
    fn an_announcement_that_comes_too_late_is_withdrawn() {
        let (mut here, mut there) = pair(4096);
        assert_eq!(there.reader.look(), Ok(Found::Nothing));
        let watch = there.reader.watch();
        write(&mut here.writer, b"one");
        assert!(!watch.sleep(), "there are bytes");
        write(&mut here.writer, b"more");
        assert!(!here.writer.must_wake(), "it is awake");
    }

    #[test]
    fn a_writer_that_waits_for_room_is_woken_when_the_reader_leaves() {
        let (mut here, mut there) = pair(4096);
        write(&mut here.writer, &[7; 4096]);
        assert_eq!(here.writer.room(), Ok(0));
        let watch = here.writer.watch();
        assert!(watch.sleep() && !watch.has_come());
        // The ring stays full.
        assert_eq!(there.reader.look(), Ok(Found::Bytes(4096)));
        there.reader.leave();
        assert!(there.reader.must_wake() && !there.reader.must_wake());
        assert!(watch.has_come() && !watch.sleep(), "nobody will make room");
    }

    #[test]
    fn positions_that_cannot_be_are_refused() {
        for lie in [4097, u64::MAX >> 2, 1 << 61] {
            let (here, mut there) = pair(4096);
            here.writer.head.lie(here.writer.region.direction(0), lie);
            assert_eq!(there.reader.look(), Err(Broken), "{lie} bytes are not in a ring of 4096");
            assert!(!there.reader.watch().sleep(), "it has to look again");
            there.reader.tail.lie(there.reader.region.direction(0), lie);
            let mut honest = pair(4096).0.writer;
            honest.region = Arc::clone(&here.writer.region);
            assert_eq!(honest.room(), Err(Broken), "{lie} bytes were not written");
        }
    }

    #[test]
    fn a_writer_that_takes_back_what_was_seen_is_refused() {
        let (mut here, mut there) = pair(4096);
        write(&mut here.writer, &[7; 100]);
        assert_eq!(there.reader.read(&mut [0; 10]), Ok(Found::Bytes(10)));
        here.writer.head.lie(here.writer.region.direction(0), 50);
        assert_eq!(there.reader.read(&mut [0; 100]), Err(Broken), "90 bytes were there");
    }

    #[test]
    fn of_two_ends_the_first_one_counts() {
        let (mut here, mut there) = pair(4096);
        here.writer.end();
        here.writer.reset();
        assert_eq!(there.reader.look(), Ok(Found::End));
        there.writer.reset();
        there.writer.end();
        assert_eq!(here.reader.look(), Ok(Found::Reset));
    }

    #[test]
    fn what_is_not_sealed_or_not_of_that_size_is_refused() {
        let (_, memory) = create(4096).expect("memory");
        assert!(matches!(open(memory.as_fd(), 8192), Err(OpenError::Size { .. })));
        let file = tempfile();
        file.set_len(4096 * 3).expect("a file");
        assert!(matches!(open(file.as_fd(), 4096), Err(OpenError::NotSealed)));
    }

    fn tempfile() -> std::fs::File {
        let flags = rustix::fs::MemfdFlags::CLOEXEC | rustix::fs::MemfdFlags::ALLOW_SEALING;
        rustix::fs::memfd_create("unsealed", flags).expect("memory").into()
    }
}
