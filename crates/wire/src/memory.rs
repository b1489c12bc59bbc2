//! `memory:NAME`: connections within this process, over no kernel at all. For tests, and for a client and a server
//! in one program.

use std::collections::{HashMap, VecDeque};
use std::io::{self, IoSlice};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use crate::address::Address;
use crate::connection::{Connection, Transport};
use crate::dialer::DialOptions;
use crate::error::{DialError, ListenError};
use crate::listener::ListenOptions;
use crate::wires::{Acceptor, Arrival, Bound, Dialing, Wire};

/// In-process pairs. Both ends may be on different loops; bytes are copied through two bounded pipes.
pub(crate) struct Memory;

impl Wire for Memory {
    fn scheme(&self) -> &'static str {
        "memory"
    }

    fn summary(&self) -> &'static str {
        "within one process, without the kernel"
    }

    fn form(&self) -> &'static str {
        "a name such as memory:app"
    }

    fn normalise(&self, location: &str) -> Result<String, String> {
        if location.is_empty() {
            return Err("the name is empty".to_owned());
        }
        if location.len() > NAME_MAX_BYTES {
            return Err(format!("the name is {} bytes long", location.len()));
        }
        Ok(location.to_owned())
    }

    fn bind(
        &'static self,
        address: &Address,
        options: &ListenOptions,
        _: usize,
    ) -> Result<Bound, ListenError> {
        let mut listening = lock(&LISTENING);
        if listening.contains_key(address.location()) {
            return Err(ListenError::InUse { address: address.clone() });
        }
        let queue = Arc::new(Mutex::new(Queue { backlog: options.backlog as usize, ..Queue::default() }));
        listening.insert(address.location().to_owned(), Arc::clone(&queue));
        let guard = Name { name: address.location().to_owned(), queue: Arc::clone(&queue) };
        Ok(Bound {
            local: address.clone(),
            acceptors: vec![Box::new(MemoryAcceptor(queue))],
            guard: Some(Box::new(guard)),
        })
    }

    fn dial<'a>(&'static self, address: &'a Address, _: &'a DialOptions) -> Dialing<'a> {
        Box::pin(async move {
            let refused = || DialError::Refused { address: address.clone() };
            let queue = lock(&LISTENING).get(address.location()).cloned().ok_or_else(refused)?;
            let (here, there) = pair(address.location());
            let mut queue = lock(&queue);
            if queue.arrivals.len() >= queue.backlog {
                return Err(refused());
            }
            queue.arrivals.push_back(there);
            queue.waker.take().into_iter().for_each(Waker::wake);
            Ok(Connection::new(Box::new(here)))
        })
    }

    fn scratch(&'static self) -> Option<Address> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Some(Address::known(self, format!("scratch-{}", NEXT.fetch_add(1, Ordering::Relaxed))))
    }

    fn reaches_other_processes(&self) -> bool {
        false
    }
}

/// Two ends that are connected.
pub(crate) fn pair(name: &str) -> (MemoryTransport, MemoryTransport) {
    let name: Arc<str> = name.into();
    let (one, other) = (Arc::new(Mutex::new(Pipe::default())), Arc::new(Mutex::new(Pipe::default())));
    let here =
        MemoryTransport { name: Arc::clone(&name), incoming: Arc::clone(&one), outgoing: Arc::clone(&other) };
    (here, MemoryTransport { name, incoming: other, outgoing: one })
}

/// One end of a pair.
pub(crate) struct MemoryTransport {
    name: Arc<str>,
    incoming: Arc<Mutex<Pipe>>,
    outgoing: Arc<Mutex<Pipe>>,
}

