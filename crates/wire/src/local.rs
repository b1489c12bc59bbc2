//! Whole messages between two programs over any wire, without HTTP.
//!
//! A [`Channel`] sends and receives byte messages of any size up to a limit. On one machine it is meant for `shm:` and `unix:`
//! addresses, and it works on all others. Each message travels as its length (four bytes, little-endian) and its bytes.
//!
//! Over shared memory a message is copied twice: from the sender's memory into the ring, and from there into the channel's
//! own buffer, which [`receive`](Channel::receive) lends. Fewer copies would lend out memory that a hostile peer can change
//! while it is read.
//!
//! ```
//! use anywire_wire::Connection;
//! use anywire_wire::local::Channel;
//!
//! let loops = anywire_loops::Loops::start(1)?;
//! loops.get(0).spawn(|| async {
//!     let (here, there) = Connection::pair();
//!     let (mut here, mut there) = (Channel::new(here), Channel::new(there));
//!     here.send(b"one").await?;
//!     here.send(b"").await?;
//!     assert_eq!(there.receive().await?, Some(&b"one"[..]));
//!     assert_eq!(there.receive().await?, Some(&b""[..]));
//!     drop(here);
//!     assert_eq!(there.receive().await?, None);
//!     Ok::<_, anywire_wire::local::Error>(())
//! }).wait()??;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::future::poll_fn;
use std::io::{self, IoSlice};

use crate::address::ToAddress;
use crate::connection::Connection;
use crate::dialer::Dialer;
use crate::error::DialError;

/// A connection that carries whole messages. Dropping it closes it.
#[derive(Debug)]
pub struct Channel {
    connection: Connection,
    limits: Limits,
    /// Received bytes from `start` to `end`: messages to be given out, of which the last one may be incomplete.
    buffer: Vec<u8>,
    start: usize,
    end: usize,
}

/// What a channel takes at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of one message, sent or received (1 MiB). A channel's buffer grows with the bytes that come, and then stays: to
    /// about twice this size at most.
    pub message_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { message_bytes: 1 << 20 }
    }
}

/// Why a message was not sent or received. The channel is of no more use, unless it is [`TooLong`](Self::TooLong).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The caller wants to send more than [`Limits::message_bytes`], and nothing was sent. Cut it into parts, or raise the limit
    /// at both ends.
    #[error("a message of {bytes} bytes was to be sent, and the limit is {max}")]
    TooLong {
        /// Its size.
        bytes: usize,
        /// The limit.
        max: usize,
    },
    /// The peer sends more than [`Limits::message_bytes`], or does not speak this protocol.
    #[error("the peer sends a message of {bytes} bytes, and the limit is {max}")]
    PeerTooLong {
        /// Its size.
        bytes: usize,
        /// The limit.
        max: usize,
    },
    /// The peer has ended its direction within a message.
    #[error("the peer ended within a message")]
    Cut,
    /// The wire failed, mostly because the peer has gone.
    #[error("the connection failed: {0}")]
    Wire(#[from] io::Error),
}

impl Channel {
    /// A channel over this connection, with the default [`Limits`]. The peer has to make one of its end, too.
    pub fn new(connection: Connection) -> Self {
        Self { connection, limits: Limits::default(), buffer: Vec::new(), start: 0, end: 0 }
    }

    /// Connects to an [`Address`](crate::Address) or its text with the default options, on the loop that asks for it.
    ///
    /// # Errors
    /// [`DialError`], as for [`Dialer::dial`].
    pub async fn dial(address: impl ToAddress) -> Result<Self, DialError> {
        Ok(Self::new(Dialer::default().dial(address).await?))
    }

