//! What an engine offers whose connection carries many streams.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hash};

use anywire_http::h2::{Code, IdHasher, ResponseParts, Unsent};
use anywire_http::{Headers, StatusCode, Version};
use anywire_wire::Position;
use bytes::Bytes;

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

    /// The stream whose turn it is to send data, and how much it may. None while the output has to leave first.
    fn next_to_send(&mut self) -> Option<(Self::Id, usize)>;

    /// Says whether there is data of this stream to send.
    fn wants_to_send(&mut self, id: Self::Id, wants: bool);

    /// Whether a stream has data to send, and a window of the peer's keeps it from that.
    fn is_blocked(&self, id: Self::Id) -> bool;

    /// Sends the head of a response. `end` says that there is no body.
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

    /// Sends data, at most what [`next_to_send`](Self::next_to_send) has said. None, for the end, at any time.
    fn data(&mut self, id: Self::Id, piece: Bytes, end: bool);

    /// Sends a whole body behind its head, out of turn. Returns false, and sends nothing, if it has to wait for its turn or for
    /// a window.
    fn send_at_once(&mut self, id: Self::Id, whole: &Bytes) -> bool;

    /// Sends the trailers, which end a body.
    ///
    /// # Errors
    ///
    /// [`Unsent`].
    fn trailers(&mut self, id: Self::Id, trailers: &Headers) -> Result<(), Unsent>;

    /// Ends both halves of a stream, if they have not ended.
    fn reset(&mut self, id: Self::Id, code: Code);

    /// So much of a stream's body was read: the peer may send as much more.
    fn consumed(&mut self, id: Self::Id, bytes: usize);

    /// So much of a stream's body was thrown away: the peer may send as much more on other streams.
    fn discarded(&mut self, id: Self::Id, bytes: usize);

    /// Whether bodies that nobody reads leave no window for the others. What their peer does not send then is no silence of
    /// its own.
    fn keeps_peer_waiting(&self) -> bool;
}
