//! Hundreds of connections at once, most of them idle: each is served, and each rung says how many threads that takes.

use std::io;
use std::net::TcpStream;

use crate::support::{connect, expect_served, on_each_rung};
use anywire_ladder::Options;
use anywire_sys::descriptors;

const CONNECTIONS: usize = 400;

#[test]
fn each_of_many_connections_is_served() {
    descriptors::raise_limit().expect("it may be raised");
    on_each_rung(Options::default(), |rung, server| {
        let mut connections: Vec<TcpStream> =
            (0..CONNECTIONS).map(|_| connect(server)).collect::<io::Result<_>>()?;
        for _ in 0..2 {
            for connection in connections.iter_mut().rev() {
                expect_served(connection, server)?;
            }
        }
        let threads = server.threads();
        let expected = if rung.name == "blocking" { CONNECTIONS + 1 } else { 1 };
        assert_eq!(threads.len(), expected, "{}", rung.name);
        assert_eq!(threads[0], server.main_thread());
        assert_eq!(server.refused().connections, 0, "{}", rung.name);
        // One that is idle among many that left.
        connections.truncate(1);
        expect_served(&mut connections[0], server)
    });
}
