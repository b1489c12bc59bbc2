//! Out of descriptors, the connections that are open are served on, and the next ones as soon as there is room.

#[path = "behaviours/support/mod.rs"]
mod support;

use std::fs::File;
use std::net::TcpStream;
use std::os::fd::AsRawFd;

use anywire_ladder::Options;
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use support::{connect, expect_served, on_each_rung};

#[test]
fn a_connection_that_waits_for_a_descriptor_is_served_later() {
    let before = getrlimit(Resource::Nofile);
    on_each_rung(Options::default(), |rung, server| {
        let mut open = connect(server)?;
        expect_served(&mut open, server)?;
        // Taken before the limit falls, with a number far below it.
        let mut clients: Vec<TcpStream> = (0..20).map(|_| connect(server)).collect::<Result<_, _>>()?;
        for client in &mut clients {
            expect_served(client, server)?;
        }
        // Whose descriptor it is that is free then: one of the server's connections, or one that it does not know of.
        let mut served = Vec::new();
        for is_of_server in [false, true] {
            let others: Vec<File> = (0..4).map(|_| File::open("/dev/null")).collect::<Result<_, _>>()?;
            // One more for us, and none for the server.
            let next = File::open("/dev/null")?.as_raw_fd() as u64;
            setrlimit(Resource::Nofile, Rlimit { current: Some(next + 1), ..before })?;
            let mut waiting = loop {
                match connect(server) {
                    // `accept` takes a number before it looks for a connection, so a server that looks all the time has ours at times.
                    Err(error) if error.raw_os_error() == Some(Errno::MFILE.raw_os_error()) => {}
                    other => break other.unwrap_or_else(|error| panic!("{}: {error}", rung.name)),
                }
            };
            for _ in 0..50 {
                expect_served(&mut open, server)?;
            }
            if is_of_server {
                // Its own end and the server's.
                clients.truncate(10);
            } else {
                drop(others);
            }
            expect_served(&mut waiting, server)?;
            // Closed here, it would free a descriptor of the server at any time.
            served.push(waiting);
            setrlimit(Resource::Nofile, before)?;
        }
        Ok(())
    });
}
