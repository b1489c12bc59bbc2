//! One connection of HTTP/1: requests go out as bytes, and of each answer the times of its reads and its segments are kept.

use std::io;
use std::time::{Duration, Instant};

use anywire_advice::Message;
use anywire_http::h1::{DecodeError, Framing, ResponseDecoder, ResponseEvent};
use anywire_http::{Buffer, Headers, Method, StatusCode};
use anywire_loops::clock::precise;
use anywire_sys::tcp_info::TcpInfo;
use anywire_wire::{Address, Connection, DialError};
use tokio::time::timeout_at;

use super::line::acknowledge;
use super::plan::Limits;
use super::reading::Reading;
use super::target::Dialled;
use crate::errors::{dial_message, over_limit};

/// The connection.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) connection: Connection,
    pub(super) connect: Duration,
    pub(super) tls: Option<Duration>,
    decoder: ResponseDecoder,
    buffer: Buffer,
    body_bytes_max: u64,
    /// Bytes of all reads.
    received: u64,
    /// Answers so far.
    pub(super) answers: usize,
    /// Whether acknowledgements leave at once.
    pub(super) acknowledges_at_once: bool,
}

/// What an answer is to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wanted {
    Get,
    Head,
}

/// An answer that has come to its end.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) headers: Headers,
    pub(super) keep_alive: bool,
    /// Its bytes as HTTP, head and body.
    pub(super) bytes: u64,
    pub(super) body_bytes: u64,
    /// Interim answers before it (1xx).
    pub(super) interim: usize,
    pub(super) reads: usize,
    /// A read ended behind the head, and a body was to come.
    pub(super) head_alone: bool,
    /// From the read that completed the head to the read with the first bytes of the body.
    pub(super) gap: Option<Duration>,
    /// The longest time between two reads of it.
    pub(super) pause: Option<Duration>,
    /// Over HTTP/2: its end came in a frame without data, behind data.
    pub(super) ends_apart: bool,
    pub(super) sent_at: Instant,
    pub(super) head_at: Instant,
    pub(super) ended_at: Instant,
    /// What the connection has received for it, on TCP.
    pub(super) on_wire: Option<OnWire>,
}

/// What TCP has received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct OnWire {
    pub(super) segments: u32,
    /// With the bytes that TLS adds.
    pub(super) bytes: Option<u64>,
    /// How many segments would do for these bytes.
    pub(super) expected: u32,
}

impl Answer {
    pub(super) fn latency(&self) -> Duration {
        self.ended_at.saturating_duration_since(self.sent_at)
    }
}

/// Why an exchange had no answer.
#[derive(Debug, Clone)]
pub(super) struct Fault {
    pub(super) kind: FaultKind,
    pub(super) message: Message,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FaultKind {
    /// There is no connection.
    Dial,
    /// The deadline passed.
    Timeout,
    /// The peer closed before any byte of the answer.
    Closed,
    /// The same, and it had said so before.
    Left,
    /// The connection ended inside the answer.
    Cut,
    /// The bytes are no answer, or over a limit.
    Parse,
}

impl Fault {
    fn new(kind: FaultKind, message: impl Into<Message>) -> Self {
        Self { kind, message: message.into() }
    }

    pub(super) fn of_dial(address: &Address, error: &DialError) -> Self {
        Self::new(FaultKind::Dial, dial_message(address, error))
    }

    fn of_decoder(error: &DecodeError) -> Self {
        if error.fault() == anywire_http::Fault::Limit {
            return Self::new(FaultKind::Parse, over_limit(error));
        }
        let kind = if error.is_cut_short() { FaultKind::Cut } else { FaultKind::Parse };
        Self::new(kind, Message::read(format_args!("the answer is not HTTP/1.1 as it should be: {error}")))
    }

    fn late(answer: &Partial, since: Instant) -> Self {
        let waited = since.elapsed().as_millis();
        let Reading { reads, body_bytes, .. } = answer.reading;
        let came = match (&answer.head, body_bytes) {
            _ if reads == 0 => "nothing of the answer had come".to_owned(),
            (None, _) => format!("the head of the answer was not whole, after {reads} reads"),
            (Some(_), body) => format!("the body of the answer was not whole, with {body} bytes of it"),
        };
        let message = Message::new(format!("after {waited} ms {came}"));
        Self::new(
            FaultKind::Timeout,
            message.with_help("see what the server waits for, or allow more time for an answer"),
        )
    }