impl Transport for MemoryTransport {
    fn poll_readable(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut pipe = lock(&self.incoming);
        if pipe.reset {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        if pipe.bytes.is_empty() && !pipe.ended {
            keep(&mut pipe.reader, cx);
            return Poll::Pending;
        }
        Poll::Ready(Ok(()))
    }

    fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        if let Poll::Pending = self.poll_readable(cx)? {
            return Poll::Pending;
        }
        let mut pipe = lock(&self.incoming);
        let read = io::Read::read(&mut pipe.bytes, buffer)?;
        pipe.writer.take().into_iter().for_each(Waker::wake);
        Poll::Ready(Ok(read))
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        &mut self,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut pipe = lock(&self.outgoing);
        if pipe.reset {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        if pipe.ended || pipe.reader_gone {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        let mut room = PIPE_BYTES - pipe.bytes.len();
        if room == 0 && slices.iter().any(|slice| !slice.is_empty()) {
            keep(&mut pipe.writer, cx);
            return Poll::Pending;
        }
        let before = room;
        for slice in slices {
            let part = &slice[..slice.len().min(room)];
            pipe.bytes.extend(part);
            room -= part.len();
        }
        pipe.reader.take().into_iter().for_each(Waker::wake);
        Poll::Ready(Ok(before - room))
    }

    fn poll_half_close(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut pipe = lock(&self.outgoing);
        pipe.ended = true;
        pipe.reader.take().into_iter().for_each(Waker::wake);
        Poll::Ready(Ok(()))
    }

    fn abort(&mut self) {
        for pipe in [&self.incoming, &self.outgoing] {
            let mut pipe = lock(pipe);
            pipe.reset = true;
            pipe.bytes.clear();
            pipe.wake();
        }
    }

    fn local(&self) -> Address {
        Address::known(&Memory, Arc::clone(&self.name))
    }

    fn peer(&self) -> Address {
        Address::known(&Memory, Arc::clone(&self.name))
    }
}

impl Drop for MemoryTransport {
    fn drop(&mut self) {
        let mut outgoing = lock(&self.outgoing);
        outgoing.ended = true;
        outgoing.wake();
        drop(outgoing);
        let mut incoming = lock(&self.incoming);
        incoming.reader_gone = true;
        // As TCP does: what nobody read makes the close a reset.
        let unread = !incoming.bytes.is_empty();
        incoming.wake();
        drop(incoming);
        if unread {
            self.abort();
        }
    }
}

/// One direction.
#[derive(Default)]
struct Pipe {
    bytes: VecDeque<u8>,
    /// The writer has ended its direction.
    ended: bool,
    reader_gone: bool,
    reset: bool,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

impl Pipe {
    fn wake(&mut self) {
        self.reader.take().into_iter().chain(self.writer.take()).for_each(Waker::wake);
    }
}

/// Connections that were dialled and not yet accepted.
#[derive(Default)]
struct Queue {
    arrivals: VecDeque<MemoryTransport>,
    backlog: usize,
    waker: Option<Waker>,
}

struct MemoryAcceptor(Arc<Mutex<Queue>>);

impl Acceptor for MemoryAcceptor {
    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Box<dyn Arrival>>> {
        let mut queue = lock(&self.0);
        match queue.arrivals.pop_front() {
            Some(arrival) => Poll::Ready(Ok(Box::new(arrival))),
            None => {
                keep(&mut queue.waker, cx);
                Poll::Pending
            }
        }
    }
}

impl Arrival for MemoryTransport {
    fn settle(self: Box<Self>) -> io::Result<Box<dyn Transport>> {
        Ok(self)
    }
}

/// A name that is listened on; free again when dropped, and whoever waits in the queue is turned away.
struct Name {
    name: String,
    queue: Arc<Mutex<Queue>>,
}

impl Drop for Name {
    fn drop(&mut self) {
        lock(&LISTENING).remove(&self.name);
        let waiting = std::mem::take(&mut lock(&self.queue).arrivals);
        drop(waiting);
    }
}

fn keep(place: &mut Option<Waker>, cx: &Context<'_>) {
    match place {
        Some(waker) => waker.clone_from(cx.waker()),
        None => *place = Some(cx.waker().clone()),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing panics under these locks, but for a waker of somebody else's; the data is whole even then.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

type Listening = HashMap<String, Arc<Mutex<Queue>>>;

static LISTENING: LazyLock<Mutex<Listening>> = LazyLock::new(Mutex::default);

/// Bytes in flight in each direction, as a socket buffer would hold.
const PIPE_BYTES: usize = 64 * 1024;
const NAME_MAX_BYTES: usize = 255;
