//! `select` (4.2BSD, 1983): one call that sleeps until one of many descriptors is ready.
//!
//! The program hands over sets of bits, one bit a descriptor. The kernel looks at each bit up to the highest, asks each file
//! whether it is ready, and registers with it if none is. It overwrites the sets with its answer, so the program builds
//! them anew for each call. Afterwards it looks at each of its connections to see whose bit is set. All of that grows with the
//! number of connections, not of ready ones. The sets end at 1024: a descriptor with a higher number cannot be watched.

use std::io;
use std::os::fd::OwnedFd;

use anywire_sys::select::{BeyondSet, Set, select};

use crate::connection::{Connection, READ_BYTES, Wants};
use crate::rung::Run;
use crate::server::StartError;
use crate::site::{ACCEPT_PAUSE, Site};

pub(crate) fn prepare(site: Site) -> Result<Run, StartError> {
    let mut own = Set::new();
    own.insert(site.stop()).and_then(|()| own.insert(&site.listener)).map_err(StartError::Select)?;
    Ok(Box::new(move || {
        // Cannot fail: the two descriptors fit, as was just seen, and a connection that does not is refused.
        let _ = serve(&site);
    }))
}

fn serve(site: &Site) -> Result<(), BeyondSet> {
    let mut connections: Vec<(OwnedFd, Connection)> = Vec::new();
    let mut input = vec![0; READ_BYTES];
    let mut accepting = true;
    loop {
        let (mut readable, mut writable) = (Set::new(), Set::new());
        readable.insert(site.stop())?;
        if accepting {
            readable.insert(&site.listener)?;
        }
        for (socket, connection) in &connections {
            let set = if connection.wants() == Wants::Room { &mut writable } else { &mut readable };
            set.insert(socket)?;
        }
        match select(&mut readable, &mut writable, (!accepting).then_some(ACCEPT_PAUSE)) {
            Ok(0) => accepting = true,
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(_) => return Ok(()),
        }
        if readable.contains(site.stop()) {
            return Ok(());
        }
        connections.retain_mut(|(socket, connection)| {
            let ready = readable.contains(&*socket) || writable.contains(&*socket);
            let over = ready && connection.turn(socket, &mut input, &site.answers) == Wants::Nothing;
            accepting |= over;
            !over
        });
        if readable.contains(&site.listener) {
            accepting = site.accept_all(|socket| match Set::new().insert(&socket) {
                Ok(()) => connections.push((socket, Connection::default())),
                // Closed, and counted with the reason. In C, setting its bit would write beyond the set.
                Err(beyond) => site.books.refuse(&beyond),
            });
        }
    }
}
