//! Messages with their length in front, however the network cuts them.

use std::cell::RefCell;

use anywire_tcp::{ConnId, Engine};
use thiserror::Error;

use super::conn::Conn;
use super::context::swarm_state;
use super::receive::ReadError;

/// A protocol of messages that each have their length in front: 1, 2 or 4 bytes, the highest first, which do not count
/// themselves.
///
/// ```no_run
/// use anywire_stack::swarm::{Conn, FrameError, LengthPrefix};
///
/// const MESSAGES: LengthPrefix = LengthPrefix::u16(4096);
///
/// async fn upper_case(mut conn: Conn) -> Result<(), FrameError> {
///     while let Some(text) = MESSAGES.recv(&mut conn, |message| message.to_ascii_uppercase()).await? {
///         MESSAGES.send(&mut conn, &text).await?;
///     }
///     Ok(())
/// }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LengthPrefix {
    bytes: u8,
    largest: u32,
}

impl LengthPrefix {
    /// A length of one byte; messages of more than `largest` bytes are refused.
    pub const fn u8(largest: u8) -> Self {
        Self { bytes: 1, largest: largest as u32 }
    }

    /// A length of two bytes; messages of more than `largest` bytes are refused.
    pub const fn u16(largest: u16) -> Self {
        Self { bytes: 2, largest: largest as u32 }
    }

    /// A length of four bytes; messages of more than `largest` bytes are refused.
    ///
    /// A message waits in the receive queue until it is complete. So with its prefix it must not exceed half of the receive
    /// window, 128 KiB by default.
    pub const fn u32(largest: u32) -> Self {
        Self { bytes: 4, largest }
    }

    /// Waits for the next message, shows it in one piece and gives what `read` makes of it; none once the peer has ended its
    /// direction between two messages.
    ///
    /// # Errors
    ///
    /// [`FrameError::TooLong`] as soon as the length has come; [`FrameError::Read`] if the peer ends within a message,
    /// or is past its [idle deadline](Conn::set_idle_deadline). After the first two the connection is of no more use: drop it.
    pub async fn recv<R>(
        &self,
        conn: &mut Conn,
        read: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>, FrameError> {
        let prefix = usize::from(self.bytes);
        match conn.fill_to(prefix).await {
            Err(ReadError::Ended { have: 0, .. }) => return Ok(None),
            other => other?,
        }
        let mut length = 0;
        show(conn.id(), prefix, |bytes| {
            length = bytes.iter().fold(0, |length, byte| length << 8 | u32::from(*byte));
            0
        });
        if length > self.largest {
            return Err(FrameError::TooLong { length, largest: self.largest });
        }
        let whole = prefix + length as usize;
        conn.fill_to(whole).await?;
        let mut result = None;
        show(conn.id(), whole, |bytes| {
            result = Some(read(&bytes[prefix..]));
            whole
        });
        Ok(result)
    }

    /// Sends a message with its length in front.
    ///
    /// # Errors
    ///
    /// [`FrameError::TooLong`], then nothing was sent; [`FrameError::Unsent`] if the connection no longer sends.
    pub async fn send(&self, conn: &mut Conn, message: &[u8]) -> Result<(), FrameError> {
        let head = self.length_of(message)?.to_be_bytes();
        let head = &head[head.len() - usize::from(self.bytes)..];
        // In one segment where it fits.
        conn.writable().await;
        let is_sent = conn.write(head.len() + message.len(), |room| {
            let (front, back) = room.split_at_mut(head.len());
            front.copy_from_slice(head);
            back.copy_from_slice(message);
        });
        if is_sent {
            return Ok(());
        }
        for part in [head, message] {
            if conn.send(part).await < part.len() {
                return Err(FrameError::Unsent);
            }
        }
        Ok(())
    }

    /// A message with its length in front, to be sent as it is. As a [`SharedPayload`](super::SharedPayload) it goes to any
    /// number of connections.
    ///
    /// ```
    /// use anywire_stack::swarm::LengthPrefix;
    ///
    /// assert_eq!(LengthPrefix::u16(100).encode(b"hi")?, b"\0\x02hi");
    /// assert!(LengthPrefix::u8(1).encode(b"hi").is_err());
    /// # Ok::<(), anywire_stack::swarm::FrameError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`FrameError::TooLong`].
    pub fn encode(&self, message: &[u8]) -> Result<Vec<u8>, FrameError> {
        let head = self.length_of(message)?.to_be_bytes();
        Ok([&head[head.len() - usize::from(self.bytes)..], message].concat())
    }

    fn length_of(&self, message: &[u8]) -> Result<u32, FrameError> {
        let (length, largest) = (u32::try_from(message.len()).unwrap_or(u32::MAX), self.largest);
        if length > largest { Err(FrameError::TooLong { length, largest }) } else { Ok(length) }
    }
}

/// Why a message was not received or sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum FrameError {
    /// It is longer than the protocol allows: the fault of its sender.
    #[error("a message of {length} bytes is longer than the {largest} that were agreed on")]
    TooLong {
        /// Its length.
        length: u32,
        /// The agreed limit.
        largest: u32,
    },
    /// It did not come whole.
    #[error("a message did not come whole")]
    Read(#[from] ReadError),
    /// The connection no longer sends: it has failed, or was shut down.
    #[error("a message could not be sent: the connection no longer sends")]
    Unsent,
}

/// Shows the first `length` unread bytes, which must have come, in one piece, and takes as many as `read` says.
pub(super) fn show(id: ConnId, length: usize, read: impl FnOnce(&[u8]) -> usize) -> usize {
    let mut read = Some(read);
    // Nearly always they lie in one piece already.
    let taken = swarm_state().engine.recv(id, |bytes| {
        match bytes.get(..length).and_then(|bytes| Some((bytes, read.take()?))) {
            Some((bytes, read)) => read(bytes).min(length),
            None => 0,
        }
    });
    let Some(read) = read else { return taken };
    with_pieces(|pieces| {
        swarm_state().engine.peek(id, length, pieces);
        let taken = read(pieces).min(pieces.len());
        take(&mut swarm_state().engine, id, taken);
        taken
    })
}

/// Takes so many unread bytes.
pub(super) fn take(engine: &mut Engine, id: ConnId, mut left: usize) {
    while left > 0 {
        let taken = engine.recv(id, |bytes| bytes.len().min(left));
        if taken == 0 {
            return;
        }
        left -= taken;
    }
}

/// Does something with the thread's buffer for bytes in pieces, which is empty.
pub(super) fn with_pieces<R>(with: impl FnOnce(&mut Vec<u8>) -> R) -> R {
    let mut pieces = PIECES.take();
    pieces.clear();
    let result = with(&mut pieces);
    PIECES.set(pieces);
    result
}

thread_local! {
    /// As long as the longest message in pieces so far: at most half of a receive window.
    static PIECES: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}
