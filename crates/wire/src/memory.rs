//! `memory:NAME`: connections within this process, over no kernel at all. For tests, and for a client and a server
//! in one program.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};

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
        "a name such as memory:app; to listen on a free name, memory: alone"
    }

    fn normalise(&self, location: &str) -> Result<String, String> {
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
        let name = match address.location() {
            "" => free_name(&listening),
            // Nobody accepts there any more if that is closed, though the handle of its listener is kept.
            name if listening.get(name).is_some_and(|queue| !lock(queue).closed) => {
                return Err(ListenError::InUse { address: address.clone() });
            }
            name => name.to_owned(),
        };
        let backlog = options.backlog.max(1) as usize;
        let queue = Arc::new(Mutex::new(Queue { backlog, ..Queue::default() }));
        listening.insert(name.clone(), Arc::clone(&queue));
        Ok(Bound {
            local: Address::from_wire(self, name.as_str()),
            acceptors: vec![Box::new(MemoryAcceptor(Arc::clone(&queue)))],
            guard: Some(Box::new(Name { name, queue })),
        })
    }

    fn dial<'a>(&'static self, address: &'a Address, options: &'a DialOptions) -> Dialing<'a> {
        Box::pin(async move {
            let refused = || DialError::Refused { address: address.clone() };
            let queue = lock(&LISTENING).get(address.location()).cloned().ok_or_else(refused)?;
            let (here, there) = pair(address.location());
            let joining = Joining::new(queue, there);
            let queueing = async { Ok(joining.await) };
            match options.connect_in_time(address, queueing).await? {
                Joined::Waits => Ok(Connection::new(here)),
                Joined::NobodyListens => Err(refused()),
            }
        })
    }

    fn scratch(&'static self) -> Option<Address> {
        Some(Address::from_wire(self, ""))
    }

    fn reaches_other_processes(&self) -> bool {
        false
    }
}

fn free_name(listening: &Listening) -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    loop {
        let name = format!("free-{}", NEXT.fetch_add(1, Ordering::Relaxed));
        if !listening.contains_key(&name) {
            return name;
        }
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
        let mut replaced = None;
        lock(&self.incoming).poll_readable(cx, &mut replaced)
    }

    fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        let mut replaced = None;
        let mut pipe = lock(&self.incoming);
        ready!(pipe.poll_readable(cx, &mut replaced))?;
        let read = io::Read::read(&mut pipe.bytes, buffer)?;
        let writer = pipe.writer.take();
        drop(pipe);
        wake(writer);
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
            let replaced = replace_waker(&mut pipe.writer, cx);
            drop(pipe);
            drop(replaced);
            return Poll::Pending;
        }
        let before = room;
        for slice in slices {
            let part = &slice[..slice.len().min(room)];
            pipe.bytes.extend(part);
            room -= part.len();
        }
        let reader = pipe.reader.take();
        drop(pipe);
        wake(reader);
        Poll::Ready(Ok(before - room))
    }

    fn poll_half_close(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        change(&self.outgoing, |pipe| pipe.ended = true);
        Poll::Ready(Ok(()))
    }

    fn abort(&mut self) {
        // The peer reads the bytes that were written before it sees the reset.
        change(&self.outgoing, |pipe| pipe.reset = true);
        change(&self.incoming, |pipe| pipe.reset = true);
    }

    fn local(&self) -> Address {
        Address::from_wire(&Memory, Arc::clone(&self.name))
    }

    fn peer(&self) -> Address {
        Address::from_wire(&Memory, Arc::clone(&self.name))
    }
}

