//! A connection of HTTP/2: its settings and windows, the round trip of a PING, and single requests.

use std::future::poll_fn;
use std::task::Poll;
use std::time::{Duration, Instant};

use anywire_advice::{Chain, Message};
use anywire_http::Method;
use anywire_http::h2::{self, Event, RequestParts};
use anywire_loops::clock::precise;
use anywire_mux::{Http2 as Driver, Streams};
use anywire_wire::{Connection, Output};
use tokio::time::timeout_at;

use super::super::link::{Fault, FaultKind};
use super::super::measures::Http2;
use super::super::spread::{Spread, micros};
use super::super::target::Target;

/// Opens it. `None` if the server does not agree to HTTP/2 (ALPN).
pub(crate) async fn http2(target: &Target) -> Result<Option<Http2>, Fault> {
    let dialled = target.dial(Some("h2")).await;
    let connection = match dialled {
        Ok(dialled) => dialled.connection,
        // What a server says that speaks none of the protocols that were offered.
        Err(error) if Chain(&error).to_string().contains(NO_PROTOCOL) => return Ok(None),
        Err(error) => return Err(Fault::of_dial(&target.address, &error)),
    };
    if target.address.has_tls()
        && connection.negotiated().and_then(|agreed| agreed.protocol.as_deref()) != Some("h2")
    {
        return Ok(None);
    }
    let mut session = Session::new(target, connection);
    let begun = precise();
    session.until(target.patience(), |session| session.link.engine.is_greeted()).await?;
    let settings = begun.elapsed();
    // What stands behind the settings in the same read belongs to them, such as a larger window.
    let status = session.exchange(target).await?.0;
    let peer = session.link.engine.peer_settings();
    let ping = session.ping(target.patience()).await?;
    let mut latencies = Vec::new();
    let begun = precise();
    while latencies.len() < REQUESTS && !target.is_over(begun) {
        latencies.push(session.exchange(target).await?.1);
    }
    Ok(Some(Http2 {
        settings: micros(settings),
        max_streams: peer.streams,
        stream_window_bytes: peer.stream_window_bytes,
        connection_window_bytes: peer.connection_window_bytes,
        frame_bytes: peer.frame_bytes,
        head_bytes: peer.head_bytes,
        ping: Some(micros(ping)),
        status,
        latency: Spread::of(latencies),
    }))
}

struct Session {
    link: Driver,
    connection: Connection,
    body_bytes_max: u64,
    /// The status of the answer that is coming.
    status: Option<u16>,
    body_bytes: u64,
    /// The answer is whole.
    is_answered: bool,
}

impl Session {
    fn new(target: &Target, connection: Connection) -> Self {
        let limits = h2::Limits {
            head: target.plan.limits.head,
            // A PING is sent whenever the engine is told the time.
            ping_interval: Some(Duration::ZERO),
            ..h2::Limits::default()
        };
        Self {
            link: Driver::client(limits, precise(), Output::new()),
            connection,
            body_bytes_max: target.plan.limits.body_bytes,
            status: None,
            body_bytes: 0,
            is_answered: false,
        }
    }

    /// One request and its answer: the status, and how long it took.
    async fn exchange(&mut self, target: &Target) -> Result<(u16, Duration), Fault> {
        (self.status, self.body_bytes, self.is_answered) = (None, 0, false);
        let parts = RequestParts {
            method: &Method::GET,
            scheme: if target.url.is_https() { "https" } else { "http" },
            authority: &target.host,
            path: target.path(),
            protocol: None,
            headers: &target.headers,
            length: None,
        };
        let begun = precise();
        let opened = self.link.engine.open_parts(&parts, true, self.link.output.buffer());
        opened.map_err(|refused| {
            fault(FaultKind::Parse, format_args!("a request cannot be sent: {refused}"))
        })?;
        self.until(target.patience(), |session| session.is_answered).await?;
        let status =
            self.status.ok_or_else(|| fault(FaultKind::Cut, "the stream ended without an answer"))?;
        Ok((status, begun.elapsed()))
    }

    async fn ping(&mut self, deadline: Instant) -> Result<Duration, Fault> {
        let begun = precise();
        self.link.advance(begun).map_err(|error| fault(FaultKind::Timeout, error))?;
        self.until(deadline, |session| !session.link.engine.awaits_pong()).await?;
        Ok(begun.elapsed())
    }

    /// Sends what is to be sent and reads, until something is so or the deadline passes.
    async fn until(&mut self, deadline: Instant, is_so: fn(&Self) -> bool) -> Result<(), Fault> {
        loop {
            self.take()?;
            timeout_at(deadline.into(), self.flush()).await.map_err(|_| late())??;
            if is_so(self) {
                return Ok(());
            }
            let read = poll_fn(|context| self.link.poll_read(context, &mut self.connection));
            match timeout_at(deadline.into(), read).await.map_err(|_| late())? {
                Ok(0) => return Err(fault(FaultKind::Closed, "the server closed the connection of HTTP/2")),
                Ok(_) => {}
                Err(error) => {
                    return Err(fault(
                        FaultKind::Closed,
                        format_args!("the connection of HTTP/2 broke: {error}"),
                    ));
                }
            }
        }
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

    /// Takes all events that have come.
    fn take(&mut self) -> Result<(), Fault> {
        loop {
            let (id, bytes) = match self.link.receive(precise()) {
                Ok(None) => return Ok(()),
                Ok(Some(Event::Response { head, end, .. })) => {
                    self.status = Some(head.status().as_u16());
                    self.is_answered = end;
                    continue;
                }
                Ok(Some(Event::Data { id, data, end })) => {
                    self.is_answered = end;
                    (id, data.len())
                }
                Ok(Some(Event::Trailers { .. })) => {
                    self.is_answered = true;
                    continue;
                }
                Ok(Some(Event::Reset { code, .. })) => {
                    return Err(fault(FaultKind::Cut, format_args!("the stream was reset ({code})")));
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
                Err(error) => {
                    return Err(fault(
                        FaultKind::Parse,
                        format_args!("the server breaks the rules of HTTP/2: {error}"),
                    ));
                }
            };
            self.link.consumed(id, bytes);
            self.body_bytes += bytes as u64;
            if self.body_bytes > self.body_bytes_max {
                let message = format!("the body of an answer has more than {} bytes", self.body_bytes_max);
                return Err(fault(FaultKind::Parse, message));
            }
        }
    }
}

fn fault(kind: FaultKind, message: impl std::fmt::Display) -> Fault {
    Fault { kind, message: Message::read(message) }
}

fn late() -> Fault {
    fault(FaultKind::Timeout, "nothing came on the connection of HTTP/2 within the time for an answer")
}

/// Single requests.
const REQUESTS: usize = 50;
/// What an alert of TLS says to an offer of HTTP/2 alone.
const NO_PROTOCOL: &str = "none of the application protocols that were offered";
