//! A connection over two rings and a socket.

use std::future::Future;
use std::io::{self, IoSlice};
use std::os::fd::AsFd;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker, ready};
use std::time::Duration;

use anywire_sys::shm::{Broken, Ends, Found, Watch};
use rustix::net::{RecvFlags, SendFlags, recv, send};
use socket2::SockRef;
use tokio::io::Interest;
use tokio::net::UnixStream;

use super::counters::Counts;
use super::error::ShmError;
use super::setup;
use super::waiting::{Spinning, Waiter, Waiting};
use super::wire::Shm;
use crate::address::Address;
use crate::connection::{Credentials, Transport};
use crate::unix::{credentials, named};

/// One end of a connection.
pub(super) struct ShmTransport {
    // Dropped first: the rings have to say how they end before the socket does.
    stage: Stage,
    socket: Socket,
    /// How long its loop looks at the rings before it sleeps.
    spin: Duration,
}

enum Stage {
    /// Accepted, and waits for the peer's wish.
    Hello {
        ring_max_bytes: usize,
    },
    /// Dialled, and waits for memory with rings of this size.
    Answer {
        ring_bytes: usize,
    },
    Open(Open),
}

impl ShmTransport {
    /// The end that dialled. It has asked for memory when this returns.
    pub(super) fn dial(stream: UnixStream, ring_bytes: usize, spin: Duration) -> io::Result<Self> {
        setup::send_hello(&stream, ring_bytes)?;
        Ok(Self { socket: Socket::new(stream), stage: Stage::Answer { ring_bytes }, spin })
    }

    /// The end that accepted.
    pub(super) fn accept(stream: UnixStream, ring_max_bytes: usize, spin: Duration) -> Self {
        Self { socket: Socket::new(stream), stage: Stage::Hello { ring_max_bytes }, spin }
    }

    #[inline]
    fn open(&mut self) -> io::Result<(&mut Socket, &mut Open)> {
        match &mut self.stage {
            Stage::Open(open) => Ok((&mut self.socket, open)),
            _ => Err(io::ErrorKind::NotConnected.into()),
        }
    }
}

impl Transport for ShmTransport {
    fn poll_handshake(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let ends = match &mut self.stage {
            Stage::Open(_) => return Poll::Ready(Ok(())),
            Stage::Hello { ring_max_bytes } => {
                let ring_max_bytes = *ring_max_bytes;
                ready!(self.socket.poll_receive(cx, |socket| setup::receive_hello(socket, ring_max_bytes)))?
            }
            Stage::Answer { ring_bytes } => {
                let ring_bytes = *ring_bytes;
                ready!(self.socket.poll_receive(cx, |socket| setup::receive_answer(socket, ring_bytes)))?
            }
        };
        make_room_for_wakes(&self.socket.stream)?;
        self.stage = Stage::Open(Open::new(ends, self.spin, self.credentials()));
        Poll::Ready(Ok(()))
    }

    #[inline]
    fn poll_readable(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let (socket, open) = self.open()?;
        socket.has_written = false;
        open.waiters.for_bytes.stay_awake(open.waiting.is_some());
        loop {
            match open.ends.reader.look() {
                Ok(Found::Bytes(_) | Found::End) => return Poll::Ready(Ok(())),
                Ok(Found::Nothing) if !socket.is_peer_gone => ready!(open.poll_sleep_for_bytes(socket, cx))?,
                Ok(Found::Nothing | Found::Reset) => return Poll::Ready(Err(reset())),
                Err(broken) => return Poll::Ready(Err(open.give_up(socket, broken))),
            }
        }
    }

