//! The body of a message: empty, whole, or coming piece by piece with back-pressure.
//!
//! A body is `Send` and driven by polling alone (a mutex and wakers, no runtime), so that a handler may run
//! on the connection's loop or elsewhere.

mod channel;
mod coming;
mod convert;
mod error;
mod preceded;

use std::any::Any;
use std::fmt;
use std::future::poll_fn;
use std::task::{Context, Poll};

use bytes::{Buf, Bytes, BytesMut};
use futures_core::Stream;

use self::coming::{Coming, Source};
use crate::Headers;

pub use self::channel::{SendError, Sender};
pub use self::error::{BodyError, BoxError};

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
}

/// As small as `Bytes`, so that a message with a whole body is cheap to move.
enum Kind {
    /// A whole body, or an empty one.
    Full(Bytes),
    Coming(Box<Coming>),
}

const _: () = assert!(size_of::<Body>() == size_of::<Bytes>());

impl Body {
    /// No bytes.
    #[inline]
    pub const fn empty() -> Self {
        Self { kind: Kind::Full(Bytes::new()) }
    }

    /// The items of `stream`, one after the other. An error ends the body, as [`BodyError::failed`] says.
    pub fn stream<T, E>(stream: impl Stream<Item = Result<T, E>> + Send + 'static) -> Self
    where
        T: Into<Bytes> + 'static,
        E: Into<BoxError> + 'static,
    {
        Self::from_source(Source::Stream(Box::pin(stream)))
    }

    /// A body of another kind: its data, and its trailers. Its length is declared if its size hint is exact.
    ///
    /// ```
    /// use anywire_http::Body;
    ///
    /// let body = Body::wrap(String::from("hello"));
    /// assert_eq!(body.length(), Some(5));
    /// ```
    pub fn wrap<B>(body: B) -> Self
    where
        B: http_body::Body<Data: Buf, Error: Into<BoxError>> + Send + 'static,
    {
        let mut slot = Some(body);
        if let Some(body) = (&mut slot as &mut dyn Any).downcast_mut::<Option<Self>>() {
            return body.take().unwrap_or_default();
        }
        let Some(body) = slot.filter(|body| !body.is_end_stream()) else { return Self::empty() };
        let length = body.size_hint().exact();
        let wrapped = Self::from_source(Source::Frames(Box::pin(body)));
        match length {
            Some(length) => wrapped.with_length(length),
            None => wrapped,
        }
    }

    /// A body that a [`Sender`] fills, at most about `limit_bytes` ahead of its reader.
    ///
    /// The sender may pass the limit with its last chunk; a limit of 0 counts as 1. Small chunks are joined while they wait, so
    /// that they take at most about twice the limit in memory.
    pub fn channel(limit_bytes: usize) -> (Sender, Self) {
        let (sender, receiver) = channel::channel(limit_bytes);
        (sender, Self::from_source(Source::Channel(receiver)))
    }

    /// No bytes, although the head of the message states a length: the body of an answer to `HEAD`, or of a 304.
    ///
    /// The answer to a `HEAD` request, or a 304, gets a `Content-Length` of `length` bytes, or none if the length is not
    /// known, and no byte follows (RFC 9110 sections 9.3.2 and 15.4.5). A server refuses to send this body where a body
    /// must follow the head: it answers 500 instead. A client gives it to responses with such a head, so that a proxy
    /// keeps their length.
    ///
    /// ```
    /// use anywire_http::{Body, Response, StatusCode};
    ///
    /// let response = Response::new(StatusCode::OK).body(Body::withheld(Some(5)));
    /// assert_eq!(response.body.stated_length(), Some(5));
    /// assert_eq!(response.body.length(), Some(0));
    /// ```
    pub fn withheld(length: Option<u64>) -> Self {
        let body = Self::from_source(Source::Withheld);
        match length {
            Some(length) => body.with_length(length),
            None => body,
        }
    }

    /// Declares how many bytes there will be, so that the message gets a `Content-Length`. A body that does not keep to it fails
    /// where it is read ([`BodyError::Failed`]).
    ///
    /// No effect on a whole body, whose length is known.
    #[must_use]
    pub fn with_length(mut self, length: u64) -> Self {
        if let Kind::Coming(coming) = &mut self.kind {
            coming.declared = Some(length);
        }
        self
    }

    /// The same body with these bytes before what is still to come.
    ///
    /// ```
    /// use anywire_http::Body;
    ///
    /// assert_eq!(Body::from("lo").preceded_by("hel".into()).length(), Some(5));
    /// ```
    #[must_use]
    pub fn preceded_by(self, bytes: Bytes) -> Self {
        if bytes.is_empty() {
            return self;
        }
        Self::wrap(preceded::Preceded::new(bytes, self))
    }

    /// How many bytes are still to come, if that is known: the length of a whole body, or the declared length minus the
    /// bytes read.
    #[inline]
    pub fn length(&self) -> Option<u64> {
        match &self.kind {
            Kind::Full(bytes) => Some(bytes.len() as u64),
            Kind::Coming(coming) => coming.length(),
        }
    }

    /// Whether this is [`Body::withheld`].
    #[inline]
    pub fn is_withheld(&self) -> bool {
        matches!(&self.kind, Kind::Coming(coming) if matches!(coming.source, Source::Withheld))
    }

    /// The length that the head states though no byte follows; `None` unless this is [`Body::withheld`].
    #[inline]
    pub fn stated_length(&self) -> Option<u64> {
        match &self.kind {
            Kind::Full(_) => None,
            Kind::Coming(coming) => coming.stated_length(),
        }
    }

    /// Whether it is known that no bytes are to come.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.length() == Some(0)
    }

