//! A client of HTTP/2 over any wire: the engine with a blocking connection, and frames by hand.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::sync::Arc;

use anywire_http::h2::{Code, Engine, EngineLimits, Event, Limits, Protocol, Refused, StreamId};
use anywire_http::{Buffer, Headers, Method, RequestHead, ResponseHead};

pub(crate) use self::frames::*;
use super::{Remote, Served};

/// Frames by hand.
#[path = "../../../../http/tests/behaviours/support/h2.rs"]
mod frames;

/// A connection that speaks HTTP/2 in order, with what has come on it.
pub(crate) struct H2 {
    pub(crate) link: Remote,
    pub(crate) engine: Engine,
    input: Buffer,
    /// What is to leave with the next flush.
    pub(crate) out: Vec<u8>,
    came: VecDeque<Came>,
    /// The windows open as bodies come. Else they stay as they are.
    pub(crate) reads: bool,
    /// What the engine wants to write is dropped.
    pub(crate) is_mute: bool,
}

/// What a server has sent.
#[derive(Debug)]
pub(crate) enum Came {
    Interim(StreamId, u16, Headers),
    Head(StreamId, ResponseHead, bool),
    Data(StreamId, Vec<u8>, bool),
    Trailers(StreamId, Headers),
    Reset(StreamId, Code),
    GoAway(u32, Code),
    /// The end of the connection. Nothing follows.
    End,
}

/// A whole answer.
#[derive(Debug)]
pub(crate) struct Whole {
    pub(crate) head: ResponseHead,
    pub(crate) body: Vec<u8>,
    pub(crate) trailers: Option<Headers>,
    /// The code of a reset behind it, or instead of its end.
    pub(crate) reset: Option<Code>,
    pub(crate) interim: Vec<u16>,
}

impl Whole {
    pub(crate) fn status(&self) -> u16 {
        self.head.status().as_u16()
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("text")
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.headers().get(name)
    }
}

impl H2 {
    pub(crate) fn connect(served: &Served) -> Self {
        Self::connect_with(served, Limits::default())
    }

    pub(crate) fn connect_with(served: &Served, limits: impl Into<Arc<EngineLimits>>) -> Self {
        Self::over(Remote::dial(&served.address), limits)
    }

    pub(crate) fn over(link: Remote, limits: impl Into<Arc<EngineLimits>>) -> Self {
        let mut out = Vec::new();
        let engine = Engine::client(limits, clock(), &mut out);
        let mut peer = Self {
            link,
            engine,
            input: Buffer::new(),
            out,
            came: VecDeque::new(),
            reads: true,
            is_mute: false,
        };
        peer.flush();
        peer
    }

    /// What is to be written by the engine leaves.
    pub(crate) fn flush(&mut self) {
        let out = std::mem::take(&mut self.out);
        if !out.is_empty() && !self.is_mute {
            self.raw(&out);
        }
    }

    /// Bytes beside the engine.
    pub(crate) fn raw(&mut self, bytes: &[u8]) {
        self.link.write_all(bytes).expect("the connection's task takes all");
    }

    /// Ends its direction. What comes may still be read.
    pub(crate) fn half_close(&mut self) {
        self.link.half_close();
        self.is_mute = true;
    }

    /// A request without a body.
    pub(crate) fn get(&mut self, path: &str) -> StreamId {
        self.open("GET", path, &[], None, true)
    }

    /// The head of a request. A field `host` is its authority.
    pub(crate) fn open(
        &mut self,
        method: &str,
        path: &str,
        fields: &[(&str, &str)],
        length: Option<u64>,
        end: bool,
    ) -> StreamId {
        let id = self.open_later(method, path, fields, length, end);
        self.flush();
        id
    }

    /// As [`open`](Self::open), and leaves with what comes next.
    pub(crate) fn open_later(
        &mut self,
        method: &str,
        path: &str,
        fields: &[(&str, &str)],
        length: Option<u64>,
        end: bool,
    ) -> StreamId {
        let mut head = RequestHead::new(method.parse().expect("a method"), path).expect("a target");
        let authority = fields.iter().find(|(name, _)| *name == "host").map_or("a", |(_, value)| value);
        head.set_origin("http", authority).expect("an origin");
        for (name, value) in fields.iter().filter(|(name, _)| *name != "host") {
            head.headers_mut().append(name, value).expect("a field");
        }
        self.engine.open(&head, length, end, &mut self.out).expect("a slot")
    }

    /// An extended CONNECT. What the server allows must have come.
    pub(crate) fn extended_connect(&mut self, protocol: &str, path: &str) -> Result<StreamId, Refused> {
        let mut head = RequestHead::new(Method::GET, path).expect("a target");
        head.set_method(Method::CONNECT);
        head.set_origin("http", "a").expect("an origin");
        head.extensions_mut().insert(Protocol(protocol.into()));
        let opened = self.engine.open(&head, None, false, &mut self.out);
        self.flush();
        opened
    }

    /// A CONNECT to this host and port.
    pub(crate) fn connect_to(&mut self, authority: &str) -> StreamId {
        let head = RequestHead::new(Method::CONNECT, authority).expect("host and port");
        let id = self.engine.open(&head, None, false, &mut self.out).expect("a slot");
        self.flush();
        id
    }

