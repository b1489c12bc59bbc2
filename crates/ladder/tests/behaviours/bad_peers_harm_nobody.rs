//! Peers that reset, never end their request, half-close or vanish do not harm others; and stopping closes everything.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};

use crate::support::{REQUEST, expect_served, on_each_rung, start};
use anywire_ladder::{Options, RUNGS};

#[test]
fn a_reset_in_mid_response_is_only_that_peers() {
    on_each_rung(Options { body_bytes: 4 << 20, ..Options::default() }, |_, server| {
        let mut good = TcpStream::connect(server.address())?;
        for _ in 0..10 {
            let mut bad = TcpStream::connect(server.address())?;
            bad.write_all(&REQUEST.repeat(10))?;
            // Some of the response is there and unread, so closing sends a reset.
            bad.read_exact(&mut [0; 10])?;
            drop(bad);
            expect_served(&mut good, server)?;
        }
        Ok(())
    });
}

#[test]
fn a_request_that_never_ends_is_cut_off() {
    on_each_rung(Options::default(), |_, server| {
        let mut good = TcpStream::connect(server.address())?;
        let mut bad = TcpStream::connect(server.address())?;
        // More than the buffers of any socket hold: on a busy machine the first megabytes are taken before the server runs.
        let mut endless = std::iter::repeat_with(|| bad.write_all(&[b'a'; 65_536])).take(4096);
        assert!(endless.any(|written| written.is_err()), "256 MB of one header were taken");
        expect_served(&mut good, server)
    });
}

#[test]
fn what_was_asked_before_a_half_close_is_answered() {
    on_each_rung(Options { body_bytes: 100_000, ..Options::default() }, |_, server| {
        // Far more than the buffers of both sockets: the end is there long before the last answer can be sent.
        const REQUESTS: usize = 200;
        let mut connection = TcpStream::connect(server.address())?;
        connection.write_all(&REQUEST.repeat(REQUESTS))?;
        connection.shutdown(Shutdown::Write)?;
        let mut all = Vec::new();
        connection.read_to_end(&mut all)?;
        assert_eq!(all.len(), REQUESTS * server.response().len());
        Ok(())
    });
}

#[test]
fn stopping_closes_all_connections() {
    for server in RUNGS.iter().filter_map(|rung| start(rung, Options::default())) {
        let address = server.address();
        let mut connections = Vec::new();
        for _ in 0..20 {
            let mut connection = TcpStream::connect(address).expect("it accepts");
            expect_served(&mut connection, &server).expect("it serves");
            connections.push(connection);
        }
        drop(server);
        for mut connection in connections {
            assert_eq!(connection.read(&mut [0]).expect("an end, and no reset"), 0);
        }
        assert!(TcpStream::connect(address).is_err(), "the listener is gone");
    }
}
