//! A server that records each request whole, over HTTP/1 or HTTP/2, and answers as a test says.

use std::io;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anywire_http::h1::{Limits, RequestDecoder, RequestEvent};
use anywire_http::h2::{Engine, Event, Limits as StreamLimits, ResponseParts, StreamId};
use anywire_http::{Buffer, Headers, StatusCode};
use anywire_load::{Amount, Plan, Protocol};
use anywire_loops::Loops;
use anywire_wire::{Address, Connection, Listener, ListenerHandle};

/// A request as it came.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Recorded {
    /// Which connection brought it, from 0.
    pub(crate) connection: usize,
    pub(crate) method: String,
    pub(crate) target: String,
    /// Names in lower case.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Recorded {
    /// The first value of a field.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// `METHOD TARGET`
    pub(crate) fn line(&self) -> String {
        format!("{} {}", self.method, self.target)
    }
}

/// An answer.
#[derive(Debug, Clone)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: Vec<u8>,
    /// The body goes on: these bytes are its beginning.
    pub(crate) is_endless: bool,
}

impl Reply {
    /// 200 with this body.
    pub(crate) fn text(body: impl Into<Vec<u8>>) -> Self {
        Self { status: 200, headers: Vec::new(), body: body.into(), is_endless: false }
    }
}

/// How a test answers.
type Answer = dyn Fn(&Recorded) -> Reply + Send + Sync;

/// The server; dropping it stops its loop.
pub(crate) struct Recorder {
    pub(crate) address: Address,
    protocol: Protocol,
    recorded: Arc<Mutex<Vec<Recorded>>>,
    _loops: Loops,
    _listener: ListenerHandle,
}

impl Recorder {
    /// Serves on this address.
    pub(crate) fn start(
        address: &str,
        protocol: Protocol,
        answer: impl Fn(&Recorded) -> Reply + Send + Sync + 'static,
    ) -> Self {
        let loops = Loops::start(1).unwrap();
        let name = if protocol == Protocol::Http2 { "h2" } else { "http/1.1" };
        let address: Address = address.parse().unwrap();
        let listener = Listener::bind(&address, &super::listening(name), &loops).unwrap();
        let address = listener.local().clone();
        let recorded: Arc<Mutex<Vec<Recorded>>> = Arc::default();
        let (shared, answer): (_, Arc<Answer>) = (Arc::clone(&recorded), Arc::new(answer));
        let connections = Arc::new(Mutex::new(0));
        let listener = listener.serve(move |connection| {
            let mut number = connections.lock().unwrap();
            let served =
                Served { number: *number, recorded: Arc::clone(&shared), answer: Arc::clone(&answer) };
            *number += 1;
            anywire_loops::spawn(async move {
                // The generator ends some of these at its end.
                let _ = match protocol {
                    Protocol::Http2 => served.http2(connection).await,
                    _ => served.http1(connection).await,
                };
            });
        });
        Self { address, protocol, recorded, _loops: loops, _listener: listener }
    }

    /// All requests so far.
    pub(crate) fn recorded(&self) -> Vec<Recorded> {
        self.recorded.lock().unwrap().clone()
    }

    /// `METHOD TARGET` of each.
    pub(crate) fn lines(&self) -> Vec<String> {
        self.recorded().iter().map(Recorded::line).collect()
    }

    /// A plan for this server: one connection, no warm-up.
    pub(crate) fn plan(&self, requests: u64) -> Plan {
        super::trusting(Plan {
            protocol: self.protocol,
            via: Some(self.address.clone()),
            connections: 1,
            warm_up: Duration::ZERO,
            amount: Amount::Requests(requests),
            ..Plan::new("http://test/")
        })
    }
}

struct Served {
    number: usize,
    recorded: Arc<Mutex<Vec<Recorded>>>,
    answer: Arc<Answer>,
}

impl Served {
    fn reply(&self, request: &Recorded) -> Reply {
        let reply = (self.answer)(request);
        self.recorded.lock().unwrap().push(request.clone());
        reply
    }

