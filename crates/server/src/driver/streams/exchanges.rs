//! Requests come in, their handlers run, and responses go out as far as windows and output have room.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use anywire_advice::Chain;
use anywire_http::h1::DecodeError;
use anywire_http::h2::Code;
use anywire_http::{Body, BodyError, Headers, Method, RequestHead, Response};
use anywire_loops::clock::precise;
use anywire_mux::{Next, Outgoing, Piece, Schedule, Sent, StreamTable, StreamWaker, Streams, send};
use anywire_wire::{Address, Position};
use bytes::Bytes;

use super::respond::{Responder, inform};
use super::stream::{Failure, Reply, Stage, Stream};
use crate::context::{Peer, Watch};
use crate::dispatch::{Answer, Received};
use crate::driver::upload::Upload;
use crate::observe::{ExchangeEnd, Tracked, Written};
use crate::refusal::{Refusal, RefusalKind};
use crate::request::RequestKind;
use crate::service::{Date, Service};

/// The requests of a connection that are under way, each on a stream.
pub(crate) struct Exchanges<S: Streams> {
    /// The engine with its output.
    pub(crate) link: S,
    pub(crate) streams: StreamTable<S, Box<Stream>>,
    pub(super) schedule: Schedule<S::Id>,
    /// The exchanges whose responses are written and have not left.
    written: Written,
    /// The waker of an earlier stream, for the next one.
    free_waker: Option<Arc<StreamWaker<S::Id>>>,
    /// The peer, while no request has it.
    free_peer: Option<Arc<Peer>>,
    /// The `Date` line as of this poll.
    pub(super) date: Date,
    /// Keeps the records that the peer has ended its direction, for as long as handlers may ask.
    gone: Vec<Rc<Watch>>,
}

impl<S: Streams> Exchanges<S> {
    pub(crate) fn new(link: S) -> Self {
        Self {
            link,
            streams: StreamTable::<S, _>::default(),
            schedule: Schedule::default(),
            written: Written::default(),
            free_waker: None,
            free_peer: None,
            date: [0; _],
            gone: Vec::new(),
        }
    }

    /// The connection is polled, by this task.
    pub(crate) fn begin_poll(&mut self, task: &Waker, service: &Service) {
        self.date = service.date();
        self.schedule.set_task(task);
    }

    /// Starts on a request.
    pub(crate) fn begin(
        &mut self,
        id: S::Id,
        mut head: RequestHead,
        length: Option<u64>,
        end: bool,
        make_peer: impl Fn() -> Peer,
        service: &Service,
    ) {
        let (upload, mut body) = if end {
            (None, None)
        } else {
            let expects_continue = head.headers().lists("expect", "100-continue");
            let (sender, body) = Body::channel(service.limits.body_in_flight_bytes);
            let body = match length {
                Some(length) => body.with_length(length),
                None => body,
            };
            (Some(Upload::new(sender, expects_continue)), Some(body))
        };
        let kind = RequestKind::of(&head);
        if kind == RequestKind::ExtendedConnect {
            // To handlers, so that one route serves it beside the upgrade of HTTP/1.
            head.set_method(Method::GET);
        }
        let mut reply = Reply::to(kind, &mut body);
        let mut stage = Stage::Done;
        let mut answered_by = None;
        let mut peer = self.free_peer.take();
        let mut exchange = Tracked::default();
        if service.dispatch.is_observed() {
            exchange = service.dispatch.begin_exchange(&mut head, body.as_ref(), &mut peer, &make_peer);
        }
        let mut responder = Responder { link: &mut self.link, date: &self.date, service };
        let wakes = self.schedule.waker(id, self.free_waker.take());
        let waker = Waker::from(Arc::clone(&wakes));
        let answered = |answer: Answer<&mut Response>| {
            answered_by = answer.endpoint;
            stage = responder.respond(id, answer, &mut reply, upload.as_ref(), &mut exchange, &waker);
        };
        let cx = &mut Context::from_waker(&waker);
        let invocation =
            service.dispatch.start(Received { head, kind, body }, &mut peer, make_peer, answered, cx);
        let endpoint = match invocation {
            Some(invocation) => {
                let endpoint = Some(invocation.endpoint());
                service.dispatch.note_route(endpoint, &mut exchange);
                stage = Stage::Handling(invocation);
                endpoint
            }
            None => {
                self.free_peer = peer.take();
                answered_by
            }
        };
        if matches!(stage, Stage::Done) {
            self.free_waker = Some(wakes);
            self.written_whole(exchange);
            if !end {
                self.finish(id, service);
            }
            return;
        }
        let informs =
            matches!(&stage, Stage::Handling(invocation) if inform(invocation, id, cx, &mut self.link));
        let is_polled = informs || upload.is_some() || matches!(stage, Stage::Tunnel(..));
        let responds = matches!(stage, Stage::Sending(_));
        let stream = Stream::new(stage, reply, exchange, waker);
        self.streams.insert(id, Box::new(Stream { upload, peer, endpoint, ..stream }));
        self.schedule.dirty.push(id);
        if is_polled {
            self.schedule.poll_soon(id);
        } else if responds {
            self.go_on(id, service);
        }
    }

