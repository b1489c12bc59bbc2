//! The receiving half of an exchange: a response on its way to the caller.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use anywire_http::message::forbids_body;
use anywire_http::{Body, Headers, Method, ResponseHead, StatusCode, body};
use anywire_loops::clock::{self, precise};
use anywire_mux::{Demand, Departure, Incoming, Upgraded};
use bytes::Bytes;
use tokio::io::DuplexStream;

use crate::call::attempt::Unanswered;
use crate::call::job::{Job, Outcome};
use crate::call::response::{Source, StreamState};
use crate::{Error, Limits, Response};

/// How far the response has come.
pub(crate) enum Download {
    Awaited,
    /// The head is here, and all of the body that is. It goes to the caller at once if that is all of it.
    Here {
        head: ResponseHead,
        /// The length of the body, if its framing says so.
        length: Option<u64>,
        body: Pieces,
        trailers: Option<Headers>,
    },
    /// The head is with the caller, and the body follows.
    Streams {
        sender: body::Sender,
        state: Arc<StreamState>,
        /// The caller has asked for no more than was sent.
        reader_is_slow: bool,
        /// The response says by its type that it is a stream without a known end.
        is_endless: bool,
    },
    /// The caller has left, and the rest is read to keep the connection: so many bytes of a body at most.
    Drains {
        bytes_left: usize,
    },
    /// The connection speaks another protocol from here.
    Upgrades(ResponseHead),
    Over,
}

impl Download {
    /// Ready if more of the response may be read from the wire. `Err`: the caller has left.
    pub(crate) fn poll_wanted(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), ()>> {
        self.poll_reader(|sender| sender.poll_wanted(cx))
    }

