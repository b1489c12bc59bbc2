//! With one connection, each rung makes the calls that it is known for, and no other.
//!
//! Where the system does not let us count, the test says why and passes, except under `CI`, where it fails.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::TcpStream;

use crate::support::{REQUEST, expect_served, on_each_rung};
use anywire_ladder::{Options, Server};
use anywire_sys::syscalls::{CallsByName, SyscallCounter};

const REQUESTS: u64 = 1000;

/// The calls of the server's threads for [`REQUESTS`], one at a time.
fn calls(connection: &mut TcpStream, server: &Server) -> io::Result<Option<BTreeMap<&'static str, u64>>> {
    let mut all = BTreeMap::new();
    let mut counters = Vec::new();
    for thread in server.threads() {
        match CallsByName::for_thread(thread) {
            Ok(counter) => counters.push(counter),
            Err(why_not) => {
                assert!(std::env::var_os("CI").is_none(), "{why_not}");
                crate::support::skipped::say(why_not);
                return Ok(None);
            }
        }
    }
    counters.iter_mut().try_for_each(CallsByName::enable)?;
    for _ in 0..REQUESTS {
        expect_served(connection, server)?;
    }
    counters.iter().try_for_each(CallsByName::disable)?;
    for counter in &counters {
        counter.read()?.into_iter().for_each(|(name, count)| *all.entry(name).or_default() += count);
    }
    Ok(Some(all))
}

#[test]
fn each_rung_makes_its_own_calls() {
    on_each_rung(Options::default(), |rung, server| {
        let mut connection = TcpStream::connect(server.address())?;
        expect_served(&mut connection, server)?;
        let Some(mut calls) = calls(&mut connection, server)? else { return Ok(()) };
        println!("{}: {calls:?}", rung.name);
        // The last wait may be entered before the count is read, or after.
        let once = REQUESTS - 1..=REQUESTS + 1;
        let mut take = |name| calls.remove(name).unwrap_or(0);
        match rung.name {
            "blocking" => assert!(once.contains(&take("recvfrom")) && once.contains(&take("sendto"))),
            "scan" => {
                // As many as the time allowed, also to accept.
                assert!(take("recvfrom") >= REQUESTS && once.contains(&take("sendto")));
                assert!(take("accept4") > 0);
            }
            "io_uring" => assert!((REQUESTS - 1..=2 * REQUESTS + 2).contains(&take("io_uring_enter"))),
            name => {
                let waits: u64 = WAITS.iter().filter(|wait| wait.contains(name)).map(|wait| take(wait)).sum();
                assert!(once.contains(&waits), "{waits} waits");
                assert!(once.contains(&take("recvfrom")) && once.contains(&take("sendto")));
            }
        }
        assert!(calls.is_empty(), "{}: {calls:?} beside them", rung.name);
        Ok(())
    });
}

/// What the three are called on this architecture.
const WAITS: [&str; 6] = ["select", "pselect6", "poll", "ppoll", "epoll_wait", "epoll_pwait"];

/// A slow peer has made its connection wait for room; afterwards that must cost others nothing.
#[test]
fn a_connection_that_waited_for_room_costs_nothing_later() {
    // Together the responses are far more than the buffers of both sockets; each alone fits in one `send`.
    const SLOW: usize = 4000;
    let options = Options { body_bytes: 8 << 10, ..Options::default() };
    on_each_rung(options, |rung, server| {
        let mut slow = TcpStream::connect(server.address())?;
        slow.write_all(&REQUEST.repeat(SLOW))?;
        let mut response = vec![0; server.response().len()];
        for _ in 0..SLOW {
            slow.read_exact(&mut response)?;
        }
        let mut other = TcpStream::connect(server.address())?;
        expect_served(&mut other, server)?;
        if let ("epoll" | "poll" | "select", Ok(counter)) =
            (rung.name, SyscallCounter::for_thread(server.main_thread()))
        {
            counter.reset_and_enable()?;
            for _ in 0..REQUESTS {
                expect_served(&mut other, server)?;
            }
            let calls = counter.read()?;
            assert!((3 * REQUESTS - 1..=3 * REQUESTS + 1).contains(&calls), "{}: {calls}", rung.name);
        }
        Ok(())
    });
}