    /// A part of a request's body was received. [Its stream](Stream::received) has said whether there is a reader.
    pub(crate) fn received(&mut self, id: S::Id, bytes: usize, has_reader: bool) {
        if has_reader {
            self.schedule.poll_soon(id);
        } else {
            self.link.discarded(id, bytes);
        }
    }

    /// A request ends with trailers.
    pub(crate) fn received_trailers(&mut self, id: S::Id, fields: Headers) {
        if let Some(stream) = self.streams.get_mut(&id).filter(|stream| stream.upload.is_some()) {
            stream.incoming.end(fields);
            self.schedule.poll_soon(id);
        }
    }

    /// The peer has ended its direction. It may still wait for the responses to what it has sent whole, and handlers are
    /// notified.
    pub(crate) fn end_input(&mut self) {
        for (id, stream) in &mut self.streams {
            stream.incoming.cut_short();
            if let Stage::Handling(invocation) = &stream.stage {
                self.gone.push(invocation.peer_gone());
            }
            self.schedule.poll_soon(*id);
        }
    }

    /// A stream is gone, by the peer or by its fault.
    pub(crate) fn lose(
        &mut self,
        id: S::Id,
        code: Code,
        by_peer: bool,
        peer: impl FnOnce() -> Address,
        service: &Service,
    ) {
        let counters = &service.counters;
        match self.streams.remove(&id) {
            Some(mut stream) => {
                if by_peer { &counters.abandoned } else { &counters.bad_requests }.increment();
                stream.exchange.ends(if by_peer { ExchangeEnd::PeerReset } else { ExchangeEnd::PeerFault });
                service.dispatch.drop_contained(stream.endpoint, stream);
            }
            None => {
                let is_one_too_many = code == Code::REFUSED_STREAM;
                if is_one_too_many { &counters.refused_streams } else { &counters.bad_requests }.increment();
                if !by_peer {
                    let observers = service.dispatch.observers();
                    observers.begin_unknown(S::VERSION, &peer()).end_by(ExchangeEnd::Refused);
                }
            }
        }
    }

    /// Responds to a request whose head or trailers are too large. Its handler, if it has one, is cancelled.
    #[cold]
    pub(crate) fn refuse(
        &mut self,
        id: S::Id,
        limit: &DecodeError,
        is_head: bool,
        peer: &Address,
        service: &Service,
    ) {
        service.counters.bad_requests.increment();
        let mut exchange = match self.streams.remove(&id) {
            Some(mut stream) => {
                let exchange = stream.exchange.take();
                service.dispatch.drop_contained(stream.endpoint, stream);
                exchange
            }
            None => service.dispatch.observers().begin_unknown(S::VERSION, peer),
        };
        let status = limit.status();
        tracing::debug!(status = status.as_u16(), cause = %limit, "a request cannot be read");
        let text = Chain(limit).for_peer().to_string();
        let refusal = Refusal::new(RefusalKind::TooLarge, status, &text).of(Some(peer));
        let mut response = service.dispatch.word(None, &refusal);
        let mut responder = Responder { link: &mut self.link, date: &self.date, service };
        let mut reply = if is_head { Reply::Head } else { Reply::Message };
        let waker = self.schedule.waker(id, None).into();
        let answer = Answer::message(&mut response, None);
        let stage = responder.respond(id, answer, &mut reply, None, &mut exchange, &waker);
        if matches!(stage, Stage::Done) {
            self.written_whole(exchange);
            return self.finish(id, service);
        }
        self.streams.insert(id, Box::new(Stream::new(stage, reply, exchange, waker)));
        self.schedule.dirty.push(id);
        self.go_on(id, service);
    }

