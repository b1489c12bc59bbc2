//! Requests and responses that two ends of HTTP/2 exchange, and our engine as either end.

use std::collections::VecDeque;
use std::time::Instant;

use anywire_http::h2::{Engine, Event, Limits, RequestParts, ResponseParts, StreamId};
use anywire_http::{Buffer, Headers, Method, StatusCode};

use super::frames::Choices;

pub(crate) type Fields = Vec<(String, Vec<u8>)>;

/// One message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Message {
    /// `GET /path`, or the status.
    pub(crate) start: String,
    /// Sorted by name: some libraries keep the order of equal names alone.
    pub(crate) fields: Fields,
    pub(crate) body: Vec<u8>,
    pub(crate) trailers: Fields,
    /// It was heard to its end.
    pub(crate) is_whole: bool,
}

/// The message of one stream.
#[derive(Clone, Debug)]
pub(crate) struct Said {
    pub(crate) request: Message,
    pub(crate) response: Message,
}

impl Said {
    pub(crate) fn draw(choices: &mut Choices<'_>) -> Self {
        let method = ["GET", "POST", "PUT", "PROPFIND"][choices.below(4)];
        let path = ["/", "/index.html", "/a?b=c&d", "/*"][choices.below(4)];
        let status = ["200", "204", "404", "503", "599"][choices.below(5)];
        let request = message(choices, format!("{method} {path}"), true);
        let response = message(choices, status.to_owned(), status != "204");
        Self { request, response }
    }
}

fn message(choices: &mut Choices<'_>, start: String, may_have_body: bool) -> Message {
    let fields = fields(choices);
    let (mut body, mut trailers) = (Vec::new(), Vec::new());
    if may_have_body && choices.flag() {
        body = choices.bytes(30).to_vec();
        // Longer than a window at times.
        body = body.repeat([1, 7, 3000][choices.below(3)]);
        if choices.flag() {
            trailers = self::fields(choices);
        }
    }
    Message { start, fields, body, trailers, is_whole: true }
}

fn fields(choices: &mut Choices<'_>) -> Fields {
    let names =
        ["x-a", "accept", "user-agent", "content-type", "server", "cache-control", "authorization", "via"];
    let mut fields: Fields = (0..choices.below(5))
        .map(|_| {
            let name = match choices.below(names.len() + 1) {
                8 => choices.bytes(70).iter().fold("x-".to_owned(), |name, byte| {
                    name + char::from(b'a' + byte % 26).encode_utf8(&mut [0; 4])
                }),
                known => names[known].to_owned(),
            };
            let value = choices.bytes(90).iter().map(|byte| byte.max(&b'!')).map(|byte| match byte {
                0x7f => b' ',
                other => *other,
            });
            let value: Vec<u8> = value.collect();
            (name, value.trim_ascii().to_vec())
        })
        .collect();
    fields.sort_by(|(one, _), (other, _)| one.cmp(other));
    fields
}

/// An end of a connection.
pub(crate) trait End {
    /// Takes these bytes, acts on them, and returns the bytes to send.
    fn turn(&mut self, bytes: &[u8]) -> Vec<u8>;
    /// The message that it has received on each stream.
    fn heard(&self) -> Vec<Message>;
}

/// Lets them talk until both are silent; the pieces in which bytes travel are chosen, too.
pub(crate) fn converse(client: &mut dyn End, server: &mut dyn End, choices: &mut Choices<'_>) {
    let (mut to_server, mut to_client) = (VecDeque::new(), VecDeque::new());
    let mut silent = 0;
    while silent < 3 {
        let mut piece = |from: &mut VecDeque<u8>| {
            let most = if choices.is_over() { from.len() } else { choices.below(256) * 64 + 1 };
            from.drain(..most.min(from.len())).collect::<Vec<u8>>()
        };
        let for_client = piece(&mut to_client);
        let from_client = client.turn(&for_client);
        to_server.extend(&from_client);
        let for_server = piece(&mut to_server);
        let from_server = server.turn(&for_server);
        to_client.extend(&from_server);
        let is_silent =
            from_client.is_empty() && from_server.is_empty() && to_server.is_empty() && to_client.is_empty();
        silent = if is_silent { silent + 1 } else { 0 };
    }
}

/// Our engine as an end.
pub(crate) struct Ours {
    engine: Engine,
    is_server: bool,
    input: Buffer,
    out: Vec<u8>,
    said: Vec<Said>,
    /// How many of them have begun, at the client.
    begun: usize,
    /// For each stream: how much of the body has left.
    speaking: Vec<usize>,
    heard: Vec<Message>,
}

impl Ours {
    pub(crate) fn new(is_server: bool, said: &[Said]) -> Self {
        let (now, mut out, limits) = (Instant::now(), Vec::new(), Limits::default());
        let engine = if is_server {
            Engine::server(limits, now, &mut out)
        } else {
            Engine::client(limits, now, &mut out)
        };
        Self {
            engine,
            is_server,
            input: Buffer::new(),
            out,
            speaking: vec![0; said.len()],
            heard: vec![Message::default(); said.len()],
            said: said.to_vec(),
            begun: 0,
        }
    }

