//! A scripted peer on a plain thread, and what tests wait with.
//!
//! The peer is made of blocking sockets and threads on purpose: it shares no code with the client but the decoder of
//! requests, and a script reads from top to bottom.
#![allow(dead_code, unreachable_pub, reason = "each test uses a part of it")]

use std::future::Future;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use anywire_client::{Client, ClientBuilder};
use anywire_http::h1::{Framing, Limits, RequestDecoder, RequestEvent};
use anywire_http::{Buffer, Headers, RequestHead};
use anywire_loops::Loops;

/// A peer on a port of its own. Each connection runs the script on a thread of its own.
pub struct Peer {
    address: SocketAddr,
    accepted: Arc<AtomicUsize>,
    open: Arc<AtomicUsize>,
    most_open: Arc<AtomicUsize>,
}

impl Peer {
    pub fn start(script: impl Fn(Talk) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let peer = Self {
            address: listener.local_addr().expect("a bound socket has an address"),
            accepted: Arc::default(),
            open: Arc::default(),
            most_open: Arc::default(),
        };
        let (accepted, open, most_open) = (peer.accepted.clone(), peer.open.clone(), peer.most_open.clone());
        let script = Arc::new(script);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let stream = stream.expect("an accepted connection");
                let number = accepted.fetch_add(1, Ordering::SeqCst);
                most_open.fetch_max(open.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                let (script, open) = (script.clone(), open.clone());
                thread::spawn(move || {
                    stream.set_nodelay(true).expect("a live socket");
                    let decoder = RequestDecoder::new(Limits::default());
                    script(Talk { stream, number, input: Buffer::new(), decoder });
                    open.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
        peer
    }

    /// A peer that answers every request of every connection with the same bytes.
    pub fn answering(answer: &'static str) -> Self {
        Self::start(move |mut talk| {
            while talk.request().is_some() {
                talk.say(answer);
            }
        })
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Connections so far.
    pub fn accepted(&self) -> usize {
        self.accepted.load(Ordering::SeqCst)
    }

    /// The most connections that were open at a time.
    pub fn most_open(&self) -> usize {
        self.most_open.load(Ordering::SeqCst)
    }
}

/// The peer's end of one connection.
pub struct Talk {
    pub stream: TcpStream,
    /// Which connection of the peer this is, from 0.
    pub number: usize,
    input: Buffer,
    decoder: RequestDecoder,
}

/// A request, read whole.
pub struct Received {
    pub head: RequestHead,
    pub body: Vec<u8>,
    pub trailers: Option<Headers>,
}

impl Talk {
    /// The next request with its body; none when the client closes.
    pub fn request(&mut self) -> Option<Received> {
        let head = match self.event()? {
            Event::Head(head) => *head,
            _ => panic!("a request starts with its head"),
        };
        let mut received = Received { body: Vec::new(), trailers: None, head };
        if received.head.framing() == Framing::None {
            return Some(received);
        }
        loop {
            match self.event()? {
                Event::Data(data) => received.body.extend(data),
                Event::Trailers(trailers) => received.trailers = Some(trailers),
                Event::End => return Some(received),
                Event::Head(_) => panic!("a body ends before the next head"),
            }
        }
    }

    /// The head of the next request; its body is not read.
    pub fn request_head(&mut self) -> RequestHead {
        match self.event() {
            Some(Event::Head(head)) => *head,
            _ => panic!("a request was expected"),
        }
    }

    pub fn say(&mut self, bytes: impl AsRef<[u8]>) {
        // A client that left is what some tests are about.
        let _ = self.stream.write_all(bytes.as_ref());
    }

    /// Waits until the client closes; bytes that come before are dropped.
    pub fn wait_for_end(&mut self) {
        let mut dropped = [0; 4096];
        while self.stream.read(&mut dropped).is_ok_and(|count| count > 0) {}
    }

    /// Ends our side with a FIN.
    pub fn half_close(&self) {
        let _ = self.stream.shutdown(Shutdown::Write);
    }

    fn event(&mut self) -> Option<Event> {
        loop {
            match self.decoder.decode(&mut self.input).expect("the client sends good requests") {
                Some(RequestEvent::Head(head)) => return Some(Event::Head(Box::new(head))),
                Some(RequestEvent::Data(data)) => return Some(Event::Data(data.to_vec())),
                Some(RequestEvent::Trailers(trailers)) => return Some(Event::Trailers(trailers)),
                Some(RequestEvent::End) => return Some(Event::End),
                None => {}
            }
            match self.stream.read(self.input.spare()) {
                Ok(0) | Err(_) => return None,
                Ok(count) => self.input.filled(count),
            }
        }
    }
}

enum Event {
    Head(Box<RequestHead>),
    Data(Vec<u8>),
    Trailers(Headers),
    End,
}

/// A client on loops of its own test.
pub fn client(loops: usize, options: impl FnOnce(ClientBuilder) -> ClientBuilder) -> (Loops, Client) {
    let loops = Loops::start(loops).expect("loops start");
    let client = options(Client::builder().loops(&loops)).build().expect("good options");
    (loops, client)
}

/// Runs a future on this thread, with nothing but `park`.
pub fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}

/// Polls a future once, with nobody to wake.
pub fn poll_once<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    std::pin::Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
}

/// Waits for something that nobody announces, such as a counter.
pub fn eventually(what: &str, condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < Duration::from_secs(20), "never happened: {what}");
        thread::yield_now();
    }
}

pub const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
