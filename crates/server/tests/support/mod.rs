//! What the behaviour tests share: a server on a free port, and a peer that writes raw bytes and reads answers.

#![allow(dead_code, reason = "each test file uses its own part of this")]

pub(crate) mod log;

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use anywire_server::{Limits, Router, Running, Server};

/// A server on a free port of 127.0.0.1, with two loops unless said otherwise.
pub(crate) struct Served {
    pub(crate) running: Running,
    pub(crate) address: SocketAddr,
}

pub(crate) fn serve(router: Router) -> Served {
    serve_with(router, Limits::default())
}

pub(crate) fn serve_with(router: Router, limits: Limits) -> Served {
    serve_on(2, router, limits)
}

/// On so many loops: what one does says nothing of when another does it.
pub(crate) fn serve_on(loops: usize, router: Router, limits: Limits) -> Served {
    let server = Server::new(router).limits(limits).loops(loops).listen("tcp:127.0.0.1:0");
    let running = server.start().expect("a free port and right routes");
    let address = running.addresses().next().expect("one address").location().parse().expect("host and port");
    Served { running, address }
}

impl Served {
    pub(crate) fn connect(&self) -> Peer {
        let stream = TcpStream::connect(self.address).expect("the server listens");
        stream.set_nodelay(true).expect("a TCP socket");
        // Far beyond every deadline in the tests: only a hang reaches it.
        stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a TCP socket");
        Peer { stream, unread: Vec::new() }
    }

    /// One request on a connection of its own.
    pub(crate) fn ask(&self, request: &str) -> Answer {
        let mut peer = self.connect();
        peer.send(request);
        peer.answer(request.starts_with("HEAD"))
    }

    /// The server still answers others.
    pub(crate) fn assert_alive(&self) {
        let answer = self.ask("GET /alive HTTP/1.1\r\nhost: x\r\n\r\n");
        assert!(answer.status == 200 || answer.status == 404, "another connection got {answer:?}");
    }
}

/// A connection that speaks raw bytes.
pub(crate) struct Peer {
    pub(crate) stream: TcpStream,
    unread: Vec<u8>,
}

/// An answer as it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("text")
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.split("\r\n").skip(1);
        let fields = lines.filter_map(|line| line.split_once(": "));
        fields.into_iter().find_map(|(key, value)| key.eq_ignore_ascii_case(name).then_some(value))
    }
}

impl Peer {
    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).expect("the server reads");
    }

    pub(crate) fn half_close(&self) {
        self.stream.shutdown(Shutdown::Write).expect("still connected");
    }

    /// Reads one whole answer.
    pub(crate) fn answer(&mut self, head_only: bool) -> Answer {
        let head = self.read_until(b"\r\n\r\n");
        let head = String::from_utf8(head).expect("a head is ASCII");
        let status = head.split(' ').nth(1).and_then(|code| code.parse().ok());
        let mut answer = Answer { status: status.expect("a status line"), head, body: Vec::new() };
        let bodiless = head_only || answer.status < 200 || answer.status == 204 || answer.status == 304;
        if bodiless {
            return answer;
        }
        if answer.header("transfer-encoding") == Some("chunked") {
            loop {
                let line = String::from_utf8(self.read_until(b"\r\n")).expect("a chunk size");
                let size = usize::from_str_radix(line.trim_end(), 16).expect("a chunk size");
                let chunk = self.read_exactly(size);
                answer.body.extend(chunk);
                if size == 0 {
                    let trailers = self.read_until(b"\r\n");
                    assert_eq!(trailers, b"\r\n", "no trailers are expected");
                    return answer;
                }
                assert_eq!(self.read_exactly(2), b"\r\n");
            }
        }
        if let Some(length) = answer.header("content-length").and_then(|length| length.parse().ok()) {
            answer.body = self.read_exactly(length);
        } else {
            answer.body = self.rest();
        }
        answer
    }

    /// Everything until the server closes.
    pub(crate) fn rest(&mut self) -> Vec<u8> {
        let mut bytes = std::mem::take(&mut self.unread);
        match self.stream.read_to_end(&mut bytes) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => {}
            Err(error) => panic!("the server neither answered nor closed: {error}"),
        }
        bytes
    }

    /// The server closes, and sends nothing more before.
    pub(crate) fn assert_closed(&mut self) {
        assert_eq!(String::from_utf8_lossy(&self.rest()), "");
    }

    pub(crate) fn read_exactly(&mut self, len: usize) -> Vec<u8> {
        while self.unread.len() < len {
            self.read_more();
        }
        let rest = self.unread.split_off(len);
        std::mem::replace(&mut self.unread, rest)
    }

    fn read_until(&mut self, end: &[u8]) -> Vec<u8> {
        loop {
            if let Some(at) = self.unread.windows(end.len()).position(|window| window == end) {
                return self.read_exactly(at + end.len());
            }
            self.read_more();
        }
    }

    fn read_more(&mut self) {
        let mut part = [0; 16 * 1024];
        let read = self.stream.read(&mut part).expect("an answer");
        assert_ne!(read, 0, "the server closed after {:?}", String::from_utf8_lossy(&self.unread));
        self.unread.extend_from_slice(&part[..read]);
    }
}
