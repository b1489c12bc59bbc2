//! A small server on a loop of its own, over any wire, whose manners and faults a test chooses.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use anywire_http::h1::{Limits, RequestDecoder, RequestEvent};
use anywire_http::{Buffer, Method};
use anywire_loops::Loops;
use anywire_wire::{Address, Connection, Listener, ListenerHandle};

/// What the server does with a connection.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Manner {
    /// Answers each request, all that came in one read by one write.
    Answer,
    /// Answers one request at a time, the latest possible: only when so many are waiting.
    AnswerWhenFull(usize),
    /// Answers with statuses in turn: 200, 201, 404.
    Statuses,
    /// Answers so many requests, then closes and does not say so.
    CloseAfter(u64),
    /// Answers so many requests, the last with `Connection: close`.
    SayCloseAfter(u64),
    /// Sends these bytes for each request.
    Bytes(&'static str),
    /// Sends these bytes for the first request, and then the end.
    BytesThenEnd(&'static str),
    /// Sends what is not HTTP on its first connection, and answers on the others.
    GarbageFirst,
    /// Sends these bytes for each request, one by one.
    Trickle(&'static str),
    /// Sends a body without end for the first request, faster than it can be taken: in chunks of one byte.
    Endless,
    /// Reads, and never answers.
    Silent,
    /// Does not even read.
    Deaf,
    /// Sends these bytes whatever comes first, and the end.
    Greet(&'static str),
}

/// The server; dropping it stops its loop.
pub(crate) struct TestServer {
    pub(crate) address: Address,
    pub(crate) seen: Arc<Seen>,
    pub(crate) loops: Loops,
    _listener: ListenerHandle,
}

/// What the server has seen, over all connections.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) connections: AtomicU64,
    pub(crate) requests: AtomicU64,
    /// The most requests of one connection that were waiting for their answers.
    pub(crate) waiting_max: AtomicUsize,
    /// Requests in the first read of a connection, of the latest one.
    pub(crate) in_first_read: AtomicUsize,
}

impl Seen {
    pub(crate) fn requests(&self) -> u64 {
        self.requests.load(Ordering::SeqCst)
    }

    pub(crate) fn connections(&self) -> u64 {
        self.connections.load(Ordering::SeqCst)
    }
}

impl TestServer {
    /// Serves on this address.
    pub(crate) fn start(address: &str, manner: Manner) -> Self {
        let loops = Loops::start(1).unwrap();
        let seen = Arc::new(Seen::default());
        let address: Address = address.parse().unwrap();
        let listener = Listener::bind(&address, &super::listening("http/1.1"), &loops).unwrap();
        let address = listener.local().clone();
        let shared = Arc::clone(&seen);
        let listener = listener.serve(move |connection| {
            let seen = Arc::clone(&shared);
            anywire_loops::spawn(async move {
                // The peer ends some of these by a reset, which is its right.
                let _ = serve(connection, manner, &seen).await;
            });
        });
        Self { address, seen, loops, _listener: listener }
    }

    /// A plan for this server: one connection, no warm-up.
    pub(crate) fn plan(&self, requests: u64) -> anywire_load::Plan {
        super::trusting(anywire_load::Plan {
            via: Some(self.address.clone()),
            connections: 1,
            warm_up: std::time::Duration::ZERO,
            amount: anywire_load::Amount::Requests(requests),
            ..anywire_load::Plan::new("http://test/")
        })
    }
}

async fn serve(mut connection: Connection, manner: Manner, seen: &Seen) -> io::Result<()> {
    let number = seen.connections.fetch_add(1, Ordering::SeqCst);
    let manner = match manner {
        Manner::GarbageFirst if number == 0 => Manner::Bytes("this is not HTTP\r\n\r\n"),
        Manner::GarbageFirst => Manner::Answer,
        other => other,
    };
    let mut buffer = Buffer::new();
    let mut decoder = RequestDecoder::new(Limits::default());
    let mut answered: u64 = 0;
    let mut waiting: Vec<Method> = Vec::new();
    let mut first = true;
    if matches!(manner, Manner::Deaf) {
        std::future::pending().await
    }
    if let Manner::Greet(bytes) = manner {
        connection.read(buffer.spare()).await?;
        connection.write_all(bytes.as_bytes()).await?;
        return end(connection).await;
    }
    loop {
        let count = connection.read(buffer.spare()).await?;
        if count == 0 {
            return Ok(());
        }
        buffer.filled(count);
        while let Some(event) = decoder.decode(&mut buffer).expect("the load generator sends no bad requests")
        {
            if let RequestEvent::Head(head, _) = event {
                seen.requests.fetch_add(1, Ordering::SeqCst);
                waiting.push(head.method().clone());
            }
        }
        seen.waiting_max.fetch_max(waiting.len(), Ordering::SeqCst);
        if first {
            first = false;
            seen.in_first_read.store(waiting.len(), Ordering::SeqCst);
        }
        let mut out = Vec::new();
        match manner {
            Manner::Silent | Manner::Deaf | Manner::GarbageFirst | Manner::Greet(_) => {}
            Manner::AnswerWhenFull(full) => {
                if waiting.len() >= full {
                    answer(&mut out, &waiting.remove(0), 200, false);
                }
            }
            Manner::Bytes(bytes) => waiting.drain(..).for_each(|_| out.extend_from_slice(bytes.as_bytes())),
            Manner::Trickle(bytes) => {
                for _ in waiting.drain(..) {
                    for byte in bytes.as_bytes() {
                        connection.write_all(&[*byte]).await?;
                        tokio::task::yield_now().await;
                    }
                }
            }
            Manner::Endless => {
                let chunks = b"1\r\nx\r\n".repeat(10_000);
                connection.write_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").await?;
                loop {
                    connection.write_all(&chunks).await?;
                }
            }
            Manner::BytesThenEnd(bytes) => {
                connection.write_all(bytes.as_bytes()).await?;
                return end(connection).await;
            }
            Manner::Answer => waiting.drain(..).for_each(|method| answer(&mut out, &method, 200, false)),
            Manner::Statuses => {
                for method in waiting.drain(..) {
                    answer(&mut out, &method, [200, 201, 404][(answered % 3) as usize], false);
                    answered += 1;
                }
            }
            Manner::CloseAfter(last) | Manner::SayCloseAfter(last) => {
                for method in waiting.drain(..) {
                    answered += 1;
                    let says_so = answered == last && matches!(manner, Manner::SayCloseAfter(_));
                    answer(&mut out, &method, 200, says_so);
                    if answered == last {
                        connection.write_all(&out).await?;
                        return end(connection).await;
                    }
                }
            }
        }
        connection.write_all(&out).await?;
    }
}

fn answer(out: &mut Vec<u8>, method: &Method, status: u16, closes: bool) {
    let close = if closes { "connection: close\r\n" } else { "" };
    let body = if *method == Method::HEAD { "" } else { "Hello, World!" };
    out.extend_from_slice(
        format!("HTTP/1.1 {status} Some\r\ncontent-length: 13\r\n{close}\r\n{body}").as_bytes(),
    );
}

/// Sends the end, and reads on until the peer ends too: a close with unread bytes would be a reset, and which of the two
/// a client meets would be chance.
async fn end(mut connection: Connection) -> io::Result<()> {
    connection.half_close().await?;
    let mut rest = [0; 1024];
    while connection.read(&mut rest).await? > 0 {}
    Ok(())
}
