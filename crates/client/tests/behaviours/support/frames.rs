//! The peer's end of an HTTP/2 connection, frame by frame.

use std::collections::VecDeque;

use super::Talk;
use super::bytes_of_http2::{
    ACK, DATA, END_HEADERS, END_STREAM, HEADERS, PREFACE, RST_STREAM, SETTINGS, frame,
};

/// A frame that the client has sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    pub kind: u8,
    pub flags: u8,
    pub stream: u32,
    pub payload: Vec<u8>,
}

impl Frame {
    pub fn ends_stream(&self) -> bool {
        matches!(self.kind, HEADERS | DATA) && self.flags & END_STREAM != 0
    }

    /// The code of an RST_STREAM.
    pub fn code(&self) -> Option<u32> {
        let code = self.payload.as_slice().try_into().ok().map(u32::from_be_bytes);
        code.filter(|_| self.kind == RST_STREAM)
    }
}

/// The peer's end. Dropping it closes the connection.
pub struct Frames {
    pub talk: Talk,
    input: VecDeque<u8>,
}

impl Frames {
    /// Reads the preface, and says these settings.
    pub fn accept(talk: Talk, settings: &[u8]) -> Option<Self> {
        let mut frames = Self { talk, input: VecDeque::new() };
        assert_eq!(frames.bytes(PREFACE.len())?, PREFACE);
        frames.say(SETTINGS, 0, 0, settings);
        Some(frames)
    }

    /// The next frame, whatever it is; none if the client closes. Settings are acknowledged.
    pub fn next(&mut self) -> Option<Frame> {
        let head = self.bytes(9)?;
        let number = |bytes: &[u8]| bytes.iter().fold(0, |number, byte| number << 8 | u32::from(*byte));
        let payload = self.bytes(number(&head[..3]) as usize)?;
        let frame = Frame { kind: head[3], flags: head[4], stream: number(&head[5..]), payload };
        if frame.kind == SETTINGS && frame.flags & ACK == 0 {
            self.say(SETTINGS, ACK, 0, &[]);
        }
        Some(frame)
    }

    /// The next frame of this kind; others are dropped.
    pub fn until(&mut self, kind: u8) -> Option<Frame> {
        loop {
            let frame = self.next()?;
            if frame.kind == kind {
                return Some(frame);
            }
        }
    }

    /// The stream of the next request. Its body is not read.
    pub fn request(&mut self) -> Option<u32> {
        self.until(HEADERS).map(|frame| frame.stream)
    }

    pub fn say(&self, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        self.talk.say(frame(kind, flags, stream, payload));
    }

    /// Sends `200` and what follows it.
    pub fn head(&self, stream: u32, end: bool) {
        self.say(HEADERS, END_HEADERS | if end { END_STREAM } else { 0 }, stream, b"\x88");
    }

    /// Answers with `ok`, in one write: of a response in two, the client may see the head alone, and its connection is busy until the
    /// body is read.
    pub fn answer(&self, stream: u32) {
        let head = frame(HEADERS, END_HEADERS, stream, b"\x88");
        self.talk.say([head, frame(DATA, END_STREAM, stream, b"ok")].concat());
    }

    fn bytes(&mut self, count: usize) -> Option<Vec<u8>> {
        while self.input.len() < count {
            self.input.extend(self.talk.read(16 << 10)?);
        }
        Some(self.input.drain(..count).collect())
    }
}
