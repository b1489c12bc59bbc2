//! Blocking sockets: a thread for each connection, which sleeps in `recv` until something arrives.
//!
//! The oldest model, and the easiest to read: the state of a connection is where its thread stands in the code. The kernel
//! does the bookkeeping. It wakes the thread when bytes come, and puts it to sleep again at the next `recv`: two context
//! switches for a request, unless the next one is there already. Each thread needs a stack and a kernel stack.

use std::collections::HashMap;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, Builder};

use rustix::net::{Shutdown, SocketFlags, shutdown};

use crate::connection::{Connection, Wants};
use crate::rung::Run;
use crate::server::StartError;
use crate::site::{ACCEPT_PAUSE, Accepted, Site};

pub(crate) fn prepare(site: Site) -> Result<Run, StartError> {
    site.listener.set_nonblocking(false).map_err(StartError::Socket)?;
    Ok(Box::new(move || serve(&site)))
}

/// Accepts until stopped, then ends all connections and waits for their threads.
fn serve(site: &Site) {
    let open = Open::default();
    thread::scope(|scope| {
        while !site.is_stopped() {
            match site.accept(SocketFlags::empty()) {
                Accepted::Socket(socket) => {
                    let socket = Arc::new(socket);
                    open.add(&socket);
                    let thread = Builder::new().name("blocking".into()).stack_size(STACK_BYTES);
                    let (of_thread, open) = (Arc::clone(&socket), &open);
                    if let Err(error) = thread.spawn_scoped(scope, move || {
                        converse(site, &of_thread);
                        open.remove(&of_thread);
                    }) {
                        open.remove(&socket);
                        site.books
                            .refuse(&format_args!("the system gives no thread for a connection: {error}"));
                    }
                }
                Accepted::Nobody => {}
                Accepted::Exhausted => thread::sleep(ACCEPT_PAUSE),
            }
        }
        open.shut_down();
    });
}

/// A connection from start to end, on a thread of its own.
fn converse(site: &Site, socket: &OwnedFd) {
    let _entered = site.books.enter();
    let mut connection = Connection::default();
    let mut input = [0; READ_BYTES];
    while connection.turn(socket, &mut input, &site.answers) != Wants::Nothing {}
}

/// The open connections, so that stopping can wake their threads: only an event on the socket itself ends a `recv`.
#[derive(Default)]
struct Open(Mutex<HashMap<RawFd, Arc<OwnedFd>>>);

impl Open {
    fn add(&self, socket: &Arc<OwnedFd>) {
        self.lock(|open| open.insert(socket.as_raw_fd(), Arc::clone(socket)));
    }

    fn remove(&self, socket: &OwnedFd) {
        self.lock(|open| open.remove(&socket.as_raw_fd()));
    }

    fn shut_down(&self) {
        // An error means that the peer was faster.
        self.lock(|open| {
            open.values().for_each(|socket| _ = shutdown(socket, Shutdown::Both));
        });
    }

    fn lock<T>(&self, act: impl FnOnce(&mut HashMap<RawFd, Arc<OwnedFd>>) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A buffer of its own for each thread, unlike on all other rungs; on its stack.
const READ_BYTES: usize = 4 << 10;
/// Address space; memory is taken only for the pages that are touched.
const STACK_BYTES: usize = 64 << 10;
