//! anywire's own load engine, on one loop: every answer is parsed, matched to its request and checked.
//!
//! The window closes a moment before the engine ends its measured part, since the engine drops its connections at that
//! end, and what the server does to close ten thousand of them is no part of a request's cost.

use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use anywire_http::{Bytes, Headers, Method, StatusCode};
use anywire_load::{Amount, Boundary, Expect, Handles, Plan};
use anywire_loops::Loops;

use super::{Load, Outcome, Window};
use crate::measure::Family;
use crate::servers::api;

pub(super) fn run(load: &Load, server: Family, window: &mut dyn Window) -> Result<Outcome> {
    // This process is pinned, so the loop's thread is too.
    let loops = Loops::start(1).context("the load's loop did not start")?;
    let mut headers = Headers::new();
    if load.posts.is_some() {
        headers.insert("content-type", "application/json")?;
        headers.insert("authorization", api::AUTHORIZATION)?;
    }
    let plan = Plan {
        method: if load.posts.is_some() { Method::POST } else { Method::GET },
        headers,
        body: Bytes::from_static(load.posts.unwrap_or_default().as_bytes()),
        protocol: load.http,
        connections: load.connections,
        depth: load.depth,
        warm_up: load.warm_up,
        amount: Amount::Duration(load.duration),
        expect: Expect {
            status: Some(StatusCode::OK),
            body_bytes: Some(load.body_bytes as u64),
            ..Expect::default()
        },
        ..Plan::new(format!("http://{}{}", load.address, load.path))
    };
    let before = server.sockets()?;
    let (begin, begun) = mpsc::sync_channel(0);
    let (go, gone) = mpsc::sync_channel(0);
    // `move`, so that a failure in here drops `go`, for which the run would wait for ever.
    let (outcome, connections_open, time) = thread::scope(move |scope| {
        let waiting = scope.spawn(move || {
            anywire_load::run_observed(&loops, plan, Handles::default(), |boundary| {
                if boundary == Boundary::Measuring {
                    // Both fail only if the other side has given up; it says why.
                    let _ = begin.send(());
                    let _ = gone.recv();
                }
            })
        });
        let (mut connections_open, mut time) = (0, Duration::ZERO);
        // If the run ends before it measures, its outcome says why.
        if begun.recv().is_ok() {
            connections_open = server.sockets()?.saturating_sub(before);
            window.open()?;
            let start = Instant::now();
            go.send(()).context("the load run ended before it measured")?;
            thread::sleep(load.duration.saturating_sub(EARLY));
            window.close()?;
            time = start.elapsed();
        }
        let outcome = waiting.join().ok().context("the load run panicked")??;
        anyhow::Ok((outcome, connections_open, time))
    })?;
    let totals = &outcome.totals;
    ensure!(!outcome.rate.interrupted, "the load run was interrupted");
    let errors = totals.measured.errors.total();
    ensure!(
        errors == 0,
        "{errors} errors: {}, {:?}",
        totals.measured.errors.line(),
        totals.measured.error_samples
    );
    let latency = outcome.latency.send.as_ref();
    Ok(Outcome {
        requests: totals.measured.answered,
        errors,
        seconds: outcome.rate.seconds,
        requests_in_window: outcome.rate.achieved.unwrap_or(0.0) * time.as_secs_f64(),
        connections_open,
        p50_us: latency.map(|latency| latency.p50),
        p99_us: latency.map(|latency| latency.p99),
    })
}

/// How long before the end of the measured part the window closes. The load is steady, so its rate is the same in both.
const EARLY: Duration = Duration::from_millis(50);

#[cfg(test)]
mod tests {
    use anywire_ladder::{Options, Rung};
    use anywire_load::Protocol;

    use super::*;
    use crate::servers::BODY;

    struct Counted {
        opened: u32,
        closed: u32,
        broken: bool,
    }

    impl Window for Counted {
        fn open(&mut self) -> Result<()> {
            ensure!(!self.broken, "not today");
            self.opened += 1;
            Ok(())
        }

        fn close(&mut self) -> Result<()> {
            self.closed += 1;
            Ok(())
        }
    }

    fn load_the_limit(window: &mut Counted) -> Result<Outcome> {
        let limit = Rung::named("epoll").unwrap().start(Options { core: None, body_bytes: BODY.len() })?;
        let load = Load {
            address: limit.address(),
            http: Protocol::Http1,
            path: "/",
            posts: None,
            body_bytes: BODY.len(),
            connections: 3,
            depth: 2,
            warm_up: Duration::from_millis(10),
            duration: Duration::from_millis(200),
        };
        run(&load, Family::of(std::process::id()), window)
    }

    #[test]
    fn the_window_opens_and_closes_once_within_the_load() {
        let mut window = Counted { opened: 0, closed: 0, broken: false };
        let outcome = load_the_limit(&mut window).unwrap();
        assert_eq!((window.opened, window.closed), (1, 1));
        assert!(outcome.requests > 0 && outcome.requests_in_window > 0.0);
        assert!(outcome.connections_open >= 3);
    }

    #[test]
    fn a_window_that_does_not_open_is_an_error_and_no_hang() {
        let mut window = Counted { opened: 0, closed: 0, broken: true };
        assert_eq!(load_the_limit(&mut window).unwrap_err().to_string(), "not today");
    }
}
