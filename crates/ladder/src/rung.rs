//! The list of rungs, and what each of them is about.

use std::fmt;

use crate::server::{Options, Server, StartError};
use crate::site::Site;
use crate::{blocking, epoll, poll, scan, select, uring};

/// A way to wait for many connections.
pub struct Rung {
    /// Its name: `blocking`, `scan`, `select`, `poll`, `epoll` or `io_uring`.
    pub name: &'static str,
    /// What the kernel does for it, in a paragraph.
    pub story: &'static str,
    /// How many connections it can serve at most (`None`: as many as there are descriptors).
    pub connections_max: Option<usize>,
    pub(crate) prepare: fn(Site) -> Result<Run, StartError>,
}

/// A rung that has all it needs; called on its thread.
pub(crate) type Run = Box<dyn FnOnce()>;

impl Rung {
    /// The rung of this name.
    ///
    /// ```
    /// use anywire_ladder::Rung;
    ///
    /// assert!(Rung::named("epoll").is_some() && Rung::named("kqueue").is_none());
    /// ```
    pub fn named(name: &str) -> Option<&'static Self> {
        RUNGS.iter().find(|rung| rung.name == name)
    }

    /// Starts it on a free port of 127.0.0.1, and returns when it accepts connections.
    ///
    /// ```
    /// use std::io::{Read, Write};
    /// use std::net::TcpStream;
    /// use anywire_ladder::{Options, Rung};
    ///
    /// let server = Rung::named("poll").unwrap().start(Options::default())?;
    /// let mut connection = TcpStream::connect(server.address())?;
    /// connection.write_all(b"GET / HTTP/1.1\r\nhost: here\r\n\r\n")?;
    /// let mut answer = vec![0; server.response().len()];
    /// connection.read_exact(&mut answer)?;
    /// assert_eq!(answer, server.response());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// See [`StartError`]: among them, that this system offers no io_uring.
    pub fn start(&self, options: Options) -> Result<Server, StartError> {
        Server::start(self, options)
    }
}

impl fmt::Debug for Rung {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rung").field("name", &self.name).finish_non_exhaustive()
    }
}

/// All rungs, from the oldest to the newest.
pub static RUNGS: &[Rung] = &[
    Rung {
        name: "blocking",
        story: "A thread for each connection sleeps in recv. The kernel wakes it when bytes arrive and puts it to sleep \
                again at the next recv: up to two context switches a request. Two system calls a request and no call to ask \
                who is ready, but a stack, a kernel stack and a place in the scheduler for each connection.",
        connections_max: None,
        prepare: blocking::prepare,
    },
    Rung {
        name: "scan",
        story: "One thread calls recv on every connection in turn. A call that finds nothing returns EAGAIN at once. Nobody \
                tells the thread who is ready, so it asks all, for ever: the core is full when nothing happens, and with \
                many idle connections nearly all calls are in vain.",
        connections_max: None,
        prepare: scan::prepare,
    },
    Rung {
        name: "select",
        story: "One call takes sets of bits, one bit a descriptor, and sleeps until one is ready. The kernel looks at every \
                bit up to the highest, asks each file, and overwrites the sets, which the program builds anew each time. The \
                sets end at descriptor 1023 (FD_SETSIZE): more connections cannot be watched.",
        // Beside the connections, the process has its own files open.
        connections_max: Some(anywire_sys::select::Set::SIZE - 24),
        prepare: select::prepare,
    },
    Rung {
        name: "poll",
        story: "One call takes a list with an entry for each descriptor. There is no highest number and no set to build anew, \
                but the kernel copies the whole list and asks each file at each call, however few are ready, and the program \
                walks it again to find them.",
        connections_max: None,
        prepare: poll::prepare,
    },
    Rung {
        name: "epoll",
        story: "A descriptor is registered once. When something arrives, the kernel itself puts it on a list of ready ones, and \
                epoll_wait copies that list alone: idle connections cost nothing. A request costs recv, send and a share of \
                an epoll_wait. This loop is the limit that compare and the bench divide by.",
        connections_max: None,
        prepare: epoll::prepare,
    },
    Rung {
        name: "io_uring",
        story: "The program does not ask who is ready; it asks for the work. One multishot request accepts all connections, one \
                a connection receives all that arrives on it, into buffers of the kernel's choice, and sends are entries in a \
                ring in shared memory. One io_uring_enter hands over a batch and waits. The calls get fewer, while the TCP \
                code that runs for each request stays the same.",
        connections_max: None,
        prepare: uring::prepare,
    },
];
