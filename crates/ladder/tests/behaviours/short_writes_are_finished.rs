//! A peer that does not read its responses gets all of them later, in whole and in order.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};

use crate::support::{REQUEST, on_each_rung};
use anywire_ladder::Options;
use anywire_sys::tcp_info::TcpInfo;

#[test]
fn a_slow_peer_gets_all_of_it() {
    const BODY: usize = 9_999_991;
    on_each_rung(Options { body_bytes: BODY, ..Options::default() }, |_, server| {
        // Larger than the buffers of both sockets together, so that no write can carry a response whole; and a prime, so
        // that writes are cut at odd places.
        const RESPONSES: usize = 5;
        let mut slow = TcpStream::connect(server.address())?;
        slow.write_all(&REQUEST.repeat(RESPONSES))?;

        // Others are served while the slow one is stuck.
        let mut other = TcpStream::connect(server.address())?;
        let mut response = vec![0; server.response().len()];
        for _ in 0..3 {
            other.write_all(REQUEST)?;
            other.read_exact(&mut response)?;
            assert!(response == server.response());
        }

        for _ in 0..RESPONSES {
            slow.read_exact(&mut response)?;
            assert!(response == server.response());
        }
        // After that the connection serves requests as before.
        slow.write_all(REQUEST)?;
        slow.read_exact(&mut response)?;
        assert!(response == server.response());
        slow.shutdown(Shutdown::Write)?;
        assert_eq!(slow.read(&mut response)?, 0);
        Ok(())
    });
}

#[test]
fn many_small_responses_are_cut_and_continued() {
    on_each_rung(Options { body_bytes: 4_099, ..Options::default() }, |_, server| {
        // Requests are short and responses long: what 20 KiB of requests ask for is far more than a socket takes.
        const REQUESTS: usize = 2_000;
        let mut connection = TcpStream::connect(server.address())?;
        connection.write_all(&REQUEST.repeat(REQUESTS))?;
        let mut response = vec![0; server.response().len()];
        for _ in 0..REQUESTS {
            connection.read_exact(&mut response)?;
            assert!(response == server.response());
        }
        connection.shutdown(Shutdown::Write)?;
        assert_eq!(connection.read(&mut response)?, 0);
        Ok(())
    });
}

#[test]
fn a_batch_of_requests_gets_one_write() {
    on_each_rung(Options::default(), |_, server| {
        let mut connection = TcpStream::connect(server.address())?;
        let mut responses = vec![0; server.response().len() * 16];
        for batch in 1..=10 {
            connection.write_all(&REQUEST.repeat(16))?;
            connection.read_exact(&mut responses)?;
            assert_eq!(TcpInfo::of(&connection)?.data_segments_in, batch);
        }
        Ok(())
    });
}
