//! Frames of HTTP/2, byte by byte.

use std::sync::Arc;
use std::time::Instant;

use anywire_http::Buffer;
use anywire_http::h2::{Code, Engine, EngineLimits, Error, Event, MessageError, StreamId};

pub(crate) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// GET http://a/: three entries of the static table, and the authority.
pub(crate) const REQUEST: &[u8] = b"\x82\x86\x84\x41\x01a";

pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const PRIORITY: u8 = 2;
pub(crate) const RST_STREAM: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
pub(crate) const PUSH_PROMISE: u8 = 5;
pub(crate) const PING: u8 = 6;
pub(crate) const GOAWAY: u8 = 7;
pub(crate) const WINDOW_UPDATE: u8 = 8;
pub(crate) const CONTINUATION: u8 = 9;
pub(crate) const PRIORITY_UPDATE: u8 = 16;

pub(crate) const ACK: u8 = 0x1;
pub(crate) const END_STREAM: u8 = 0x1;
pub(crate) const END_HEADERS: u8 = 0x4;
pub(crate) const PADDED: u8 = 0x8;

pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// A request without fields.
pub(crate) fn request(stream: u32, end: bool) -> Vec<u8> {
    frame(HEADERS, END_HEADERS | if end { END_STREAM } else { 0 }, stream, REQUEST)
}

/// Literals that are not put into a table.
pub(crate) fn literals(fields: &[(&str, &str)]) -> Vec<u8> {
    fields
        .iter()
        .flat_map(|(name, value)| {
            [&[0, name.len() as u8][..], name.as_bytes(), &[value.len() as u8], value.as_bytes()].concat()
        })
        .collect()
}

/// The frames in `bytes`: kind, flags, stream, payload.
pub(crate) fn frames(mut bytes: &[u8]) -> Vec<(u8, u8, u32, Vec<u8>)> {
    let mut frames = Vec::new();
    while let Some((&[l2, l1, l0, kind, flags, s3, s2, s1, s0], rest)) = bytes.split_first_chunk::<9>() {
        let (payload, rest) = rest.split_at(u32::from_be_bytes([0, l2, l1, l0]) as usize);
        frames.push((kind, flags, u32::from_be_bytes([s3, s2, s1, s0]), payload.to_vec()));
        bytes = rest;
    }
    frames
}

/// When a test begins. Engines get their time from tests, which move it by hand.
#[allow(clippy::disallowed_methods, reason = "only differences count, and there is no other way to make one")]
pub(crate) fn clock() -> Instant {
    Instant::now()
}

/// An engine, what has come for it, and what it wants to send.
pub(crate) struct End {
    pub(crate) engine: Engine,
    pub(crate) input: Buffer,
    pub(crate) out: Vec<u8>,
    pub(crate) now: Instant,
    /// The stream of the last event.
    pub(crate) newest: Option<StreamId>,
    /// Why the last stream was reset, if a message was the reason.
    pub(crate) why: Option<MessageError>,
}

impl End {
    /// A server whose client has begun.
    pub(crate) fn server(limits: impl Into<Arc<EngineLimits>>) -> Self {
        let (now, mut out) = (clock(), Vec::new());
        let engine = Engine::server(limits, now, &mut out);
        let mut end = Self { engine, input: Buffer::new(), out, now, newest: None, why: None };
        end.take(PREFACE, |_, _| {}).expect("a good start");
        end.begin();
        end
    }

    /// A client whose server has begun.
    pub(crate) fn client(limits: impl Into<Arc<EngineLimits>>) -> Self {
        let (now, mut out) = (clock(), Vec::new());
        let engine = Engine::client(limits, now, &mut out);
        let mut end = Self { engine, input: Buffer::new(), out, now, newest: None, why: None };
        end.begin();
        end
    }

    fn begin(&mut self) {
        self.take(&frame(SETTINGS, 0, 0, &[]), |_, _| {}).expect("a good start");
        self.take(&frame(SETTINGS, ACK, 0, &[]), |_, _| {}).expect("a good start");
        self.out.clear();
    }

    /// Takes bytes, and passes on each event.
    pub(crate) fn take(
        &mut self,
        mut bytes: &[u8],
        mut on: impl FnMut(&mut Self, &str),
    ) -> Result<(), Error> {
        while !bytes.is_empty() {
            let taken = self.input.fill_from(bytes);
            assert!(taken > 0, "the buffer stays full");
            bytes = &bytes[taken..];
            while let Some(event) = self.engine.receive(self.now, &mut self.input, &mut self.out)? {
                if let Event::Reset { why, .. } = &event {
                    self.why = *why;
                }
                let (id, text) = text(&event);
                self.newest = id.or(self.newest);
                on(self, &text);
            }
        }
        Ok(())
    }

    /// Takes bytes. Returns what came of them, as text.
    pub(crate) fn events(&mut self, bytes: &[u8]) -> Result<Vec<String>, Error> {
        let mut events = Vec::new();
        self.take(bytes, |_, event| events.push(event.to_owned())).map(|()| events)
    }

    /// The resets that it has sent: stream and code.
    pub(crate) fn resets(&mut self) -> Vec<(u32, Code)> {
        let out = std::mem::take(&mut self.out);
        frames(&out)
            .into_iter()
            .filter(|(kind, ..)| *kind == RST_STREAM)
            .map(|(_, _, stream, code)| {
                (stream, Code(u32::from_be_bytes(code.try_into().expect("four bytes"))))
            })
            .collect()
    }
}

/// An event as short text, and its stream.
fn text(event: &Event<'_>) -> (Option<StreamId>, String) {
    let ends = |end: &bool| if *end { " end" } else { "" };
    let (id, text) = match event {
        Event::Request { id, head, end, .. } => {
            (id, format!("{} {} {}{}", id.get(), head.method(), head.target(), ends(end)))
        }
        Event::Response { id, head, end, .. } => {
            (id, format!("{} {}{}", id.get(), head.status().as_u16(), ends(end)))
        }
        Event::Informational { id, head } => (id, format!("{} interim {}", id.get(), head.status().as_u16())),
        Event::Data { id, data, end } => {
            (id, format!("{} {}{}", id.get(), String::from_utf8_lossy(data), ends(end)))
        }
        Event::Trailers { id, fields } => (id, format!("{} trailers {fields:?}", id.get())),
        Event::Reset { id, code, .. } => (id, format!("{} reset {code}", id.get())),
        Event::Refused { id, limit, asks_head } => {
            (id, format!("{} refused {limit:?}{}", id.get(), if *asks_head { " HEAD" } else { "" }))
        }
        Event::GoAway(said) => return (None, format!("goaway {} {said}", said.last.get())),
        other => return (None, format!("{other:?}")),
    };
    (Some(*id), text)
}
