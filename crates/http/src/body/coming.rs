//! A body that comes piece by piece, from whatever source.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use anywire_advice::Message;
use bytes::{Buf, Bytes};
use futures_core::Stream;

use super::channel::Receiver;
use super::error::{BodyError, BoxError};
use crate::Headers;

/// A body that comes piece by piece.
pub(super) struct Coming {
    pub(super) source: Source,
    /// How many bytes are still to come, if that was declared.
    pub(super) declared: Option<u64>,
    pub(super) trailers: Option<Box<Headers>>,
}

pub(super) enum Source {
    Stream(Pin<Box<dyn Items>>),
    Frames(Pin<Box<dyn Frames>>),
    Channel(Receiver),
    /// No bytes. `declared` is the length that the head states.
    Withheld,
    /// The end was read.
    Ended,
}

impl Coming {
    pub(super) fn has_ended(&self) -> bool {
        matches!(self.source, Source::Ended | Source::Withheld)
    }

    pub(super) fn stated_length(&self) -> Option<u64> {
        self.declared.filter(|_| matches!(self.source, Source::Withheld))
    }

    pub(super) fn length(&self) -> Option<u64> {
        if self.has_ended() { Some(0) } else { self.declared }
    }

    pub(super) fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, BodyError>> {
        for _ in 0..EMPTY_IN_A_ROW_MAX {
            let next = match &mut self.source {
                Source::Stream(stream) => ready!(stream.as_mut().poll_next_item(cx)),
                Source::Channel(receiver) => ready!(receiver.poll_chunk(cx)),
                Source::Frames(body) => ready!(body.as_mut().poll_next_chunk(cx, &mut self.trailers)),
                Source::Withheld | Source::Ended => return Poll::Ready(Ok(None)),
            };
            match next {
                // A stream may give empty items. An empty chunk would end the message.
                Ok(Some(bytes)) if bytes.is_empty() => {}
                Ok(Some(bytes)) => {
                    if let Some(declared) = &mut self.declared {
                        let length = bytes.len() as u64;
                        let Some(left) = declared.checked_sub(length) else {
                            let excess = length - *declared;
                            self.source = Source::Ended;
                            return Poll::Ready(Err(wrong_length("longer", excess)));
                        };
                        *declared = left;
                    }
                    return Poll::Ready(Ok(Some(bytes)));
                }
                Ok(None) if let Some(left @ 1..) = self.declared => {
                    self.source = Source::Ended;
                    return Poll::Ready(Err(wrong_length("shorter", left)));
                }
                end => {
                    if let Source::Channel(receiver) = &mut self.source {
                        self.trailers = receiver.take_trailers();
                    }
                    self.source = Source::Ended;
                    return Poll::Ready(end);
                }
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

/// A stream whose type is erased.
pub(super) trait Items: Send {
    /// The next item; `None` at the end.
    fn poll_next_item(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, BodyError>>;
}

impl<S: Stream<Item = Result<T, E>> + Send, T: Into<Bytes>, E: Into<BoxError>> Items for S {
    fn poll_next_item(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, BodyError>> {
        let item = ready!(self.poll_next(cx)).transpose().map_err(BodyError::failed)?;
        Poll::Ready(Ok(item.map(Into::into)))
    }
}

/// A foreign body whose type is erased.
pub(super) trait Frames: Send {
    /// The next data; `None` at the end, and then `trailers` are set if there were any.
    fn poll_next_chunk(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        trailers: &mut Option<Box<Headers>>,
    ) -> Poll<Result<Option<Bytes>, BodyError>>;
}

impl<B: http_body::Body<Data: Buf, Error: Into<BoxError>> + Send> Frames for B {
    fn poll_next_chunk(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        trailers: &mut Option<Box<Headers>>,
    ) -> Poll<Result<Option<Bytes>, BodyError>> {
        let Some(frame) = ready!(self.poll_frame(cx)) else { return Poll::Ready(Ok(None)) };
        Poll::Ready(match frame.map_err(BodyError::failed)?.into_data() {
            Ok(mut data) => Ok(Some(data.copy_to_bytes(data.remaining()))),
            Err(frame) => {
                *trailers = frame.into_trailers().ok().map(|map| Box::new(Headers::from(&map)));
                // Not the end: an empty chunk is skipped, and the body polled again.
                Ok(Some(Bytes::new()))
            }
        })
    }
}

/// The body does not keep to the length that it has declared.
#[cold]
fn wrong_length(how: &str, bytes: u64) -> BodyError {
    let message = Message::new(format!("the body is {how} than its stated length, by {bytes} bytes"));
    BodyError::failed(message.with_help("state the true one, or none"))
}

/// Empty items of a stream that one poll skips. A stream of empty items must not occupy its reader's task for ever.
const EMPTY_IN_A_ROW_MAX: u32 = 32;