    #[inline]
    fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        let (socket, open) = self.open()?;
        socket.has_written = false;
        open.waiters.for_bytes.stay_awake(open.waiting.is_some());
        loop {
            match open.ends.reader.read(buffer) {
                Ok(Found::Bytes(read)) => {
                    open.counts.bytes_read.add(read as u64);
                    if open.ends.reader.must_wake() {
                        open.wake(socket);
                    }
                    return Poll::Ready(Ok(read));
                }
                Ok(Found::End) => return Poll::Ready(Ok(0)),
                Ok(Found::Nothing) if !socket.is_peer_gone => ready!(open.poll_sleep_for_bytes(socket, cx))?,
                Ok(Found::Nothing | Found::Reset) => return Poll::Ready(Err(reset())),
                Err(broken) => return Poll::Ready(Err(open.give_up(socket, broken))),
            }
        }
    }

    #[inline]
    fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(bytes)])
    }

    #[inline]
    fn poll_write_vectored(
        &mut self,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let (socket, open) = self.open()?;
        open.waiters.for_room.stay_awake(open.waiting.is_some());
        // A task that also reads hears of the end there, so the first write behind a read need not look.
        if std::mem::replace(&mut socket.has_written, true) && socket.news.has_come() {
            socket.hear_news(&open.waiters)?;
        }
        loop {
            if open.has_ended || socket.is_peer_gone || open.ends.writer.is_reader_gone() {
                return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
            }
            match open.ends.writer.write(slices) {
                Ok(0) if slices.iter().any(|slice| !slice.is_empty()) => {
                    open.counts.full.increment();
                    ready!(open.poll_sleep_for_room(socket, cx))?;
                }
                Ok(written) => {
                    open.counts.bytes_written.add(written as u64);
                    if written > 0 && open.ends.writer.must_wake() {
                        open.wake(socket);
                    }
                    return Poll::Ready(Ok(written));
                }
                Err(broken) => return Poll::Ready(Err(open.give_up(socket, broken))),
            }
        }
    }

    fn poll_half_close(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        let (socket, open) = self.open()?;
        open.has_ended = true;
        open.ends.writer.end();
        if open.ends.writer.must_wake() {
            open.wake(socket);
        }
        Poll::Ready(Ok(()))
    }

    fn abort(&mut self) {
        if let Ok((socket, open)) = self.open() {
            open.abort(socket);
        }
    }

    fn local(&self) -> Address {
        named(&Shm, SockRef::from(&self.socket.stream).local_addr())
    }

    fn peer(&self) -> Address {
        named(&Shm, SockRef::from(&self.socket.stream).peer_addr())
    }

    fn credentials(&self) -> Option<Credentials> {
        credentials(&self.socket.stream)
    }
}

/// The socket that the set-up went over. Later it wakes this end, and tells that the peer has gone.
struct Socket {
    stream: UnixStream,
    /// The socket has ended, so nothing more comes into the rings.
    is_peer_gone: bool,
    /// A peer that dies says nothing in the rings. A writer that never waits would not look at the socket, so this hears in its place.
    news: Arc<News>,
    /// Whether the last that the task has done is a write.
    has_written: bool,
}

/// Whether the socket may have reported something since it was last asked in the place of a writer.
struct News(AtomicBool);

