//! A loop whose time passes only while nothing happens on it: client and peers are its tasks, and minutes take no time.

use std::collections::VecDeque;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anywire_client::{Client, ClientBuilder};
use anywire_loops::Loops;
use anywire_wire::{Address, Connection, Listener, ListenerHandle};

use super::bytes_of_http2::{ACK, DATA, END_HEADERS, END_STREAM, HEADERS, PREFACE, SETTINGS, frame};
use super::{Frame, block_on, builder, listening};

/// The loop.
pub struct Simulated {
    pub loops: Loops,
}

impl Simulated {
    pub fn new() -> Self {
        Self { loops: Loops::start(1).expect("loops start") }
    }

    /// A client on the loop, which makes one attempt.
    pub fn client(&self, options: impl FnOnce(ClientBuilder) -> ClientBuilder) -> Client {
        options(builder().on(&self.loops)).build()
    }

    /// A peer in memory. Each connection runs the script as a task of the loop.
    pub fn peer<F: Future<Output = ()> + 'static>(
        &self,
        script: impl Fn(Line) -> F + Clone + Send + 'static,
    ) -> SimulatedPeer {
        self.peer_on("memory:", script)
    }

    /// As [`peer`](Self::peer), perhaps with TLS.
    pub fn peer_on<F: Future<Output = ()> + 'static>(
        &self,
        wire: &str,
        script: impl Fn(Line) -> F + Clone + Send + 'static,
    ) -> SimulatedPeer {
        let listener = Listener::bind(wire, &listening(), &self.loops).expect("a free name");
        let address = listener.local().clone();
        let accepted = Arc::<AtomicUsize>::default();
        let count = Arc::clone(&accepted);
        let listening = listener.serve(move |connection| {
            let line = Line::new(connection, count.fetch_add(1, Ordering::SeqCst));
            drop(anywire_loops::spawn(script(line)));
        });
        SimulatedPeer { address, accepted, _listening: listening }
    }

    /// Runs a test on the loop, and fails if it hangs: then time flies until this ends.
    pub fn run<T: Send + 'static>(&self, test: impl AsyncFnOnce() -> T + Send + 'static) -> T {
        let task = self.loops.get(0).spawn(move || async move {
            tokio::time::pause();
            tokio::time::timeout(YEARS, test()).await.expect("it does not hang")
        });
        let outcome = block_on(task).expect("no panic");
        let panics: u64 = self.loops.counters().iter().map(|one| one.panics).sum();
        assert_eq!(panics, 0, "a peer, or a task of the client, has panicked");
        outcome
    }
}

/// Longer than any test of years takes, and not longer than a timer can wait.
const YEARS: Duration = Duration::from_secs(300_000_000);

pub struct SimulatedPeer {
    address: Address,
    accepted: Arc<AtomicUsize>,
    _listening: ListenerHandle,
}

impl SimulatedPeer {
    pub fn via(&self) -> &Address {
        &self.address
    }

    /// Connections so far.
    pub fn accepted(&self) -> usize {
        self.accepted.load(Ordering::SeqCst)
    }
}

/// The peer's end of a connection. Dropping it closes the connection.
pub struct Line {
    pub connection: Connection,
    /// Which connection of the peer this is, from 0.
    pub number: usize,
    input: VecDeque<u8>,
}

impl Line {
    fn new(connection: Connection, number: usize) -> Self {
        Self { connection, number, input: VecDeque::new() }
    }

    /// Sends bytes; false if the client has left.
    pub async fn say(&mut self, bytes: impl AsRef<[u8]>) -> bool {
        self.connection.write_all(bytes.as_ref()).await.is_ok()
    }

    /// Sends `text` again and again, one byte each `pace`, until the client has left. What the client says is dropped.
    pub async fn trickle(&mut self, text: impl AsRef<[u8]>, pace: Duration) {
        for byte in text.as_ref().iter().cycle() {
            let read = async {
                let mut bytes = [0; 4096];
                while self.connection.read(&mut bytes).await.is_ok_and(|count| count > 0) {}
            };
            if tokio::time::timeout(pace, read).await.is_ok() || !self.say([*byte]).await {
                return;
            }
        }
    }

    /// The next byte; none if the client has left.
    pub async fn byte(&mut self) -> Option<u8> {
        if self.input.is_empty() && !self.fill().await {
            return None;
        }
        self.input.pop_front()
    }

    /// So many bytes; none if the client leaves before.
    pub async fn bytes(&mut self, count: usize) -> Option<Vec<u8>> {
        while self.input.len() < count {
            if !self.fill().await {
                return None;
            }
        }
        Some(self.input.drain(..count).collect())
    }

    async fn fill(&mut self) -> bool {
        let mut bytes = [0; 4096];
        match self.connection.read(&mut bytes).await {
            Ok(count @ 1..) => {
                self.input.extend(&bytes[..count]);
                true
            }
            _ => false,
        }
    }

    /// The head of the next HTTP/1 request, with the empty line; none if the client has left.
    pub async fn head(&mut self) -> Option<String> {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(self.byte().await?);
        }
        Some(String::from_utf8(head).expect("the client sends text"))
    }

    /// Waits until the client has left; bytes that come before are dropped.
    pub async fn wait_for_end(&mut self) {
        while self.fill().await {
            self.input.clear();
        }
    }

    /// Reads the preface of HTTP/2, and says these settings.
    pub async fn greet(&mut self, settings: &[u8]) -> Option<()> {
        assert_eq!(self.bytes(PREFACE.len()).await?, PREFACE);
        self.frame(SETTINGS, 0, 0, settings).await;
        Some(())
    }

    /// The next frame of HTTP/2, whatever it is; none if the client has left. Settings are acknowledged.
    pub async fn next(&mut self) -> Option<Frame> {
        let head = self.bytes(9).await?;
        let number = |bytes: &[u8]| bytes.iter().fold(0, |number, byte| number << 8 | u32::from(*byte));
        let payload = self.bytes(number(&head[..3]) as usize).await?;
        let frame = Frame { kind: head[3], flags: head[4], stream: number(&head[5..]), payload };
        if frame.kind == SETTINGS && frame.flags & ACK == 0 {
            self.frame(SETTINGS, ACK, 0, &[]).await;
        }
        Some(frame)
    }

    /// The next frame of this kind; others are dropped.
    pub async fn until(&mut self, kind: u8) -> Option<Frame> {
        loop {
            let frame = self.next().await?;
            if frame.kind == kind {
                return Some(frame);
            }
        }
    }

    /// The stream of the next request of HTTP/2. Its body is not read.
    pub async fn request(&mut self) -> Option<u32> {
        Some(self.until(HEADERS).await?.stream)
    }

    pub async fn frame(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) -> bool {
        self.say(frame(kind, flags, stream, payload)).await
    }

    /// Answers a request of HTTP/2 with `ok`.
    pub async fn answer(&mut self, stream: u32) {
        self.frame(HEADERS, END_HEADERS, stream, b"\x88").await;
        self.frame(DATA, END_STREAM, stream, b"ok").await;
    }
}