    /// Ready if the caller has room for a piece of the body. `Err`: the caller has left.
    pub(crate) fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), ()>> {
        self.poll_reader(|sender| sender.poll_ready(cx))
    }

    fn poll_reader<E>(
        &mut self,
        poll: impl FnOnce(&mut body::Sender) -> Poll<Result<(), E>>,
    ) -> Poll<Result<(), ()>> {
        let Self::Streams { sender, reader_is_slow, .. } = self else { return Poll::Ready(Ok(())) };
        let polled = poll(sender).map_err(drop);
        *reader_is_slow = polled.is_pending();
        polled
    }

    /// How long its caller has waited for the next piece of the body. All the time, if it has yet to get the head.
    pub(crate) fn awaited_for(&self, now: Instant) -> Duration {
        match self {
            Self::Streams { sender, .. } => sender.awaited_for(now),
            _ => Duration::MAX,
        }
    }

    /// How long the peer may be silent within the response.
    pub(crate) fn silence_max(&self, job: &Job) -> Duration {
        match self {
            Self::Streams { state, .. } => state.silence_max(),
            _ => job.request.options.read_timeout,
        }
    }

    /// Whether nothing of the response has come, but for interim ones.
    pub(crate) fn is_awaited(&self) -> bool {
        matches!(self, Self::Awaited)
    }

    /// Whether its reader has to read first.
    pub(crate) fn is_held_up(&self) -> bool {
        matches!(self, Self::Streams { reader_is_slow: true, .. })
    }

    /// Whether the caller has left, and the rest is read to keep the connection.
    pub(crate) fn is_drained(&self) -> bool {
        matches!(self, Self::Drains { .. })
    }

    /// Whether the rest is not worth reading for the sake of the connection: of a stream that says nothing while nothing happens, and
    /// of a response that was read for that alone.
    pub(crate) fn is_not_worth_draining(&self) -> bool {
        matches!(self, Self::Streams { is_endless, state, .. } if *is_endless || state.is_drained())
    }

    /// Whether the caller has left, and this is more than is read to keep the connection.
    pub(crate) fn drains_less_than(&self, bytes: usize) -> bool {
        matches!(self, Self::Drains { bytes_left } if *bytes_left < bytes)
    }

    /// The rest is read from here to keep the connection, up to so many bytes.
    pub(crate) fn begin_draining(&mut self, bytes_max: usize) {
        *self = Self::Drains { bytes_left: bytes_max };
    }

    pub(crate) fn data(&mut self, data: &[u8]) {
        match self {
            Self::Drains { bytes_left } => *bytes_left = bytes_left.saturating_sub(data.len()),
            Self::Here { body, .. } => body.push(data),
            Self::Streams { sender, .. } => {
                // There is room, as was just seen; a reader who left meanwhile is noticed next time.
                let _ = sender.try_send(Bytes::copy_from_slice(data));
            }
            Self::Awaited | Self::Upgrades(_) | Self::Over => {}
        }
    }

    /// Gives the caller what it asks for of a body that streams. Returns the number of bytes, and what the caller waits for.
    pub(crate) fn feed(&mut self, incoming: &mut Incoming, cx: &mut Context<'_>) -> (usize, Demand) {
        let Self::Streams { sender, reader_is_slow, .. } = self else { return (0, Demand::Nothing) };
        let (taken, demand) = incoming.feed(sender, cx);
        *reader_is_slow = demand == Demand::Nothing;
        (taken, demand)
    }

    /// Gives the caller one of the last pieces of a body, whether it has room or not.
    pub(crate) fn pass_anyway(&mut self, piece: Bytes) {
        if let Self::Streams { sender, .. } = self {
            // A reader who left needs it no more.
            let _ = sender.send_anyway(piece);
        }
    }

    pub(crate) fn trailers(&mut self, fields: Headers) {
        match self {
            Self::Here { trailers, .. } => *trailers = Some(fields),
            Self::Streams { sender, .. } => sender.trailers(fields),
            Self::Awaited | Self::Drains { .. } | Self::Upgrades(_) | Self::Over => {}
        }
    }

    /// Gives the caller a head whose body is not all here, with the part that is. A head without a body waits for its end,
    /// which may come in a frame of its own. `Err`: the caller has left.
    ///
    /// With `outgoing` the stream speaks another protocol from here: the caller gets both of its directions, and what is returned knows
    /// when it drops them.
    pub(crate) fn hand_out(
        &mut self,
        job: &mut Job,
        outgoing: Option<body::Sender>,
        limits: &Limits,
    ) -> Result<Option<Departure>, ()> {
        match self {
            // Another protocol has bytes whatever the status and the method are.
            Self::Here { head, .. } if outgoing.is_some() || !has_no_body(head, &job.request.method) => {}
            _ => return Ok(None),
        }
        let Self::Here { head, length, body: first, trailers } = std::mem::replace(self, Self::Over) else {
            return Ok(None);
        };
        let (mut sender, mut body) = Body::channel(limits.body_ahead_bytes);
        // Of what opens a tunnel the length says nothing (RFC 9110 section 9.3.6).
        if let Some(length) = length.filter(|_| outgoing.is_none()) {
            body = body.with_length(length);
        }
        sender.keep_time(precise);
        // Neither can fail: the channel is new and its reader is here.
        let _ = sender.try_send(first.into_bytes());
        if let Some(trailers) = trailers {
            sender.trailers(trailers);
        }
        let options = &job.request.options;
        let is_endless = is_stream(&head);
        let pause = match is_endless {
            true => options.stream_timeout,
            false if options.is_forwarded && length.is_none() => options.forwarded_timeout,
            false => Duration::ZERO,
        };
        let state = Arc::new(StreamState::new(&job.request, head.status(), pause));
        let mut departure = None;
        let source = match outgoing {
            None => Source::Stream(Arc::clone(&state)),
            Some(outgoing) => {
                // The deadlines of HTTP end here, whichever direction ends first, and observers are told as over HTTP/1.
                job.stream_until = None;
                job.total_until = clock::after(precise(), Duration::MAX);
                if let Some(mut seen) = job.seen.take() {
                    seen.upgraded();
                }
                let (upgraded, watch) = Upgraded::of_stream(std::mem::take(&mut body), outgoing).watched();
                departure = Some(watch);
                Source::Upgraded(Box::new((job.request.url.clone(), upgraded)))
            }
        };
        let is_final = head.status().is_success();
        let mut response = Response::new(head, body, source, limits.body_bytes, job.negotiated.take());
        if !is_final {
            response = response.with_request(Box::new(job.request.copy()));
        }
        let reply = job.reply.take().ok_or(())?;
        reply.send(Ok(response)).map_err(drop)?;
        *self = Self::Streams { sender, state, reader_is_slow: false, is_endless };
        Ok(departure)
    }

    /// Nothing more comes of a response that its caller reads, whose stream goes on.
    pub(crate) fn end(&mut self) {
        if let Self::Streams { .. } = self
            && let Self::Streams { sender, .. } = std::mem::replace(self, Self::Over)
        {
            sender.finish();
        }
    }

    /// The response is complete.
    pub(crate) fn finish(self, mut job: Job, limits: &Limits) -> Outcome {
        if let Some(seen) = job.seen() {
            seen.ended();
        }
        match self {
            Self::Here { head, body, trailers, .. } => {
                let body = match trailers.filter(|_| !has_no_body(&head, &job.request.method)) {
                    None => body_of(&head, &job.request.method, body.into_bytes()),
                    Some(trailers) => {
                        let (mut sender, rest) = Body::channel(limits.body_ahead_bytes);
                        let _ = sender.try_send(body.into_bytes());
                        sender.trailers(trailers);
                        sender.finish();
                        rest
                    }
                };
                Outcome::Reply(job.reply, Ok(Response::whole(job.request, head, body, job.negotiated)))
            }
            Self::Streams { sender, state, .. } => Outcome::BodyEnds(sender, state.status()),
            Self::Awaited | Self::Drains { .. } | Self::Upgrades(_) | Self::Over => Outcome::Nothing,
        }
    }

    /// The response gives the connection to the caller.
    pub(crate) fn upgrade(self, mut job: Job, upgraded: Upgraded<DuplexStream>, limits: &Limits) -> Outcome {
        let Self::Upgrades(head) = self else { return Outcome::Nothing };
        // No response goes on from here.
        if let Some(seen) = job.seen() {
            seen.upgraded();
        }
        let source = Source::Upgraded(Box::new((job.request.url, upgraded)));
        Outcome::Reply(
            job.reply,
            Ok(Response::new(head, Body::empty(), source, limits.body_bytes, job.negotiated)),
        )
    }

    /// The call ends with an error. If nothing of a response has come, `has_begun` is not set, and its caller may send the
    /// request again.
    pub(crate) fn fail(&mut self, job: &mut Job, error: Error, has_begun: bool) -> Outcome {
        job.failed(&error);
        match (job.reply.take(), std::mem::replace(self, Self::Over)) {
            (None, Self::Streams { sender, .. }) => Outcome::BodyBreaks(sender, error),
            (reply, _) => {
                let request = (!has_begun).then(|| Box::new(job.request.copy()));
                Outcome::Reply(reply, Err(Box::new(Unanswered { error, request, requests: 0 })))
            }
        }
    }
}