impl News {
    #[inline]
    fn has_come(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl Wake for News {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Socket {
    fn new(stream: UnixStream) -> Self {
        // Nothing is registered yet.
        let news = Arc::new(News(AtomicBool::new(true)));
        Self { stream, is_peer_gone: false, news, has_written: false }
    }

    /// Takes note of all reports so far, and has the next one heard.
    fn hear_news(&mut self, waiters: &Waiters) -> io::Result<()> {
        // Before it is registered: a task that has used up its turn is told so at once, and asks again with the next write.
        self.news.0.store(false, Ordering::Relaxed);
        let waker = Waker::from(Arc::clone(&self.news));
        let mut cx = Context::from_waker(&waker);
        while !self.is_peer_gone && self.stream.poll_write_ready(&mut cx)?.is_ready() {
            self.hear(Interest::WRITABLE, waiters)?;
        }
        Ok(())
    }

    /// A message of the set-up.
    fn poll_receive<T>(
        &self,
        cx: &mut Context<'_>,
        receive: impl Fn(&UnixStream) -> io::Result<T>,
    ) -> Poll<io::Result<T>> {
        loop {
            ready!(self.stream.poll_read_ready(cx))?;
            match self.stream.try_io(Interest::READABLE, || receive(&self.stream)) {
                Err(empty) if empty.kind() == io::ErrorKind::WouldBlock => {}
                received => return Poll::Ready(received),
            }
        }
    }

    /// Registers a reader to be woken. False if something has come meanwhile. Makes no system call.
    fn is_quiet_for_reader(&mut self, waiters: &Waiters, cx: &mut Context<'_>) -> io::Result<bool> {
        match self.stream.poll_read_ready(cx) {
            Poll::Pending => Ok(true),
            Poll::Ready(heard) => heard.and_then(|()| self.hear(Interest::READABLE, waiters)).map(|()| false),
        }
    }

    /// The same for a writer. A wake-up is reported to both, because the socket has [always room](make_room_for_wakes).
    fn is_quiet_for_writer(&mut self, waiters: &Waiters, cx: &mut Context<'_>) -> io::Result<bool> {
        // The writer takes the place of this one.
        self.news.0.store(true, Ordering::Relaxed);
        match self.stream.poll_write_ready(cx) {
            Poll::Pending => Ok(true),
            Poll::Ready(heard) => heard.and_then(|()| self.hear(Interest::WRITABLE, waiters)).map(|()| false),
        }
    }

    /// Takes note of what the socket has reported.
    ///
    /// A wake-up is left in the socket, because each new one is reported all the same (by edge), so that reading it would be
    /// a system call for nothing. Now and then they are taken out, long before the socket is full.
    fn hear(&mut self, interest: Interest, waiters: &Waiters) -> io::Result<()> {
        // Ready already, so that the waker is not used.
        let ready = pin!(self.stream.ready(interest)).poll(&mut Context::from_waker(Waker::noop()));
        let Poll::Ready(ready) = ready else { return Ok(()) };
        let ready = ready?;
        if ready.is_read_closed() || ready.is_write_closed() {
            self.is_peer_gone = true;
            return Ok(());
        }
        // Forgets the report, so that the next poll waits for another one.
        let _ = self.stream.try_io(interest, || Err::<(), _>(io::ErrorKind::WouldBlock.into()));
        // The peer sends one for each announcement at most.
        let announced = [waiters.for_bytes.announced(), waiters.for_room.announced()];
        if announced.iter().map(|count| count.get()).sum::<u32>() >= WAKES_WAITING_MAX {
            announced.iter().for_each(|count| count.set(0));
            // A peer that keeps to the protocol has sent no more than this.
            let mut wakes = [0; 4 * WAKES_WAITING_MAX as usize];
            self.is_peer_gone = matches!(recv(&self.stream, &mut wakes, RecvFlags::DONTWAIT), Ok((0, _)));
            // One of them may have been for the other direction, and not reported yet: then nothing is left to report.
            waiters.for_bytes.rouse();
            waiters.for_room.rouse();
        }
        Ok(())
    }
}

/// What there is once the set-up is done.
struct Open {
    ends: Ends,
    /// The own direction has ended.
    has_ended: bool,
    waiters: Waiters,
    /// The list of ends that wait on this loop; `None` if the connection lives on no loop of ours.
    waiting: Option<Rc<Waiting>>,
    spin: Duration,
    _spinning: Option<Spinning>,
    counts: Arc<Counts>,
}

/// A waiter for each direction.
#[derive(Default)]
struct Waiters {
    for_bytes: Rc<Waiter>,
    for_room: Rc<Waiter>,
}

impl Open {
    fn new(ends: Ends, spin: Duration, peer: Option<Credentials>) -> Self {
        let waiting = Waiting::here();
        let spinning = waiting.as_ref().filter(|_| !spin.is_zero()).map(|waiting| {
            let own = rustix::process::getpid().as_raw_pid();
            Spinning::new(Rc::clone(waiting), peer.and_then(|peer| peer.pid) != Some(own))
        });
        let (waiters, counts) = (Waiters::default(), Counts::here());
        Self { ends, has_ended: false, waiters, waiting, spin, _spinning: spinning, counts }
    }

    /// Pending once the task will be woken. Ready if there may be something to read.
    fn poll_sleep_for_bytes(&self, socket: &mut Socket, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // Registered before the peer can be told, so that no wake-up comes too early.
        while !socket.is_quiet_for_reader(&self.waiters, cx)? {
            if socket.is_peer_gone {
                return Poll::Ready(Ok(()));
            }
        }
        self.wait(&self.waiters.for_bytes, self.ends.reader.watch(), cx)
    }

    /// The same for room.
    fn poll_sleep_for_room(&self, socket: &mut Socket, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !socket.is_quiet_for_writer(&self.waiters, cx)? {
            if socket.is_peer_gone {
                return Poll::Ready(Ok(()));
            }
        }
        self.wait(&self.waiters.for_room, self.ends.writer.watch(), cx)
    }

    fn wait(&self, waiter: &Rc<Waiter>, watch: Watch, cx: &Context<'_>) -> Poll<io::Result<()>> {
        if !waiter.wait(watch, self.waiting.as_deref(), cx) {
            return Poll::Ready(Ok(()));
        }
        if let Some(waiting) = self.waiting.as_deref() {
            waiting.spin(self.spin);
        }
        Poll::Pending
    }

    /// Wakes the peer. `DONTWAIT` holds for this call alone, so that the peer cannot make it block.
    fn wake(&self, socket: &Socket) {
        self.counts.wakes.increment();
        // If the socket is full, the peer has more wake-ups than it can have asked for. If it is closed, the peer has gone.
        let _ = send(&socket.stream, b"!", SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
    }

    fn abort(&mut self, socket: &Socket) {
        self.has_ended = true;
        self.ends.writer.reset();
        self.ends.reader.leave();
        if self.ends.writer.must_wake() | self.ends.reader.must_wake() {
            self.wake(socket);
        }
    }

    /// Ends a connection whose peer has broken the protocol.
    #[cold]
    fn give_up(&mut self, socket: &Socket, broken: Broken) -> io::Error {
        self.abort(socket);
        ShmError::from(broken).into()
    }
}

impl Drop for Open {
    /// The socket is closed behind this, which wakes the peer.
    fn drop(&mut self) {
        self.waiters.for_bytes.forget();
        self.waiters.for_room.forget();
        self.ends.reader.leave();
        // As on the other wires, unread bytes make the close a reset.
        if matches!(self.ends.reader.look(), Ok(Found::Nothing | Found::End | Found::Reset)) {
            self.ends.writer.end();
        } else {
            self.ends.writer.reset();
        }
    }
}

fn reset() -> io::Error {
    io::ErrorKind::ConnectionReset.into()
}

/// Gives the socket room for all wake-ups that the peer may leave in it, whatever the system's default
/// (`net.core.wmem_default`) is.
///
/// Without it an end could sleep for ever: the kernel reports a wake-up to a writer only while the socket has room.
fn make_room_for_wakes(socket: &impl AsFd) -> io::Result<()> {
    SockRef::from(socket).set_send_buffer_size(SEND_BUFFER_BYTES)
}

/// Each end takes the wake-ups out of its socket when there may be so many.
const WAKES_WAITING_MAX: u32 = 32;
/// The kernel takes about 1 KiB for a wake-up, and calls a socket full from a quarter of its buffer on. It doubles this number.
const SEND_BUFFER_BYTES: usize = 128 * 1024;
/// With room for as many again: a wake-up may be under way while its announcement is no longer counted.
const _: () = assert!(2 * WAKES_WAITING_MAX as usize * 1024 * 4 <= 2 * SEND_BUFFER_BYTES);

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::os::unix::net::UnixStream;
    use std::time::Instant;

    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    use super::*;

    /// Whether the kernel calls the socket writable.
    fn has_room(socket: &UnixStream) -> bool {
        let mut fds = [PollFd::new(socket, PollFlags::OUT)];
        poll(&mut fds, Some(&Timespec::default())).expect("one descriptor");
        fds[0].revents().contains(PollFlags::OUT)
    }

    #[derive(Default)]
    struct Woken(AtomicBool);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.store(true, Ordering::Relaxed);
        }
    }

    /// Two ends on no loop of ours, where an end announces its sleep at once.
    fn play<T>(scene: impl AsyncFnOnce(ShmTransport, ShmTransport) -> T) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("the system has descriptors").block_on(async {
            let (here, there) = tokio::net::UnixStream::pair().expect("two sockets");
            for socket in [&here, &there] {
                // As on a system with small buffers.
                SockRef::from(socket).set_send_buffer_size(8192).expect("it is open");
            }
            let mut dialled = ShmTransport::dial(here, 4096, Duration::ZERO).expect("there is room");
            let mut accepted = ShmTransport::accept(there, 4096, Duration::ZERO);
            poll_fn(|cx| accepted.poll_handshake(cx)).await.expect("a hello");
            poll_fn(|cx| dialled.poll_handshake(cx)).await.expect("an answer");
            scene(dialled, accepted).await
        })
    }

