//! The sending half of an exchange: a request's head and body into an output.

use std::io;
use std::task::{Context, Poll, ready};

use anywire_http::BodyError;
use anywire_http::h1::Framing;
use anywire_http::h1::encode;
use anywire_wire::{Connection, Output};

use crate::call::request::{CallRequest, Contained};

/// The part of a request that is still to be sent.
#[derive(Debug)]
pub(crate) enum Upload {
    /// Nothing; the output may still hold bytes.
    Done,
    /// A body that comes in pieces.
    Body { body: Contained, framing: Framing },
    /// A body that waits for a 100 of the peer (RFC 9110 section 10.1.1). The request still has it.
    AwaitsContinue { framing: Framing },
    /// The peer takes no more. It may still have answered.
    Refused(io::Error),
    /// The request cannot be finished.
    Failed(BodyError),
}

/// What sending has achieved.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    /// Bytes that the wire has taken.
    pub(crate) bytes: usize,
    /// It has taken some, or some that it held back have left.
    pub(crate) is_any: bool,
}

impl Upload {
    /// Puts the head into `output`, which is empty, and the whole body if it is there already.
    pub(crate) fn start(request: &mut CallRequest, host: &str, output: &mut Output) -> Self {
        let awaits_continue = request.expects_continue();
        if awaits_continue && let Err(error) = request.headers.append("expect", "100-continue") {
            return Self::Failed(BodyError::failed(error));
        }
        let body = request.body.get();
        let framing = Framing::of_request(&request.method, body);
        let head = match &request.relay {
            None => {
                let (target, headers) = (request.target(), &request.headers);
                encode::request_head(output.buffer(), &request.method, target, host, headers, framing)
            }
            Some(relay) => {
                let target = relay.target(&request.url, request.of_server);
                let headers = relay.headers(&request.headers);
                encode::request_head(output.buffer(), &request.method, &target, host, &headers, framing)
            }
        };
        if let Err(error) = head {
            return Self::Failed(BodyError::failed(error));
        }
        if awaits_continue {
            // If it is sent again, that is asked anew.
            request.headers.remove("expect");
            return Self::AwaitsContinue { framing };
        }
        Self::with_body(request, framing, output)
    }

    /// Puts the whole body into `output`, if it is there already.
    fn with_body(request: &mut CallRequest, framing: Framing, output: &mut Output) -> Self {
        if let Some(bytes) = request.body.get().as_full() {
            if !bytes.is_empty() {
                output.push_bytes(bytes.clone());
            }
            return Self::Done;
        }
        Self::Body { framing, body: request.body.take() }
    }

    /// Whether its body waits for a 100 of the peer.
    pub(crate) fn awaits_continue(&self) -> bool {
        matches!(self, Self::AwaitsContinue { .. })
    }

    /// Sends a body that has waited for a 100.
    pub(crate) fn send_body(&mut self, request: &mut CallRequest, output: &mut Output) {
        if let Self::AwaitsContinue { framing } = *self {
            *self = Self::with_body(request, framing, output);
        }
    }

    pub(crate) fn is_done(&self) -> bool {
        matches!(self, Self::Done)
    }

    /// Moves the body into `output` and `output` into the wire, until one of them has no more to give or to take.
    /// Pending if the wire or the body will wake the task.
    pub(crate) fn send(
        &mut self,
        cx: &mut Context<'_>,
        wire: &mut Connection,
        output: &mut Output,
    ) -> Progress {
        let mut progress = Progress::default();
        for _ in 0..WRITES_IN_A_ROW_MAX {
            // The body first, so that the head and the first piece leave in one write.
            if let Poll::Ready(Err(error)) = self.poll_fill(cx, output) {
                *self = Self::Failed(error);
                return progress;
            }
            if output.is_empty() {
                return progress;
            }
            let (waiting, unsent) = (output.len(), output.unsent());
            let flushed = output.poll_flush(cx, wire);
            let bytes = waiting - output.len();
            progress.bytes += bytes;
            // Sealed bytes are more than they were before, so that `unsent` alone may grow while a part leaves.
            progress.is_any |= bytes > 0 || output.unsent() < unsent;
            match flushed {
                Poll::Pending => return progress,
                Poll::Ready(Ok(())) if self.is_done() => return progress,
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(error)) => {
                    output.clear();
                    *self = Self::Refused(error);
                    return progress;
                }
            }
        }
        cx.waker().wake_by_ref();
        progress
    }

    /// Ready if the output has enough for now, or the body is over.
    fn poll_fill(&mut self, cx: &mut Context<'_>, output: &mut Output) -> Poll<Result<(), BodyError>> {
        for _ in 0..PIECES_IN_A_ROW_MAX {
            let Self::Body { body, framing } = self else { break };
            if output.len() >= AHEAD_BYTES {
                break;
            }
            let is_chunked = *framing == Framing::Chunked;
            match ready!(body.poll_chunk(cx))? {
                Some(chunk) if is_chunked => {
                    encode::chunk_head(output.buffer(), chunk.len());
                    output.push_bytes(chunk);
                    encode::chunk_tail(output.buffer());
                }
                Some(chunk) => output.push_bytes(chunk),
                None => {
                    if is_chunked {
                        encode::last_chunk(output.buffer(), body.get().trailers());
                    }
                    *self = Self::Done;
                }
            }
        }
        Poll::Ready(Ok(()))
    }
}

/// Bytes of a body that wait to leave before its next piece is asked for: what a socket takes in one write.
const AHEAD_BYTES: usize = 64 << 10;

/// Times that one poll fills the output and empties it. A wire that always takes more would otherwise keep the loop
/// from its other tasks and its clock.
const WRITES_IN_A_ROW_MAX: u32 = 8;

/// Pieces of a body that one write gathers, however small they are.
const PIECES_IN_A_ROW_MAX: u32 = 256;
