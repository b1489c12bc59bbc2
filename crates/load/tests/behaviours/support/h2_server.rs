//! A small server of HTTP/2 on a loop of its own, whose manners and faults a test chooses.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anywire_http::h2::{Code, Engine, Event, Limits, ResponseParts, StreamId};
use anywire_http::{Buffer, Headers, StatusCode};
use anywire_load::{Amount, Plan, Protocol};
use anywire_loops::Loops;
use anywire_wire::{Address, Connection, Listener, ListenerHandle};

/// What the server does with a connection.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Manner {
    /// Answers each request.
    Answer,
    /// Answers one request at a time, the latest possible: only when so many are waiting.
    AnswerWhenFull(usize),
    /// Allows so many streams at once.
    Allow(usize),
    /// Resets each third stream with this code.
    ResetThird(Code),
    /// Answers each third request with a head alone that states a body.
    BreakThird,
    /// Never answers the first request of a connection.
    ForgetFirst,
    /// Answers so many requests, then says `GOAWAY` in order, and answers what was on its way.
    LeaveAfter(u64),
    /// Sends a head for each third stream, and resets it with this code.
    CutThird(Code),
    /// Says `GOAWAY` with this code and a text for the first request, and closes. Without an error, after having accepted the
    /// request.
    GoAway(Code),
    /// Says `GOAWAY` in order, with a text, for the first request, on which it does not act, and closes.
    LeaveAtOnce,
    /// Closes when the first request has come.
    Close,
    /// Reads, and never answers.
    Silent,
}

/// The server; dropping it stops its loop.
pub(crate) struct H2Server {
    pub(crate) seen: Arc<Seen>,
    address: Address,
    _loops: Loops,
    _listener: ListenerHandle,
}

/// What the server has seen, over all connections.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) connections: AtomicU64,
    pub(crate) requests: AtomicU64,
    pub(crate) body_bytes: AtomicU64,
    /// The most requests of one connection that were waiting for their answers.
    pub(crate) waiting_max: AtomicUsize,
    /// Streams that the peer has reset.
    pub(crate) resets: AtomicU64,
}

impl H2Server {
    /// Serves on this address.
    pub(crate) fn start(address: &str, manner: Manner) -> Self {
        let loops = Loops::start(1).unwrap();
        let seen = Arc::new(Seen::default());
        let listener =
            Listener::bind(address.parse::<Address>().unwrap(), &super::listening("h2"), &loops).unwrap();
        let address = listener.local().clone();
        let shared = Arc::clone(&seen);
        let listener = listener.serve(move |connection| {
            shared.connections.fetch_add(1, Ordering::SeqCst);
            let seen = Arc::clone(&shared);
            anywire_loops::spawn(async move {
                // The peer ends some of these by a reset, which is its right.
                let _ = Served::new(connection, manner, seen).run().await;
            });
        });
        Self { seen, address, _loops: loops, _listener: listener }
    }

    /// A plan for this server: one connection, no warm-up.
    pub(crate) fn plan(&self, requests: u64) -> Plan {
        super::trusting(Plan {
            protocol: Protocol::Http2,
            via: Some(self.address.clone()),
            connections: 1,
            warm_up: Duration::ZERO,
            amount: Amount::Requests(requests),
            ..Plan::new("http://test/a?b")
        })
    }
}

struct Served {
    connection: Connection,
    manner: Manner,
    seen: Arc<Seen>,
    engine: Engine,
    waiting: Vec<StreamId>,
    out: Vec<u8>,
    answered: u64,
    asked: u64,
}

impl Served {
    fn new(connection: Connection, manner: Manner, seen: Arc<Seen>) -> Self {
        let mut limits = Limits { streams: 10_000, ..Limits::default() };
        if let Manner::Allow(streams) = manner {
            limits.streams = streams;
        }
        let mut out = Vec::new();
        let engine = Engine::server(limits, Instant::now(), &mut out);
        Self { connection, manner, seen, engine, waiting: Vec::new(), out, answered: 0, asked: 0 }
    }

    async fn run(mut self) -> io::Result<()> {
        let mut input = Buffer::new();
        while !self.engine.is_drained() {
            self.connection.write_all(&std::mem::take(&mut self.out)).await?;
            let count = self.connection.read(input.spare()).await?;
            if count == 0 {
                return Ok(());
            }
            input.filled(count);
            self.take(&mut input);
            self.seen.waiting_max.fetch_max(self.waiting.len(), Ordering::SeqCst);
            if !self.act() {
                self.connection.write_all(&self.out).await?;
                break;
            }
        }
        // A close with unread bytes would be a reset, and which of the two a client meets would be chance.
        self.connection.half_close().await?;
        let mut rest = [0; 1024];
        while self.connection.read(&mut rest).await? > 0 {}
        Ok(())
    }

