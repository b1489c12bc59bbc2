//! The operations of an engine whose connection carries many streams.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hash};

use anywire_http::h2::{Code, IdHasher, ResponseParts, Unsent};
use anywire_http::{Headers, StatusCode, Version};
use anywire_wire::Position;
use bytes::Bytes;

use crate::Piece;

/// What a driver keeps of each stream.
pub type StreamTable<S, V> = HashMap<<S as Streams>::Id, V, BuildHasherDefault<IdHasher>>;

/// An engine whose connection carries many streams, together with the output that it writes to.
///
/// Errors are named as HTTP/2 names them. Those that concern one stream mean the same in HTTP/3 (RFC 9114 section 8.1).
pub trait Streams {
    /// Names a stream.
    type Id: Copy + Eq + Hash + Send + Sync + 'static;

    /// The version of HTTP that the engine speaks.
    const VERSION: Version;

    /// Where the next byte will stand in the output.
    fn position(&self) -> Position;

    /// The stream whose turn it is to send data, and how many bytes it may send. `None` while the output must leave first.
    fn next_to_send(&mut self) -> Option<(Self::Id, usize)>;

    /// Sets whether there is data of this stream to send.
    fn wants_to_send(&mut self, id: Self::Id, wants: bool);

    /// Whether a stream has data to send, and waits for a window of the peer's.
    fn is_blocked(&self, id: Self::Id) -> bool;

    /// Whether a stream's own window is open. If it is blocked all the same, it waits for the window that all streams share.
    fn has_window(&self, id: Self::Id) -> bool;

    /// Whether the window that all streams share is used up.
    fn is_window_closed(&self) -> bool;

    /// Whether all that was written has left.
    fn has_left(&self) -> bool;

    /// Sends the head of a response. `end`: there is no body.
    ///
    /// # Errors
    ///
    /// [`Unsent`].
    fn respond(&mut self, id: Self::Id, parts: &ResponseParts<'_>, end: bool) -> Result<(), Unsent>;

    /// Sends an interim response.
    ///
    /// # Errors
    ///
    /// [`Unsent`].
    fn inform(&mut self, id: Self::Id, status: StatusCode, headers: &Headers) -> Result<(), Unsent>;

    /// Sends data: at most as much as [`next_to_send`](Self::next_to_send) returned. An end without data may be sent at any time.
    fn data(&mut self, id: Self::Id, piece: Piece, end: bool);

    /// Sends a whole body right behind its head. Returns false, and sends nothing, if it must wait for its turn or for a window.
    fn send_at_once(&mut self, id: Self::Id, whole: &Bytes) -> bool;

    /// Sends the trailers, which end a body.
    ///
    /// # Errors
    ///
    /// [`Unsent`].
    fn trailers(&mut self, id: Self::Id, trailers: &Headers) -> Result<(), Unsent>;

    /// Ends both halves of a stream, if they have not ended.
    fn reset(&mut self, id: Self::Id, code: Code);

    /// These bytes of a stream's body were read: the peer may send as many more.
    fn consumed(&mut self, id: Self::Id, bytes: usize);

    /// These bytes of a stream's body were dropped: the peer may send as many more on other streams.
    fn discarded(&mut self, id: Self::Id, bytes: usize);

    /// Whether unread bodies have used up the connection's window. If the peer sends nothing then, it is not at fault.
    fn keeps_peer_waiting(&self) -> bool;
}
