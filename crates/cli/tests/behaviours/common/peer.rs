//! A server that follows a script, byte by byte, for what no real one does.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;

/// A server on a port of its own. Each of its connections follows the script; the server goes with the test program.
pub(crate) struct Peer {
    authority: String,
}

impl Peer {
    /// Reads the head of a request over HTTP/1, and then does what `script` says. The connection ends with it.
    pub(crate) fn of_http1(script: impl Fn(&mut TcpStream) + Send + Sync + 'static) -> Self {
        Self::start(move |stream| {
            read_until(stream, |read| read.windows(4).any(|four| four == b"\r\n\r\n"));
            script(stream);
        })
    }

    /// Sends its settings, reads the head of a request over HTTP/2, and then does what `script` says.
    pub(crate) fn of_http2(script: impl Fn(&mut TcpStream) + Send + Sync + 'static) -> Self {
        Self::start(move |stream| {
            say(stream, frame(SETTINGS, 0, 0, b""));
            say(stream, frame(SETTINGS, 1, 0, b""));
            read_until(stream, |read| has_frame(read.get(PREFACE_BYTES..).unwrap_or_default(), HEADERS));
            script(stream);
        })
    }

    fn start(script: impl Fn(&mut TcpStream) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let authority = listener.local_addr().expect("an address").to_string();
        let script = std::sync::Arc::new(script);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (mut stream, script) = (stream.expect("a connection"), script.clone());
                thread::spawn(move || {
                    script(&mut stream);
                    // Until the other end has left: a close with bytes that nobody has read would be a reset.
                    let _ = stream.shutdown(std::net::Shutdown::Write);
                    let _ = stream.read_to_end(&mut Vec::new());
                });
            }
        });
        Self { authority }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/", self.authority)
    }
}

/// Sends bytes, unless the other end has left.
pub(crate) fn say(stream: &mut TcpStream, bytes: impl AsRef<[u8]>) {
    let _ = stream.write_all(bytes.as_ref());
}

/// Waits until the other end has left.
pub(crate) fn wait_for_end(stream: &mut TcpStream) {
    let _ = stream.read_to_end(&mut Vec::new());
}

/// A frame of HTTP/2.
pub(crate) fn frame(kind: u8, flags: u8, stream: u8, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_be_bytes();
    [&length[1..], &[kind, flags, 0, 0, 0, stream], payload].concat()
}

/// A head of stream 1 with the status 200 and these fields, each of less than 128 bytes.
pub(crate) fn head(fields: &[(&str, &str)]) -> Vec<u8> {
    let literal = |(name, value): &(&str, &str)| {
        [&[0, name.len() as u8], name.as_bytes(), &[value.len() as u8], value.as_bytes()].concat()
    };
    frame(HEADERS, END_HEADERS, 1, &[vec![0x88], fields.iter().flat_map(literal).collect()].concat())
}

pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const RST_STREAM: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
pub(crate) const GOAWAY: u8 = 7;
pub(crate) const WINDOW_UPDATE: u8 = 8;
const END_HEADERS: u8 = 4;
const PREFACE_BYTES: usize = 24;

fn has_frame(mut bytes: &[u8], wanted: u8) -> bool {
    while let Some((&[l2, l1, l0, kind, ..], rest)) = bytes.split_first_chunk::<9>() {
        if kind == wanted {
            return true;
        }
        bytes = rest.get(u32::from_be_bytes([0, l2, l1, l0]) as usize..).unwrap_or_default();
    }
    false
}

fn read_until(stream: &mut TcpStream, is_enough: impl Fn(&[u8]) -> bool) {
    let (mut read, mut part) = (Vec::new(), [0; 4096]);
    while !is_enough(&read) {
        match stream.read(&mut part) {
            Ok(count @ 1..) => read.extend_from_slice(&part[..count]),
            _ => return,
        }
    }
}
