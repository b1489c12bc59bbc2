//! Out of descriptors, the connections that are open are served on, and the next ones as soon as there is room.

mod support;

use std::net::TcpStream;

use anywire_ladder::Options;
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
        // One more for us, and none for the server.
        let probe = std::fs::File::open("/dev/null")?;
        let next = std::os::fd::AsRawFd::as_raw_fd(&probe) as u64;
        drop(probe);
        setrlimit(Resource::Nofile, Rlimit { current: Some(next + 1), ..before })?;
        let waiting = connect(server);
        // The server may have had the last one first; then the connection has no answer to wait for.
        let mut waiting = match waiting {
            Ok(waiting) => waiting,
            Err(error) => panic!("{}: {error}", rung.name),
        };
        for _ in 0..50 {
            expect_served(&mut open, server)?;
        }
        // Its own end and the server's.
        clients.truncate(10);
        expect_served(&mut waiting, server)?;
        setrlimit(Resource::Nofile, before)?;
        Ok(())
    });
}
