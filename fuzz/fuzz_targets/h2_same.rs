//! The same frames for our HTTP/2 engine and for the `h2` crate, in either role. Both take the same messages from them, and find
//! the first fault in the same frame. If they differ, this file states the reason.

#![no_main]

#[path = "support/frames.rs"]
mod frames;
#[path = "support/peer.rs"]
#[allow(dead_code, reason = "each target uses its part")]
mod peer;
#[path = "support/said.rs"]
#[allow(dead_code, reason = "each target uses its part")]
mod said;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Instant;

use anywire_http::h2::{Engine, EngineLimits, Event, Limits, Rate, RequestParts};
use anywire_http::{Buffer, HeadLimits, Headers, Method};
use frames::{Choices, PREFACE, frame, heads, next_frame};
use http::Request;
use libfuzzer_sys::fuzz_target;
use peer::{Pipe, Tasks, of, poll_all};
use said::Message;

fuzz_target!(|bytes: &[u8]| {
    let mut choices = Choices(bytes);
    let as_server = choices.flag();
    let (mut ours, mut theirs) = (Ours::new(as_server), Theirs::new(as_server));
    let start =
        [if as_server { PREFACE } else { b"" }, &frame(4, 0, 0, &[])[..], &frame(4, 1, 0, &[])[..]].concat();
    assert_eq!((ours.give(&start), theirs.give(&start)), (None, None));
    while !choices.is_over() {
        let sent = next_frame(&mut choices, as_server);
        let (our_fault, their_fault) = (ours.give(&sent), theirs.give(&sent));
        match (our_fault, their_fault) {
            (None, None) => {}
            // A fault of a stream may end the connection (RFC 9113 section 5.4.1), and often several codes fit. The
            // frames behind a fault then mean different things.
            (Some(_), Some(_)) => return,
            _ if may_differ(&sent, as_server, our_fault, their_fault) => return,
            faults => panic!("{faults:?} (ours, theirs) at {sent:02x?}"),
        }
        if ours.is_over() || theirs.is_over() {
            return;
        }
        assert_eq!(ours.heard, theirs.heard(), "at {sent:02x?}");
    }
});

/// A fault that an engine found in a frame: its stream, or 0 for the connection, and its code.
type Fault = Option<(u32, u32)>;

/// The differences that are meant, by the frame in which one of us found a fault and the other none.
fn may_differ(sent: &[u8], as_server: bool, ours: Fault, theirs: Fault) -> bool {
    let all = heads(sent);
    let Some((kind, flags, _, payload)) = all.first() else { return false };
    let (only_ours, only_theirs) = (theirs.is_none(), ours.is_none());
    match kind {
        // We look at the fields of a block once it is whole, `h2` as they come; it looks at its stream once the block is whole.
        1 | 9 if all.iter().all(|(_, flags, ..)| flags & 4 == 0) => true,
        // Trailers with pseudo-header fields are malformed (RFC 9113 section 8.1); `h2` drops the fields. So are a scheme or a
        // protocol that is none (section 8.2.1), and a path with a fragment. So is a request whose `Host` is repeated or another than its authority (section 8.3.1), whose path is none, or with
        // white space around a value (section 8.2.1); `h2` leaves that to its user.
        // So is an authority that is a port alone (section 8.3.1), and that of a CONNECT without a port that can be one (section 8.5).
        // So is an interim response that ends its stream.
        1 => only_ours,
        // Dependencies were withdrawn (RFC 9113 section 5.3.2): we do not look at them.
        2 => only_theirs && payload.len() == 5,
        // An acknowledgement of nothing: the RFC names no error for it.
        4 if flags & 1 == 1 => only_theirs,
        // A server must not allow pushes (RFC 9113 section 6.5.2), nobody takes back extended CONNECT (RFC 8441 section 3),
        // and SETTINGS_NO_RFC7540_PRIORITIES is 0 or 1 (RFC 9218 section 2.1). `h2` checks none of them.
        4 => {
            let says = |id: u8| payload.chunks(6).any(|setting| setting[..2] == [0, id]);
            only_ours && (!as_server && says(2) || says(8) || says(9))
        }
        // A client must not push, which `h2` finds once the header block is whole.
        5 => only_ours && flags & 4 == 0,
        // We ignore what comes for a stream that has ended, whatever it says.
        8 if only_theirs => payload[1..] == [0; 3] && payload[0] & 0x7f == 0,
        // And we count the window of a stream on which we have nothing more to say.
        8 => !as_server,
        // `h2` knows no priorities by RFC 9218.
        16 => only_ours,
        _ => false,
    }
}

/// The message that was received on each stream.
type Heard = BTreeMap<u32, Message>;

struct Ours {
    engine: Engine,
    input: Buffer,
    out: Vec<u8>,
    heard: Heard,
    goes: bool,
}

