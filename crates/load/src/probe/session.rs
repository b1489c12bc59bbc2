//! One connection of HTTP/2, with one request at a time: what came for its answer, and when.

use std::future::poll_fn;
use std::task::Poll;
use std::time::{Duration, Instant};

use anywire_advice::Message;
use anywire_http::h2::{self, Event};
use anywire_http::{Headers, StatusCode};
use anywire_loops::clock::precise;
use anywire_mux::{Http2 as Driver, Streams};
use anywire_wire::{Connection, Output};
use tokio::time::timeout_at;

use super::line::acknowledge;
use super::link::{Answer, Fault, FaultKind};
use super::plan::Limits;
use super::question::Question;
use super::reading::Reading;
use super::target::Dialled;
use crate::errors::over_limit;

/// The connection.
#[derive(Debug)]
pub(super) struct Session {
    link: Driver,
    pub(super) connection: Connection,
    pub(super) connect: Duration,
    pub(super) tls: Option<Duration>,
    body_bytes_max: u64,
    /// The answer that is coming.
    coming: Coming,
    /// The server has said that it takes no more streams.
    is_leaving: bool,
    /// Answers so far.
    pub(super) answers: usize,
    /// Whether acknowledgements leave at once.
    pub(super) acknowledges_at_once: bool,
}

/// What has come of an answer.
#[derive(Debug, Default)]
struct Coming {
    /// Its head, and when that came.
    head: Option<(StatusCode, Headers, Instant)>,
    /// The answer is whole.
    is_answered: bool,
    /// Of all reads.
    bytes: u64,
    reading: Reading,
    ends_apart: bool,
}

impl Session {
    pub(super) fn new(dialled: Dialled, limits: &Limits) -> Self {
        let Dialled { connection, connect, tls } = dialled;
        // A PING is sent whenever the engine is told the time.
        let connection_limits = h2::Limits { ping_interval: Some(Duration::ZERO), ..h2::Limits::default() };
        let engine_limits = h2::EngineLimits { head: limits.head, connection: connection_limits };
        Self {
            link: Driver::client(engine_limits, precise(), Output::new()),
            connection,
            connect,
            tls,
            body_bytes_max: limits.body_bytes,
            coming: Coming::default(),
            is_leaving: false,
            answers: 0,
            acknowledges_at_once: false,
        }
    }

    /// Waits for the server's settings, with which its connection begins.
    pub(super) async fn greeted(&mut self, deadline: Instant) -> Result<(), Fault> {
        self.until(deadline, |session| session.link.engine.is_greeted()).await
    }

    /// The server's settings.
    pub(super) fn settings(&self) -> h2::PeerSettings {
        self.link.engine.peer_settings()
    }

    /// How long a PING takes.
    pub(super) async fn ping(&mut self, deadline: Instant) -> Result<Duration, Fault> {
        let begun = precise();
        self.link.advance(begun).map_err(|error| fault(FaultKind::Timeout, error))?;
        self.until(deadline, |session| !session.link.engine.awaits_pong()).await?;
        Ok(precise().saturating_duration_since(begun))
    }

    /// Opens a stream and sends its request.
    pub(super) async fn send(&mut self, question: &Question, deadline: Instant) -> Result<(), Fault> {
        self.coming = Coming::default();
        if self.is_leaving {
            return Err(fault(
                FaultKind::Left,
                "the server takes no more requests on this connection (GOAWAY)",
            ));
        }
        let opened = self.link.engine.open_parts(&question.parts(), true, self.link.output.buffer());
        opened.map_err(|refused| {
            fault(FaultKind::Parse, format_args!("a request cannot be sent: {refused}"))
        })?;
        timeout_at(deadline.into(), self.flush()).await.map_err(|_| late())?
    }

    /// Receives the answer to the request that was sent last.
    pub(super) async fn receive(&mut self, sent_at: Instant, deadline: Instant) -> Result<Answer, Fault> {
        self.until(deadline, |session| session.coming.is_answered).await?;
        let Coming { head, bytes, reading, ends_apart, .. } = std::mem::take(&mut self.coming);
        let (status, headers, head_at) =
            head.ok_or_else(|| fault(FaultKind::Cut, "the stream ended without an answer"))?;
        self.answers += 1;
        let head = Answer::begun(status, !self.is_leaving, headers, sent_at, head_at);
        let ended_at = reading.last_read.unwrap_or(head_at);
        Ok(Answer { bytes, ends_apart, ended_at, ..reading.of(head) })
    }