    /// Polls the streams that were woken, and sends what is ready.
    pub(crate) fn poll(&mut self, now: Instant, service: &Service) {
        self.schedule.take_woken();
        while let Some(id) = self.schedule.ready.pop() {
            self.poll_stream(id, now, service);
        }
        self.transmit(now, service);
    }

    /// Polls the handler of a stream, and gives it the part of its request's body that it asks for.
    fn poll_stream(&mut self, id: S::Id, now: Instant, service: &Service) {
        let Some(stream) = self.streams.get_mut(&id) else { return };
        // Time of handlers that ran earlier in this poll is not counted for a handler that waits for its peer.
        stream.timers.count(if stream.timers.waits_for_body() { precise() } else { now });
        self.schedule.dirty.push(id);
        let waker = stream.waker.clone();
        let cx = &mut Context::from_waker(&waker);
        loop {
            let moved = stream.feed(id, cx, &mut self.link);
            match &mut stream.stage {
                Stage::Handling(invocation) => {
                    let polled = invocation.poll(&mut stream.peer, cx);
                    invocation.follow(&mut stream.endpoint, &mut stream.exchange);
                    match polled {
                        Poll::Ready(mut answer) => {
                            let mut responder = Responder { link: &mut self.link, date: &self.date, service };
                            let (reply, exchange) = (&mut stream.reply, &mut stream.exchange);
                            let upload = stream.upload.as_ref();
                            stream.stage =
                                responder.respond(id, answer.by_ref(), reply, upload, exchange, &waker);
                            service.dispatch.release(stream.endpoint, &mut answer.response);
                        }
                        Poll::Pending if inform(invocation, id, cx, &mut self.link) || moved => {}
                        Poll::Pending => break,
                    }
                }
                Stage::Tunnel(running, outgoing) => {
                    service.dispatch.begins(stream.endpoint);
                    let polled = catch_unwind(AssertUnwindSafe(|| running.as_mut().poll(cx)));
                    service.dispatch.ends();
                    match polled {
                        Ok(Poll::Pending) if moved => {}
                        Ok(Poll::Pending) => return self.go_on(id, service),
                        Ok(Poll::Ready(())) => {
                            let outgoing = std::mem::replace(outgoing, Outgoing::whole(Bytes::new()));
                            let tunnel = std::mem::replace(&mut stream.stage, Stage::Sending(outgoing));
                            service.dispatch.drop_contained(stream.endpoint, tunnel);
                        }
                        Err(panic) => {
                            service.dispatch.note_panic(stream.endpoint, panic);
                            return self.end_early(id, Code::INTERNAL_ERROR, ExchangeEnd::Failed, service);
                        }
                    }
                }
                Stage::Sending(_) => return self.go_on(id, service),
                Stage::Done => break,
            }
        }
        if matches!(stream.stage, Stage::Done) {
            self.finish(id, service);
        }
    }

    /// Continues a response that has begun.
    pub(super) fn go_on(&mut self, id: S::Id, service: &Service) {
        let Some(stream) = self.streams.get_mut(&id) else { return };
        let next = stream.next(id, &mut self.link, service);
        self.send(id, Piece::default(), next, service);
    }

    /// Sends what the windows and the output have room for.
    fn transmit(&mut self, now: Instant, service: &Service) {
        while let Some((id, room)) = self.link.next_to_send() {
            let Some(stream) = self.streams.get_mut(&id) else { continue };
            stream.timers.count(now);
            self.schedule.dirty.push(id);
            let piece = match &mut stream.stage {
                Stage::Sending(body) | Stage::Tunnel(_, body) => body.take(room),
                _ => Piece::default(),
            };
            stream.exchange.sent(piece.bytes.len());
            stream.timers.wrote(piece.bytes.len(), &service.limits);
            self.schedule.sent_bytes = self.schedule.sent_bytes.wrapping_add(piece.bytes.len() as u32);
            stream.counted_bytes = self.schedule.sent_bytes;
            // Asked first, so that the last piece ends the stream.
            let next = stream.next(id, &mut self.link, service);
            self.send(id, piece, next, service);
        }
    }

