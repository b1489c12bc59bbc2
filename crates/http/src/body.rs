//! The body of a message: empty, whole, or coming piece by piece with back-pressure.
//!
//! A body is `Send` and driven by polling alone (a mutex and wakers, no runtime), so that a handler may run
//! on the connection's loop or elsewhere.

mod channel;
mod error;

use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use futures_core::Stream;

use self::channel::Receiver;
use crate::Headers;
use crate::h1::Framing;

pub use self::channel::{SendError, Sender};
pub use self::error::BodyError;

/// The bytes of a message, read with [`Body::chunk`] or [`Body::bytes`].
///
/// ```
/// use anywire_http::Body;
///
/// let body = Body::from("hello");
/// assert_eq!(body.length(), Some(5));
/// assert_eq!(body.as_full().map(|bytes| &bytes[..]), Some(&b"hello"[..]));
/// ```
pub struct Body {
    kind: Kind,
    /// How many bytes there will be in all, if a stream's or channel's maker said so.
    declared: Option<u64>,
    trailers: Option<Box<Headers>>,
}

enum Kind {
    /// Nothing, or nothing any more.
    Empty,
    Full(Bytes),
    Stream(Pin<Box<dyn Stream<Item = Result<Bytes, BodyError>> + Send>>),
    Channel(Receiver),
}

impl Body {
    /// No bytes.
    pub const fn empty() -> Self {
        Self::of(Kind::Empty)
    }

    /// The items of `stream`, one after the other; an error ends the body.
    pub fn stream(stream: impl Stream<Item = Result<Bytes, BodyError>> + Send + 'static) -> Self {
        Self::of(Kind::Stream(Box::pin(stream)))
    }

    /// A body that a [`Sender`] fills, at most about `limit_bytes` ahead of its reader.
    ///
    /// The sender may pass the limit with its last chunk; a limit of 0 counts as 1.
    pub fn channel(limit_bytes: usize) -> (Sender, Self) {
        let (sender, receiver) = channel::channel(limit_bytes);
        (sender, Self::of(Kind::Channel(receiver)))
    }

    /// Declares how many bytes there will be, so that the message gets a `Content-Length`.
    ///
    /// Nothing for a body whose bytes are all here: its length is known.
    #[must_use]
    pub fn with_length(mut self, length: u64) -> Self {
        self.declared = Some(length);
        self
    }

    /// How many bytes are still to come, if it is known: of a whole body its length, else what was declared
    /// less what was read.
    #[inline]
    pub fn length(&self) -> Option<u64> {
        match &self.kind {
            Kind::Empty => Some(0),
            Kind::Full(bytes) => Some(bytes.len() as u64),
            Kind::Stream(_) | Kind::Channel(_) => self.declared,
        }
    }

    /// The framing that fits: the length if it is known, else chunks.
    #[inline]
    pub fn framing(&self) -> Framing {
        self.length().map_or(Framing::Chunked, Framing::Length)
    }

    /// Whether it is known that no bytes are to come.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.length() == Some(0)
    }

    /// All bytes, if they are here already and none was read: `Some` for an empty and a whole body.
    #[inline]
    pub fn as_full(&self) -> Option<&Bytes> {
        static NOTHING: Bytes = Bytes::new();
        match &self.kind {
            Kind::Empty => Some(&NOTHING),
            Kind::Full(bytes) => Some(bytes),
            Kind::Stream(_) | Kind::Channel(_) => None,
        }
    }

    /// The next bytes, never empty; `None` at the end.
    ///
    /// # Errors
    ///
    /// [`BodyError`] if the body broke off; the next call gives `None`.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, BodyError> {
        poll_fn(|cx| self.poll_chunk(cx)).await
    }

    /// The polling form of [`Body::chunk`].
    pub fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, BodyError>> {
        loop {
            let next = match &mut self.kind {
                Kind::Empty => return Poll::Ready(Ok(None)),
                Kind::Full(bytes) => {
                    let bytes = std::mem::take(bytes);
                    self.kind = Kind::Empty;
                    return Poll::Ready(Ok(Some(bytes).filter(|bytes| !bytes.is_empty())));
                }
                Kind::Stream(stream) => ready!(stream.as_mut().poll_next(cx)).transpose(),
                Kind::Channel(receiver) => ready!(receiver.poll_chunk(cx)),
            };
            match next {
                // A stream may give empty items; as a chunk one would end the message.
                Ok(Some(bytes)) if bytes.is_empty() => {}
                Ok(Some(bytes)) => {
                    if let Some(declared) = &mut self.declared {
                        *declared = declared.saturating_sub(bytes.len() as u64);
                    }
                    return Poll::Ready(Ok(Some(bytes)));
                }
                end => {
                    if let Kind::Channel(receiver) = &mut self.kind {
                        self.trailers = receiver.take_trailers();
                    }
                    self.kind = Kind::Empty;
                    return Poll::Ready(end);
                }
            }
        }
    }

    /// All bytes that are still to come, joined; not copied if they come as one chunk.
    ///
    /// # Errors
    ///
    /// [`BodyError::TooLarge`] if there are more than `limit_bytes`, before reading if the length is known;
    /// another [`BodyError`] if the body broke off.
    pub async fn bytes(&mut self, limit_bytes: usize) -> Result<Bytes, BodyError> {
        let too_large = || BodyError::TooLarge { limit_bytes };
        if self.length().is_some_and(|length| length > limit_bytes as u64) {
            return Err(too_large());
        }
        let Some(first) = self.chunk().await? else { return Ok(Bytes::new()) };
        if first.len() > limit_bytes {
            return Err(too_large());
        }
        let Some(second) = self.chunk().await? else { return Ok(first) };
        let mut joined = BytesMut::from(first);
        let mut next = Some(second);
        while let Some(chunk) = next {
            if chunk.len() > limit_bytes - joined.len() {
                return Err(too_large());
            }
            joined.extend_from_slice(&chunk);
            next = self.chunk().await?;
        }
        Ok(joined.freeze())
    }

    /// The trailer fields, once the end was read, if the message had any.
    pub fn trailers(&self) -> Option<&Headers> {
        self.trailers.as_deref()
    }

    const fn of(kind: Kind) -> Self {
        Self { kind, declared: None, trailers: None }
    }
}

impl Default for Body {
    fn default() -> Self {
        Self::empty()
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match &self.kind {
            Kind::Empty => "empty",
            Kind::Full(_) => "full",
            Kind::Stream(_) => "stream",
            Kind::Channel(_) => "channel",
        };
        f.debug_struct("Body").field("kind", &kind).field("length", &self.length()).finish()
    }
}

impl Stream for Body {
    type Item = Result<Bytes, BodyError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.poll_chunk(cx).map(Result::transpose)
    }
}

impl From<Bytes> for Body {
    #[inline]
    fn from(bytes: Bytes) -> Self {
        if bytes.is_empty() { Self::empty() } else { Self::of(Kind::Full(bytes)) }
    }
}

impl From<Vec<u8>> for Body {
    fn from(bytes: Vec<u8>) -> Self {
        Bytes::from(bytes).into()
    }
}

impl From<String> for Body {
    fn from(text: String) -> Self {
        Bytes::from(text).into()
    }
}

impl From<&'static str> for Body {
    fn from(text: &'static str) -> Self {
        Bytes::from_static(text.as_bytes()).into()
    }
}

impl From<&'static [u8]> for Body {
    fn from(bytes: &'static [u8]) -> Self {
        Bytes::from_static(bytes).into()
    }
}

impl From<()> for Body {
    fn from((): ()) -> Self {
        Self::empty()
    }
}