    async fn http1(self, mut connection: Connection) -> io::Result<()> {
        let (mut buffer, mut decoder) = (Buffer::new(), RequestDecoder::new(Limits::default()));
        let mut request = Recorded::default();
        loop {
            let count = connection.read(buffer.spare()).await?;
            if count == 0 {
                return Ok(());
            }
            buffer.filled(count);
            let mut out = Vec::new();
            while let Some(event) =
                decoder.decode(&mut buffer).expect("the load generator sends no bad requests")
            {
                let is_whole = match event {
                    RequestEvent::Head(head, info) => {
                        request = Recorded {
                            connection: self.number,
                            method: head.method().to_string(),
                            target: head.target().to_string(),
                            headers: fields(head.headers()),
                            body: Vec::new(),
                        };
                        info.framing == anywire_http::h1::Framing::None
                    }
                    RequestEvent::Data(data) => {
                        request.body.extend_from_slice(data);
                        false
                    }
                    RequestEvent::End => true,
                    _ => false,
                };
                if is_whole {
                    write_h1(&mut out, &self.reply(&request), request.method == "HEAD");
                }
            }
            connection.write_all(&out).await?;
        }
    }

    async fn http2(self, mut connection: Connection) -> io::Result<()> {
        let (mut input, mut out) = (Buffer::new(), Vec::new());
        let limits = StreamLimits { streams: 10_000, ..StreamLimits::default() };
        let mut engine = Engine::server(limits, Instant::now(), &mut out);
        let mut requests: Vec<(StreamId, Recorded)> = Vec::new();
        while !engine.is_drained() {
            connection.write_all(&std::mem::take(&mut out)).await?;
            let count = connection.read(input.spare()).await?;
            if count == 0 {
                return Ok(());
            }
            input.filled(count);
            loop {
                let received = engine.receive(Instant::now(), &mut input, &mut out);
                let ended = match received.expect("the load generator breaks no rule") {
                    None => break,
                    Some(Event::Request { id, head, end, .. }) => {
                        let recorded = Recorded {
                            connection: self.number,
                            method: head.method().to_string(),
                            target: head.path_and_query().to_owned(),
                            headers: fields(head.headers()),
                            body: Vec::new(),
                        };
                        requests.push((id, recorded));
                        end.then_some(id)
                    }
                    Some(Event::Data { id, data, end }) => {
                        let bytes = data.len();
                        if let Some((_, request)) = requests.iter_mut().find(|(known, _)| *known == id) {
                            request.body.extend_from_slice(data);
                        }
                        engine.consumed(id, bytes, &mut out);
                        end.then_some(id)
                    }
                    Some(_) => None,
                };
                let Some(at) = ended.and_then(|id| requests.iter().position(|(known, _)| *known == id))
                else {
                    continue;
                };
                let (id, request) = requests.remove(at);
                respond(&mut engine, &mut out, id, &self.reply(&request), request.method == "HEAD");
            }
        }
        Ok(())
    }
}

fn fields(headers: &Headers) -> Vec<(String, String)> {
    let text = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
    headers.iter().map(|(name, value)| (name.to_lowercase(), text(value))).collect()
}

fn write_h1(out: &mut Vec<u8>, reply: &Reply, answers_head: bool) {
    out.extend_from_slice(format!("HTTP/1.1 {} Some\r\n", reply.status).as_bytes());
    for (name, value) in &reply.headers {
        out.extend_from_slice(format!("{name}: {value}\r\n").as_bytes());
    }
    let length = reply.body.len();
    if reply.is_endless {
        out.extend_from_slice(format!("transfer-encoding: chunked\r\n\r\n{length:x}\r\n").as_bytes());
        out.extend_from_slice(&reply.body);
        out.extend_from_slice(b"\r\n");
        return;
    }
    out.extend_from_slice(format!("content-length: {length}\r\n\r\n").as_bytes());
    if !answers_head {
        out.extend_from_slice(&reply.body);
    }
}

fn respond(engine: &mut Engine, out: &mut Vec<u8>, id: StreamId, reply: &Reply, answers_head: bool) {
    let mut headers = Headers::new();
    for (name, value) in &reply.headers {
        headers.append(name, value).unwrap();
    }
    let length = reply.body.len();
    let has_body = length > 0 && !answers_head;
    let parts = ResponseParts {
        length: (!reply.is_endless).then_some(length as u64),
        ..ResponseParts::new(StatusCode::from_u16(reply.status).unwrap(), &headers)
    };
    // A stream that the peer has just reset gets no answer.
    if engine.respond(id, &parts, !has_body && !reply.is_endless, out).is_ok() && has_body {
        engine.data_head(id, length, !reply.is_endless, out);
        out.extend_from_slice(&reply.body);
    }
}
