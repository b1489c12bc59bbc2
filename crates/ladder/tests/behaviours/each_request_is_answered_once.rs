//! However requests are split and joined on their way, each rung gives one response for each.

use std::io::{self, Write};

use crate::support::{REQUEST, connect, expect_end, expect_responses, on_each_rung};
use anywire_ladder::Options;

#[test]
fn one_at_a_time() {
    on_each_rung(Options::default(), |_, server| {
        let mut connection = connect(server)?;
        for _ in 0..100 {
            connection.write_all(REQUEST)?;
            expect_responses(&mut connection, server, 1)?;
        }
        expect_end(connection)
    });
}

#[test]
fn split_at_every_place() {
    on_each_rung(Options::default(), |_, server| {
        let stream = REQUEST.repeat(3);
        for split in 0..=stream.len() {
            let mut connection = connect(server)?;
            let (first, second) = stream.split_at(split);
            connection.write_all(first)?;
            // Waiting for the whole requests among the first part makes sure that the two parts arrive apart.
            let whole = split / REQUEST.len();
            expect_responses(&mut connection, server, whole)?;
            connection.write_all(second)?;
            expect_responses(&mut connection, server, 3 - whole)?;
            expect_end(connection)?;
        }
        Ok(())
    });
}

#[test]
fn pipelined_in_pieces_of_odd_sizes() {
    on_each_rung(Options::default(), |_, server| {
        const REQUESTS: usize = 1000;
        let stream = REQUEST.repeat(REQUESTS);
        for piece in [1, 7, 67, 97, 1021, 40_009] {
            let connection = connect(server)?;
            let mut writer = connection.try_clone()?;
            let mut reader = connection;
            std::thread::scope(|scope| -> io::Result<()> {
                let writing =
                    scope.spawn(|| stream.chunks(piece).try_for_each(|piece| writer.write_all(piece)));
                expect_responses(&mut reader, server, REQUESTS)?;
                writing.join().expect("the writer does not panic")
            })?;
            expect_end(reader)?;
        }
        Ok(())
    });
}

#[test]
fn connections_do_not_mix() {
    on_each_rung(Options { body_bytes: 0, ..Options::default() }, |_, server| {
        // Requests of different lengths, all of them half sent at the same time.
        let requests: Vec<Vec<u8>> =
            (0..50).map(|n| format!("GET /{} HTTP/1.1\r\n\r\n", "x".repeat(n)).into_bytes()).collect();
        let mut connections = requests.iter().map(|_| connect(server)).collect::<io::Result<Vec<_>>>()?;
        for round in 0..20 {
            for (connection, request) in connections.iter_mut().zip(&requests) {
                connection.write_all(&request[..round % request.len()])?;
            }
            for (connection, request) in connections.iter_mut().zip(&requests) {
                connection.write_all(&request[round % request.len()..])?;
            }
            for connection in &mut connections {
                expect_responses(connection, server, 1)?;
            }
        }
        connections.into_iter().try_for_each(expect_end)
    });
}