    /// Sends what is to be sent and reads, until something is so or the deadline passes.
    async fn until(&mut self, deadline: Instant, is_so: fn(&Self) -> bool) -> Result<(), Fault> {
        let mut now = precise();
        loop {
            self.take(now)?;
            timeout_at(deadline.into(), self.flush()).await.map_err(|_| late())??;
            if is_so(self) {
                return Ok(());
            }
            let Coming { head, reading, .. } = &mut self.coming;
            reading.head_alone |= head.is_some() && reading.body_bytes == 0;
            if self.acknowledges_at_once && reading.reads > 0 {
                acknowledge(&self.connection);
            }
            let read = poll_fn(|context| self.link.poll_read(context, &mut self.connection));
            let read = timeout_at(deadline.into(), read).await.map_err(|_| late())?;
            now = precise();
            match read {
                Ok(0) if self.is_leaving => {
                    return Err(fault(
                        FaultKind::Left,
                        "the server left before its answer, as it had said (GOAWAY)",
                    ));
                }
                Ok(0) => return Err(fault(self.broken(), "the server closed the connection of HTTP/2")),
                Ok(count) => {
                    self.coming.bytes += count as u64;
                    self.coming.reading.read(now);
                }
                Err(error) => {
                    return Err(fault(
                        self.broken(),
                        format_args!("the connection of HTTP/2 broke: {error}"),
                    ));
                }
            }
        }
    }

    /// What a connection that ends now is: it may end inside an answer.
    fn broken(&self) -> FaultKind {
        if self.coming.head.is_some() { FaultKind::Cut } else { FaultKind::Closed }
    }

    async fn flush(&mut self) -> Result<(), Fault> {
        let flushed = poll_fn(|context| {
            if self.link.output.is_empty() {
                return Poll::Ready(Ok(()));
            }
            self.link.poll_flush(context, &mut self.connection)
        });
        flushed.await.map_err(|error| {
            fault(FaultKind::Closed, format_args!("the connection of HTTP/2 broke: {error}"))
        })
    }

    /// Takes all events that have come by now.
    fn take(&mut self, now: Instant) -> Result<(), Fault> {
        let coming = &mut self.coming;
        loop {
            let (id, bytes) = match self.link.receive(now) {
                Ok(None) => return Ok(()),
                Ok(Some(Event::Response { head, end, .. })) => {
                    coming.head = Some((head.status(), head.into_headers(), now));
                    coming.is_answered = end;
                    continue;
                }
                Ok(Some(Event::Data { id, data, end })) => {
                    let head_at = coming.head.as_ref().map(|(_, _, head_at)| *head_at);
                    coming.ends_apart = end && data.is_empty() && coming.reading.body_bytes > 0;
                    coming.reading.body(data.len(), head_at, now, self.body_bytes_max)?;
                    coming.is_answered = end;
                    (id, data.len())
                }
                Ok(Some(Event::Trailers { .. })) => {
                    coming.is_answered = true;
                    continue;
                }
                Ok(Some(Event::Informational { .. })) => {
                    coming.reading.interim()?;
                    continue;
                }
                Ok(Some(Event::Reset { code, by_peer, why, .. })) => {
                    let kind = if by_peer { FaultKind::Cut } else { FaultKind::Parse };
                    let why = why.map_or_else(String::new, |why| format!(": {why}"));
                    return Err(fault(kind, format_args!("the stream was reset ({code}){why}")));
                }
                Ok(Some(Event::GoAway(said))) if said.code == h2::Code::NO_ERROR => {
                    self.is_leaving = true;
                    continue;
                }
                Ok(Some(Event::GoAway(said))) => {
                    return Err(fault(
                        FaultKind::Closed,
                        format_args!("the server ended the connection by GOAWAY: {said}"),
                    ));
                }
                Ok(Some(_)) => continue,
                Err(h2::Error::SpeaksHttp1) => {
                    let message = Message::new("the server answered in HTTP/1".to_owned());
                    let message = message
                        .with_help("leave out --http2, or let the server take HTTP/2 without TLS (h2c)");
                    return Err(Fault { kind: FaultKind::Parse, message });
                }
                Err(error @ h2::Error::Excess { .. }) => {
                    return Err(Fault { kind: FaultKind::Parse, message: over_limit(&error) });
                }
                Err(error) => {
                    return Err(fault(
                        FaultKind::Parse,
                        format_args!("the server breaks the rules of HTTP/2: {error}"),
                    ));
                }
            };
            self.link.consumed(id, bytes);
        }
    }
}

fn fault(kind: FaultKind, message: impl std::fmt::Display) -> Fault {
    Fault { kind, message: Message::read(message) }
}

fn late() -> Fault {
    fault(FaultKind::Timeout, "nothing came on the connection of HTTP/2 within the time for an answer")
}