    /// Sends a piece of a response, which is empty without a turn, and the end if that is next.
    fn send(&mut self, id: S::Id, piece: Piece, next: Next<Failure>, service: &Service) {
        match send(&mut self.link, id, piece, next) {
            Sent::Open => {}
            // Our direction alone has ended (RFC 8441 section 5).
            Sent::Ended if self.streams.get(&id).is_some_and(|stream| stream.is_tunnel()) => {}
            Sent::Ended => self.finish(id, service),
            Sent::Broken(Some(error)) => self.break_off(id, error, service),
            Sent::Broken(None) => self.end_early(id, Code::INTERNAL_ERROR, ExchangeEnd::Failed, service),
        }
    }

    /// Ends a stream whose response fails.
    fn break_off(&mut self, id: S::Id, error: BodyError, service: &Service) {
        let Some(stream) = self.streams.get(&id) else { return };
        // A response that is made of its request, such as an echo, fails with it: by the peer's fault. An upstream may be too
        // slow as well, so the error alone does not tell.
        let upload_failed = stream.upload.as_ref().is_some_and(|upload| upload.fault().is_some());
        let is_peers_fault = upload_failed && matches!(error, BodyError::Timeout);
        let code = if is_peers_fault { Code::CANCEL } else { Code::INTERNAL_ERROR };
        service.dispatch.body_failed(stream.endpoint, error);
        self.end_early(id, code, ExchangeEnd::Failed, service);
    }

    /// Ends a stream whose response the engine has. The rest of its request is not read.
    pub(super) fn finish(&mut self, id: S::Id, service: &Service) {
        if let Some(mut stream) = self.streams.remove(&id) {
            self.free_peer = stream.peer.take().or(self.free_peer.take());
            self.written_whole(stream.exchange.take());
            service.dispatch.drop_contained(stream.endpoint, stream);
        }
        self.link.reset(id, Code::NO_ERROR);
    }

    /// Ends a stream before its response is complete. A panic of its handler's destructor is caught.
    pub(super) fn end_early(&mut self, id: S::Id, code: Code, end: ExchangeEnd, service: &Service) {
        if let Some(mut stream) = self.streams.remove(&id) {
            stream.exchange.ends(end);
            service.dispatch.drop_contained(stream.endpoint, stream);
        }
        self.link.reset(id, code);
    }

    /// The response of this exchange is written to its end.
    #[inline]
    fn written_whole(&mut self, exchange: Tracked) {
        if exchange.is_some() {
            self.written.push(self.link.position(), exchange);
        }
    }

    /// The wire has taken the output up to there.
    #[inline]
    pub(crate) fn flushed(&mut self, taken: Position) {
        if !self.written.is_empty() {
            self.written.taken(taken);
        }
    }

    /// The exchanges under way will not end well.
    #[cold]
    pub(crate) fn end_by(&mut self, end: ExchangeEnd) {
        for stream in self.streams.values_mut() {
            stream.exchange.ends(end);
        }
        self.written.end_by(end);
    }

    /// Ends all streams: their peer is gone, or not to be trusted.
    pub(crate) fn abandon(&mut self, service: &Service) {
        service.counters.abandoned.add(self.streams.len() as u64);
        self.drop_streams(service);
    }

    /// Drops all streams. A panic of a destructor costs the others nothing.
    pub(crate) fn drop_streams(&mut self, service: &Service) {
        for (_, stream) in std::mem::take(&mut self.streams) {
            service.dispatch.drop_contained(stream.endpoint, stream);
        }
    }

    /// No request is under way: frees memory.
    pub(crate) fn go_idle(&mut self) {
        self.streams = StreamTable::<S, _>::default();
        self.schedule.clear();
    }
}
