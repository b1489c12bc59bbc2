//! The limit of this machine: an HTTP server that parses nothing, to compare real ones with.
//!
//! One thread, one listener on the loopback, one level-triggered epoll, written the way one would in C: a `recv`
//! into one large buffer that all connections share, and a `send` from prebuilt responses, as many in one call as
//! requests have arrived. State is an array indexed by descriptor. The cost of a real server beyond this loop is the
//! server's own; the rest is the kernel's.
//!
//! It is no web server. It takes the length of a connection's first request, up to the first empty line, as the
//! length of all later ones, and never looks at a byte again. So a client must send the same request each time,
//! without a body. Requests may arrive split and joined in any way. A peer that does not take its answers is not
//! read from until it has.
//!
//! Limits: a first request of at most 64 KiB (else the connection is closed), responses with a body of at most
//! 16 MiB, and as many connections as there are descriptors: when those run out, accepting pauses until one is free.

mod event_loop;
mod request_counter;

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::SystemTime;

use rustix::event::{EventfdFlags, eventfd};

use self::event_loop::{Command, EventLoop};
use crate::cpu::{self, CpuTime};

/// The raw epoll loop, running on a thread of its own until dropped.
///
/// ```
/// use std::io::{Read, Write};
/// use std::net::TcpStream;
/// use anywire_sys::epoll_limit::{EpollLimit, Options};
///
/// let limit = EpollLimit::start(Options::default())?;
/// let mut connection = TcpStream::connect(limit.address())?;
/// connection.write_all(b"GET / HTTP/1.1\r\nhost: here\r\n\r\n")?;
/// let mut answer = vec![0; limit.response().len()];
/// connection.read_exact(&mut answer)?;
/// assert_eq!(answer, limit.response());
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct EpollLimit {
    address: SocketAddr,
    thread_id: i32,
    response: Vec<u8>,
    commands: mpsc::Sender<Command>,
    /// Tells the loop that a command waits; shared with it.
    bell: Arc<OwnedFd>,
    /// `None` once joined.
    thread: Option<JoinHandle<()>>,
}

impl EpollLimit {
    /// Starts the loop on a free port of 127.0.0.1 and returns when it accepts connections.
    ///
    /// # Errors
    ///
    /// `InvalidInput` if the body is larger than [`Options::BODY_BYTES_MAX`] or the core is not ours to use; else
    /// what the system said to the socket, the epoll or the thread.
    pub fn start(options: Options) -> io::Result<Self> {
        if options.body_bytes > Options::BODY_BYTES_MAX {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!(
                    "cannot start the epoll limit: a body of {} bytes was asked for; at most {} are possible",
                    options.body_bytes,
                    Options::BODY_BYTES_MAX
                ),
            ));
        }
        let response = response(options.body_bytes, SystemTime::now());
        let listener = listen()?;
        let address = listener.local_addr()?;
        let bell = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let (commands, receiver) = mpsc::channel();
        let event_loop = EventLoop::new(listener.into(), Arc::clone(&bell), receiver, &response)?;

        let (started, start) = mpsc::sync_channel(1);
        let thread = thread::Builder::new().name("epoll-limit".into()).spawn(move || {
            let pinned = options.core.map_or(Ok(()), cpu::pin_current_thread);
            let go_on = pinned.is_ok();
            let told = started.send(pinned.map(|()| cpu::thread_id()));
            if go_on && told.is_ok() {
                event_loop.run();
            }
        })?;
        let thread_id = start.recv().map_err(|_| ended())??;
        Ok(Self { address, thread_id, response, commands, bell, thread: Some(thread) })
    }

    /// Where it listens: 127.0.0.1 and the port that the system chose.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The kernel's number of its thread, for [`cpu::thread_run_time`] and
    /// [`SyscallCounter`](crate::syscalls::SyscallCounter).
    pub fn thread_id(&self) -> i32 {
        self.thread_id
    }

    /// The bytes of one response; each request is answered by exactly these.
    pub fn response(&self) -> &[u8] {
        &self.response
    }

    /// CPU time of its thread so far. The thread itself is asked, which costs it one wake-up.
    ///
    /// # Errors
    ///
    /// `BrokenPipe` if the loop has ended, which only a failure of epoll itself can cause.
    pub fn sample(&self) -> io::Result<CpuTime> {
        let (answer, sample) = mpsc::sync_channel(1);
        self.command(Command::Sample(answer))?;
        sample.recv().map_err(|_| ended())?
    }

    fn command(&self, command: Command) -> io::Result<()> {
        self.commands.send(command).map_err(|_| ended())?;
        rustix::io::write(&*self.bell, &1u64.to_ne_bytes())?;
        Ok(())
    }
}

impl Drop for EpollLimit {
    /// Stops the loop, closes its connections and waits for its thread.
    fn drop(&mut self) {
        // If it cannot be told, it has ended already; then joining returns at once.
        let _ = self.command(Command::Stop);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// What the epoll limit answers, and where it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// The core its thread is pinned to; `None` (the default) leaves it to the scheduler.
    pub core: Option<usize>,
    /// Length of the body in bytes: at most [`Options::BODY_BYTES_MAX`]. Default: 13, `Hello, world!`.
    pub body_bytes: usize,
}

impl Options {
    /// The largest body: 16 MiB. Responses are built in advance, so they must fit in memory.
    pub const BODY_BYTES_MAX: usize = 16 << 20;
}

impl Default for Options {
    fn default() -> Self {
        Self { core: None, body_bytes: GREETING.len() }
    }
}

/// A listener whose accept queue holds the burst of connects at the start of a load run. The 128 places of the standard
/// library are too few, and each dropped connect costs its client a second.
fn listen() -> io::Result<TcpListener> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, listen, socket_with};

    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::INET, SocketType::STREAM, flags, None)?;
    bind(&socket, &SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
    listen(&socket, BACKLOG)?;
    Ok(socket.into())
}

/// One response, with the header fields that a real server would send.
fn response(body_bytes: usize, now: SystemTime) -> Vec<u8> {
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-length: {body_bytes}\r\ncontent-type: text/plain; charset=utf-8\r\ndate: {}\r\n\r\n",
        httpdate::fmt_http_date(now)
    );
    let mut response = head.into_bytes();
    response.extend(GREETING.iter().cycle().take(body_bytes));
    response
}

fn ended() -> io::Error {
    io::Error::new(
        io::ErrorKind::BrokenPipe,
        "cannot ask the epoll limit: its loop has ended; start another one",
    )
}

const GREETING: &[u8] = b"Hello, world!";
const BACKLOG: i32 = 4096;

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;

    #[test]
    fn a_response_has_head_and_body() {
        let at = UNIX_EPOCH + Duration::from_secs(784_111_777);
        let text = String::from_utf8(response(15, at)).expect("all ASCII");
        assert_eq!(
            text,
            "HTTP/1.1 200 OK\r\ncontent-length: 15\r\ncontent-type: text/plain; charset=utf-8\r\n\
             date: Sun, 06 Nov 1994 08:49:37 GMT\r\n\r\nHello, world!He"
        );
    }

    #[test]
    fn a_body_beyond_the_limit_is_refused() {
        let options = Options { body_bytes: Options::BODY_BYTES_MAX + 1, ..Options::default() };
        assert_eq!(EpollLimit::start(options).expect_err("too large").kind(), io::ErrorKind::InvalidInput);
    }

    #[test]
    fn an_impossible_core_is_refused() {
        let options = Options { core: Some(usize::MAX), ..Options::default() };
        assert_eq!(EpollLimit::start(options).expect_err("no such core").kind(), io::ErrorKind::InvalidInput);
    }
}
