//! A body as other crates see it, and what becomes one.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures_core::Stream;
use http::HeaderMap;
use http_body::{Frame, SizeHint};

use super::error::BodyError;
use super::{Body, Kind};

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = BodyError;

    /// Data, and then the trailers if there are any, which [`Body::trailers`] does not give any more.
    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        if let Some(chunk) = ready!(self.poll_chunk(cx))? {
            return Poll::Ready(Some(Ok(Frame::data(chunk))));
        }
        let Kind::Coming(coming) = &mut self.kind else { return Poll::Ready(None) };
        let Some(trailers) = coming.trailers.take() else { return Poll::Ready(None) };
        let map = HeaderMap::try_from(&*trailers).map_err(BodyError::failed)?;
        Poll::Ready(Some(Ok(Frame::trailers(map))))
    }

    fn is_end_stream(&self) -> bool {
        self.as_full().is_some_and(Bytes::is_empty) && self.trailers().is_none()
    }

    fn size_hint(&self) -> SizeHint {
        self.length().map_or_else(SizeHint::new, SizeHint::with_exact)
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
        Self { kind: Kind::Full(bytes) }
    }
}

impl From<Vec<u8>> for Body {
    #[inline]
    fn from(bytes: Vec<u8>) -> Self {
        Bytes::from(bytes).into()
    }
}

impl From<String> for Body {
    #[inline]
    fn from(text: String) -> Self {
        Bytes::from(text).into()
    }
}

impl From<&'static str> for Body {
    #[inline]
    fn from(text: &'static str) -> Self {
        Bytes::from_static(text.as_bytes()).into()
    }
}

impl From<&'static [u8]> for Body {
    #[inline]
    fn from(bytes: &'static [u8]) -> Self {
        Bytes::from_static(bytes).into()
    }
}

impl From<()> for Body {
    fn from((): ()) -> Self {
        Self::empty()
    }
}
