//! The calls of packetdrill's table and their answers, as plain values.

use std::net::SocketAddr;
use std::sync::mpsc::{Sender, SyncSender, sync_channel};
use std::thread::{self, ThreadId};

/// A number of the system's for an error, as in `errno`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Errno(pub(crate) i32);

/// The answer to a call.
pub(crate) type Answer = Result<Reply, Errno>;

/// A call by its meaning: `read`, `readv`, `recv` and similar ones are all a [`Call::Receive`].
#[derive(Debug, Clone)]
pub(crate) enum Call {
    /// A new socket.
    Socket,
    /// An address for it.
    Bind { fd: i32, address: SocketAddr },
    /// From now on it takes connections.
    Listen { fd: i32 },
    /// The next of them.
    Accept { fd: i32 },
    /// Opens a connection.
    Connect { fd: i32, address: SocketAddr },
    /// Reads up to so many bytes.
    Receive { fd: i32, length: usize, flags: i32 },
    /// Writes bytes; the first `taken` are in the send queue already.
    Send { fd: i32, bytes: Vec<u8>, taken: usize, flags: i32 },
    /// Lets go of a descriptor.
    Close { fd: i32 },
    /// Ends a direction or both.
    Shutdown { fd: i32, how: i32 },
    /// Sets an option.
    SetOption { fd: i32, level: i32, name: i32, value: i32 },
    /// Reads an option.
    Option { fd: i32, level: i32, name: i32 },
    /// `fcntl`.
    Control { fd: i32, command: i32, argument: i32 },
    /// An `ioctl` that returns a number.
    Inquire { fd: i32, request: u64 },
    /// Waits for one of these.
    Poll { wishes: Vec<Wish>, timeout_millis: i32 },
    /// A new descriptor for waiting.
    EpollCreate,
    /// Adds, changes or removes a descriptor that it waits for.
    EpollControl { epoll: i32, operation: i32, wish: Wish },
    /// Waits for some of it.
    EpollWait { epoll: i32, count_max: usize, timeout_millis: i32 },
    /// An IP packet for the stack.
    Inject { packet: Vec<u8> },
    /// The next IP packet of the stack.
    NextPacket,
    /// Lets time pass.
    Sleep { micros: u64 },
    /// What time it is.
    Now,
}

/// The events that a caller waits for on a descriptor, or those that have happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Wish {
    pub(crate) fd: i32,
    /// In the numbers of `poll`, which `epoll` shares.
    pub(crate) events: u32,
    /// What the caller wants back with it.
    pub(crate) data: u64,
}

/// What a call gives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Reply {
    /// A number: of bytes, a descriptor, an option's value, or zero for "done".
    Number(i64),
    /// Bytes that were read.
    Bytes(Vec<u8>),
    /// A connection and the address of its peer.
    Accepted { fd: i32, peer: SocketAddr },
    /// A packet, and when it left.
    Packet { bytes: Vec<u8>, micros: u64 },
    /// The events that have happened.
    Events(Vec<Wish>),
}

/// Nothing to tell but that it is done.
pub(crate) const DONE: Answer = Ok(Reply::Number(0));

/// A call on its way: by whom, and where its answer goes.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) from: ThreadId,
    pub(crate) call: Call,
    pub(crate) answer: SyncSender<Answer>,
}

/// Calls the [`Server`](crate::server::Server) from any thread.
#[derive(Debug)]
pub(crate) struct Client {
    server: Sender<Request>,
}

impl Client {
    pub(crate) const fn new(server: Sender<Request>) -> Self {
        Self { server }
    }

    /// Calls and waits for the answer, however long in the time of this world that takes.
    pub(crate) fn call(&self, call: Call) -> Answer {
        let (answer, waiting) = sync_channel(1);
        let request = Request { from: thread::current().id(), call, answer };
        match self.server.send(request).ok().and_then(|()| waiting.recv().ok()) {
            Some(answer) => answer,
            None => give_up("the thread of the stack has ended: its panic is above"),
        }
    }
}

/// Ends the process: packetdrill would wait for ever, since its loop for packets knows no timeout here.
pub(crate) fn give_up(why: &str) -> ! {
    eprintln!("anywire-packetdrill: {why}");
    std::process::exit(1)
}