    /// The rest of a request, as the windows allow it. What comes meanwhile is kept.
    pub(crate) fn body(&mut self, id: StreamId, mut bytes: &[u8], end: bool) {
        loop {
            self.engine.wants_to_send(id, true);
            if let Some((next, room)) = self.engine.next_to_send() {
                assert_eq!(next, id, "one body at a time");
                let (now, later) = bytes.split_at(room.min(bytes.len()));
                bytes = later;
                self.engine.data_head(id, now.len(), end && bytes.is_empty(), &mut self.out);
                self.out.extend_from_slice(now);
                self.flush();
            } else {
                let is_over = match self.read_some() {
                    None => false,
                    Some(came) => {
                        let ours = matches!(&came, Came::Reset(of, _) if *of == id);
                        let is_over = ours || matches!(came, Came::End);
                        self.came.push_back(came);
                        is_over
                    }
                };
                if is_over {
                    return;
                }
            }
            if bytes.is_empty() {
                self.engine.wants_to_send(id, false);
                return;
            }
        }
    }

    /// Fields that end a request.
    pub(crate) fn trailers(&mut self, id: StreamId, fields: &Headers) {
        self.engine.send_trailers(id, fields, &mut self.out).expect("open");
        self.flush();
    }

    /// Opens the windows by what was read.
    pub(crate) fn consumed(&mut self, id: StreamId, bytes: usize) {
        self.engine.consumed(id, bytes, &mut self.out);
        self.flush();
    }

    /// What came next.
    #[track_caller]
    pub(crate) fn next(&mut self) -> Came {
        match self.came.pop_front() {
            Some(came) => came,
            None => loop {
                if let Some(came) = self.read_some() {
                    return came;
                }
            },
        }
    }

    /// The whole answer of a stream. What comes on others is kept.
    #[track_caller]
    pub(crate) fn answer(&mut self, id: StreamId) -> Whole {
        let mut others = VecDeque::new();
        let (mut head, mut body, mut trailers, mut reset, mut interim) =
            (None, Vec::new(), None, None, Vec::new());
        loop {
            match self.next() {
                Came::Interim(of, status, _) if of == id => interim.push(status),
                Came::Head(of, came, end) if of == id => {
                    head = Some(came);
                    if end {
                        break;
                    }
                }
                Came::Data(of, data, end) if of == id => {
                    body.extend(data);
                    if end {
                        break;
                    }
                }
                Came::Trailers(of, fields) if of == id => {
                    trailers = Some(fields);
                    break;
                }
                Came::Reset(of, code) if of == id => {
                    reset = Some(code);
                    break;
                }
                Came::End => panic!("the server closed; head {head:?}, others {others:?}"),
                other => others.push_back(other),
            }
        }
        others.append(&mut self.came);
        self.came = others;
        let head = head.unwrap_or_else(|| panic!("no head came, reset by {reset:?}"));
        Whole { head, body, trailers, reset, interim }
    }

    /// A request and its answer.
    #[track_caller]
    pub(crate) fn ask(&mut self, path: &str) -> Whole {
        let id = self.get(path);
        self.answer(id)
    }

    /// The code that ends a stream without an answer.
    #[track_caller]
    pub(crate) fn reset_of(&mut self, id: StreamId) -> Code {
        loop {
            match self.next() {
                Came::Reset(of, code) if of == id => return code,
                Came::Data(..) | Came::Head(..) => {}
                other => panic!("{other:?} instead of a reset"),
            }
        }
    }

    /// The code of the last GOAWAY before the server closes.
    #[track_caller]
    pub(crate) fn end(&mut self) -> Option<Code> {
        let mut last = None;
        loop {
            match self.next() {
                Came::GoAway(_, code) => last = Some(code),
                Came::End => return last,
                _ => {}
            }
        }
    }

    /// What came next, or `None` if more bytes came that make nothing whole, or opened a window.
    #[track_caller]
    fn read_some(&mut self) -> Option<Came> {
        let mut has_read = false;
        loop {
            let before = self.input.len();
            let received = self.engine.receive(clock(), &mut self.input, &mut self.out);
            let came = match received.expect("the server keeps to the protocol") {
                Some(Event::Informational { id, head }) => {
                    Some(Came::Interim(id, head.status().as_u16(), head.into_headers()))
                }
                Some(Event::Response { id, head, end, .. }) => Some(Came::Head(id, head, end)),
                Some(Event::Data { id, data, end }) => Some(Came::Data(id, data.to_vec(), end)),
                Some(Event::Trailers { id, fields }) => Some(Came::Trailers(id, fields)),
                Some(Event::Reset { id, code, .. }) => Some(Came::Reset(id, code)),
                Some(Event::GoAway(said)) => Some(Came::GoAway(said.last.get(), said.code)),
                Some(_) => continue,
                None => None,
            };
            if let Some(Came::Data(id, data, _)) = &came
                && self.reads
            {
                self.engine.consumed(*id, data.len(), &mut self.out);
            }
            self.flush();
            // What has come before may have opened a window, too.
            if came.is_some() || has_read || self.input.len() < before {
                return came;
            }
            has_read = true;
            let mut part = [0; 16 * 1024];
            let read = match self.link.read(&mut part) {
                Ok(read) => read,
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => 0,
                Err(error) => panic!("the server neither answered nor closed: {error}"),
            };
            if read == 0 {
                return Some(Came::End);
            }
            assert_eq!(self.input.fill_from(&part[..read]), read, "the buffer takes a read");
        }
    }
}
