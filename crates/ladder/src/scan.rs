//! Non-blocking sockets, asked in turn: one thread walks all connections for ever.
//!
//! The first step away from a thread for each connection: `recv` returns at once, with EAGAIN if nothing is there. With no
//! call that says who is ready, the program has to ask everybody, each time, and never sleeps. So the core is full also when
//! nothing arrives, and a request costs as many calls as there are connections for each that is ready.

use std::os::fd::OwnedFd;

use crate::connection::{Connection, READ_BYTES, Wants};
use crate::rung::Run;
use crate::server::StartError;
use crate::site::Site;

pub(crate) fn prepare(site: Site) -> Result<Run, StartError> {
    Ok(Box::new(move || serve(&site)))
}

fn serve(site: &Site) {
    let mut connections: Vec<(OwnedFd, Connection)> = Vec::new();
    let mut input = vec![0; READ_BYTES];
    while !site.is_stopped() {
        // Out of descriptors there is no need to pause: the next round asks again anyway.
        site.accept_all(|socket| connections.push((socket, Connection::default())));
        let mut place = 0;
        while let Some((socket, connection)) = connections.get_mut(place) {
            match connection.turn(socket, &mut input, &site.answers) {
                Wants::Nothing => drop(connections.swap_remove(place)),
                _ => place += 1,
            }
        }
    }
}
