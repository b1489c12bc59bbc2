//! Does a server answer properly? Asked before it is measured, since a server that answers wrongly is fast.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use anywire_load::Protocol;

use crate::check_http2;
use crate::child::ServerChild;
use crate::servers::{BODY, Server};

/// Asks twice on one connection (keep-alive), then sends 16 requests in one write (pipelining), and checks each answer.
/// Returns the size of one answer in bytes.
///
/// # Errors
/// What is wrong with which answer.
fn answers_properly(address: SocketAddr) -> Result<usize> {
    let mut connection = Connection::open(address)?;
    connection.send(1)?;
    let bytes = connection.answer().context("the first answer")?;
    connection.send(1)?;
    connection.answer().context("the second answer on one connection")?;
    connection.send(PIPELINED)?;
    for number in 1..=PIPELINED {
        connection.answer().with_context(|| format!("answer {number} of {PIPELINED} pipelined requests"))?;
    }
    ensure!(connection.received.is_empty(), "{} bytes came that nobody asked for", connection.received.len());
    Ok(bytes)
}

/// Starts a server, checks that it answers properly, and waits until it rests. Returns it and the size of one answer.
///
/// # Errors
/// It does not start, or answers wrongly.
pub fn start_checked(server: &Server, http: Protocol, core: usize) -> Result<(ServerChild, usize)> {
    let child = ServerChild::start(server.name, http, core)?;
    let check = if http == Protocol::Http2 { check_http2::answers_properly } else { answers_properly };
    let answer_bytes = check(child.address()).context("it answers wrongly")?;
    // The connection of the check is counted as nobody's once the server has seen it close.
    let mut sockets = child.family().sockets()?;
    for _ in 0..REST_TRIES {
        thread::sleep(REST_PAUSE);
        let now = child.family().sockets()?;
        if now == sockets {
            break;
        }
        sockets = now;
    }
    Ok((child, answer_bytes))
}

/// A blocking connection that asks and checks.
pub struct Connection {
    stream: TcpStream,
    request: Vec<u8>,
    received: Vec<u8>,
}

impl Connection {
    /// Connects.
    ///
    /// # Errors
    /// Nobody listens, or no descriptor is left.
    pub fn open(address: SocketAddr) -> Result<Self> {
        let stream =
            TcpStream::connect(address).with_context(|| format!("connecting to {address} failed"))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let request = format!("GET / HTTP/1.1\r\nHost: {address}\r\n\r\n").into_bytes();
        Ok(Self { stream, request, received: Vec::new() })
    }

    /// Sends this many requests in one write.
    ///
    /// # Errors
    /// The connection is broken.
    pub fn send(&mut self, count: usize) -> Result<()> {
        self.stream.write_all(&self.request.repeat(count)).context("sending failed")
    }

    /// Takes one answer, checks it, and gives its size in bytes.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn answer(&mut self) -> Result<usize> {
        loop {
            if let Some(bytes) = complete_answer(&self.received)? {
                self.received.drain(..bytes);
                return Ok(bytes);
            }
            let mut chunk = [0; 4096];
            let count = self.stream.read(&mut chunk).context("no answer")?;
            ensure!(count > 0, "the server closed the connection");
            self.received.extend_from_slice(&chunk[..count]);
        }
    }
}

/// The size of the answer at the start of these bytes, once it is there in full.
fn complete_answer(bytes: &[u8]) -> Result<Option<usize>> {
    let mut headers = [httparse::EMPTY_HEADER; 32];
    let mut response = httparse::Response::new(&mut headers);
    let httparse::Status::Complete(head) = response.parse(bytes).context("the answer is not HTTP/1")? else {
        return Ok(None);
    };
    ensure!(response.version == Some(1), "the answer is not HTTP/1.1");
    ensure!(response.code == Some(200), "status {:?} instead of 200", response.code);
    let header = |name: &str| {
        let found = response.headers.iter().find(|header| header.name.eq_ignore_ascii_case(name));
        found.map(|header| String::from_utf8_lossy(header.value)).with_context(|| format!("no {name} header"))
    };
    ensure!(
        header("content-length")? == BODY.len().to_string(),
        "content-length {}",
        header("content-length")?
    );
    ensure!(header("content-type")?.starts_with("text/plain"), "content-type {}", header("content-type")?);
    header("date")?;
    if header("connection").is_ok_and(|value| value.eq_ignore_ascii_case("close")) {
        bail!("the server wants to close the connection");
    }
    let Some(body) = bytes.get(head..head + BODY.len()) else { return Ok(None) };
    ensure!(body == BODY.as_bytes(), "the body is {:?} instead of {BODY:?}", String::from_utf8_lossy(body));
    Ok(Some(head + BODY.len()))
}

const PIPELINED: usize = 16;
/// How long an answer may take before the server counts as broken.
pub const PATIENCE: Duration = Duration::from_secs(5);
/// How often, and how long apart, a server's sockets are counted until they stay: 1 s in all.
const REST_TRIES: u32 = 20;
const REST_PAUSE: Duration = Duration::from_millis(50);

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str =
        "HTTP/1.1 200 OK\r\ncontent-length: 13\r\ncontent-type: text/plain\r\ndate: now\r\n\r\n";

    #[test]
    fn a_good_answer_is_taken_once_it_is_complete() {
        let answer = format!("{GOOD}{BODY}more");
        assert!(complete_answer(&answer.as_bytes()[..GOOD.len() + 5]).unwrap().is_none());
        assert_eq!(complete_answer(answer.as_bytes()).unwrap(), Some(GOOD.len() + BODY.len()));
    }

    #[test]
    fn a_wrong_body_length_status_or_head_is_refused() {
        for (right, wrong) in
            [("200", "404"), ("length: 13", "length: 14"), ("date", "dale"), ("plain", "html")]
        {
            let answer = format!("{}{BODY}", GOOD.replacen(right, wrong, 1));
            assert!(complete_answer(answer.as_bytes()).is_err(), "{wrong}");
        }
        assert!(complete_answer(format!("{GOOD}Hello, Earth!").as_bytes()).is_err());
    }
}
