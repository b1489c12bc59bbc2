//! Bytes that wait to leave, in as few writes as possible.

use std::io::{self, IoSlice};
use std::task::{Context, Poll};

use bytes::{Buf, Bytes};

use crate::connection::Connection;

/// Heads and small bodies are copied one behind the other. Large bodies stand between them uncopied. All of it leaves
/// in one vectored write.
#[derive(Debug, Default)]
pub struct Output {
    /// Everything that was copied.
    copied: Vec<u8>,
    /// Bytes that were not copied: each stands before `copied[at]`.
    shared: Vec<Shared>,
    /// How much of `copied` has left.
    copied_sent: usize,
    /// How many of `shared` have left.
    shared_sent: usize,
    /// Bytes of `shared` that have not left.
    shared_left: usize,
    /// How far the connection has taken what was put in here, since the beginning.
    taken: Position,
    /// What the connection has taken and holds back, as it leaves. At least 1 if a flush of it is pending.
    held_back: usize,
}

/// A place in all that is ever put into an [`Output`]: in bytes as they are put in, not as TLS seals them.
///
/// It stays the same place while bytes leave. So what is still to be sent is told from what is not by positions, and never by
/// lengths, which TLS changes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position(u64);

#[derive(Debug)]
struct Shared {
    at: usize,
    bytes: Bytes,
}

impl Output {
    /// Nothing to send; allocates nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// The buffer for bytes that are copied.
    #[inline]
    pub fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.copied
    }

    /// Appends bytes: a copy of few, a reference to many.
    #[inline]
    pub fn push_bytes(&mut self, bytes: Bytes) {
        if bytes.len() <= COPY_MAX_BYTES {
            self.copied.extend_from_slice(&bytes);
        } else {
            self.share(bytes);
        }
    }

    /// Appends a copy of the bytes if they are few, and says whether it did. For many bytes, [`Output::push_bytes`]
    /// takes a reference.
    #[inline]
    pub fn push_small(&mut self, bytes: &[u8]) -> bool {
        let is_small = bytes.len() <= COPY_MAX_BYTES;
        if is_small {
            self.copied.extend_from_slice(bytes);
        }
        is_small
    }

    #[inline(never)]
    fn share(&mut self, bytes: Bytes) {
        self.shared_left += bytes.len();
        self.shared.push(Shared { at: self.copied.len(), bytes });
    }

    /// How much memory it has of its own, in bytes, without the bytes that it shares.
    pub fn capacity(&self) -> usize {
        self.copied.capacity() + self.shared.capacity() * size_of::<Shared>()
    }

    /// Bytes that the connection has not taken.
    #[inline]
    pub fn len(&self) -> usize {
        self.copied.len() - self.copied_sent + self.shared_left
    }

    /// Where the next byte will stand.
    #[inline]
    pub fn end(&self) -> Position {
        Position(self.taken.0 + self.len() as u64)
    }

    /// Up to where the connection has taken bytes. A buffered connection may still hold the last of them back, and they leave all
    /// the same.
    #[inline]
    pub fn taken(&self) -> Position {
        self.taken
    }

    /// Whether everything has left. A buffered connection may still hold bytes back that it has taken.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.unsent() == 0
    }

    /// Bytes that have not left, including those that the connection holds back, as they leave. Deadlines for writing watch it
    /// shrink. It tells nothing of what was put in: for that there are [positions](Position).
    #[inline]
    pub fn unsent(&self) -> usize {
        self.len() + self.held_back
    }

    /// Writes everything and flushes the connection; `Pending` while that does not take it.
    ///
    /// If the connection takes all of many writes in a row, one poll is pending and wakes its own task: the loop's
    /// other tasks run in between.
    pub fn poll_flush(&mut self, cx: &mut Context<'_>, connection: &mut Connection) -> Poll<io::Result<()>> {
        let mut writes = 0;
        while let 1.. = self.len() {
            if writes == WRITES_IN_A_ROW_MAX {
                self.compact();
                self.held_back = connection.held_back();
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            writes += 1;
            let polled = if self.shared.is_empty() {
                connection.poll_write(cx, &self.copied[self.copied_sent..])
            } else {
                let mut slices = [IoSlice::new(&[]); SLICES_MAX];
                let filled = self.fill(&mut slices);
                connection.poll_write_vectored(cx, &slices[..filled])
            };
            let Poll::Ready(written) = polled? else {
                self.compact();
                self.held_back = connection.held_back();
                return Poll::Pending;
            };
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.advance(written);
        }
        self.recycle();
        let flushed = connection.poll_flush(cx);
        self.held_back = if flushed.is_pending() { connection.held_back().max(1) } else { 0 };
        flushed
    }

    /// Drops all that was put in from this position on. If the connection has taken a part of it, drops nothing and returns
    /// false.
    #[must_use]
    pub fn truncate(&mut self, position: Position) -> bool {
        let Some(kept) = position.0.checked_sub(self.taken.0) else { return false };
        while let excess @ 1.. = (self.len() as u64).saturating_sub(kept) {
            let excess = usize::try_from(excess).unwrap_or(usize::MAX);
            match self.shared.last_mut() {
                // The last shared bytes are the end of everything.
                Some(last) if last.at == self.copied.len() => {
                    let cut = excess.min(last.bytes.len());
                    self.shared_left -= cut;
                    last.bytes.truncate(last.bytes.len() - cut);
                    if last.bytes.is_empty() {
                        self.shared.pop();
                    }
                }
                last => {
                    let behind = last.map_or(0, |shared| shared.at).max(self.copied_sent);
                    let cut = excess.min(self.copied.len() - behind);
                    self.copied.truncate(self.copied.len() - cut);
                }
            }
        }
        true
    }

    /// Drops all that waits.
    pub fn clear(&mut self) {
        self.held_back = 0;
        self.copied_sent = self.copied.len();
        self.shared_left = 0;
        self.recycle();
    }

    fn fill<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        let mut filled = 0;
        let mut at = self.copied_sent;
        let waiting = self.shared[self.shared_sent..].iter().map(|shared| (shared.at, &shared.bytes[..]));
        for (end, bytes) in waiting.chain([(self.copied.len(), &[][..])]) {
            for part in [&self.copied[at..end], bytes] {
                if filled == slices.len() {
                    return filled;
                }
                if !part.is_empty() {
                    slices[filled] = IoSlice::new(part);
                    filled += 1;
                }
            }
            at = end;
        }
        filled
    }

    fn advance(&mut self, mut written: usize) {
        self.taken.0 += written as u64;
        loop {
            let end = self.shared.get(self.shared_sent).map_or(self.copied.len(), |shared| shared.at);
            let step = written.min(end - self.copied_sent);
            self.copied_sent += step;
            written -= step;
            let Some(shared) = self.shared.get_mut(self.shared_sent).filter(|_| written > 0) else { return };
            let step = written.min(shared.bytes.len());
            shared.bytes.advance(step);
            self.shared_left -= step;
            written -= step;
            if shared.bytes.is_empty() {
                // Its memory is freed now, even if the bytes behind it wait.
                shared.bytes = Bytes::new();
                self.shared_sent += 1;
            }
        }
    }

    /// Frees the bytes that have left. An output that is refilled before it runs empty would otherwise grow for ever.
    /// Moves at most as many bytes as it frees.
    fn compact(&mut self) {
        if self.copied_sent >= KEEP_MAX_BYTES.max(self.copied.len() - self.copied_sent) {
            self.copied.drain(..self.copied_sent);
            for shared in &mut self.shared[self.shared_sent..] {
                shared.at -= self.copied_sent;
            }
            // Shared parts that have left stood before the drained bytes.
            self.shared.drain(..self.shared_sent);
            (self.copied_sent, self.shared_sent) = (0, 0);
        } else if self.shared_sent >= SLICES_MAX.max(self.shared.len() - self.shared_sent) {
            self.shared.drain(..self.shared_sent);
            self.shared_sent = 0;
        }
    }

    fn recycle(&mut self) {
        self.copied.clear();
        // A burst must not stay in memory for as long as its connection.
        self.copied.shrink_to(KEEP_MAX_BYTES);
        self.shared.clear();
        self.shared.shrink_to(SLICES_MAX);
        self.copied_sent = 0;
        self.shared_sent = 0;
    }
}

