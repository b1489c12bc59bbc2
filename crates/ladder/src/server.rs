//! A rung under way: started, asked, stopped.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::SystemTime;

use anywire_advice::{Advice, MORE_PORTS, Message};
use anywire_sys::cpu;
use anywire_sys::select::BeyondSet;
use anywire_sys::uring::UringError;

use crate::answers::{Answers, GREETING};
use crate::rung::Rung;
use crate::site::{Books, Site};

/// A rung that serves on a free port of 127.0.0.1, on a thread of its own, until dropped.
pub struct Server {
    address: SocketAddr,
    main_thread: i32,
    listener: Arc<TcpListener>,
    answers: Arc<Answers>,
    books: Arc<Books>,
    /// `None` once joined.
    thread: Option<JoinHandle<()>>,
}

impl Server {
    pub(crate) fn start(rung: &Rung, options: Options) -> Result<Self, StartError> {
        if options.body_bytes > Options::BODY_BYTES_MAX {
            return Err(StartError::Body { asked: options.body_bytes });
        }
        let answers = Arc::new(Answers::new(options.body_bytes, SystemTime::now()));
        let listener = Arc::new(listen().map_err(StartError::Socket)?);
        let address = listener.local_addr().map_err(StartError::Socket)?;
        let books = Arc::new(Books::new().map_err(StartError::Socket)?);
        let site = Site {
            listener: Arc::clone(&listener),
            answers: Arc::clone(&answers),
            books: Arc::clone(&books),
        };
        let (told, started) = mpsc::sync_channel(1);
        let prepare = rung.prepare;
        let spawned = thread::Builder::new().name(rung.name.into()).spawn(move || {
            let books = Arc::clone(&site.books);
            // Before the rung is set up: its threads inherit the core.
            let pinned = options.core.map_or(Ok(()), cpu::pin_current_thread).map_err(StartError::Core);
            match pinned.and_then(|()| prepare(site)) {
                Ok(run) => {
                    let _entered = books.enter();
                    if told.send(Ok(cpu::thread_id())).is_ok() {
                        run();
                    }
                }
                // Fails only if the starter is gone.
                Err(error) => drop(told.send(Err(error))),
            }
        });
        let thread = spawned.map_err(StartError::Socket)?;
        let main_thread =
            started.recv().map_err(|_| StartError::Socket(io::ErrorKind::BrokenPipe.into()))??;
        Ok(Self { address, main_thread, listener, answers, books, thread: Some(thread) })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The bytes of one response; each request is answered by exactly these.
    pub fn response(&self) -> &[u8] {
        self.answers.one()
    }

    /// The kernel's numbers of the threads that serve at this moment: one, and on the rung `blocking` one more for each
    /// connection.
    pub fn threads(&self) -> Vec<i32> {
        self.books.threads()
    }

    /// The thread that was started first, and that starts all others.
    pub fn main_thread(&self) -> i32 {
        self.main_thread
    }

    /// Connections that it could not serve and therefore closed, such as those beyond the limit of `select`.
    pub fn refused(&self) -> Refused {
        self.books.refused()
    }
}

impl Drop for Server {
    /// Stops it, closes its connections and waits for its threads.
    fn drop(&mut self) {
        self.books.stop();
        // Wakes a thread that sleeps in `accept`. Linux does that; on the other rungs the stop itself has.
        let _ = rustix::net::shutdown(&*self.listener, rustix::net::Shutdown::Both);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// What a rung answers, and where it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// The core that its threads are pinned to; `None` (the default) leaves them to the scheduler.
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

/// Connections that a rung closed because it cannot serve them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Refused {
    /// How many.
    pub connections: u64,
    /// Why the first of them was.
    pub reason: Option<String>,
}

/// Why a rung did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The body is too large. The caller's: ask for less.
    #[error(
        "cannot answer with a body of {asked} bytes: at most {max} are possible{help}",
        max = Options::BODY_BYTES_MAX,
        help = Advice("ask for a shorter one")
    )]
    Body {
        /// The length that was asked for.
        asked: usize,
    },
    /// The core is not ours to use. The caller's: choose another.
    #[error("cannot pin the server")]
    Core(#[source] io::Error),
    /// This system offers no io_uring.
    #[error("this rung needs io_uring")]
    Uring(#[source] UringError),
    /// So many files are open that even the listener is beyond what `select` can watch.
    #[error("this rung needs low descriptor numbers")]
    Select(#[source] BeyondSet),
    /// A socket, an epoll or a thread could not be had: mostly a limit of the system.
    #[error("cannot get what a server needs")]
    Socket(#[source] io::Error),
}

/// A listener whose accept queue holds the burst of connects at the start of a load run. The 128 places of the standard
/// library are too few, and each dropped connect costs its client a second.
fn listen() -> io::Result<TcpListener> {
    use rustix::io::Errno;
    use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, listen, socket_with};

    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::INET, SocketType::STREAM, flags, None)?;
    bind(&socket, &SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).map_err(|errno| match errno {
        Errno::ADDRINUSE => io::Error::other(Message::new("no port is free").with_help(MORE_PORTS)),
        errno => errno.into(),
    })?;
    listen(&socket, BACKLOG)?;
    Ok(socket.into())
}

const BACKLOG: i32 = 4096;
