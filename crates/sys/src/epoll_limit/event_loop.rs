//! The loop itself: accept, receive, send, and nothing else.
//!
//! Each request costs one `recv` and one `send`, and its share of an `epoll_wait` (less, the more connections are
//! ready at once). The output is the same response over and over, so the bytes still to send to a peer are one
//! number, and nothing is copied or queued.

// The one place of the project where system calls are made by hand: it is the yardstick.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::{Arc, mpsc};

use super::request_counter::RequestCounter;
use crate::cpu::{self, CpuTime};

/// One listener, its connections, and all the memory they need.
pub(super) struct EventLoop {
    epoll: OwnedFd,
    listener: OwnedFd,
    /// False while the process is out of descriptors: the listener is then not watched, since it would be ready
    /// for ever.
    accepting: bool,
    bell: Arc<OwnedFd>,
    commands: mpsc::Receiver<Command>,
    /// Indexed by descriptor, so that an event finds its connection without a search.
    connections: Vec<Connection>,
    /// The buffer of `recv`. All connections share it, since nothing in it is kept.
    input: Box<[u8]>,
    /// Whole responses, one after another.
    output: Box<[u8]>,
    response_bytes: usize,
}

impl EventLoop {
    /// Registers the listener and the bell. Each request is answered with `response`.
    pub(super) fn new(
        listener: OwnedFd,
        bell: Arc<OwnedFd>,
        commands: mpsc::Receiver<Command>,
        response: &[u8],
    ) -> io::Result<Self> {
        let epoll = rustix::event::epoll::create(rustix::event::epoll::CreateFlags::CLOEXEC)?;
        let event_loop = Self {
            epoll,
            listener,
            accepting: true,
            bell,
            commands,
            connections: Vec::new(),
            input: vec![0; READ_BYTES].into(),
            output: response.repeat((OUTPUT_BYTES / response.len()).max(1)).into(),
            response_bytes: response.len(),
        };
        event_loop.watch(libc::EPOLL_CTL_ADD, event_loop.listener.as_raw_fd(), libc::EPOLLIN)?;
        event_loop.watch(libc::EPOLL_CTL_ADD, event_loop.bell.as_raw_fd(), libc::EPOLLIN)?;
        Ok(event_loop)
    }

