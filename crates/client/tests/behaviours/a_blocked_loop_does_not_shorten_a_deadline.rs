//! A call's deadlines count from the true time, even if a task has blocked the loop and its coarse clock is behind.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use anywire_client::{Call, Client};
use anywire_loops::{Deadline, Loops, deadline::TICK};

const LIMIT: Duration = TICK.saturating_mul(5);

#[test]
fn a_blocked_loop_does_not_shorten_a_deadline() {
    ends_in_time(|call| call.total_timeout(LIMIT));
    ends_in_time(|call| call.read_timeout(LIMIT));
}

fn ends_in_time(limited: impl FnOnce(Call) -> Call + Send + 'static) {
    // Takes connections into its queue, and never answers.
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let url = format!("http://{}/", silent.local_addr().expect("it is bound"));
    let loops = Loops::start(1).expect("one loop can be had");
    let client = Client::builder().on(&loops).build();
    let checked = loops.get(0).spawn(move || async move {
        // While there is a deadline, the loop's clock moves by ticks.
        let ticking = Deadline::new();
        ticking.set(TICK);
        std::future::poll_fn(|context| ticking.poll_expired(context)).await;
        let blocked = Instant::now();
        while blocked.elapsed() < 3 * LIMIT {
            std::hint::spin_loop();
        }
        let start = Instant::now();
        let error = limited(client.get(url)).send().await.expect_err("nobody answers");
        assert!(error.is_timeout(), "{error}");
        let elapsed = start.elapsed();
        assert!(elapsed >= LIMIT, "ended after {elapsed:?} of {LIMIT:?}");
    });
    checked.wait().expect("no assertion failed");
}