impl Ours {
    fn new(is_server: bool) -> Self {
        let (now, mut out) = (Instant::now(), Vec::new());
        let rate = Rate { burst: u32::MAX, per_second: u32::MAX };
        let head = HeadLimits {
            bytes: 1 << 24,
            target_bytes: 1 << 24,
            fields: 10_000,
            trailer_bytes: 1 << 24,
            trailer_fields: 10_000,
        };
        let connection =
            Limits { resets: rate, idle_frames: rate, continuations: 10_000, ..Limits::default() };
        let limits = EngineLimits { head, connection };
        let engine = if is_server {
            Engine::server(limits, now, &mut out)
        } else {
            Engine::client(limits, now, &mut out)
        };
        let mut ours = Self { engine, input: Buffer::new(), out, heard: Heard::new(), goes: false };
        if !is_server {
            for method in REQUESTS {
                let fields = Headers::new();
                let parts = RequestParts {
                    method: &method.parse::<Method>().expect("a method"),
                    scheme: "http",
                    authority: "a",
                    path: "/",
                    protocol: None,
                    headers: &fields,
                    length: None,
                };
                ours.engine.open_parts(&parts, true, &mut ours.out).expect("a slot");
            }
        }
        ours.out.clear();
        ours
    }

    fn is_over(&self) -> bool {
        self.goes
    }

    fn give(&mut self, bytes: &[u8]) -> Fault {
        self.input.fill_from(bytes);
        let mut reset = None;
        loop {
            let Self { engine, input, out, heard, .. } = self;
            let event = match engine.receive(Instant::now(), input, out) {
                Err(error) => return Some((0, error.code().0)),
                Ok(None) => break,
                Ok(Some(event)) => event,
            };
            let consumed = match event {
                Event::Request { id, head, end, .. } => {
                    let start = format!("{} {}", head.method(), head.path_and_query());
                    heard.insert(id.get(), begun(start, fields(head.headers()), end));
                    None
                }
                Event::Response { id, head, end, .. } => {
                    let start = head.status().as_str().to_owned();
                    heard.insert(id.get(), begun(start, fields(head.headers()), end));
                    None
                }
                Event::Data { id, data, end } => {
                    let message = heard.entry(id.get()).or_default();
                    message.body.extend_from_slice(data);
                    message.is_whole = end;
                    Some((id, data.len()))
                }
                Event::Trailers { id, fields: trailers } => {
                    let message = heard.entry(id.get()).or_default();
                    (message.trailers, message.is_whole) = (fields(&trailers), true);
                    None
                }
                Event::Reset { id, code, by_peer, .. } => {
                    if !by_peer {
                        reset = Some((id.get(), code.0));
                    } else if heard.get(&id.get()).is_some_and(|message| !message.is_whole) {
                        heard.remove(&id.get());
                    }
                    None
                }
                Event::GoAway { .. } => {
                    self.goes = true;
                    None
                }
                _ => None,
            };
            if let Some((id, count)) = consumed {
                self.engine.consumed(id, count, &mut self.out);
            }
        }
        // A frame of a stream that has just ended.
        let sent = heads(&std::mem::take(&mut self.out));
        reset.or_else(|| fault_in(&sent))
    }
}

fn begun(start: String, fields: said::Fields, is_whole: bool) -> Message {
    Message { start, fields, is_whole, ..Message::default() }
}

fn fields(headers: &Headers) -> said::Fields {
    let mut fields: said::Fields =
        headers.iter().map(|(name, value)| (name.to_owned(), value.to_vec())).collect();
    fields.retain(|(name, _)| name != "content-length");
    fields.sort_by(|(one, _), (other, _)| one.cmp(other));
    fields
}

/// A cookie in pieces is one (RFC 9113 section 8.2.3), which `h2` leaves to its user.
fn with_one_cookie(mut fields: said::Fields) -> said::Fields {
    let cookies = fields.iter().filter(|(name, _)| name == "cookie");
    let cookies: Vec<Vec<u8>> = cookies.map(|(_, value)| value.clone()).collect();
    if cookies.len() > 1 {
        let first = fields.iter().position(|(name, _)| name == "cookie").expect("there are two");
        fields[first].1 = cookies.join(&b"; "[..]).trim_ascii().to_vec();
        let mut seen = false;
        fields.retain(|(name, _)| name != "cookie" || !std::mem::replace(&mut seen, true));
    }
    fields
}

/// The first RST_STREAM or GOAWAY with an error among frames.
fn fault_in(frames: &[(u8, u8, u32, Vec<u8>)]) -> Fault {
    frames.iter().find_map(|(kind, _, stream, payload)| {
        let number =
            |at: usize| payload.get(at..at + 4).map(|code| u32::from_be_bytes(code.try_into().expect("4")));
        match kind {
            3 => Some((*stream, number(0)?)),
            7 => Some((0, number(4)?)).filter(|(_, code)| *code != 0),
            _ => None,
        }
    })
}

