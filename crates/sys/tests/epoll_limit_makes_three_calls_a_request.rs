//! With one connection, each request costs the epoll limit an `epoll_wait`, a `recv` and a `send`, and no more; also
//! after it had to wait for room on that connection. With more connections the wait is shared.
//!
//! Where the system does not let us count, the test says why and passes, except under `CI`, where it fails.

mod skipped;

use std::io::{self, Read, Write};
use std::net::TcpStream;

use anywire_sys::epoll_limit::{EpollLimit, Options};
use anywire_sys::syscalls::SyscallCounter;

const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nhost: a\r\n\r\n";

/// System calls of the limit's thread for `count` requests, one at a time.
fn calls_for(count: u64, connection: &mut TcpStream, limit: &EpollLimit) -> io::Result<Option<u64>> {
    let counter = match SyscallCounter::for_thread(limit.thread_id()) {
        Ok(counter) => counter,
        Err(why_not) => {
            assert!(std::env::var_os("CI").is_none(), "{why_not}");
            skipped::say(why_not);
            return Ok(None);
        }
    };
    let mut response = vec![0; limit.response().len()];
    counter.reset_and_enable()?;
    for _ in 0..count {
        connection.write_all(REQUEST)?;
        connection.read_exact(&mut response)?;
    }
    counter.read().map(Some)
}

#[test]
fn one_request_at_a_time() -> io::Result<()> {
    let limit = EpollLimit::start(Options::default())?;
    let mut connection = TcpStream::connect(limit.address())?;
    connection.write_all(REQUEST)?;
    connection.read_exact(&mut vec![0; limit.response().len()])?;
    if let Some(calls) = calls_for(1000, &mut connection, &limit)? {
        // The last wait may be entered before the count is read, or after.
        assert!((2999..=3001).contains(&calls), "{calls} calls for 1000 requests");
    }
    Ok(())
}

#[test]
fn after_a_wait_for_room() -> io::Result<()> {
    // Together the responses are far more than the buffers of both sockets; each alone fits in one `send`.
    const REQUESTS: usize = 4000;
    let limit = EpollLimit::start(Options { body_bytes: 8 << 10, ..Options::default() })?;
    let mut slow = TcpStream::connect(limit.address())?;
    slow.write_all(&REQUEST.repeat(REQUESTS))?;
    let mut response = vec![0; limit.response().len()];
    for _ in 0..REQUESTS {
        slow.read_exact(&mut response)?;
    }
    // The slow connection stays open, with nothing to do. It must not keep the loop busy.
    let mut other = TcpStream::connect(limit.address())?;
    other.write_all(REQUEST)?;
    other.read_exact(&mut response)?;
    if let Some(calls) = calls_for(1000, &mut other, &limit)? {
        assert!((2999..=3001).contains(&calls), "{calls} calls for 1000 requests");
    }
    Ok(())
}