    fn take(&mut self, input: &mut Buffer) {
        loop {
            let received = self.engine.receive(Instant::now(), input, &mut self.out);
            match received.expect("the load generator breaks no rule") {
                None => return,
                Some(Event::Request { id, head, end, .. }) => {
                    assert_eq!((head.path_and_query(), head.host()), ("/a?b", Some("test")));
                    self.asked += 1;
                    self.seen.requests.fetch_add(1, Ordering::SeqCst);
                    self.waiting.extend(end.then_some(id));
                }
                Some(Event::Data { id, data, end }) => {
                    let bytes = data.len();
                    self.seen.body_bytes.fetch_add(bytes as u64, Ordering::SeqCst);
                    self.engine.consumed(id, bytes, &mut self.out);
                    self.waiting.extend(end.then_some(id));
                }
                Some(Event::Reset { id, .. }) => {
                    self.seen.resets.fetch_add(1, Ordering::SeqCst);
                    self.waiting.retain(|waits| *waits != id);
                }
                Some(_) => {}
            }
        }
    }

    /// Does what its manner is. Whether the connection goes on.
    fn act(&mut self) -> bool {
        match self.manner {
            Manner::Silent => {}
            Manner::Answer | Manner::Allow(_) => self.answer_all(),
            Manner::AnswerWhenFull(full) => {
                if self.waiting.len() >= full {
                    let last = self.waiting.remove(0);
                    self.answer(last);
                }
            }
            Manner::ResetThird(code) => {
                for id in std::mem::take(&mut self.waiting) {
                    self.answered += 1;
                    if self.answered.is_multiple_of(3) {
                        self.engine.reset(id, code, &mut self.out);
                    } else {
                        self.answer(id);
                    }
                }
            }
            Manner::CutThird(code) => {
                for id in std::mem::take(&mut self.waiting) {
                    self.answered += 1;
                    if self.answered.is_multiple_of(3) {
                        self.head(id, false);
                        self.engine.reset(id, code, &mut self.out);
                    } else {
                        self.answer(id);
                    }
                }
            }
            Manner::BreakThird => {
                for id in std::mem::take(&mut self.waiting) {
                    self.answered += 1;
                    if self.answered.is_multiple_of(3) {
                        // A length is stated, and no body follows.
                        self.head(id, true);
                    } else {
                        self.answer(id);
                    }
                }
            }
            Manner::ForgetFirst => {
                self.waiting.retain(|id| id.get() != 1);
                self.answer_all();
            }
            Manner::LeaveAfter(last) => {
                if self.asked >= last {
                    self.engine.shut_down(Instant::now() + Duration::from_secs(3600), &mut self.out);
                }
                self.answer_all();
            }
            manner @ (Manner::GoAway(_) | Manner::LeaveAtOnce) if self.asked > 0 => {
                let (code, last) = match manner {
                    Manner::GoAway(Code::NO_ERROR) => (Code::NO_ERROR, 0x7f),
                    Manner::GoAway(code) => (code, 0),
                    _ => (Code::NO_ERROR, 0),
                };
                self.out.extend_from_slice(&[0, 0, 13, 7, 0, 0, 0, 0, 0, 0, 0, 0, last]);
                self.out.extend_from_slice(&code.0.to_be_bytes());
                self.out.extend_from_slice(b"later");
                return false;
            }
            Manner::Close if self.asked > 0 => return false,
            Manner::GoAway(_) | Manner::LeaveAtOnce | Manner::Close => {}
        }
        true
    }

    fn answer_all(&mut self) {
        for id in std::mem::take(&mut self.waiting) {
            self.answer(id);
        }
    }

    /// False for a stream that the peer has just reset, which gets no answer.
    fn head(&mut self, id: StreamId, end: bool) -> bool {
        let fields = Headers::new();
        let parts = ResponseParts { length: Some(13), ..ResponseParts::new(StatusCode::OK, &fields) };
        self.engine.respond(id, &parts, end, &mut self.out).is_ok()
    }

    fn answer(&mut self, id: StreamId) {
        if self.head(id, false) {
            self.engine.data_head(id, 13, true, &mut self.out);
            self.out.extend_from_slice(b"Hello, World!");
        }
    }
}