/// Whether it says that it is a stream, which says nothing while nothing happens.
fn is_stream(head: &ResponseHead) -> bool {
    let content_type = head.headers().get("content-type").unwrap_or_default();
    let essence = content_type.split_once(';').map_or(content_type, |(essence, _)| essence).trim();
    // gRPC names the format of its messages behind a `+`.
    let essence = essence.split_once('+').map_or(essence, |(essence, _)| essence);
    ["text/event-stream", "application/grpc"].iter().any(|kind| essence.eq_ignore_ascii_case(kind))
}

/// Whether no body follows a head, whatever length it states (RFC 9110 section 6.4.1).
fn has_no_body(head: &ResponseHead, method: &Method) -> bool {
    *method == Method::HEAD || forbids_body(head.status())
}

/// The body of a response that is here whole. That of a response to HEAD, and of a 304, is [withheld](Body::withheld).
fn body_of(head: &ResponseHead, method: &Method, bytes: Bytes) -> Body {
    match head.status() {
        StatusCode::NOT_MODIFIED => Body::withheld(head.stated_length()),
        status if forbids_body(status) => Body::empty(),
        _ if *method == Method::HEAD => Body::withheld(head.stated_length()),
        _ => bytes.into(),
    }
}

/// Pieces of a body in one: copied once if there is one piece, as in a small response.
#[derive(Debug, Default)]
pub(crate) enum Pieces {
    #[default]
    None,
    One(Bytes),
    Many(Vec<u8>),
}

impl Pieces {
    fn push(&mut self, piece: &[u8]) {
        match self {
            Self::None => *self = Self::One(Bytes::copy_from_slice(piece)),
            Self::One(first) => *self = Self::Many([first, piece].concat()),
            Self::Many(pieces) => pieces.extend_from_slice(piece),
        }
    }

    fn into_bytes(self) -> Bytes {
        match self {
            Self::None => Bytes::new(),
            Self::One(bytes) => bytes,
            Self::Many(pieces) => pieces.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_join_in_order() {
        let mut pieces = Pieces::default();
        for piece in ["", "a", "bc", "def"] {
            pieces.push(piece.as_bytes());
        }
        assert_eq!(pieces.into_bytes(), "abcdef");
        assert_eq!(Pieces::default().into_bytes(), "");
    }
}
