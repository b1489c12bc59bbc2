//! io_uring (Linux 5.1, 2019; the parts used here: 6.1, 2022): requests and completions through shared memory.
//!
//! All rungs below ask the kernel "who is ready?" and then make a call for each read and write. Here the program asks for the
//! work itself. One request accepts all connections. One more for each connection receives everything that arrives on it. The
//! kernel picks the buffers from a pool, so an idle connection has none. A send is an entry in a ring. One
//! `io_uring_enter` hands over all new entries and waits for completions, so that a batch of requests costs one call.
//!
//! The calls get fewer; the work does not. The same TCP code runs for each receive and send, and entries and completions are
//! work of their own. So the figures say how much of a request's cost were the calls.

use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use anywire_sys::uring::{Done, Requests, Uring};
use rustix::net::sockopt::{set_socket_linger, set_tcp_nodelay};
use rustix::net::{Shutdown, shutdown};

use crate::answers::Answers;
use crate::request_counter::RequestCounter;
use crate::rung::Run;
use crate::server::StartError;
use crate::site::{ACCEPT_PAUSE, Site};

pub(crate) fn prepare(site: Site) -> Result<Run, StartError> {
    // With O_NONBLOCK the ring would answer EAGAIN in place of waiting.
    site.listener.set_nonblocking(false).map_err(StartError::Socket)?;
    let ring = Uring::new(site.answers.all().into()).map_err(StartError::Uring)?;
    Ok(Box::new(move || serve(&site, ring)))
}

fn serve(site: &Site, mut ring: Uring) {
    let mut connections = Connections::default();
    let mut stopped = false;
    // Since when accepting rests for want of descriptors.
    let mut paused: Option<Instant> = None;
    ring.requests().watch(site.stop(), 0);
    ring.requests().accept(&site.listener);
    while !stopped && ring.wait(paused.map(|_| ACCEPT_PAUSE)).is_ok() {
        let mut has_closed = false;
        ring.work_off(|requests, done| match done {
            Done::Accepted { socket, more } => {
                let exhausted = socket.as_ref().is_err_and(is_exhaustion);
                if let Ok(socket) = socket {
                    connections.add(socket, requests);
                }
                match (more, exhausted) {
                    (true, _) => {}
                    (false, true) => paused = Some(Instant::now()),
                    (false, false) => requests.accept(&site.listener),
                }
            }
            Done::Readable { .. } => stopped = true,
            done => has_closed |= connections.go_on(done, requests, &site.answers),
        });
        if paused.is_some_and(|since| has_closed || since.elapsed() >= ACCEPT_PAUSE) {
            paused = None;
            ring.requests().accept(&site.listener);
        }
    }
}

fn is_exhaustion(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let errno = Errno::from_io_error(error);
    errno.is_some_and(|errno| [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM].contains(&errno))
}

/// A slot's number is the token of its requests. It is free again only when none of them is under way.
#[derive(Default)]
struct Connections {
    slots: Vec<Option<Connection>>,
    free: Vec<u32>,
}

struct Connection {
    socket: OwnedFd,
    requests: RequestCounter,
    /// Bytes of answers that the peer has asked for and not been sent, as on the other rungs.
    owed: usize,
    sending: bool,
    receiving: bool,
    /// The peer sends nothing more; the answers owed to it are still sent.
    ended: bool,
}

impl Connections {
    fn add(&mut self, socket: OwnedFd, requests: &mut Requests) {
        if set_tcp_nodelay(&socket, true).is_err() {
            return;
        }
        let token = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() as u32 - 1
        });
        requests.receive(&socket, token);
        let counter = RequestCounter::default();
        self.slots[token as usize] = Some(Connection {
            socket,
            requests: counter,
            owed: 0,
            sending: false,
            receiving: true,
            ended: false,
        });
    }

    /// Takes a completion, and asks for what comes next. True if that closed the connection.
    #[inline]
    fn go_on(&mut self, done: Done<'_>, requests: &mut Requests, answers: &Answers) -> bool {
        let (Done::Received { token, .. } | Done::Sent { token, .. }) = done else { return false };
        let Some(Some(connection)) = self.slots.get_mut(token as usize) else { return false };
        match done {
            Done::Received { bytes, more, .. } => connection.received(&bytes, more, answers),
            Done::Sent { count, .. } => connection.sent(&count),
            _ => {}
        }
        if connection.owed > 0 && !connection.sending {
            connection.sending = true;
            requests.send(&connection.socket, token, answers.part(connection.owed));
        }
        if !connection.receiving && !connection.ended {
            // The kernel ended the request, for want of a buffer at that moment or of room for completions.
            connection.receiving = true;
            requests.receive(&connection.socket, token);
        }
        let is_over = connection.ended && !connection.receiving && !connection.sending;
        if is_over {
            self.slots[token as usize] = None;
            self.free.push(token);
        }
        is_over
    }
}

impl Connection {
    fn received(&mut self, bytes: &io::Result<&[u8]>, more: bool, answers: &Answers) {
        self.receiving = more;
        match bytes {
            Ok([]) => self.ended = true,
            Ok(_) if self.ended => {}
            Ok(bytes) => match self.requests.count(bytes) {
                Some(requests) => self.owed += requests * answers.one().len(),
                None => self.cut(),
            },
            Err(error) if error.raw_os_error() == Some(rustix::io::Errno::NOBUFS.raw_os_error()) => {}
            Err(_) => self.cut(),
        }
    }

    fn sent(&mut self, count: &io::Result<usize>) {
        self.sending = false;
        match count {
            Ok(count) => self.owed = self.owed.saturating_sub(*count),
            Err(_) => self.cut(),
        }
    }

    /// Ends it at once. The receive holds the socket open, so that closing alone would not: it ends by the shutdown.
    fn cut(&mut self) {
        (self.ended, self.owed) = (true, 0);
        // The close that follows sends a reset. Otherwise a peer that is still sending would wait for a minute: it met a full
        // receive buffer, and would not hear of room any more. Errors mean that the peer was faster.
        let _ = set_socket_linger(&self.socket, Some(Duration::ZERO));
        let _ = shutdown(&self.socket, Shutdown::Both);
    }
}
