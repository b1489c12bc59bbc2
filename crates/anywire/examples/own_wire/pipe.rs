//! `pipe:NAME`, a wire of one's own: `impl Wire` says where to listen and dial, `impl Transport` how bytes travel.

use std::collections::HashMap;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker, ready};

use tokio::io::{AsyncBufRead, AsyncRead, AsyncWrite, BufReader, DuplexStream, ReadBuf, duplex};
use tokio::sync::mpsc;

// The module `wire` of `anywire`, by way of the file above: the tests of that crate include this file, too.
use super::wire::{
    Acceptor, Address, Arrival, Bound, Connection, DialError, DialOptions, Dialing, ListenError,
    ListenOptions, Transport, Wire,
};

pub(crate) struct Pipe;

/// The accept queue of each name that is listened on.
static LISTENING: LazyLock<Mutex<HashMap<String, mpsc::Sender<End>>>> = LazyLock::new(Mutex::default);

fn listening() -> MutexGuard<'static, HashMap<String, mpsc::Sender<End>>> {
    LISTENING.lock().expect("nothing panics while it is held")
}

impl Wire for Pipe {
    fn scheme(&self) -> &'static str {
        "pipe"
    }

    fn summary(&self) -> &'static str {
        "within one process, over an in-memory stream of tokio"
    }

    fn form(&self) -> &'static str {
        "a name such as pipe:app"
    }

    fn normalise(&self, name: &str) -> Result<String, String> {
        if name.is_empty() { Err("the name is empty".to_owned()) } else { Ok(name.to_owned()) }
    }

    fn bind(
        &'static self,
        address: &Address,
        options: &ListenOptions,
        _: usize,
    ) -> Result<Bound, ListenError> {
        let name = address.location().to_owned();
        let mut listening = listening();
        if listening.contains_key(&name) {
            return Err(ListenError::InUse { address: address.clone() });
        }
        let (queue, arrivals) = mpsc::channel(options.backlog.max(1) as usize);
        listening.insert(name.clone(), queue);
        Ok(Bound {
            local: address.clone(),
            guard: Some(Box::new(Name(name))),
            acceptors: vec![Box::new(Queue(arrivals))],
        })
    }

    fn dial<'a>(&'static self, address: &'a Address, options: &'a DialOptions) -> Dialing<'a> {
        Box::pin(async move {
            let refused = || DialError::Refused { address: address.clone() };
            let queue = listening().get(address.location()).cloned().ok_or_else(refused)?;
            let (here, there) = End::pair(address);
            let queueing = async { queue.send(there).await.map_err(|_| refused()) };
            options.connect_in_time(address, queueing).await?;
            Ok(Connection::new(here))
        })
    }

    fn scratch(&'static self) -> Option<Address> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Some(Address::from_wire(self, format!("scratch-{}", NEXT.fetch_add(1, Ordering::Relaxed))))
    }

    fn reaches_other_processes(&self) -> bool {
        false
    }
}

/// Frees the name when listening ends.
struct Name(String);

impl Drop for Name {
    fn drop(&mut self) {
        listening().remove(&self.0);
    }
}

struct Queue(mpsc::Receiver<End>);

impl Acceptor for Queue {
    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Box<dyn Arrival>>> {
        match ready!(self.0.poll_recv(cx)) {
            Some(end) => Poll::Ready(Ok(Box::new(end))),
            // The name is free again, and this task about to be dropped.
            None => Poll::Pending,
        }
    }
}

impl Arrival for End {
    fn register(self: Box<Self>) -> io::Result<Connection> {
        // A socket would be registered with the loop here.
        Ok(Connection::new(*self))
    }
}

/// One end of a connection.
struct End {
    address: Address,
    /// The buffer lets `poll_readable` look without taking anything.
    stream: BufReader<DuplexStream>,
    /// This end has ended its direction.
    has_ended: bool,
    /// Whether the end that a reader finds is a reset: that of this end for its peer, and the peer's.
    resets: [Arc<AtomicBool>; 2],
}

impl End {
    fn pair(address: &Address) -> (Self, Self) {
        let (one, other) = duplex(64 * 1024);
        let resets = [(); 2].map(|()| Arc::new(AtomicBool::new(false)));
        let [mine, theirs] = resets.clone();
        let end = |stream, resets| Self {
            address: address.clone(),
            stream: BufReader::with_capacity(4096, stream),
            has_ended: false,
            resets,
        };
        (end(one, resets), end(other, [theirs, mine]))
    }

    /// What a reader finds at the end of the stream.
    fn end(&self) -> io::Result<usize> {
        if self.resets[1].load(Ordering::Acquire) {
            Err(io::ErrorKind::ConnectionReset.into())
        } else {
            Ok(0)
        }
    }
}

impl Transport for End {
    fn poll_readable(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if ready!(Pin::new(&mut self.stream).poll_fill_buf(cx))?.is_empty() {
            return Poll::Ready(self.end().map(drop));
        }
        Poll::Ready(Ok(()))
    }

    fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        let mut buffer = ReadBuf::new(buffer);
        ready!(Pin::new(&mut self.stream).poll_read(cx, &mut buffer))?;
        Poll::Ready(if buffer.filled().is_empty() { self.end() } else { Ok(buffer.filled().len()) })
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        &mut self,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, slices)
    }

    fn poll_half_close(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.has_ended = true;
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn abort(&mut self) {
        self.resets[0].store(!self.has_ended, Ordering::Release);
    }

    fn local(&self) -> Address {
        self.address.clone()
    }

    fn peer(&self) -> Address {
        self.address.clone()
    }
}

impl Drop for End {
    fn drop(&mut self) {
        let unread = Pin::new(&mut self.stream).poll_fill_buf(&mut Context::from_waker(Waker::noop()));
        if matches!(unread, Poll::Ready(Ok(bytes)) if !bytes.is_empty()) {
            self.abort();
        }
    }
}
