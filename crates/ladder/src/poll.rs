//! `poll` (System V, 1986): `select` with a list in place of the sets.
//!
//! The list has an entry for each descriptor, with the question and a field for the answer. So there is no highest number, and
//! the questions stay as they were: the program changes the list only when a connection comes, goes, or waits for something
//! else. But the kernel still copies and walks the whole list at each call, and the program walks it once more to find the
//! ready ones.

use std::os::fd::OwnedFd;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

use crate::connection::{Connection, READ_BYTES, Wants};
use crate::rung::Run;
use crate::server::StartError;
use crate::site::{ACCEPT_PAUSE_TIMESPEC, Site};

pub(crate) fn prepare(site: Site) -> Result<Run, StartError> {
    Ok(Box::new(move || {
        let mut all = Connections { sockets: Vec::new(), states: Vec::new(), input: vec![0; READ_BYTES] };
        let mut next = Next::Accept;
        while next != Next::Stop {
            let accepting = next == Next::Again || site.accept_all(|socket| all.add(socket));
            next = all.serve(&site, accepting);
            all.remove_those_over();
        }
    }))
}

/// Sockets and states are in vectors of their own: the list of poll borrows the sockets while the states change.
struct Connections {
    sockets: Vec<OwnedFd>,
    /// `None` once it is over.
    states: Vec<Option<Connection>>,
    /// The buffer that all share.
    input: Vec<u8>,
}

/// What to do before the next poll.
#[derive(PartialEq, Eq)]
enum Next {
    Accept,
    /// Nothing but making the list anew.
    Again,
    Stop,
}

impl Connections {
    /// Serves with one list until it has to change.
    fn serve(&mut self, site: &Site, accepting: bool) -> Next {
        let stop = site.stop();
        let of_listener = if accepting { PollFlags::IN } else { PollFlags::empty() };
        let mut list = vec![PollFd::new(&stop, PollFlags::IN), PollFd::new(&*site.listener, of_listener)];
        list.extend(self.sockets.iter().zip(&self.states).map(|(socket, state)| {
            let waits_for_room = state.as_ref().is_some_and(|state| state.wants() == Wants::Room);
            PollFd::new(socket, if waits_for_room { PollFlags::OUT } else { PollFlags::IN })
        }));
        let pause = (!accepting).then_some(&ACCEPT_PAUSE_TIMESPEC);
        loop {
            match poll(&mut list, pause) {
                Ok(0) => return Next::Accept,
                Ok(_) => {}
                Err(Errno::INTR) => continue,
                Err(_) => return Next::Stop,
            }
            let [of_stop, of_listener] = [list[0].revents(), list[1].revents()];
            if !of_stop.is_empty() {
                return Next::Stop;
            }
            let mut changed = false;
            let of_sockets = list[2..].iter().zip(&self.sockets).zip(&mut self.states);
            for ((_, socket), slot) in of_sockets.filter(|((entry, _), _)| !entry.revents().is_empty()) {
                let Some(state) = slot else { continue };
                let before = state.wants();
                let wants = state.turn(socket, &mut self.input, &site.answers);
                if wants == Wants::Nothing {
                    *slot = None;
                }
                // A descriptor that was freed is a chance for a listener that paused.
                changed |= wants != before;
            }
            if !of_listener.is_empty() || (changed && !accepting) {
                return Next::Accept;
            }
            if changed {
                return Next::Again;
            }
        }
    }

    fn add(&mut self, socket: OwnedFd) {
        self.sockets.push(socket);
        self.states.push(Some(Connection::default()));
    }

    fn remove_those_over(&mut self) {
        for place in
            (0..self.states.len()).rev().filter(|&place| self.states[place].is_none()).collect::<Vec<_>>()
        {
            self.sockets.swap_remove(place);
            self.states.swap_remove(place);
        }
    }
}
