//! However requests are split and joined on their way, the epoll limit gives one response for each.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};

use anywire_sys::epoll_limit::{EpollLimit, Options};

const REQUEST: &[u8] = b"GET /plaintext HTTP/1.1\r\nhost: localhost:8080\r\nuser-agent: test\r\n\r\n";

fn connect(limit: &EpollLimit) -> io::Result<TcpStream> {
    let connection = TcpStream::connect(limit.address())?;
    connection.set_nodelay(true)?;
    Ok(connection)
}

fn expect_responses(connection: &mut TcpStream, limit: &EpollLimit, count: usize) -> io::Result<()> {
    let mut responses = vec![0; limit.response().len() * count];
    connection.read_exact(&mut responses)?;
    assert!(responses == limit.response().repeat(count), "the responses differ from what was promised");
    Ok(())
}

/// All that is left to read is the end.
fn expect_end(mut connection: TcpStream) -> io::Result<()> {
    connection.shutdown(Shutdown::Write)?;
    let mut rest = Vec::new();
    connection.read_to_end(&mut rest)?;
    assert!(rest.is_empty(), "{} bytes too many", rest.len());
    Ok(())
}

#[test]
fn one_at_a_time() -> io::Result<()> {
    let limit = EpollLimit::start(Options::default())?;
    let mut connection = connect(&limit)?;
    for _ in 0..100 {
        connection.write_all(REQUEST)?;
        expect_responses(&mut connection, &limit, 1)?;
    }
    expect_end(connection)
}

#[test]
fn split_at_every_place() -> io::Result<()> {
    let limit = EpollLimit::start(Options::default())?;
    let stream = REQUEST.repeat(3);
    for split in 0..=stream.len() {
        let mut connection = connect(&limit)?;
        let (first, second) = stream.split_at(split);
        connection.write_all(first)?;
        // Waiting for the whole requests among the first part makes sure that the two parts arrive apart.
        let whole = split / REQUEST.len();
        expect_responses(&mut connection, &limit, whole)?;
        connection.write_all(second)?;
        expect_responses(&mut connection, &limit, 3 - whole)?;
        expect_end(connection)?;
    }
    Ok(())
}

#[test]
fn pipelined_in_pieces_of_odd_sizes() -> io::Result<()> {
    let limit = EpollLimit::start(Options::default())?;
    const REQUESTS: usize = 1000;
    let stream = REQUEST.repeat(REQUESTS);
    for piece in [1, 7, 67, 97, 1021, 40_009] {
        let connection = connect(&limit)?;
        let mut writer = connection.try_clone()?;
        let mut reader = connection;
        std::thread::scope(|scope| -> io::Result<()> {
            let writing = scope.spawn(|| stream.chunks(piece).try_for_each(|piece| writer.write_all(piece)));
            expect_responses(&mut reader, &limit, REQUESTS)?;
            writing.join().expect("the writer does not panic")
        })?;
        expect_end(reader)?;
    }
    Ok(())
}

#[test]
fn connections_do_not_mix() -> io::Result<()> {
    let limit = EpollLimit::start(Options { body_bytes: 0, ..Options::default() })?;
    // Requests of different lengths, all of them half sent at the same time.
    let requests: Vec<Vec<u8>> =
        (0..50).map(|n| format!("GET /{} HTTP/1.1\r\n\r\n", "x".repeat(n)).into_bytes()).collect();
    let mut connections = requests.iter().map(|_| connect(&limit)).collect::<io::Result<Vec<_>>>()?;
    for round in 0..20 {
        for (connection, request) in connections.iter_mut().zip(&requests) {
            connection.write_all(&request[..round % request.len()])?;
        }
        for (connection, request) in connections.iter_mut().zip(&requests) {
            connection.write_all(&request[round % request.len()..])?;
        }
        for connection in &mut connections {
            expect_responses(connection, &limit, 1)?;
        }
    }
    connections.into_iter().try_for_each(expect_end)
}