impl Drop for MemoryTransport {
    fn drop(&mut self) {
        let mut unread = false;
        change(&self.incoming, |pipe| {
            pipe.reader_gone = true;
            unread = !pipe.bytes.is_empty();
        });
        if unread {
            // As on the other wires, unread bytes make the close a reset, and the peer sees no end before it.
            self.abort();
        } else {
            // Behind an abort there is no orderly end.
            change(&self.outgoing, |pipe| pipe.ended |= !pipe.reset);
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
    /// Bytes come first, then the end if there was one, and a reset last. The replaced waker goes to `replaced`, to be
    /// dropped without the lock.
    fn poll_readable(&mut self, cx: &Context<'_>, replaced: &mut Option<Waker>) -> Poll<io::Result<()>> {
        if !self.bytes.is_empty() || self.ended {
            return Poll::Ready(Ok(()));
        }
        if self.reset {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        *replaced = replace_waker(&mut self.reader, cx);
        Poll::Pending
    }
}

/// Changes a direction as a whole, and tells both of its ends.
fn change(pipe: &Mutex<Pipe>, change: impl FnOnce(&mut Pipe)) {
    let mut pipe = lock(pipe);
    change(&mut pipe);
    let waiting = [pipe.reader.take(), pipe.writer.take()];
    drop(pipe);
    wake(waiting.into_iter().flatten());
}

/// Connections that were dialled and not yet accepted.
#[derive(Default)]
struct Queue {
    arrivals: VecDeque<MemoryTransport>,
    /// As many wait here; later ones wait in [`Joining`], as they would in a system that answers no SYN.
    backlog: usize,
    /// The listener has stopped, or the loops that accepted.
    closed: bool,
    acceptor: Option<Waker>,
    /// Dials that find it full, by their number: the first one is let in first.
    dialers: BTreeMap<u64, Waiting>,
    /// How many dials there have been.
    dials: u64,
}

impl Queue {
    /// Takes the next arrival, and lets a dial in for it. Gives the dial's waker, to be called without the lock.
    fn pop(&mut self) -> Option<(MemoryTransport, Option<Waker>)> {
        let arrival = self.arrivals.pop_front()?;
        // Here, and not by the task of the dial: its loop may be busy for long.
        let next = self.dialers.pop_first().map(|(_, Waiting { arrival, waker })| {
            self.arrivals.extend(arrival);
            waker
        });
        Some((arrival, next))
    }
}

/// A dial that finds the queue full.
struct Waiting {
    /// `None` once it was turned away.
    arrival: Option<MemoryTransport>,
    waker: Waker,
}

/// Closes the queue, and turns away the dials that wait for a place in it. If `nobody_accepts`, the connections in it as well.
fn close(queue: &Mutex<Queue>, nobody_accepts: bool) {
    let mut turned_away = Vec::new();
    let mut wakers = Vec::new();
    {
        let mut queue = lock(queue);
        queue.closed = true;
        if nobody_accepts {
            turned_away.extend(queue.arrivals.drain(..));
        }
        for dial in queue.dialers.values_mut() {
            turned_away.extend(dial.arrival.take());
            wakers.push(dial.waker.clone());
        }
    }
    drop(turned_away);
    wake(wakers);
}

/// How dialling ended.
enum Joined {
    /// In the queue, as good as connected.
    Waits,
    NobodyListens,
}

/// A dial: puts an arrival into the queue once there is room. Dropped before that, it leaves nothing behind.
struct Joining {
    queue: Arc<Mutex<Queue>>,
    /// `None` once it is in the queue, or waits there for its place.
    arrival: Option<MemoryTransport>,
    number: u64,
}

impl Joining {
    fn new(queue: Arc<Mutex<Queue>>, arrival: MemoryTransport) -> Self {
        let number = {
            let mut queue = lock(&queue);
            queue.dials += 1;
            queue.dials
        };
        Self { queue, arrival: Some(arrival), number }
    }
}

impl Future for Joining {
    type Output = Joined;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Joined> {
        let this = &mut *self;
        let mut queue = lock(&this.queue);
        let Some(arrival) = this.arrival.take() else {
            let is_closed = queue.closed;
            let Some(dial) = queue.dialers.get_mut(&this.number) else { return Poll::Ready(Joined::Waits) };
            if is_closed {
                return Poll::Ready(Joined::NobodyListens);
            }
            if !dial.waker.will_wake(cx.waker()) {
                let replaced = std::mem::replace(&mut dial.waker, cx.waker().clone());
                drop(queue);
                drop(replaced);
            }
            return Poll::Pending;
        };
        if queue.closed {
            drop(queue);
            drop(arrival);
            return Poll::Ready(Joined::NobodyListens);
        }
        if queue.arrivals.len() >= queue.backlog {
            let waiting = Waiting { arrival: Some(arrival), waker: cx.waker().clone() };
            queue.dialers.insert(this.number, waiting);
            return Poll::Pending;
        }
        queue.arrivals.push_back(arrival);
        let acceptor = queue.acceptor.take();
        drop(queue);
        wake(acceptor);
        Poll::Ready(Joined::Waits)
    }
}

impl Drop for Joining {
    fn drop(&mut self) {
        let waiting = lock(&self.queue).dialers.remove(&self.number);
        drop(waiting);
    }
}

struct MemoryAcceptor(Arc<Mutex<Queue>>);

impl Acceptor for MemoryAcceptor {
    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Box<dyn Arrival>>> {
        let mut queue = lock(&self.0);
        let Some((arrival, let_in)) = queue.pop() else {
            let replaced = replace_waker(&mut queue.acceptor, cx);
            drop(queue);
            drop(replaced);
            return Poll::Pending;
        };
        drop(queue);
        wake(let_in);
        Poll::Ready(Ok(Box::new(arrival)))
    }
}

impl Drop for MemoryAcceptor {
    /// Perhaps the loops are gone, and the handle is not.
    fn drop(&mut self) {
        close(&self.0, true);
    }
}

impl Arrival for MemoryTransport {
    fn register(self: Box<Self>) -> io::Result<Connection> {
        Ok(Connection::new(*self))
    }
}

/// A name that is listened on. Dropping it frees the name, and nobody more joins the accept queue.
struct Name {
    name: String,
    queue: Arc<Mutex<Queue>>,
}

impl Drop for Name {
    fn drop(&mut self) {
        let mut listening = lock(&LISTENING);
        if listening.get(&self.name).is_some_and(|queue| Arc::ptr_eq(queue, &self.queue)) {
            listening.remove(&self.name);
        }
        drop(listening);
        close(&self.queue, false);
    }
}

/// Remembers whom to wake. Returns the waker that it replaces, which must be dropped without the lock: the last waker of a
/// task may drop the task, and the other end with it.
#[must_use]
fn replace_waker(place: &mut Option<Waker>, cx: &Context<'_>) -> Option<Waker> {
    match place {
        Some(waker) if waker.will_wake(cx.waker()) => None,
        _ => place.replace(cx.waker().clone()),
    }
}

/// Called with no lock held: a waker may run any code, such as dropping another end of the same pipe. If it panics, that is no panic of
/// the task here: the waker is that of the other end.
fn wake(waiting: impl IntoIterator<Item = Waker>) {
    waiting.into_iter().for_each(anywire_loops::wake);
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing that can panic leaves the data half changed.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

type Listening = HashMap<String, Arc<Mutex<Queue>>>;

static LISTENING: LazyLock<Mutex<Listening>> = LazyLock::new(Mutex::default);

/// Bytes in flight in each direction, as a socket buffer would hold.
const PIPE_BYTES: usize = 64 * 1024;
const NAME_MAX_BYTES: usize = 255;

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;
    use std::task::Wake;

    use super::*;

    /// A waker that owns the other end, as the last waker of a task does.
    struct Owns(#[expect(dead_code, reason = "it is there to be dropped")] Mutex<MemoryTransport>);

    impl Wake for Owns {
        fn wake(self: Arc<Self>) {}
    }

    #[test]
    fn a_waker_that_is_replaced_may_own_the_other_end() {
        let (mut here, there) = pair("pair");
        let owner = Arc::new(Owns(Mutex::new(there))).into();
        assert!(here.poll_read(&mut Context::from_waker(&owner), &mut [0]).is_pending());
        drop(owner);
        let end = here.poll_read(&mut Context::from_waker(Waker::noop()), &mut [0]);
        assert!(end.is_pending(), "the end came behind the look");
        assert!(matches!(
            here.poll_read(&mut Context::from_waker(Waker::noop()), &mut [0]),
            Poll::Ready(Ok(0))
        ));
    }

    /// First come, first served, and nobody else is woken. A dial that was given up leaves its turn to the next.
    #[test]
    fn dials_that_wait_are_let_in_in_their_order() {
        let queue = Arc::new(Mutex::new(Queue { backlog: 1, ..Queue::default() }));
        let mut acceptor = MemoryAcceptor(Arc::clone(&queue));
        let mut dials: VecDeque<_> = (0..50)
            .map(|_| {
                let woken = Arc::new(Woken::default());
                (Joining::new(Arc::clone(&queue), pair("pair").1), woken)
            })
            .collect();
        let poll = |(dial, woken): &mut (Joining, Arc<Woken>)| {
            let waker = Arc::clone(woken).into();
            Pin::new(dial).poll(&mut Context::from_waker(&waker))
        };
        assert!(dials.iter_mut().map(poll).skip(1).all(|joined| joined.is_pending()));
        dials.pop_front();
        dials.remove(5);
        while let Some(mut first) = dials.pop_front() {
            assert!(acceptor.poll_accept(&mut Context::from_waker(Waker::noop())).is_ready());
            // One that comes now waits behind the others.
            let newcomer = Pin::new(&mut Joining::new(Arc::clone(&queue), pair("pair").1))
                .poll(&mut Context::from_waker(Waker::noop()));
            assert!(newcomer.is_pending());
            assert!(first.1.0.load(Ordering::Relaxed), "{} are left", dials.len());
            assert!(dials.iter().all(|(_, woken)| !woken.0.load(Ordering::Relaxed)));
            assert!(matches!(poll(&mut first), Poll::Ready(Joined::Waits)));
        }
    }

    #[derive(Default)]
    struct Woken(AtomicBool);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
}
