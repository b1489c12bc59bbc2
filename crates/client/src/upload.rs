//! The sending half of an exchange: a request's head and body into an output.

use std::io;
use std::mem::{self, ManuallyDrop};
use std::ops::{Deref, DerefMut};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::{Context, Poll, ready};

use anywire_http::Method;
use anywire_http::body::{Body, BodyError};
use anywire_http::h1::Framing;
use anywire_http::h1::encode::{self, EncodeError};
use anywire_wire::{Connection, Output};
use bytes::Bytes;

use crate::job::Job;

/// A body of the caller's. A panic of its destructor ends there, since it is dropped by tasks that serve other calls, too.
#[derive(Debug, Default)]
pub(crate) struct Contained(Body);

impl<B: Into<Body>> From<B> for Contained {
    fn from(body: B) -> Self {
        Self(body.into())
    }
}

impl Deref for Contained {
    type Target = Body;

    fn deref(&self) -> &Body {
        &self.0
    }
}

impl DerefMut for Contained {
    fn deref_mut(&mut self) -> &mut Body {
        &mut self.0
    }
}

impl Drop for Contained {
    fn drop(&mut self) {
        if self.0.as_full().is_some() {
            return;
        }
        let body = mem::take(&mut self.0);
        if let Err(payload) = catch_unwind(AssertUnwindSafe(|| drop(body))) {
            // Its destructor may panic as well.
            let _ = ManuallyDrop::new(payload);
        }
    }
}

/// What is still to be sent of a request.
#[derive(Debug)]
pub(crate) enum Upload {
    /// Nothing; the output may still hold bytes.
    Done,
    /// A body that comes in pieces, and how many bytes of it are to come if that was declared.
    Body {
        /// The body.
        body: Contained,
        /// Bytes to come of a declared length; none: chunked.
        left: Option<u64>,
    },
    /// The peer takes no more. It may still have answered.
    Broken(io::Error),
}

impl Upload {
    /// Puts the head and, if it is there already, the whole body of a request into `output`, which is empty.
    pub(crate) fn start(job: &mut Job, host: &str, output: &mut Output) -> Result<Self, EncodeError> {
        let framing = Framing::of_request(&job.method, &job.body);
        let target = job.target.path_and_query();
        encode::request_head(output.buffer(), &job.method, target, host, &job.headers, framing)?;
        if let Some(bytes) = job.body.as_full() {
            if !bytes.is_empty() {
                output.push_bytes(bytes.clone());
            }
            return Ok(Self::Done);
        }
        Ok(Self::Body { left: framing.length(), body: mem::take(&mut job.body) })
    }

    pub(crate) fn is_done(&self) -> bool {
        matches!(self, Self::Done)
    }

    /// Moves what there is of the body into `output` and `output` into the wire, until one of them has no more to
    /// give or to take. Sets `sent` if the peer took any byte.
    pub(crate) fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        wire: &mut Connection,
        output: &mut Output,
        sent: &mut bool,
    ) -> Poll<Result<(), BodyError>> {
        for _ in 0..WRITES_IN_A_ROW_MAX {
            // The body first, so that the head and the first piece leave in one write.
            let filled = self.poll_fill(cx, output)?;
            if output.is_empty() {
                return filled.map(Ok);
            }
            let before = output.len();
            let flushed = output.poll_flush(cx, wire);
            *sent |= output.len() < before;
            if let Err(error) = ready!(flushed) {
                output.clear();
                *self = Self::Broken(error);
                return Poll::Ready(Ok(()));
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Ready if the output has enough for now, or the body is over.
    fn poll_fill(&mut self, cx: &mut Context<'_>, output: &mut Output) -> Poll<Result<(), BodyError>> {
        for _ in 0..PIECES_IN_A_ROW_MAX {
            let Self::Body { body, left } = self else { break };
            if output.len() >= AHEAD_BYTES {
                break;
            }
            match (ready!(poll_chunk(body, cx))?, left) {
                (Some(chunk), Some(left)) => {
                    *left = left.checked_sub(chunk.len() as u64).ok_or(BodyError::Incomplete)?;
                    output.push_bytes(chunk);
                }
                (Some(chunk), None) => {
                    encode::chunk_head(output.buffer(), chunk.len());
                    output.push_bytes(chunk);
                    encode::chunk_tail(output.buffer());
                }
                (None, Some(0)) => *self = Self::Done,
                (None, Some(_)) => return Poll::Ready(Err(BodyError::Incomplete)),
                (None, None) => {
                    encode::last_chunk(output.buffer(), body.trailers());
                    *self = Self::Done;
                }
            }
        }
        Poll::Ready(Ok(()))
    }
}

/// The next piece of a caller's body. A panic of what makes it is an error of the body.
fn poll_chunk(body: &mut Body, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, BodyError>> {
    // After a panic the body is not polled again: the error ends the call.
    catch_unwind(AssertUnwindSafe(|| body.poll_chunk(cx))).unwrap_or_else(|payload| {
        let text = payload.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("(without text)");
        Poll::Ready(Err(BodyError::failed(format!("it panicked: {text}"))))
    })
}

/// Whether doing it twice is as good as once (RFC 9110 section 9.2.2).
pub(crate) fn is_idempotent(method: &Method) -> bool {
    matches!(
        *method,
        Method::GET | Method::HEAD | Method::PUT | Method::DELETE | Method::OPTIONS | Method::TRACE
    )
}

/// Bytes of a body that wait to leave before its next piece is asked for: what a socket takes in one write.
const AHEAD_BYTES: usize = 64 << 10;

/// Times that one poll fills the output and empties it. On a wire that takes always more the loop's other tasks would
/// else not run, nor its clock.
const WRITES_IN_A_ROW_MAX: u32 = 8;

/// Pieces of a body that one write gathers. A poll takes a few times as many, however small they are.
const PIECES_IN_A_ROW_MAX: u32 = 256;
