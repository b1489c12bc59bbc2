//! Does a server answer properly over HTTP/2? As [`check`](crate::check), by our own engine.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use anywire_http::h2::{Engine, Event, Limits, StreamId};
use anywire_http::{Buffer, Method, RequestHead, ResponseHead};

use crate::check::PATIENCE;
use crate::servers::{BODY, LARGE_BYTES};

/// Asks for the small answer, for 16 of them at once, and for a large one, and checks each. Returns the bytes of an answer
/// once the tables know its fields.
///
/// # Errors
/// What is wrong with which answer.
pub fn answers_properly(address: SocketAddr) -> Result<usize> {
    let stream = TcpStream::connect(address).with_context(|| format!("connecting to {address} failed"))?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut out = Vec::new();
    let engine = Engine::client(Limits::default(), Instant::now(), &mut out);
    let mut asker =
        Asker { stream, engine, input: Buffer::new(), out, received: 0, authority: address.to_string() };
    asker.ask("/", 1).context("the first answer")?;
    let before = asker.received;
    asker.ask("/", AT_ONCE).with_context(|| format!("{AT_ONCE} answers at once"))?;
    let bytes = (asker.received - before) / AT_ONCE;
    asker.ask("/large", 1).context("the large answer")?;
    Ok(bytes)
}

struct Asker {
    stream: TcpStream,
    engine: Engine,
    input: Buffer,
    out: Vec<u8>,
    received: usize,
    authority: String,
}

/// What has come of an answer.
struct Answer {
    id: StreamId,
    head: Option<ResponseHead>,
    body: Vec<u8>,
    ended: bool,
}

impl Asker {
    /// Sends so many requests in one write, and checks the answers.
    fn ask(&mut self, path: &str, count: usize) -> Result<()> {
        let mut answers = Vec::new();
        for _ in 0..count {
            let mut head = RequestHead::new(Method::GET, path)?;
            head.set_origin("http", &self.authority)?;
            let id = self.engine.open(&head, None, true, &mut self.out)?;
            answers.push(Answer { id, head: None, body: Vec::new(), ended: false });
        }
        while answers.iter().any(|answer| !answer.ended) {
            self.stream.write_all(&std::mem::take(&mut self.out)).context("sending failed")?;
            let count = self.stream.read(self.input.spare()).context("no answer")?;
            ensure!(count > 0, "the server closed the connection");
            self.received += count;
            self.input.filled(count);
            self.take(&mut answers)?;
        }
        let wanted = if path == "/" { BODY.as_bytes().to_vec() } else { vec![b'x'; LARGE_BYTES] };
        answers.iter().try_for_each(|answer| answer.check(&wanted))
    }

    fn take(&mut self, answers: &mut [Answer]) -> Result<()> {
        loop {
            let event = self.engine.receive(Instant::now(), &mut self.input, &mut self.out)?;
            let (id, taken) = match event {
                None => return Ok(()),
                Some(Event::Response { id, head, end, .. }) => {
                    let answer = find(answers, id)?;
                    (answer.head, answer.ended) = (Some(head), end);
                    (id, 0)
                }
                Some(Event::Data { id, data, end }) => {
                    let answer = find(answers, id)?;
                    answer.body.extend_from_slice(data);
                    answer.ended = end;
                    (id, data.len())
                }
                Some(Event::Reset { code, .. }) => bail!("the server reset the stream: {code}"),
                Some(Event::GoAway(said)) => bail!("the server wants to close the connection: {said}"),
                Some(_) => continue,
            };
            self.engine.consumed(id, taken, &mut self.out);
        }
    }
}

fn find(answers: &mut [Answer], id: StreamId) -> Result<&mut Answer> {
    answers.iter_mut().find(|answer| answer.id == id).context("an answer came that nobody asked for")
}

impl Answer {
    fn check(&self, wanted: &[u8]) -> Result<()> {
        let head = self.head.as_ref().context("no head")?;
        ensure!(head.status().as_u16() == 200, "status {}", head.status());
        let field = |name: &str| head.headers().get(name).with_context(|| format!("no {name} field"));
        field("date")?;
        ensure!(field("content-length")? == wanted.len().to_string(), "a wrong content-length");
        ensure!(self.body == wanted, "a wrong body of {} bytes", self.body.len());
        if wanted.len() == BODY.len() {
            ensure!(
                field("content-type")?.starts_with("text/plain"),
                "content-type {}",
                field("content-type")?
            );
        }
        Ok(())
    }
}

const AT_ONCE: usize = 16;
