//! Peers that reset, never end their request or vanish do not harm others, and stopping closes everything.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use anywire_sys::cpu;
use anywire_sys::epoll_limit::{EpollLimit, Options};

const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nhost: a\r\n\r\n";

fn expect_served(connection: &mut TcpStream, limit: &EpollLimit) -> io::Result<()> {
    connection.write_all(REQUEST)?;
    let mut response = vec![0; limit.response().len()];
    connection.read_exact(&mut response)?;
    assert!(response == limit.response());
    Ok(())
}

#[test]
fn a_reset_in_mid_response_is_only_that_peers() -> io::Result<()> {
    let limit = EpollLimit::start(Options { body_bytes: 4 << 20, ..Options::default() })?;
    let mut good = TcpStream::connect(limit.address())?;
    for _ in 0..10 {
        let mut bad = TcpStream::connect(limit.address())?;
        bad.write_all(&REQUEST.repeat(10))?;
        // Some of the response is there and unread, so closing sends a reset.
        bad.read_exact(&mut [0; 10])?;
        drop(bad);
        expect_served(&mut good, &limit)?;
    }
    Ok(())
}

#[test]
fn a_request_that_never_ends_is_cut_off() -> io::Result<()> {
    let limit = EpollLimit::start(Options::default())?;
    let mut good = TcpStream::connect(limit.address())?;
    let mut bad = TcpStream::connect(limit.address())?;
    // More than the buffers of any socket hold: on a busy machine the first megabytes are taken before the server runs.
    let mut endless = std::iter::repeat_with(|| bad.write_all(&[b'a'; 65_536])).take(4096);
    assert!(endless.any(|written| written.is_err()), "256 MB of one header were taken");
    expect_served(&mut good, &limit)
}

#[test]
fn stopping_closes_all_connections() -> io::Result<()> {
    let limit = EpollLimit::start(Options::default())?;
    let address = limit.address();
    let mut connections = Vec::new();
    for _ in 0..20 {
        let mut connection = TcpStream::connect(address)?;
        expect_served(&mut connection, &limit)?;
        connections.push(connection);
    }
    drop(limit);
    for mut connection in connections {
        assert_eq!(connection.read(&mut [0])?, 0);
    }
    assert!(TcpStream::connect(address).is_err(), "the listener is gone");
    Ok(())
}

#[test]
fn its_cpu_time_is_its_own_threads() -> io::Result<()> {
    let core = cpu::available_cores()[0];
    let limit = EpollLimit::start(Options { core: Some(core), ..Options::default() })?;
    assert_ne!(limit.thread_id(), cpu::thread_id());
    let mut connection = TcpStream::connect(limit.address())?;
    let before = limit.sample()?;
    while (limit.sample()? - before).total() < Duration::from_millis(5) {
        expect_served(&mut connection, &limit)?;
    }
    assert!(cpu::thread_run_time(limit.thread_id())? >= Duration::from_millis(5));
    Ok(())
}
