//! A peer that writes raw bytes and reads answers.

use std::io::{self, Read, Write};

use super::Remote;

/// A connection that speaks raw bytes.
pub(crate) struct Peer<L> {
    pub(crate) link: L,
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

    pub(crate) fn closes(&self) -> bool {
        self.header("connection") == Some("close")
    }
}

impl Peer<Remote> {
    pub(crate) fn half_close(&self) {
        self.link.half_close();
    }

    /// Ends the connection by a reset.
    pub(crate) fn reset(self) {
        self.link.reset();
    }
}

impl<L: Read + Write> Peer<L> {
    pub(crate) fn new(link: L) -> Self {
        Self { link, unread: Vec::new() }
    }

    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.link.write_all(bytes.as_ref()).expect("the server reads");
    }

    /// Reads one whole answer.
    pub(crate) fn answer(&mut self, head_only: bool) -> Answer {
        let mut answer = self.head();
        let bodiless = head_only || answer.status < 200 || answer.status == 204 || answer.status == 304;
        if bodiless {
            return answer;
        }
        if answer.header("transfer-encoding") == Some("chunked") {
            while let Some(chunk) = self.chunk() {
                answer.body.extend(chunk);
            }
        } else if let Some(length) = answer.header("content-length").and_then(|length| length.parse().ok()) {
            answer.body = self.read_exactly(length);
        } else {
            answer.body = self.rest();
        }
        answer
    }

    /// Reads the head of an answer.
    pub(crate) fn head(&mut self) -> Answer {
        let head = self.read_until(b"\r\n\r\n");
        let head = String::from_utf8(head).expect("a head is ASCII");
        let status = head.split(' ').nth(1).and_then(|code| code.parse().ok());
        Answer { status: status.expect("a status line"), head, body: Vec::new() }
    }

    /// Reads a chunk of a body; `None` is its end.
    pub(crate) fn chunk(&mut self) -> Option<Vec<u8>> {
        let line = String::from_utf8(self.read_until(b"\r\n")).expect("a chunk size");
        let size = usize::from_str_radix(line.trim_end(), 16).expect("a chunk size");
        let chunk = self.read_exactly(size);
        // After the last chunk these two bytes end the trailer section, which is empty.
        assert_eq!(self.read_exactly(2), b"\r\n");
        (size > 0).then_some(chunk)
    }

    /// Everything until the server closes.
    pub(crate) fn rest(&mut self) -> Vec<u8> {
        self.rest_and_end().0
    }

    /// Everything until the server closes, and whether it closed in order, without a reset.
    pub(crate) fn rest_and_end(&mut self) -> (Vec<u8>, bool) {
        let mut bytes = std::mem::take(&mut self.unread);
        match self.link.read_to_end(&mut bytes) {
            Ok(_) => (bytes, true),
            // TLS tells its end from a cut; Unix sockets have no reset.
            Err(error)
                if matches!(error.kind(), io::ErrorKind::ConnectionReset | io::ErrorKind::UnexpectedEof) =>
            {
                (bytes, false)
            }
            Err(error) => panic!("the server neither answered nor closed: {error}"),
        }
    }

    /// Everything until the server closes in order.
    pub(crate) fn try_rest(&mut self) -> io::Result<Vec<u8>> {
        let mut bytes = std::mem::take(&mut self.unread);
        self.link.read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// The server closes, and sends nothing more before.
    #[track_caller]
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

    pub(crate) fn read_until(&mut self, end: &[u8]) -> Vec<u8> {
        loop {
            if let Some(at) = self.unread.windows(end.len()).position(|window| window == end) {
                return self.read_exactly(at + end.len());
            }
            self.read_more();
        }
    }

    fn read_more(&mut self) {
        let mut part = [0; 16 * 1024];
        let read = self.link.read(&mut part).expect("an answer");
        assert_ne!(read, 0, "the server closed after {:?}", String::from_utf8_lossy(&self.unread));
        self.unread.extend_from_slice(&part[..read]);
    }
}