    /// Serves until told to stop. Returns early only if epoll itself fails.
    pub(super) fn run(mut self) {
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; EVENTS_MAX];
        let (listener, bell) = (self.listener.as_raw_fd(), self.bell.as_raw_fd());
        loop {
            let timeout_ms = if self.accepting { -1 } else { ACCEPT_PAUSE_MS };
            // SAFETY: the epoll is open, and the kernel writes at most `EVENTS_MAX` events to an array of as many.
            let count = unsafe {
                libc::epoll_wait(self.epoll.as_raw_fd(), events.as_mut_ptr(), EVENTS_MAX as i32, timeout_ms)
            };
            if count < 0 {
                if interrupted() {
                    continue;
                }
                return;
            }
            if count == 0 {
                self.resume_accepting();
            }
            // A batch holds at most one event for each descriptor, and a connection is closed only by its own event.
            // So no later event can belong to an earlier connection with the same number.
            for event in &events[..count as usize] {
                let descriptor = event.u64 as RawFd;
                if descriptor == listener {
                    self.accept();
                } else if descriptor == bell {
                    if !self.obey() {
                        return;
                    }
                } else if self.serve(descriptor).is_none() {
                    self.close(descriptor);
                }
            }
        }
    }

    /// One read, one write. `None` if the connection is over.
    #[inline]
    fn serve(&mut self, descriptor: RawFd) -> Option<()> {
        let connection = &mut self.connections[descriptor as usize];
        if connection.owed == 0 {
            // SAFETY: `input` is valid for writes of its own length. The number is that of a connection we hold
            // open; even a wrong one would only give an error.
            let count =
                unsafe { libc::recv(descriptor, self.input.as_mut_ptr().cast(), self.input.len(), 0) };
            if count <= 0 {
                return (count < 0 && not_now()).then_some(());
            }
            let requests = connection.requests.count(&self.input[..count as usize])?;
            connection.owed = requests * self.response_bytes;
        }
        // Whole responses are owed at first, so the output starts at its beginning unless a write was cut short.
        while connection.owed > 0 {
            let into = connection.owed % self.response_bytes;
            let start = if into == 0 { 0 } else { self.response_bytes - into };
            let part = &self.output[start..];
            let part = &part[..part.len().min(connection.owed)];
            // SAFETY: `part` is valid for reads of its own length.
            let count =
                unsafe { libc::send(descriptor, part.as_ptr().cast(), part.len(), libc::MSG_NOSIGNAL) };
            if count < 0 {
                if interrupted() {
                    continue;
                }
                return if not_now() { self.await_room(descriptor) } else { None };
            }
            connection.owed -= count as usize;
        }
        if connection.awaits_room { self.await_requests(descriptor) } else { Some(()) }
    }

    /// The peer does not take its answers: watch for room, and read no more of its requests until it does.
    #[cold]
    fn await_room(&mut self, descriptor: RawFd) -> Option<()> {
        let connection = &mut self.connections[descriptor as usize];
        if connection.awaits_room {
            return Some(());
        }
        connection.awaits_room = true;
        self.watch(libc::EPOLL_CTL_MOD, descriptor, libc::EPOLLOUT).ok()
    }

    #[cold]
    fn await_requests(&mut self, descriptor: RawFd) -> Option<()> {
        self.connections[descriptor as usize].awaits_room = false;
        self.watch(libc::EPOLL_CTL_MOD, descriptor, libc::EPOLLIN).ok()
    }

    /// Takes every connection that waits.
    fn accept(&mut self) {
        loop {
            let flags = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
            let nowhere = std::ptr::null_mut();
            // SAFETY: the listener is open; null says that the peer's address is not wanted.
            let result =
                unsafe { libc::accept4(self.listener.as_raw_fd(), nowhere, std::ptr::null_mut(), flags) };
            if result >= 0 {
                // SAFETY: the kernel has just given us this descriptor, and nobody else knows it.
                self.open(unsafe { OwnedFd::from_raw_fd(result) });
                continue;
            }
            match io::Error::last_os_error().raw_os_error() {
                Some(libc::EAGAIN) => return,
                Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM) => {
                    return self.pause_accepting();
                }
                // The connection died before it was taken, or a signal came: the next one may be well.
                _ => {}
            }
        }
    }

    /// A connection that cannot be set up is dropped, which tells its peer.
    fn open(&mut self, socket: OwnedFd) {
        let descriptor = socket.as_raw_fd();
        let slot = descriptor as usize;
        if rustix::net::sockopt::set_tcp_nodelay(&socket, true).is_err()
            || self.watch(libc::EPOLL_CTL_ADD, descriptor, libc::EPOLLIN).is_err()
        {
            return;
        }
        if slot >= self.connections.len() {
            self.connections.resize_with(slot + 1, Connection::default);
        }
        self.connections[slot] = Connection { socket: Some(socket), ..Connection::default() };
    }

    #[cold]
    fn close(&mut self, descriptor: RawFd) {
        // Closing takes it out of the epoll too, since no copy of the descriptor exists.
        self.connections[descriptor as usize].socket = None;
        self.resume_accepting();
    }

    #[cold]
    fn pause_accepting(&mut self) {
        self.accepting = self.watch(libc::EPOLL_CTL_DEL, self.listener.as_raw_fd(), 0).is_err();
    }

    fn resume_accepting(&mut self) {
        if !self.accepting {
            self.accepting =
                self.watch(libc::EPOLL_CTL_ADD, self.listener.as_raw_fd(), libc::EPOLLIN).is_ok();
        }
    }

    /// Carries out all waiting commands. False after a stop, or if the handle was dropped.
    fn obey(&self) -> bool {
        let mut rings = [0; 8];
        // Non-blocking: if another wake-up has taken the rings already, its round sees the commands too.
        let _ = rustix::io::read(&*self.bell, &mut rings);
        loop {
            match self.commands.try_recv() {
                // Fails if the receiver of the answer was dropped.
                Ok(Command::Sample(answer)) => drop(answer.try_send(cpu::current_thread_cpu())),
                Ok(Command::Stop) | Err(mpsc::TryRecvError::Disconnected) => return false,
                Err(mpsc::TryRecvError::Empty) => return true,
            }
        }
    }

    fn watch(&self, operation: libc::c_int, descriptor: RawFd, interest: libc::c_int) -> io::Result<()> {
        let mut event = libc::epoll_event { events: interest as u32, u64: descriptor as u64 };
        // SAFETY: `event` lives through the call, and the kernel keeps a copy, not the pointer.
        let result =
            unsafe { libc::epoll_ctl(self.epoll.as_raw_fd(), operation, descriptor, &raw mut event) };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

/// What the owner of the loop wants from it.
#[derive(Debug)]
pub(super) enum Command {
    /// Say how much CPU time the thread has used.
    Sample(mpsc::SyncSender<io::Result<CpuTime>>),
    /// Close everything and return.
    Stop,
}

/// One connection; a slot without a socket is free.
#[derive(Default)]
struct Connection {
    /// Held so that dropping closes it.
    socket: Option<OwnedFd>,
    requests: RequestCounter,
    /// Bytes of output that the peer has asked for and not been sent. Ends at the end of a response, always.
    owed: usize,
    /// True while the epoll watches for room to write in place of requests.
    awaits_room: bool,
}

fn interrupted() -> bool {
    io::Error::last_os_error().kind() == io::ErrorKind::Interrupted
}

/// Whether the last call failed only for now: it is to be made again when epoll says so.
fn not_now() -> bool {
    matches!(io::Error::last_os_error().kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

/// Large enough that a deep pipeline arrives in one read, small enough to stay in the core's second cache.
const READ_BYTES: usize = 64 << 10;
/// The responses that one `send` may carry: what the kernel's send buffer takes at once, at the very most.
const OUTPUT_BYTES: usize = 256 << 10;
const EVENTS_MAX: usize = 512;
/// How long accepting rests when descriptors have run out and none of ours is closed meanwhile.
const ACCEPT_PAUSE_MS: libc::c_int = 10;