/// Up to here copying costs less than another slice of a vectored write does.
const COPY_MAX_BYTES: usize = 4096;
/// Memory that an empty output keeps.
const KEEP_MAX_BYTES: usize = 64 * 1024;
/// Writes of one poll: 2 MiB over the wire with the smallest room.
const WRITES_IN_A_ROW_MAX: u32 = 32;
/// Slices in one vectored write: 512 KiB in frames of 16 KiB, each with its head, are half as many.
const SLICES_MAX: usize = 128;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::address::Address;
    use crate::connection::Transport;

    #[test]
    fn what_has_left_is_forgotten_though_more_always_waits() {
        let (mut here, mut there) = Connection::pair();
        let mut cx = Context::from_waker(std::task::Waker::noop());
        let mut output = Output::new();
        let (mut put, mut got) = (0_usize, 0_usize);
        let mut read = vec![0; 16 * 1024];
        while got < 8 << 20 {
            while output.len() < 100 * 1024 {
                output.buffer().extend((0..1000).map(|at| ((put + at) % 251) as u8));
                put += 1000;
                let large: Vec<u8> = (0..5000).map(|at| ((put + at) % 251) as u8).collect();
                output.push_bytes(large.into());
                put += 5000;
            }
            assert!(output.poll_flush(&mut cx, &mut here).is_pending(), "more than the wire holds");
            let Poll::Ready(Ok(some)) = there.poll_read(&mut cx, &mut read) else {
                panic!("bytes are there")
            };
            assert!(read[..some].iter().enumerate().all(|(at, &byte)| byte == ((got + at) % 251) as u8));
            got += some;
        }
        assert!(output.copied.len() < 4 * KEEP_MAX_BYTES, "{} bytes", output.copied.len());
        assert!(output.shared.len() < 8 * SLICES_MAX, "{} parts", output.shared.len());
    }

    #[test]
    fn a_connection_that_always_takes_more_leaves_others_their_turn() {
        /// Takes a byte of each write, at once.
        struct Sip(usize);
        impl Transport for Sip {
            fn poll_readable(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
                Poll::Pending
            }
            fn poll_read(&mut self, _: &mut Context<'_>, _: &mut [u8]) -> Poll<io::Result<usize>> {
                Poll::Pending
            }
            fn poll_write(&mut self, _: &mut Context<'_>, _: &[u8]) -> Poll<io::Result<usize>> {
                self.0 += 1;
                assert!(self.0 < 1000, "1000 writes in one poll");
                Poll::Ready(Ok(1))
            }
            fn poll_write_vectored(
                &mut self,
                cx: &mut Context<'_>,
                _: &[IoSlice<'_>],
            ) -> Poll<io::Result<usize>> {
                self.poll_write(cx, &[])
            }
            fn poll_half_close(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
                Poll::Ready(Ok(()))
            }
            fn abort(&mut self) {}
            fn local(&self) -> Address {
                "memory:sip".parse().expect("an address")
            }
            fn peer(&self) -> Address {
                self.local()
            }
        }
        let mut connection = Connection::new(Sip(0));
        let mut output = Output::new();
        output.buffer().extend_from_slice(&[0; 2000]);
        let mut cx = Context::from_waker(std::task::Waker::noop());
        assert!(output.poll_flush(&mut cx, &mut connection).is_pending());
        assert!(output.len() < 2000 && !output.is_empty());
    }

    /// Takes the output out in writes of the given sizes, without a connection.
    fn drain(output: &mut Output, sizes: &[usize]) -> Vec<u8> {
        let mut out = Vec::new();
        let mut sizes = sizes.iter().cycle();
        while !output.is_empty() {
            let mut slices = [IoSlice::new(&[]); SLICES_MAX];
            let filled = output.fill(&mut slices);
            let mut room = sizes.next().copied().unwrap_or(1);
            let before = out.len();
            for slice in &slices[..filled] {
                let part = &slice[..slice.len().min(room)];
                out.extend_from_slice(part);
                room -= part.len();
            }
            output.advance(out.len() - before);
            output.compact();
        }
        output.recycle();
        out
    }

    #[test]
    fn shared_bytes_are_freed_once_they_have_left() {
        struct Owner(#[expect(dead_code, reason = "it is counted")] std::sync::Arc<()>);

        impl AsRef<[u8]> for Owner {
            fn as_ref(&self) -> &[u8] {
                &[b'x'; 5000]
            }
        }

        let kept = std::sync::Arc::new(());
        let mut output = Output::new();
        for _ in 0..2 {
            output.push_bytes(Bytes::from_owner(Owner(kept.clone())));
        }
        output.advance(5000);
        assert_eq!(std::sync::Arc::strong_count(&kept), 2, "the first waits no longer");
    }

    #[test]
    fn a_burst_leaves_no_large_buffer_behind() {
        let mut output = Output::new();
        output.buffer().resize(1 << 20, b'x');
        output.advance(1 << 20);
        output.recycle();
        assert!(output.is_empty() && output.copied.capacity() <= KEEP_MAX_BYTES);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn what_is_truncated_never_leaves(
            parts in prop::collection::vec((any::<u8>(), 0_usize..9000, any::<bool>()), 0..40),
            sent in 0_usize..100_000,
            kept in 0_usize..100_000,
        ) {
            let mut output = Output::new();
            let mut expected = Vec::new();
            for (fill, len, copied) in parts {
                let part = vec![fill; len];
                expected.extend_from_slice(&part);
                if copied { output.buffer().extend_from_slice(&part) } else { output.push_bytes(part.into()) }
            }
            let sent = sent.min(expected.len());
            output.advance(sent);
            expected.drain(..sent);
            expected.truncate(kept);
            let position = Position(sent as u64 + kept as u64);
            prop_assert!(output.truncate(position));
            prop_assert_eq!(output.len(), expected.len());
            prop_assert_eq!(output.end(), position.min(Position((sent + expected.len()) as u64)));
            if sent > 0 {
                prop_assert!(!output.truncate(Position(sent as u64 - 1)), "it has begun to leave");
                prop_assert_eq!(output.len(), expected.len());
            }
            output.buffer().extend_from_slice(b"more");
            expected.extend_from_slice(b"more");
            prop_assert_eq!(drain(&mut output, &[7000]), expected);
        }

        #[test]
        fn bytes_leave_in_order_however_they_are_written(
            parts in prop::collection::vec((any::<u8>(), 0_usize..9000, any::<bool>()), 0..40),
            sizes in prop::collection::vec(100_usize..20_000, 1..8),
        ) {
            let mut output = Output::new();
            let mut expected = Vec::new();
            for (fill, len, copied) in parts {
                let part = vec![fill; len];
                expected.extend_from_slice(&part);
                if copied { output.buffer().extend_from_slice(&part) } else { output.push_bytes(part.into()) }
                prop_assert_eq!(output.len(), expected.len());
            }
            prop_assert_eq!(drain(&mut output, &sizes), expected);
            prop_assert!(output.is_empty());
        }
    }
}