    fn of_io(is_within: bool, error: &io::Error) -> Self {
        let kind = if is_within { FaultKind::Cut } else { FaultKind::Closed };
        let place = if is_within { "inside an answer" } else { "before the answer" };
        Self::new(kind, Message::read(format_args!("the connection broke {place}: {error}")))
    }
}

/// What has come of an answer.
struct Partial {
    head: Option<Answer>,
    /// How its body ends.
    framing: Framing,
    reading: Reading,
}

impl Link {
    pub(super) fn new(dialled: Dialled, limits: &Limits) -> Self {
        let Dialled { connection, connect, tls } = dialled;
        let room = limits.head.bytes.saturating_add(1).max(Buffer::DEFAULT_LIMIT_BYTES);
        Self {
            connection,
            connect,
            tls,
            decoder: ResponseDecoder::new(limits.head.into()),
            buffer: Buffer::with_limit(room),
            body_bytes_max: limits.body_bytes,
            received: 0,
            answers: 0,
            acknowledges_at_once: false,
        }
    }

    /// What the kernel knows of the connection; `None` if it is none of TCP.
    pub(super) fn tcp(&self) -> Option<TcpInfo> {
        TcpInfo::of(self.connection.as_fd()?).ok()
    }

    /// Sends a request and receives its answer, until the deadline.
    pub(super) async fn ask(
        &mut self,
        request: &[u8],
        wanted: Wanted,
        deadline: Instant,
    ) -> Result<Answer, Fault> {
        let sent_at = precise();
        self.send(request, deadline).await?;
        self.receive(wanted, sent_at, deadline).await
    }

    /// Sends bytes. What the peer has said before it closed is still to be received.
    pub(super) async fn send(&mut self, bytes: &[u8], deadline: Instant) -> Result<(), Fault> {
        match timeout_at(deadline.into(), self.connection.write_all(bytes)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(Fault::of_io(false, &error)),
            Err(_) => Err(Fault::new(
                FaultKind::Timeout,
                "the server did not take the request within the time for an answer".to_owned(),
            )),
        }
    }

    /// Receives the next answer, whose request was sent then.
    pub(super) async fn receive(
        &mut self,
        wanted: Wanted,
        sent_at: Instant,
        deadline: Instant,
    ) -> Result<Answer, Fault> {
        if wanted == Wanted::Head {
            self.decoder.request_method(&Method::HEAD);
        }
        let begun = self.received - self.buffer.len() as u64;
        let mut partial = Partial { head: None, framing: Framing::None, reading: Reading::default() };
        let mut now = precise();
        loop {
            if self.take(&mut partial, sent_at, now)?
                && let Some(head) = partial.head
            {
                self.answers += 1;
                let bytes = self.received - self.buffer.len() as u64 - begun;
                return Ok(Answer { bytes, ended_at: now, ..partial.reading.of(head) });
            }
            if partial.head.is_some() && partial.reading.body_bytes == 0 && !partial.framing.is_empty() {
                partial.reading.head_alone = true;
            }
            if self.acknowledges_at_once && partial.reading.reads > 0 {
                acknowledge(&self.connection);
            }
            let spare = self.buffer.spare();
            let read = timeout_at(deadline.into(), self.connection.read(spare)).await;
            now = precise();
            let is_within = partial.head.is_some() || !self.buffer.is_empty();
            match read {
                Err(_) => return Err(Fault::late(&partial, sent_at)),
                Ok(Err(error)) => return Err(Fault::of_io(is_within, &error)),
                Ok(Ok(0)) if partial.head.is_none() && !is_within => {
                    return Err(Fault::new(
                        FaultKind::Closed,
                        "the server closed the connection before its answer".to_owned(),
                    ));
                }
                Ok(Ok(0)) => match self.decoder.finish() {
                    Ok(Some(_)) => partial.framing = Framing::None,
                    Ok(None) => {
                        return Err(Fault::new(
                            FaultKind::Cut,
                            "the server closed inside an answer".to_owned(),
                        ));
                    }
                    Err(error) => return Err(Fault::of_decoder(&error)),
                },
                Ok(Ok(count)) => {
                    self.buffer.filled(count);
                    self.received += count as u64;
                    partial.reading.read(now);
                }
            }
        }
    }