    #[test]
    fn each_end_that_is_set_up_has_room_for_wakes() {
        let room =
            |end: &ShmTransport| SockRef::from(&end.socket.stream).send_buffer_size().expect("a socket");
        play(async |dialled, accepted| {
            assert_eq!([&dialled, &accepted].map(room), [2 * SEND_BUFFER_BYTES; 2]);
        });
    }

    #[test]
    fn a_reader_that_sleeps_is_woken_by_the_end() {
        play(async |mut dialled, mut accepted| {
            let (woken, mut buffer) = (Arc::new(Woken::default()), [0]);
            let waker = Waker::from(Arc::clone(&woken));
            let mut read = || accepted.poll_read(&mut Context::from_waker(&waker), &mut buffer);
            assert!(read().is_pending());
            poll_fn(|cx| dialled.poll_half_close(cx)).await.expect("it is open");
            let hang = Instant::now() + Duration::from_secs(60);
            while !woken.0.load(Ordering::Relaxed) {
                assert!(Instant::now() < hang, "it sleeps on");
                tokio::task::yield_now().await;
            }
            assert!(matches!(read(), Poll::Ready(Ok(0))));
        });
    }

    #[test]
    fn wake_ups_that_nobody_has_taken_out_yet_fill_no_socket() {
        let (socket, _peer) = UnixStream::pair().expect("two sockets");
        // As on a system with small buffers.
        SockRef::from(&socket).set_send_buffer_size(8192).expect("it is open");
        let wake = || send(&socket, b"!", SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
        while has_room(&socket) {
            wake().expect("it has room");
        }
        make_room_for_wakes(&socket).expect("it is open");
        for _ in 0..2 * WAKES_WAITING_MAX - 8 {
            wake().expect("it has room");
        }
        assert!(has_room(&socket), "a writer would not be told of a wake-up");
    }
}
