//! A busy connection: frames come in, streams are answered, and what is ready leaves in as few writes as possible.

use std::ops::ControlFlow::{self, Break, Continue};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use anywire_http::h2::{Abuse, Code, Error, Event, Limits, Protocol, StreamId, StreamMap};
use anywire_http::{Body, Buffer, Method, RequestHead, Response, Version};
use anywire_loops::clock::precise;
use anywire_mux::{Http2, StreamWaker, Streams, Woken};

use super::stream::{Asks, Stage, Stream, inform};
use super::upload::Upload;
use crate::connection::{End, Env, is_cut};
use crate::context::{FreeContext, Origin, Told};
use crate::observe::{ExchangeEnd, Tracked, Written};
use crate::service::{Date, Ending, Service};
use crate::timers::Timers;

/// The state of a connection that speaks HTTP/2.
pub(crate) struct Session {
    pub(super) link: Http2,
    pub(super) streams: StreamMap<Box<Stream>>,
    /// The exchanges whose responses are written and have not left.
    pub(super) written: Written,
    pub(super) woken: Arc<Woken<StreamId>>,
    /// What has woken an earlier stream, for the next one.
    spare_waker: Option<Arc<StreamWaker<StreamId>>>,
    /// Streams to be polled in this turn.
    touched: Vec<StreamId>,
    /// Streams that wait for something else than before this turn.
    pub(super) changed: Vec<StreamId>,
    pub(super) date: Date,
    /// A context that no request uses.
    pub(super) free_context: Option<FreeContext>,
    /// The deadlines of the connection itself.
    pub(super) timers: Timers,
    /// When the first deadline of a stream passes, or one has that does not count any more.
    pub(super) earliest: Option<Instant>,
    /// The connection's window was closed when the streams' deadlines were set.
    pub(super) keeps_waiting: bool,
    /// When the last poll began. What has come since was not looked at yet.
    pub(super) polled_at: Option<Instant>,
    /// No request is under way.
    pub(super) is_resting: bool,
    /// Since when, as of the first wait.
    pub(super) idle_since: Option<Instant>,
    /// A frame, or a head, has come in part.
    pub(super) has_part: bool,
    /// Since when, as of the first wait.
    pub(super) partial_since: Option<Instant>,
    /// The peer has ended its direction: there is nothing more to read, and it may wait for its answers.
    pub(super) input_ended: bool,
    /// Keeps the records that it has, for as long as handlers may ask.
    gone: Vec<Rc<Told>>,
    ending: Closing,
}

/// How far the end of a connection is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Closing {
    No,
    /// The connection ends once the output has left.
    Flushing,
    /// Our direction has ended. Input is discarded until the peer closes.
    Lingering,
}

/// What is needed to answer.
pub(super) struct Parts<'s> {
    pub(super) link: &'s mut Http2,
    pub(super) date: &'s Date,
    pub(super) service: &'s Service,
}

impl Session {
    /// A session for a connection of which `input` has the first bytes.
    pub(crate) fn new(input: Buffer, service: &Service) -> Self {
        let limits = Limits { head: service.limits.head, ..service.limits.http2 };
        service.counters.http2_connections.increment();
        let mut link = Http2::server(limits, precise(), input, service.take_output());
        link.engine.leave_refusals();
        Self {
            link,
            streams: StreamMap::default(),
            written: Written::default(),
            woken: Arc::default(),
            spare_waker: None,
            touched: Vec::new(),
            changed: Vec::new(),
            date: [0; _],
            free_context: None,
            timers: Timers::default(),
            earliest: None,
            keeps_waiting: false,
            polled_at: None,
            is_resting: false,
            idle_since: None,
            has_part: false,
            partial_since: None,
            input_ended: false,
            gone: Vec::new(),
            ending: Closing::No,
        }
    }