    fn mine(&self, place: usize) -> &Message {
        let said = &self.said[place];
        if self.is_server { &said.response } else { &said.request }
    }

    fn open(&mut self) {
        while self.begun < self.said.len() && self.engine.slots() > 0 {
            let request = self.said[self.begun].request.clone();
            let (method, path) = request.start.split_once(' ').expect("drawn so");
            let fields = headers(&request.fields);
            let parts = RequestParts {
                method: &method.parse::<Method>().expect("a method"),
                scheme: "http",
                authority: "localhost:1",
                path,
                protocol: None,
                headers: &fields,
                length: None,
            };
            let is_whole = request.body.is_empty() && request.trailers.is_empty();
            let id = self.engine.open_parts(&parts, is_whole, &mut self.out).expect("a slot");
            assert_eq!(place(id), self.begun);
            if !is_whole {
                self.engine.wants_to_send(id, true);
            }
            self.begun += 1;
        }
    }

    fn respond(&mut self, id: StreamId) {
        let response = self.said[place(id)].response.clone();
        let fields = headers(&response.fields);
        let status = StatusCode::from_bytes(response.start.as_bytes()).expect("a status");
        let is_whole = response.body.is_empty() && response.trailers.is_empty();
        let length = (!response.body.is_empty())
            .then_some(response.body.len() as u64)
            .filter(|length| length % 2 == 0);
        let parts = ResponseParts { length, ..ResponseParts::new(status, &fields) };
        self.engine.respond(id, &parts, is_whole, &mut self.out).expect("it was just asked");
        self.engine.wants_to_send(id, !is_whole);
    }

    fn take(&mut self) {
        loop {
            let Self { engine, input, out, .. } = self;
            let event = engine.receive(Instant::now(), input, out).expect("both keep the rules");
            let Some(event) = event else { return };
            let (id, end, count) = match event {
                Event::Request { id, head, end, .. } => {
                    let heard = &mut self.heard[place(id)];
                    heard.start = format!("{} {}", head.method(), head.path_and_query());
                    heard.fields = of(head.headers());
                    (id, end, 0)
                }
                Event::Response { id, head, end, .. } => {
                    let heard = &mut self.heard[place(id)];
                    heard.start = head.status().as_str().to_owned();
                    heard.fields = of(head.headers());
                    (id, end, 0)
                }
                Event::Data { id, data, end } => {
                    self.heard[place(id)].body.extend_from_slice(data);
                    (id, end, data.len())
                }
                Event::Trailers { id, fields } => {
                    self.heard[place(id)].trailers = of(&fields);
                    (id, true, 0)
                }
                other => panic!("nobody did {other:?}"),
            };
            self.engine.consumed(id, count, &mut self.out);
            if end {
                self.heard[place(id)].is_whole = true;
                if self.is_server {
                    self.respond(id);
                }
            }
        }
    }

    fn send(&mut self) {
        while let Some((id, room)) = self.engine.next_to_send() {
            let message = self.mine(place(id)).clone();
            let rest = &message.body[self.speaking[place(id)]..];
            let piece = &rest[..room.min(rest.len())];
            let is_last = piece.len() == rest.len();
            let ends = is_last && message.trailers.is_empty();
            if !piece.is_empty() || ends {
                self.engine.data_head(id, piece.len(), ends, &mut self.out);
                self.out.extend_from_slice(piece);
                self.speaking[place(id)] += piece.len();
            }
            if is_last && !ends {
                self.engine.send_trailers(id, &headers(&message.trailers), &mut self.out).expect("a body");
            }
        }
    }
}

impl End for Ours {
    fn turn(&mut self, mut bytes: &[u8]) -> Vec<u8> {
        loop {
            let copied = self.input.fill_from(bytes);
            bytes = &bytes[copied..];
            if !self.is_server {
                self.open();
            }
            self.take();
            self.send();
            if bytes.is_empty() {
                return std::mem::take(&mut self.out);
            }
            assert!(copied > 0, "a full buffer stands still");
        }
    }

    fn heard(&self) -> Vec<Message> {
        self.heard.clone()
    }
}

/// The number of a client's stream among all, from 0.
pub(crate) fn place(id: StreamId) -> usize {
    (id.get() as usize - 1) / 2
}

fn headers(fields: &Fields) -> Headers {
    let mut headers = Headers::new();
    for (name, value) in fields {
        headers.append(name, value).expect("drawn so");
    }
    headers
}

fn of(headers: &Headers) -> Fields {
    let lines = headers.iter().filter(|(name, _)| *name != "content-length");
    let mut fields: Fields = lines.map(|(name, value)| (name.to_owned(), value.to_vec())).collect();
    fields.sort_by(|(one, _), (other, _)| one.cmp(other));
    fields
}
