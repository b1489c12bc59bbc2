//! The body of a request, cut into what the windows allow.

use std::mem;
use std::task::{Context, Poll};

use anywire_http::h1::Framing;
use anywire_http::{Body, Headers, body};
use anywire_mux::{Next, Outgoing, Piece};

use crate::call::request::{CallRequest, Contained};

/// The part of a request that is still to be given to the engine.
#[derive(Debug)]
pub(super) enum Upload {
    /// Nothing. The caller still has the body, if there is one, to be sent once more.
    Done,
    /// Nothing. The caller's code has given all of it, which is kept in case the request is sent again.
    Given(Kept, Option<Headers>),
    /// A body, and what the caller's code has given of it already.
    Body(Outgoing<Contained>, Kept),
}

/// The pieces of a body so far, in case the peer refuses the request unprocessed. `None` if they are too large to be kept.
type Kept = Option<Vec<u8>>;

impl Upload {
    /// Takes the body of a request; and the length that its head states.
    pub(super) fn start(request: &mut CallRequest) -> (Self, Option<u64>) {
        let body = request.body.get();
        let framing = Framing::of_request(&request.method, body);
        let length = framing.length().filter(|_| framing != Framing::None);
        let upload = match body.as_full() {
            Some(bytes) if bytes.is_empty() => Self::Done,
            // A reference: the caller's body stays whole, to be sent once more.
            Some(bytes) => Self::Body(Outgoing::whole(bytes.clone()), Some(Vec::new())),
            // Though it be of no bytes: trailers may follow.
            None => Self::Body(Outgoing::streamed(request.body.take()), Some(Vec::new())),
        };
        (upload, length)
    }

    /// Whether the body waits until the peer asks for it by a 100: see [`CallRequest::expects_continue`]. The body is here now.
    pub(super) fn expects_continue(&self, request: &CallRequest) -> bool {
        match self {
            // It has the body as before.
            Self::Body(body, _) if !body.is_streamed() => request.expects_continue(),
            Self::Body(body, _) => {
                let length = body.source().and_then(|body| body.get().length());
                request.expects_continue_of(length)
            }
            _ => false,
        }
    }

    /// What the caller sends in another protocol, and where it comes from. A peer that refuses gets none of it.
    pub(super) fn tunnel(ahead_bytes: usize) -> (Self, body::Sender) {
        let (sender, body) = Body::channel(ahead_bytes);
        (Self::Body(Outgoing::streamed(body.into()), Some(Vec::new())), sender)
    }

    pub(super) fn is_done(&self) -> bool {
        matches!(self, Self::Done | Self::Given(..))
    }

    /// Whether the request can be sent from its start.
    pub(super) fn is_repeatable(&self) -> bool {
        match self {
            Self::Done => true,
            Self::Body(_, kept) | Self::Given(kept, _) => kept.is_some(),
        }
    }

    /// The peer works on the request: it will not be sent once more.
    pub(super) fn settle(&mut self) {
        if let Self::Body(_, kept) | Self::Given(kept, _) = self {
            *kept = None;
        }
    }

    /// Puts what was [taken](Self::start) back into the request, which must be [repeatable](Self::is_repeatable).
    pub(super) fn give_back(self, request: &mut CallRequest) {
        match self {
            Self::Done => {}
            Self::Body(body, kept) => {
                if let Some(body) = body.into_source() {
                    request.body = body.preceded_by(kept.unwrap_or_default().into());
                }
            }
            Self::Given(kept, None) => request.body = Contained::from(kept.unwrap_or_default()),
            Self::Given(kept, Some(trailers)) => {
                let bytes = kept.unwrap_or_default();
                let (mut sender, body) = Body::channel(bytes.len());
                // The channel is new, and its reader is here.
                let _ = sender.try_send(bytes);
                sender.trailers(trailers);
                sender.finish();
                request.body = Contained::from(body);
            }
        }
    }

    /// Whether the caller has yet to give a part of it.
    pub(super) fn is_streaming(&self) -> bool {
        matches!(self, Self::Body(body, _) if body.is_streamed())
    }

    /// Whether all of it is here, and the rest waits for its turn or for a window.
    pub(super) fn is_waiting(&self) -> bool {
        matches!(self, Self::Body(body, _) if !body.is_streamed())
    }

    /// Takes at most `room` bytes.
    pub(super) fn take(&mut self, room: usize) -> Piece {
        match self {
            Self::Done | Self::Given(..) => Piece::default(),
            Self::Body(body, _) => body.take(room),
        }
    }

    /// The next step of the body. The end comes once. At most `kept_max` bytes are kept.
    pub(super) fn next(&mut self, kept_max: usize, cx: &mut Context<'_>) -> Next {
        let Self::Body(body, kept) = self else { return Next::Later };
        let next = body.next(|source| {
            let polled = source.poll_chunk(cx);
            if let Poll::Ready(Ok(Some(chunk))) = &polled {
                // Copied: pieces would hold the buffers that they are a part of.
                kept.take_if(|kept| chunk.len() > kept_max.saturating_sub(kept.len()));
                kept.iter_mut().for_each(|kept| kept.extend_from_slice(chunk));
            }
            polled
        });
        if let Next::End(trailers) = &next {
            let is_streamed = body.is_streamed();
            *self = if is_streamed { Self::Given(mem::take(kept), trailers.clone()) } else { Self::Done };
        }
        next
    }
}
