//! epoll (Linux 2.5.44, 2002): the kernel keeps the list, and each call returns the ready ones alone.
//!
//! A descriptor is registered once. From then on the kernel itself puts it on a list of ready ones when something arrives,
//! and `epoll_wait` copies that list. Idle connections cost nothing. A request costs one `recv`, one `send` and its share of an
//! `epoll_wait`: less, the more connections are ready at once. The loop is level-triggered: the kernel returns a descriptor
//! again while it is ready, so one read a turn is enough.
//!
//! This loop is written the way one would in C, and parses nothing: what another server costs beyond it is that server's own,
//! the rest is the kernel's. All answers are the same response, so one number says how much a peer is owed, and
//! nothing is copied or queued.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::event::Timespec;
use rustix::event::epoll::{CreateFlags, Event, EventData, EventFlags, add, create, delete, modify, wait};
use rustix::io::Errno;

use crate::connection::{Connection, READ_BYTES, Wants};
use crate::rung::Run;
use crate::server::StartError;
use crate::site::{ACCEPT_PAUSE_TIMESPEC, Site};

pub(crate) fn prepare(site: Site) -> Result<Run, StartError> {
    let failed = |error: Errno| StartError::Socket(error.into());
    let epoll = create(CreateFlags::CLOEXEC).map_err(failed)?;
    let number = |descriptor: BorrowedFd<'_>| EventData::new_u64(descriptor.as_raw_fd() as u64);
    for own in [site.stop(), site.listener.as_fd()] {
        add(&epoll, own, number(own), EventFlags::IN).map_err(failed)?;
    }
    let input = vec![0; READ_BYTES];
    let event_loop = EventLoop { site, epoll, accepting: true, connections: Vec::new(), input };
    Ok(Box::new(move || event_loop.run()))
}

struct EventLoop {
    site: Site,
    epoll: OwnedFd,
    /// False while the process is out of descriptors: the listener is then not registered, because it stays ready.
    accepting: bool,
    /// Indexed by descriptor, so that an event finds its connection without a search.
    connections: Vec<Option<Registered>>,
    /// The buffer of `recv`. All connections share it, because they keep no byte in it.
    input: Vec<u8>,
}

/// A connection in the epoll.
struct Registered {
    socket: OwnedFd,
    connection: Connection,
    /// What the epoll watches it for.
    watched: Wants,
}

impl EventLoop {
    /// Serves until stopped. Returns early only if epoll itself fails.
    fn run(mut self) {
        let mut events = [MaybeUninit::<Event>::uninit(); EVENTS_MAX];
        let (stop, listener) = (self.site.stop().as_raw_fd() as u64, self.site.listener.as_raw_fd() as u64);
        loop {
            let timeout: Option<&Timespec> = (!self.accepting).then_some(&ACCEPT_PAUSE_TIMESPEC);
            let ready = match wait(&self.epoll, &mut events, timeout) {
                Ok((ready, _)) => ready,
                Err(Errno::INTR) => continue,
                Err(_) => return,
            };
            if ready.is_empty() {
                self.resume_accepting();
            }
            // A batch holds at most one event for each descriptor, and a connection is closed only by its own event.
            // So no later event can belong to an earlier connection with the same number.
            for event in &*ready {
                match event.data.u64() {
                    data if data == listener => self.accept(),
                    data if data == stop => return,
                    data => self.serve(data as usize),
                }
            }
        }
    }

    /// One read, one write.
    #[inline]
    fn serve(&mut self, descriptor: usize) {
        let Some(Some(Registered { socket, connection, watched })) = self.connections.get_mut(descriptor)
        else {
            return;
        };
        let wants = connection.turn(socket, &mut self.input, &self.site.answers);
        if wants == *watched {
            return;
        }
        *watched = wants;
        // A peer that does not take its answers is not read from until it does.
        let watch = |interest| modify(&self.epoll, &*socket, EventData::new_u64(descriptor as u64), interest);
        let is_over = match wants {
            Wants::Requests => watch(EventFlags::IN).is_err(),
            Wants::Room => watch(EventFlags::OUT).is_err(),
            Wants::Nothing => true,
        };
        if is_over {
            self.close(descriptor);
        }
    }

    #[cold]
    fn close(&mut self, descriptor: usize) {
        // Closing takes it out of the epoll too, since no copy of the descriptor exists.
        self.connections[descriptor] = None;
        self.resume_accepting();
    }

    /// Takes every connection that waits. One that cannot be registered is dropped, which tells its peer.
    fn accept(&mut self) {
        let (epoll, connections) = (&self.epoll, &mut self.connections);
        let go_on = self.site.accept_all(|socket| {
            let number = socket.as_raw_fd() as usize;
            if add(epoll, &socket, EventData::new_u64(number as u64), EventFlags::IN).is_err() {
                return;
            }
            if number >= connections.len() {
                connections.resize_with(number + 1, || None);
            }
            let connection = Connection::default();
            connections[number] = Some(Registered { socket, connection, watched: Wants::Requests });
        });
        if !go_on {
            self.accepting = delete(&self.epoll, &*self.site.listener).is_err();
        }
    }

    fn resume_accepting(&mut self) {
        if !self.accepting {
            let data = EventData::new_u64(self.site.listener.as_raw_fd() as u64);
            self.accepting = add(&self.epoll, &*self.site.listener, data, EventFlags::IN).is_ok();
        }
    }
}

const EVENTS_MAX: usize = 512;