struct Theirs {
    pipe: Pipe,
    tasks: Tasks,
    heard: Rc<RefCell<Heard>>,
    /// The connection has ended, or is about to.
    over: Rc<RefCell<bool>>,
}

impl Drop for Theirs {
    fn drop(&mut self) {
        let tasks = std::mem::take(&mut *self.tasks.borrow_mut());
        drop(tasks);
    }
}

impl Theirs {
    fn new(is_server: bool) -> Self {
        let (pipe, tasks) = (Pipe::default(), Tasks::default());
        let (heard, over) = (Rc::new(RefCell::new(Heard::new())), Rc::new(RefCell::new(false)));
        let (main_pipe, main_tasks, main_heard, main_over) =
            (pipe.clone(), tasks.clone(), heard.clone(), over.clone());
        if is_server {
            tasks.borrow_mut().push(Box::pin(async move {
                let mut builder = h2::server::Builder::new();
                builder.max_concurrent_streams(256).initial_connection_window_size(16 << 20);
                builder.max_concurrent_reset_streams(1000).max_pending_accept_reset_streams(1000);
                let mut connection =
                    builder.handshake::<_, bytes::Bytes>(main_pipe).await.expect("a good preface");
                let mut kept = Vec::new();
                while let Some(Ok((request, respond))) = connection.accept().await {
                    let id = respond.stream_id().as_u32();
                    // Dropping it would end the stream.
                    kept.push(respond);
                    let (head, body) = request.into_parts();
                    let path = head.uri.path_and_query().map_or("*", |path| path.as_str());
                    let start = format!("{} {path}", head.method);
                    let fields = with_one_cookie(of(&head.headers));
                    main_heard.borrow_mut().insert(id, begun(start, fields, body.is_end_stream()));
                    main_tasks.borrow_mut().push(Box::pin(hear(id, body, main_heard.clone())));
                }
                *main_over.borrow_mut() = true;
                std::future::pending::<()>().await;
            }));
        } else {
            tasks.borrow_mut().push(Box::pin(async move {
                let mut builder = h2::client::Builder::new();
                builder.initial_connection_window_size(16 << 20).enable_push(false);
                builder.max_concurrent_reset_streams(1000);
                let (mut sender, connection) =
                    builder.handshake::<_, bytes::Bytes>(main_pipe).await.expect("a connection");
                main_tasks.borrow_mut().push(Box::pin(async move {
                    let _ = connection.await;
                    *main_over.borrow_mut() = true;
                }));
                for method in REQUESTS {
                    let request =
                        Request::builder().method(method).uri("http://a/").body(()).expect("a request");
                    let (response, stream) = sender.send_request(request, true).expect("a stream");
                    let (id, heard) = (stream.stream_id().as_u32(), main_heard.clone());
                    main_tasks.borrow_mut().push(Box::pin(async move {
                        // Dropping it would end the stream.
                        let _stream = stream;
                        let Ok(response) = response.await else { return };
                        let (head, body) = response.into_parts();
                        let start = head.status.as_str().to_owned();
                        heard.borrow_mut().insert(id, begun(start, of(&head.headers), body.is_end_stream()));
                        hear(id, body, heard).await;
                    }));
                }
                std::future::pending::<()>().await;
            }));
        }
        let theirs = Self { pipe, tasks, heard, over };
        poll_all(&theirs.tasks);
        theirs.pipe.take();
        theirs
    }

    fn is_over(&self) -> bool {
        *self.over.borrow()
    }

    fn give(&mut self, bytes: &[u8]) -> Fault {
        self.pipe.give(bytes);
        poll_all(&self.tasks);
        fault_in(&heads(&self.pipe.take()))
    }

    fn heard(&self) -> Heard {
        self.heard.borrow().clone()
    }
}

async fn hear(id: u32, mut body: h2::RecvStream, heard: Rc<RefCell<Heard>>) {
    while let Some(data) = body.data().await {
        let Ok(data) = data else {
            heard.borrow_mut().remove(&id);
            return;
        };
        let mut heard = heard.borrow_mut();
        let message = heard.entry(id).or_default();
        message.body.extend_from_slice(&data);
        message.is_whole = body.is_end_stream();
        let _ = body.flow_control().release_capacity(data.len());
    }
    let trailers = body.trailers().await;
    let mut heard = heard.borrow_mut();
    match trailers {
        Ok(trailers) => {
            let message = heard.entry(id).or_default();
            message.trailers = trailers.map_or(said::Fields::new(), |fields| of(&fields));
            message.is_whole = true;
        }
        Err(_) => {
            heard.remove(&id);
        }
    }
    // Dropping the body would end a stream that its other half keeps open.
    drop(heard);
    let _body = body;
    std::future::pending::<()>().await;
}

/// What a client asks before the frames come.
const REQUESTS: [&str; 4] = ["GET", "HEAD", "POST", "GET"];
