//! What the tests of rungs share: each rung in turn, a client that sends and reads plain bytes.

#![allow(dead_code, reason = "each test uses a part")]

#[path = "../../../../sys/tests/behaviours/skipped/mod.rs"]
pub(crate) mod skipped;

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use anywire_ladder::{Options, RUNGS, Rung, Server, StartError};

pub(crate) const REQUEST: &[u8] =
    b"GET /plaintext HTTP/1.1\r\nhost: localhost:8080\r\nuser-agent: test\r\n\r\n";

/// Runs the test on each rung. A machine without io_uring leaves that one out, except under `CI`.
pub(crate) fn on_each_rung(options: Options, test: impl Fn(&Rung, &Server) -> io::Result<()>) {
    for rung in RUNGS {
        if let Some(server) = start(rung, options)
            && let Err(error) = test(rung, &server)
        {
            panic!("{}: {error}", rung.name);
        }
    }
}

/// The rung, unless this machine has no io_uring.
pub(crate) fn start(rung: &Rung, options: Options) -> Option<Server> {
    match rung.start(options) {
        Err(error @ StartError::Uring(_)) => {
            assert!(std::env::var_os("CI").is_none(), "{error}");
            skipped::say(error);
            None
        }
        server => Some(server.unwrap_or_else(|error| panic!("{}: {error}", rung.name))),
    }
}

pub(crate) fn connect(server: &Server) -> io::Result<TcpStream> {
    let connection = TcpStream::connect(server.address())?;
    connection.set_nodelay(true)?;
    // Far beyond what any test needs: only a hang gets there.
    connection.set_read_timeout(Some(Duration::from_secs(60)))?;
    connection.set_write_timeout(Some(Duration::from_secs(60)))?;
    Ok(connection)
}

pub(crate) fn expect_responses(connection: &mut TcpStream, server: &Server, count: usize) -> io::Result<()> {
    let mut responses = vec![0; server.response().len() * count];
    connection.read_exact(&mut responses)?;
    assert!(responses == server.response().repeat(count), "the responses differ from what was promised");
    Ok(())
}

/// One request and its response.
pub(crate) fn expect_served(connection: &mut TcpStream, server: &Server) -> io::Result<()> {
    connection.write_all(REQUEST)?;
    expect_responses(connection, server, 1)
}

/// All that is left to read is the end.
pub(crate) fn expect_end(mut connection: TcpStream) -> io::Result<()> {
    connection.shutdown(Shutdown::Write)?;
    let mut rest = Vec::new();
    connection.read_to_end(&mut rest)?;
    assert!(rest.is_empty(), "{} bytes too many", rest.len());
    Ok(())
}

/// Waits until it holds.
pub(crate) fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < Duration::from_secs(30), "not within 30 s: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}