    /// Does all that can be done now. Returns how the session ended, or `Continue` if it waits.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>, env: &mut Env<'_>) -> ControlFlow<End> {
        let now = precise();
        self.polled_at = Some(now);
        self.date = env.service.date();
        self.woken.set_task(cx.waker());
        if self.is_resting && self.link.input.is_none() && self.link.output.is_empty() {
            self.link.output = env.service.take_output();
        }
        if env.service.ending() != Ending::No {
            self.link.engine.shut_down(self.link.output.buffer());
        }
        loop {
            if self.ending != Closing::No {
                return self.close(cx, env);
            }
            self.receive(now, env);
            if self.is_closing() {
                continue;
            }
            self.woken.take(&mut self.touched);
            while let Some(id) = self.touched.pop() {
                self.poll_stream(id, now, env.service);
            }
            self.transmit(now, env.service);
            if (self.link.engine.is_drained() || self.input_ended) && self.streams.is_empty() {
                self.ending = Closing::Flushing;
                continue;
            }
            let was_full = !self.link.has_room();
            let flushed = self.flush(cx, env)?;
            if was_full && flushed.is_ready() {
                continue;
            }
            // Else it reads, though the peer takes nothing: the peer may be as full, and wait for that (RFC 9113 section
            // 5.2.2).
            if self.link.is_full() || self.input_ended {
                return Continue(());
            }
            match self.link.poll_read(cx, env.connection) {
                Poll::Ready(Ok(1..)) => {}
                Poll::Ready(Ok(0)) => {
                    if self.is_idle() {
                        return Break(End::Close);
                    }
                    self.end_input();
                }
                Poll::Ready(Err(error)) => {
                    if !(self.streams.is_empty() && is_cut(&error)) {
                        env.service.counters.wire_errors.increment();
                    }
                    self.abandon(env.service);
                    return Break(End::Close);
                }
                Poll::Pending => {
                    if self.is_idle() {
                        self.rest(env.service);
                    }
                    return Continue(());
                }
            }
        }
    }

    /// Whether a request is under way, or may be: the peer has not acknowledged yet that there are to be no more.
    pub(crate) fn may_have_request(&self) -> bool {
        !self.is_closing() || !self.link.output.is_empty()
    }

    /// The peer has ended its direction. It may still wait for the answers to what it has sent whole, and its handlers are
    /// told. It is answered within [`Limits::half_close_timeout`](crate::Limits).
    #[cold]
    fn end_input(&mut self) {
        self.input_ended = true;
        (self.has_part, self.partial_since) = (false, None);
        self.link.leave();
        for (id, stream) in &mut self.streams {
            if let Some(upload) = &mut stream.upload {
                upload.cut_short();
            }
            if let Stage::Handling(run) = &stream.stage {
                self.gone.push(run.peer_gone());
            }
            self.touched.push(*id);
        }
    }

    /// Between two requests, with nothing to send or to take.
    fn is_idle(&self) -> bool {
        self.streams.is_empty()
            && self.link.engine.is_idle()
            && self.link.output.is_empty()
            && self.ending == Closing::No
            && self.link.unread() == 0
    }

    /// Begins to be idle, and frees what only a busy connection needs. Frames that ask for nothing do not renew this.
    fn rest(&mut self, service: &Service) {
        self.is_resting = true;
        self.link.input = None;
        service.put_output(std::mem::take(&mut self.link.output));
        self.streams = StreamMap::default();
        (self.touched, self.changed) = Default::default();
        self.timers.reset();
        self.earliest = None;
    }

    /// Takes all events that are there.
    fn receive(&mut self, now: Instant, env: &Env<'_>) {
        let before = self.link.unread();
        let was_within_head = self.link.engine.is_within_head();
        let mut rounds = 0;
        while !self.link.is_full() && !self.input_ended {
            rounds += 1;
            match self.link.receive(now) {
                Ok(None) => {
                    let is_within_head = self.link.engine.is_within_head();
                    let is_whole =
                        rounds > 1 || self.link.unread() < before && !(was_within_head && is_within_head);
                    self.has_part = is_within_head || self.link.unread() > 0;
                    if is_whole {
                        self.partial_since = None;
                    }
                    return;
                }
                Ok(Some(Event::Request { id, head, length, end })) => self.begin(id, head, length, end, env),
                Ok(Some(Event::Data { id, data, end })) => {
                    let length = data.len();
                    let stream = self.streams.get_mut(&id);
                    let is_read = stream.is_some_and(|stream| stream.received(data, end, now, env.service));
                    if is_read {
                        // Pieces of a body that come together wake its reader once.
                        if self.touched.last() != Some(&id) {
                            self.touched.push(id);
                        }
                    } else {
                        self.link.discarded(id, length);
                    }
                }
                Ok(Some(Event::Trailers { id, fields })) => {
                    if let Some(upload) = self.streams.get_mut(&id).and_then(|stream| stream.upload.as_mut())
                    {
                        upload.ended_by(fields);
                        self.touched.push(id);
                    }
                }
                Ok(Some(Event::Reset { id, code, by_peer, .. })) => self.lose(id, code, by_peer, env),
                Ok(Some(Event::Refused { id, limit, asks_head })) => self.refuse(id, &limit, asks_head, env),
                Ok(Some(_)) => {}
                Err(error) => {
                    self.fail(error, env.service);
                    return;
                }
            }
        }
        // What has come in part now waits for us.
        (self.has_part, self.partial_since) = (false, None);
    }

    /// A stream is gone, by the peer or by its fault.
    fn lose(&mut self, id: StreamId, code: Code, by_peer: bool, env: &Env<'_>) {
        let (service, counters) = (env.service, &env.service.counters);
        match self.streams.remove(&id) {
            Some(mut stream) => {
                counters.abandoned.increment();
                stream.exchange.ends(if by_peer { ExchangeEnd::PeerReset } else { ExchangeEnd::PeerFault });
                service.dispatch.drop_contained(stream.endpoint, stream);
            }
            None => {
                let is_one_too_many = code == Code::REFUSED_STREAM;
                if is_one_too_many { &counters.refused_streams } else { &counters.bad_requests }.increment();
                if !by_peer {
                    let observers = service.dispatch.observers();
                    observers
                        .begin_unknown(Version::HTTP_2, &env.connection.peer())
                        .end_by(ExchangeEnd::Refused);
                }
            }
        }
    }

    /// Ends the connection for a fault of the peer. The engine has written what tells it.
    #[cold]
    pub(super) fn fail(&mut self, error: Error, service: &Service) {
        let counters = &service.counters;
        match error {
            Error::Excess { what: Abuse::Resets, .. } => &counters.reset_floods,
            Error::Excess { what: Abuse::IdleFrames, .. } => &counters.frame_floods,
            Error::Excess { what: Abuse::Continuations, .. } => &counters.continuation_floods,
            Error::Excess { .. } => &counters.header_bombs,
            Error::Silent { .. } => &counters.silent_peers,
            _ => &counters.bad_requests,
        }
        .increment();
        tracing::debug!(%error, "a connection is refused");
        self.end_exchanges(ExchangeEnd::PeerFault);
        self.abandon(service);
        self.begin_close();
    }

    /// Starts on a request.
    fn begin(&mut self, id: StreamId, mut head: RequestHead, length: Option<u64>, end: bool, env: &Env<'_>) {
        let service = env.service;
        (self.is_resting, self.idle_since) = (false, None);
        let (upload, mut body) = if end {
            (None, None)
        } else {
            let awaits_continue = head.headers().lists("expect", "100-continue");
            let (sender, body) = Body::channel(service.limits.body_in_flight_bytes);
            let body = match length {
                Some(length) => body.with_length(length),
                None => body,
            };
            (Some(Upload::new(sender, awaits_continue)), Some(body))
        };
        let mut asks = match *head.method() {
            Method::HEAD => Asks::Head,
            Method::CONNECT if head.extensions().get::<Protocol>().is_some() => {
                head.set_method(Method::GET);
                Asks::Tunnel(Box::new(body.take().unwrap_or_default()))
            }
            _ => Asks::Message,
        };
        let mut stage = Stage::Done;
        let mut answered_by = None;
        let connection = &*env.connection;
        let origin = || Origin::of(connection);
        let mut context = self.free_context.take();
        let mut exchange = Tracked::default();
        if service.dispatch.is_observed() {
            exchange = service.dispatch.begin_exchange(&head, body.as_ref(), &mut context, origin);
        }
        let parts = &mut Parts { link: &mut self.link, date: &self.date, service };
        let answered = |response: &mut Response, endpoint| {
            answered_by = Some(endpoint);
            stage = Self::respond(parts, id, response, &mut asks, answered_by, &mut exchange);
        };
        let wakes = StreamWaker::of(id, self.spare_waker.take(), &self.woken);
        let waker = Waker::from(Arc::clone(&wakes));
        let cx = &mut Context::from_waker(&waker);
        let run = service.dispatch.start(head, body, &mut context, origin, answered, cx);
        let endpoint = match run {
            Some(run) => {
                let endpoint = Some(run.endpoint());
                if exchange.is_some() {
                    service.dispatch.note_route(endpoint, &mut exchange);
                }
                stage = Stage::Handling(run);
                endpoint
            }
            None => {
                self.free_context = context.take();
                answered_by
            }
        };
        if matches!(stage, Stage::Done) {
            self.spare_waker = Some(wakes);
            self.written_whole(exchange);
            if !end {
                self.finish(id, service);
            }
            return;
        }
        let informs = matches!(&stage, Stage::Handling(run) if inform(run, id, cx, &mut self.link));
        let is_polled = informs || upload.is_some() || matches!(stage, Stage::Tunnel(..));
        let responds = matches!(stage, Stage::Sending(_));
        // Its time begins with the first wait: handlers that ran before it in this poll may have taken long.
        let timers = Timers::default();
        let stream =
            Stream { stage, upload, context, endpoint, asks, exchange, waker, timers, deadline: None };
        self.streams.insert(id, Box::new(stream));
        self.changed.push(id);
        if is_polled {
            self.touched.push(id);
        } else if responds {
            self.go_on(id, service);
        }
    }

    /// Writes as much of the output as the wire takes. Ready once all of it has left.
    fn flush(&mut self, cx: &mut Context<'_>, env: &mut Env<'_>) -> ControlFlow<End, Poll<()>> {
        if self.link.output.is_empty() {
            return Continue(Poll::Ready(()));
        }
        let unsent = self.link.output.unsent();
        let flushed = self.link.output.poll_flush(cx, env.connection);
        if !self.written.is_empty() {
            self.written.taken(self.link.output.taken());
        }
        self.timers.wrote(unsent.saturating_sub(self.link.output.unsent()), &env.service.limits);
        match flushed {
            Poll::Ready(Ok(())) => Continue(Poll::Ready(())),
            Poll::Ready(Err(_)) => {
                self.abandon(env.service);
                env.service.counters.wire_errors.increment();
                Break(End::Close)
            }
            Poll::Pending => Continue(Poll::Pending),
        }
    }

    /// The response of this exchange is written to its end.
    #[inline]
    pub(super) fn written_whole(&mut self, exchange: Tracked) {
        if exchange.is_some() {
            self.written.push(self.link.output.end(), exchange);
        }
    }

    /// The exchanges under way will not end well.
    #[cold]
    pub(super) fn end_exchanges(&mut self, end: ExchangeEnd) {
        for stream in self.streams.values_mut() {
            stream.exchange.ends(end);
        }
        self.written.end_by(end);
    }

    /// Ends all streams: their peer is gone, or not to be trusted.
    pub(super) fn abandon(&mut self, service: &Service) {
        service.counters.abandoned.add(self.streams.len() as u64);
        self.drop_streams(service);
    }

    /// Drops all streams. A panic of a destructor costs the others nothing.
    pub(crate) fn drop_streams(&mut self, service: &Service) {
        for (_, stream) in std::mem::take(&mut self.streams) {
            service.dispatch.drop_contained(stream.endpoint, stream);
        }
    }

    /// Begins to close: what is in the output leaves first.
    pub(super) fn begin_close(&mut self) {
        self.ending = Closing::Flushing;
    }

    pub(super) fn is_closing(&self) -> bool {
        self.ending != Closing::No
    }

    /// Ends so that the peer gets what was sent last: half-close, then read until the peer closes, too.
    fn close(&mut self, cx: &mut Context<'_>, env: &mut Env<'_>) -> ControlFlow<End> {
        if self.flush(cx, env)?.is_pending() {
            return Continue(());
        }
        if self.ending == Closing::Flushing {
            match env.connection.poll_half_close(cx) {
                Poll::Ready(Ok(())) => self.ending = Closing::Lingering,
                Poll::Ready(Err(_)) => return Break(End::Close),
                Poll::Pending => return Continue(()),
            }
        }
        loop {
            self.link.input = None;
            match self.link.poll_read(cx, env.connection) {
                Poll::Ready(Ok(1..)) => {}
                Poll::Ready(_) => return Break(End::Close),
                Poll::Pending => return Continue(()),
            }
        }
    }
}