    /// Takes what has come out of the buffer. Whether the answer is whole.
    fn take(&mut self, partial: &mut Partial, sent_at: Instant, now: Instant) -> Result<bool, Fault> {
        // The end of the stream was the end of the body.
        if partial.head.is_some() && partial.framing == Framing::None {
            return Ok(true);
        }
        loop {
            match self.decoder.decode(&mut self.buffer) {
                Ok(None) => return Ok(false),
                Ok(Some(ResponseEvent::Informational(_))) => partial.reading.interim()?,
                Ok(Some(ResponseEvent::Head(head, info))) => {
                    if head.status() == StatusCode::SWITCHING_PROTOCOLS {
                        let message =
                            "the server switched to another protocol (101), which was not asked for"
                                .to_owned();
                        return Err(Fault::new(FaultKind::Parse, message));
                    }
                    partial.framing = info.framing;
                    partial.head = Some(Answer::begun(
                        head.status(),
                        info.keep_alive,
                        head.into_headers(),
                        sent_at,
                        now,
                    ));
                    if info.framing == Framing::None {
                        return Ok(true);
                    }
                }
                Ok(Some(ResponseEvent::Data(data))) => {
                    let head_at = partial.head.as_ref().map(|head| head.head_at);
                    partial.reading.body(data.len(), head_at, now, self.body_bytes_max)?;
                }
                Ok(Some(ResponseEvent::Trailers(_))) => {}
                Ok(Some(ResponseEvent::End)) => return Ok(true),
                Err(error) => return Err(Fault::of_decoder(&error)),
            }
        }
    }

    /// Reads once, until the deadline. Whether anything came, and when the wait ended.
    pub(super) async fn wait_for_bytes(&mut self, deadline: Instant) -> Result<(bool, Instant), Fault> {
        let read = timeout_at(deadline.into(), self.connection.read(self.buffer.spare())).await;
        let now = precise();
        match read {
            Err(_) => Ok((false, now)),
            Ok(Err(error)) => Err(Fault::of_io(false, &error)),
            Ok(Ok(0)) => Err(Fault::new(
                FaultKind::Closed,
                "the server closed the connection before its answer".to_owned(),
            )),
            Ok(Ok(count)) => {
                self.buffer.filled(count);
                self.received += count as u64;
                Ok((true, now))
            }
        }
    }

    /// Whether what has come, and was not taken, begins with an interim answer.
    pub(super) fn begins_with_interim(&self) -> bool {
        self.buffer.data().starts_with(b"HTTP/1.1 1")
    }

    /// Whether bytes have come that no answer has taken.
    pub(super) fn has_unread(&self) -> bool {
        !self.buffer.is_empty()
    }
}

impl Answer {
    /// An answer of which the head has come.
    pub(super) fn begun(
        status: StatusCode,
        keep_alive: bool,
        headers: Headers,
        sent_at: Instant,
        now: Instant,
    ) -> Self {
        Self {
            status,
            headers,
            keep_alive,
            bytes: 0,
            body_bytes: 0,
            interim: 0,
            reads: 0,
            head_alone: false,
            gap: None,
            pause: None,
            ends_apart: false,
            sent_at,
            head_at: now,
            ended_at: now,
            on_wire: None,
        }
    }
}

/// What came between two moments. `bytes` are those of HTTP, for kernels that do not count bytes.
pub(super) fn on_wire(before: &TcpInfo, after: &TcpInfo, bytes: u64) -> OnWire {
    let received = after.bytes_in.zip(before.bytes_in).map(|(after, before)| after.saturating_sub(before));
    OnWire {
        segments: after.data_segments_in.saturating_sub(before.data_segments_in),
        bytes: received,
        expected: expected_segments(received.unwrap_or(bytes), segment_bytes(after)),
    }
}

/// The largest segment that the peer sends, as far as this end can know it: no larger than it was asked for, and mostly no larger than
/// ours, since both pass the same path.
pub(super) fn segment_bytes(tcp: &TcpInfo) -> u32 {
    tcp.segment_bytes_in.min(tcp.segment_bytes_out).max(1)
}

fn expected_segments(bytes: u64, segment_bytes: u32) -> u32 {
    u32::try_from(bytes.div_ceil(segment_bytes.into())).unwrap_or(u32::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_are_expected_by_the_bytes_that_came() {
        let tcp = |segments, bytes| {
            let mut tcp = TcpInfo::default();
            (tcp.data_segments_in, tcp.bytes_in) = (segments, bytes);
            (tcp.segment_bytes_in, tcp.segment_bytes_out) = (1460, 1448);
            tcp
        };
        let came = on_wire(&tcp(7, Some(1000)), &tcp(10, Some(1000 + 1449)), 9);
        assert_eq!(came, OnWire { segments: 3, bytes: Some(1449), expected: 2 });
        // A kernel that does not count bytes.
        assert_eq!(on_wire(&tcp(7, None), &tcp(8, None), 1448).expected, 1);
        assert_eq!(expected_segments(0, 1), 1);
        assert_eq!(expected_segments(u64::MAX, 1), u32::MAX);
    }
}
