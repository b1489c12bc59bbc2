//! The peer's end of an HTTP/2 connection, request by request.

use std::collections::HashMap;
use std::time::Instant;

use anywire_http::h2::{Engine, Event, Limits, ResponseParts, StreamId};
use anywire_http::{Buffer, Headers, RequestHead, StatusCode};

use super::Talk;

/// The peer's end. Dropping it closes the connection.
pub struct Served {
    pub talk: Talk,
    engine: Engine,
    input: Buffer,
    out: Vec<u8>,
    begun: HashMap<StreamId, (RequestHead, Vec<u8>)>,
}

impl Served {
    pub fn on(talk: Talk) -> Self {
        let mut out = Vec::new();
        let engine = Engine::server(Limits::default(), Instant::now(), &mut out);
        Self { talk, engine, input: Buffer::new(), out, begun: HashMap::new() }
    }

    /// The next request that is whole; none when the client closes.
    pub fn request(&mut self) -> Option<(StreamId, RequestHead, Vec<u8>)> {
        loop {
            let mut whole = None;
            match self.engine.receive(Instant::now(), &mut self.input, &mut self.out).ok()? {
                Some(Event::Request { id, head, end, .. }) => {
                    self.begun.insert(id, (head, Vec::new()));
                    whole = Some(id).filter(|_| end);
                }
                Some(Event::Data { id, data, end }) => {
                    if let Some((_, body)) = self.begun.get_mut(&id) {
                        body.extend_from_slice(data);
                    }
                    whole = Some(id).filter(|_| end);
                }
                Some(_) => {}
                None => {
                    self.flush();
                    let bytes = self.talk.read(4 << 10)?;
                    self.input.spare()[..bytes.len()].copy_from_slice(&bytes);
                    self.input.filled(bytes.len());
                }
            }
            if let Some(id) = whole
                && let Some((head, body)) = self.begun.remove(&id)
            {
                return Some((id, head, body));
            }
        }
    }

    /// Answers with these fields, and a body if there is one.
    pub fn answer(&mut self, id: StreamId, status: u16, fields: &[(&str, &str)], body: &[u8]) {
        let mut headers = Headers::new();
        for (name, value) in fields {
            headers.append(*name, value).expect("a field");
        }
        let status = StatusCode::from_u16(status).expect("a status");
        let parts = ResponseParts::new(status, &headers);
        self.engine.respond(id, &parts, body.is_empty(), &mut self.out).expect("an open stream");
        if !body.is_empty() {
            self.engine.data_head(id, body.len(), true, &mut self.out);
            self.out.extend_from_slice(body);
        }
        self.flush();
    }

    fn flush(&mut self) {
        self.talk.say(std::mem::take(&mut self.out));
    }
}