    /// Whether it was made of bytes, and not of a stream, a channel or a body of another kind.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        matches!(self.kind, Kind::Full(_))
    }

    /// All bytes, if they are here already and none was read: `Some` for an empty and a whole body.
    #[inline]
    pub fn as_full(&self) -> Option<&Bytes> {
        static NOTHING: Bytes = Bytes::new();
        match &self.kind {
            Kind::Full(bytes) => Some(bytes),
            Kind::Coming(coming) if coming.has_ended() => Some(&NOTHING),
            Kind::Coming(_) => None,
        }
    }

    /// A copy of a body that is here whole, or of what is left of it to read. The bytes are shared. A body that comes in pieces has none,
    /// because they come once.
    ///
    /// ```
    /// use anywire_http::Body;
    ///
    /// let copy = Body::from("hello").try_clone().expect("it is whole");
    /// assert_eq!(copy.into_full().unwrap(), "hello");
    /// assert!(Body::channel(1).1.try_clone().is_none());
    /// ```
    pub fn try_clone(&self) -> Option<Self> {
        match &self.kind {
            Kind::Full(bytes) => Some(bytes.clone().into()),
            Kind::Coming(_) => None,
        }
    }

    /// Like [`Body::as_full`], giving the bytes away.
    ///
    /// ```
    /// use anywire_http::Body;
    ///
    /// assert_eq!(Body::from("hello").into_full().expect("whole"), "hello");
    /// let (_sender, coming) = Body::channel(1024);
    /// assert!(coming.into_full().is_err());
    /// ```
    ///
    /// # Errors
    ///
    /// The body itself, if its bytes are still to come.
    #[inline]
    pub fn into_full(self) -> Result<Bytes, Self> {
        match self.kind {
            Kind::Full(bytes) => Ok(bytes),
            Kind::Coming(coming) if coming.has_ended() => Ok(Bytes::new()),
            kind @ Kind::Coming(_) => Err(Self { kind }),
        }
    }

    /// The next bytes, never empty; `None` at the end.
    ///
    /// # Errors
    ///
    /// [`BodyError`] if the body broke off; the next call gives `None`.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, BodyError> {
        let mut asking = Asking { body: self, waits: false };
        poll_fn(|cx| {
            let polled = asking.body.poll_chunk(cx);
            asking.waits = polled.is_pending();
            polled
        })
        .await
    }

    /// The polling form of [`Body::chunk`].
    pub fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, BodyError>> {
        match &mut self.kind {
            Kind::Full(bytes) => {
                let bytes = std::mem::take(bytes);
                Poll::Ready(Ok(Some(bytes).filter(|bytes| !bytes.is_empty())))
            }
            Kind::Coming(coming) => coming.poll_chunk(cx),
        }
    }

    /// All remaining bytes, joined. Not copied if they come as one chunk.
    ///
    /// # Errors
    ///
    /// [`BodyError::TooLarge`] if there are more than `limit_bytes`, before reading if the length is known;
    /// another [`BodyError`] if the body broke off.
    pub async fn bytes(&mut self, limit_bytes: usize) -> Result<Bytes, BodyError> {
        let too_large = || BodyError::TooLarge { limit_bytes };
        if let Kind::Full(bytes) = &mut self.kind {
            return if bytes.len() > limit_bytes { Err(too_large()) } else { Ok(std::mem::take(bytes)) };
        }
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

    /// All remaining bytes as UTF-8.
    ///
    /// # Errors
    ///
    /// [`BodyError::Text`], and the errors of [`bytes`](Self::bytes).
    pub async fn text(&mut self, limit_bytes: usize) -> Result<String, BodyError> {
        let bytes = self.bytes(limit_bytes).await?;
        String::from_utf8(bytes.into()).map_err(|invalid| BodyError::Text(invalid.utf8_error()))
    }

    /// The trailer fields, once the end was read, if the message had any.
    pub fn trailers(&self) -> Option<&Headers> {
        match &self.kind {
            Kind::Full(_) => None,
            Kind::Coming(coming) => coming.trailers.as_deref(),
        }
    }

    fn from_source(source: Source) -> Self {
        Self { kind: Kind::Coming(Box::new(Coming { source, declared: None, trailers: None })) }
    }
}

/// A call of [`Body::chunk`]. If it is dropped while it waits, as `select!` does, nobody waits any more.
struct Asking<'b> {
    body: &'b mut Body,
    waits: bool,
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        if self.waits
            && let Kind::Coming(coming) = &self.body.kind
            && let Source::Channel(receiver) = &coming.source
        {
            receiver.wait_no_more();
        }
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
            Kind::Full(bytes) if bytes.is_empty() => "empty",
            Kind::Full(_) => "full",
            Kind::Coming(coming) => match &coming.source {
                Source::Stream(_) | Source::Frames(_) => "stream",
                Source::Channel(_) => "channel",
                Source::Withheld => "withheld",
                Source::Ended => "empty",
            },
        };
        f.debug_struct("Body").field("kind", &kind).field("length", &self.length()).finish()
    }
}
