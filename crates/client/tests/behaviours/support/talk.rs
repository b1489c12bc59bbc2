//! The peer's end of one connection, as a script on a plain thread sees it.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use anywire_http::h1::{Framing, Limits, RequestDecoder, RequestEvent};
use anywire_http::{Buffer, Headers, RequestHead};
use anywire_wire::Connection;
use tokio::sync::mpsc;

/// The peer's end of one connection. Dropping it closes the connection.
pub struct Talk {
    /// Which connection of the peer this is, from 0.
    pub number: usize,
    steps: mpsc::UnboundedSender<Step>,
    input: Buffer,
    decoder: RequestDecoder,
}

/// One step of a script, to be carried out on the connection's loop.
type Step = Box<dyn FnOnce(Connection) -> Pin<Box<dyn Future<Output = Connection>>> + Send>;

/// A request, read whole.
pub struct Received {
    pub head: RequestHead,
    pub body: Vec<u8>,
    pub trailers: Option<Headers>,
}

impl Talk {
    /// On the loop of `connection`, whose number this is.
    pub fn on(mut connection: Connection, number: usize) -> Self {
        let (steps, mut to_do) = mpsc::unbounded_channel::<Step>();
        drop(anywire_loops::spawn(async move {
            while let Some(step) = to_do.recv().await {
                connection = step(connection).await;
            }
        }));
        Self { number, steps, input: Buffer::new(), decoder: RequestDecoder::new(Limits::default()) }
    }

    /// Does something with the connection on its loop, and waits for the outcome. Nothing if the loop has ended.
    pub fn with<T: Send + 'static>(
        &self,
        step: impl AsyncFnOnce(&mut Connection) -> T + Send + 'static,
    ) -> Option<T> {
        let (report, outcome) = std::sync::mpsc::channel();
        let step: Step = Box::new(move |mut connection| {
            Box::pin(async move {
                let done = step(&mut connection).await;
                // A script that does not wait is one whose test is over.
                let _ = report.send(done);
                connection
            })
        });
        self.steps.send(step).ok()?;
        outcome.recv().ok()
    }

    /// Speaks TLS from here on, if the client trusts this end.
    #[cfg(feature = "tls")]
    pub fn secure(&self) -> io::Result<()> {
        let shaken = self.with(async |connection| {
            let plain = std::mem::replace(connection, Connection::pair().0);
            *connection = super::trial::server().around(plain, &[]).expect("a certificate");
            connection.handshake(super::HANG).await
        });
        shaken.expect("the loop runs")
    }

    /// The next request with its body; none when the client closes.
    pub fn request(&mut self) -> Option<Received> {
        let (head, framing) = match self.event()? {
            Event::Head(head, framing) => (*head, framing),
            _ => panic!("a request starts with its head"),
        };
        let mut received = Received { body: Vec::new(), trailers: None, head };
        if framing == Framing::None {
            return Some(received);
        }
        loop {
            match self.event()? {
                Event::Data(data) => received.body.extend(data),
                Event::Trailers(trailers) => received.trailers = Some(trailers),
                Event::End => return Some(received),
                Event::Head(..) => panic!("a body ends before the next head"),
            }
        }
    }

    /// The head of the next request; its body is not read.
    pub fn request_head(&mut self) -> RequestHead {
        match self.event() {
            Some(Event::Head(head, _)) => *head,
            _ => panic!("a request was expected"),
        }
    }

    /// Sends bytes, and waits until the wire has taken all of them. A client that left is what some tests are about.
    pub fn say(&self, bytes: impl AsRef<[u8]>) {
        self.try_say(bytes);
    }

    /// As [`say`](Self::say); false if the client has left.
    pub fn try_say(&self, bytes: impl AsRef<[u8]>) -> bool {
        let bytes = bytes.as_ref().to_vec();
        self.with(async move |connection| connection.write_all(&bytes).await.is_ok()).unwrap_or(false)
    }

    /// Sends a part of `bytes`, unless the wire has no room for `patience`.
    pub fn say_within(&self, bytes: &'static [u8], patience: Duration) -> Option<usize> {
        let write = async move |connection: &mut Connection| {
            let write = std::future::poll_fn(|cx| connection.poll_write(cx, bytes));
            let written = tokio::time::timeout(patience, write).await.ok()?.ok();
            // Pending or failed, it is told by the next step.
            let _ = std::future::poll_fn(|cx| Poll::Ready(connection.poll_flush(cx))).await;
            written
        };
        self.with(write).flatten()
    }

    /// Reads at most so many bytes; none if the client has closed.
    pub fn read(&self, count: usize) -> Option<Vec<u8>> {
        let read = async move |connection: &mut Connection| {
            let mut bytes = vec![0; count];
            let count = connection.read(&mut bytes).await?;
            bytes.truncate(count);
            io::Result::Ok(bytes)
        };
        self.with(read)?.ok().filter(|bytes| !bytes.is_empty())
    }

    /// Waits until the client closes; bytes that come before are dropped.
    pub fn wait_for_end(&self) {
        while self.read(64 << 10).is_some() {}
    }

    /// Ends our side; the client reads the end.
    pub fn half_close(&self) {
        self.with(async |connection| connection.half_close().await.is_ok());
    }

    /// Resets the connection, where the wire has such a thing.
    pub fn reset(self) {
        self.with(async |connection| connection.abort());
    }

    fn event(&mut self) -> Option<Event> {
        loop {
            match self.decoder.decode(&mut self.input).expect("the client sends good requests") {
                Some(RequestEvent::Head(head, info)) => {
                    return Some(Event::Head(Box::new(head), info.framing));
                }
                Some(RequestEvent::Data(data)) => return Some(Event::Data(data.to_vec())),
                Some(RequestEvent::Trailers(trailers)) => return Some(Event::Trailers(trailers)),
                Some(RequestEvent::End) => return Some(Event::End),
                None => {}
            }
            let room = self.input.spare().len();
            let bytes = self.read(room)?;
            self.input.fill_from(&bytes);
        }
    }
}

enum Event {
    Head(Box<RequestHead>, Framing),
    Data(Vec<u8>),
    Trailers(Headers),
    End,
}