    /// Changes the limits.
    #[must_use]
    pub fn with_limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// The connection below, such as to ask who the peer is.
    pub fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Sends a message. Waits while the peer does not read.
    ///
    /// If its future is dropped before it is done, a part of the message may have left, and the channel is of no more use.
    ///
    /// # Errors
    /// [`Error`] says whose fault it is.
    pub async fn send(&mut self, message: &[u8]) -> Result<(), Error> {
        let (bytes, max) = (message.len(), self.limits.message_bytes);
        let length =
            u32::try_from(bytes).ok().filter(|_| bytes <= max).ok_or(Error::TooLong { bytes, max })?;
        let length = length.to_le_bytes();
        let mut sent = 0;
        while sent < HEAD_BYTES + bytes {
            let head = &length[sent.min(HEAD_BYTES)..];
            let slices = [IoSlice::new(head), IoSlice::new(&message[sent.saturating_sub(HEAD_BYTES)..])];
            sent += poll_fn(|cx| self.connection.poll_write_vectored(cx, &slices)).await?;
        }
        Ok(poll_fn(|cx| self.connection.poll_flush(cx)).await?)
    }

    /// The next message; `None` if the peer has ended its direction behind a message. It is lent until the next call.
    ///
    /// If its future is dropped before it is done, no message is lost.
    ///
    /// # Errors
    /// [`Error`] says whose fault it is.
    pub async fn receive(&mut self) -> Result<Option<&[u8]>, Error> {
        let needed = loop {
            let waiting = &self.buffer[self.start..self.end];
            let needed = match waiting.first_chunk() {
                Some(head) => HEAD_BYTES + self.length(*head)?,
                None => HEAD_BYTES,
            };
            if waiting.len() >= needed && waiting.len() >= HEAD_BYTES {
                break needed;
            }
            self.make_room(needed);
            match self.connection.read(&mut self.buffer[self.end..]).await? {
                0 if self.start == self.end => return Ok(None),
                0 => return Err(Error::Cut),
                read => self.end += read,
            }
        };
        let message = self.start + HEAD_BYTES..self.start + needed;
        self.start += needed;
        Ok(Some(&self.buffer[message]))
    }

    /// Ends the own direction: the peer receives `None` behind the last message. The other direction goes on.
    ///
    /// # Errors
    /// The error of the wire.
    pub async fn half_close(&mut self) -> Result<(), Error> {
        Ok(self.connection.half_close().await?)
    }

    fn length(&self, head: [u8; HEAD_BYTES]) -> Result<usize, Error> {
        let (bytes, max) = (u32::from_le_bytes(head) as usize, self.limits.message_bytes);
        if bytes <= max { Ok(bytes) } else { Err(Error::PeerTooLong { bytes, max }) }
    }

    /// Makes room for more bytes of a message that needs so many from `start` on.
    ///
    /// Memory grows with the bytes that have come. A length alone, which costs the peer four bytes, takes none.
    fn make_room(&mut self, needed: usize) {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
        let needed = needed.min(2 * (self.end - self.start)).max(BUFFER_BYTES);
        if self.buffer.len() - self.start < needed {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
            if self.buffer.len() < needed {
                self.buffer.resize(needed, 0);
            }
        }
    }
}

const HEAD_BYTES: usize = 4;
/// The least that is read at once, so that a read brings many small messages.
const BUFFER_BYTES: usize = 16 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_announced_takes_no_memory_until_it_comes() {
        let loops = anywire_loops::Loops::start(1).expect("a thread");
        let played = loops.get(0).spawn(|| async {
            let (mut peer, here) = Connection::pair();
            let max = 1 << 30;
            let mut channel = Channel::new(here).with_limits(Limits { message_bytes: max });
            peer.write_all(&(max as u32).to_le_bytes()).await.expect("it is open");
            for sent in [0, 100, BUFFER_BYTES, 100_000] {
                let bytes = vec![7; sent];
                tokio::select! {
                    received = channel.receive() => panic!("it is not whole: {received:?}"),
                    written = peer.write_all(&bytes) => written.expect("it is read"),
                }
                let come = channel.end - channel.start;
                assert!(
                    channel.buffer.len() <= BUFFER_BYTES.max(2 * come),
                    "{come} {}",
                    channel.buffer.len()
                );
            }
        });
        played.wait().expect("no panic");
    }
}
