//! Small servers of HTTP/2 with one fault each, on blocking sockets and threads of the standard library.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use anywire_http::h2::{Engine, Event, Limits, ResponseParts, StreamId};
use anywire_http::{Buffer, Headers, Method, RequestHead, StatusCode};

/// What is wrong with a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Nothing: head and body of an answer leave in one write.
    None,
    /// None either: the end of an answer is a frame and a write of its own.
    EndsApart,
    /// Head and body are two writes, and Nagle's algorithm holds the second one back.
    SplitsAndDelays,
    /// The tenth answer of a connection comes with GOAWAY.
    LeavesWithTenth,
    /// The connection is closed behind the tenth answer, without a word.
    LeavesBehindTenth,
    /// A new stream may send 100 bytes.
    TakesLittle,
    /// `/slow` takes a second, in the thread that serves all connections.
    BlocksItsLoop,
}

/// The port of a server with this fault, which runs until the test program ends.
pub(crate) fn start(fault: Fault) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("it is bound").port();
    if fault == Fault::BlocksItsLoop {
        thread::spawn(move || serve_all_in_turn(&listener));
        return port;
    }
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || Served::new(stream, fault).serve());
        }
    });
    port
}

/// One thread for all connections, as an event loop is: what one of them waits for, all wait for.
fn serve_all_in_turn(listener: &TcpListener) {
    listener.set_nonblocking(true).expect("a socket");
    let mut connections: Vec<Served> = Vec::new();
    loop {
        while let Ok((stream, _)) = listener.accept() {
            stream.set_nonblocking(true).expect("a socket");
            connections.push(Served::new(stream, Fault::BlocksItsLoop));
        }
        let mut has_moved = false;
        connections.retain_mut(|served| match served.turn() {
            Ok(moved) => {
                has_moved |= moved;
                moved
            }
            Err(error) => error.kind() == std::io::ErrorKind::WouldBlock,
        });
        if !has_moved {
            thread::sleep(Duration::from_micros(200));
        }
    }
}

struct Served {
    stream: TcpStream,
    fault: Fault,
    engine: Engine,
    input: Buffer,
    out: Vec<u8>,
    answers: usize,
}

impl Served {
    fn new(stream: TcpStream, fault: Fault) -> Self {
        stream.set_nodelay(fault != Fault::SplitsAndDelays).expect("a socket");
        let limits = match fault {
            Fault::TakesLittle => Limits { stream_window_bytes: 100, ..Limits::default() },
            _ => Limits::default(),
        };
        let mut out = Vec::new();
        let engine = Engine::server(limits, Instant::now(), &mut out);
        Self { stream, fault, engine, input: Buffer::new(), out, answers: 0 }
    }

    /// Until the peer leaves, or the fault says so.
    fn serve(mut self) {
        while matches!(self.turn(), Ok(true)) {}
        // Orderly: what the peer has sent is read, so that the end is no reset.
        let _ = self.stream.shutdown(Shutdown::Write);
        let _ = self.stream.read_to_end(&mut Vec::new());
    }

    /// Reads once and answers. Whether the connection goes on.
    fn turn(&mut self) -> std::io::Result<bool> {
        if !self.out.is_empty() {
            self.stream.write_all(&std::mem::take(&mut self.out))?;
        }
        let count = self.stream.read(self.input.spare())?;
        if count == 0 {
            return Ok(false);
        }
        self.input.filled(count);
        let mut asked = Vec::new();
        loop {
            match self.engine.receive(Instant::now(), &mut self.input, &mut self.out) {
                Ok(None) => break,
                Ok(Some(Event::Request { id, head, .. })) => asked.push((id, head)),
                Ok(Some(_)) => {}
                // The peer has ended it.
                Err(_) => return Ok(false),
            }
        }
        for (id, head) in asked {
            self.answer(id, &head)?;
        }
        self.stream.write_all(&std::mem::take(&mut self.out))?;
        let is_over = self.answers == 10 && self.fault == Fault::LeavesBehindTenth;
        Ok(!is_over && !self.engine.is_drained())
    }

    fn answer(&mut self, id: StreamId, head: &RequestHead) -> std::io::Result<()> {
        self.answers += 1;
        if head.path_and_query() == "/slow" {
            thread::sleep(SLOW);
        }
        let body: &[u8] = if head.path_and_query() == "/large" { &[b'x'; LARGE] } else { b"Hello, World!" };
        let is_head = *head.method() == Method::HEAD;
        let fields = Headers::new();
        let length = Some(body.len() as u64);
        let parts = ResponseParts { length, ..ResponseParts::new(StatusCode::OK, &fields) };
        if self.answers == 10 && self.fault == Fault::LeavesWithTenth {
            self.engine.go_away(&mut self.out);
        }
        if self.engine.respond(id, &parts, is_head, &mut self.out).is_err() || is_head {
            return Ok(());
        }
        if self.fault == Fault::SplitsAndDelays {
            self.stream.write_all(&std::mem::take(&mut self.out))?;
        }
        self.body(id, body)
    }

    /// Ends the stream, unless its last piece has.
    fn end_apart(&mut self, id: StreamId, has_ended: bool) -> std::io::Result<()> {
        if !has_ended {
            self.stream.write_all(&std::mem::take(&mut self.out))?;
            self.engine.data_head(id, 0, true, &mut self.out);
        }
        Ok(())
    }

    /// Sends a body, and reads what opens the window meanwhile.
    fn body(&mut self, id: StreamId, mut body: &[u8]) -> std::io::Result<()> {
        self.engine.wants_to_send(id, true);
        while !body.is_empty() {
            while let Some((next, room)) = self.engine.next_to_send() {
                assert_eq!(next, id, "there is one request at a time");
                let (now, later) = body.split_at(room.min(body.len()));
                let ends = later.is_empty() && self.fault != Fault::EndsApart;
                self.engine.data_head(id, now.len(), ends, &mut self.out);
                self.out.extend_from_slice(now);
                body = later;
                if body.is_empty() {
                    return self.end_apart(id, ends);
                }
            }
            self.stream.write_all(&std::mem::take(&mut self.out))?;
            let count = self.stream.read(self.input.spare())?;
            if count == 0 {
                return Err(std::io::ErrorKind::UnexpectedEof.into());
            }
            self.input.filled(count);
            while let Ok(Some(_)) = self.engine.receive(Instant::now(), &mut self.input, &mut self.out) {}
        }
        Ok(())
    }
}

/// How long the slow path takes.
const SLOW: Duration = Duration::from_secs(1);
/// The length of the answer of `/large`.
pub(crate) const LARGE: usize = 600_000;
