//! What a run that is ended early, or comes to too few datagrams, cannot know is told as that, and not as a loss.
use std::collections::VecDeque;
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use anywire_load::udp::{Search, UdpOutcome, UdpPlan, run, search};
use anywire_load::{Handles, Schedule, Stop};
use anywire_loops::Loops;

/// Far beyond what any test needs: only a hang gets there.
const HANG: Duration = Duration::from_secs(60);

/// A service that returns nothing, and ends the run when so many have come.
fn silent(ends_after: u64, stop: Stop) -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    let address = socket.local_addr().expect("bound");
    std::thread::spawn(move || {
        for number in 1.. {
            if socket.recv(&mut [0; 2048]).is_err() {
                return;
            }
            if number == ends_after {
                stop.stop();
            }
        }
    });
    address
}

/// An echo that returns each datagram after so long at least.
fn delayed(delay: Duration) -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    let address = socket.local_addr().expect("bound");
    socket.set_read_timeout(Some(Duration::from_millis(1))).expect("a time");
    std::thread::spawn(move || {
        let (mut buffer, mut waiting) = ([0; 2048], VecDeque::new());
        loop {
            if let Ok((length, from)) = socket.recv_from(&mut buffer) {
                waiting.push_back((Instant::now() + delay, buffer[..length].to_vec(), from));
            }
            while waiting.front().is_some_and(|(at, ..)| *at <= Instant::now()) {
                let (_, datagram, from) = waiting.pop_front().expect("it is there");
                let _ = socket.send_to(&datagram, from);
            }
        }
    });
    address
}

fn plan(target: SocketAddr) -> UdpPlan {
    UdpPlan {
        schedule: Schedule::constant(200.0),
        duration: Duration::from_millis(500),
        flows: 10,
        ..UdpPlan::new(target).expect("an address")
    }
}

fn load(plan: UdpPlan) -> UdpOutcome {
    load_until(plan, Stop::new())
}

fn load_until(plan: UdpPlan, stop: Stop) -> UdpOutcome {
    let handles = Handles { stop, ..Handles::default() };
    run(&Loops::start(1).expect("a thread"), plan, handles).expect("the plan is possible")
}

#[test]
fn an_early_end_makes_no_losses() {
    // In the first case while it sends, in the second while it waits for the rest.
    for ends_after in [50, 100] {
        let stop = Stop::new();
        let target = silent(ends_after, stop.clone());
        let outcome = load_until(UdpPlan { wait: HANG, ..plan(target) }, stop);
        assert!(outcome.rate.interrupted, "{outcome}");
        assert_eq!((outcome.on_their_way, outcome.lost), (outcome.sent, 0), "{outcome}");
    }
}

#[test]
fn an_early_end_keeps_the_rate_until_then() {
    let stop = Stop::new();
    let target = silent(20, stop.clone());
    let hour = Duration::from_secs(3600);
    let outcome = load_until(UdpPlan { duration: hour, wait: HANG, ..plan(target) }, stop);
    assert!(outcome.rate.interrupted && outcome.sent < outcome.intended, "{outcome}");
    // Of an hour it would be nothing. A slow machine may send late.
    assert!(outcome.rate.kept > Some(0.1), "{:?}", outcome.rate);
}

#[test]
fn a_sender_that_was_the_limit_says_nothing_of_the_service() {
    // No machine sends ten million datagrams in a fifth of a second.
    let (most, duration) = (Schedule::constant(5e7), Duration::from_millis(200));
    let outcome = load(UdpPlan { schedule: most, duration, ..plan(silent(0, Stop::new())) });
    assert_eq!((outcome.rate.saturated, outcome.kept_its_rate()), (Some(true), false), "{outcome}");
    let said = outcome.saturation().expect("it was the limit");
    assert!(said.contains("so the service may stand more"), "{said}");
    // One that the run had time for is no limit, however late a slow machine sent the last one.
    let hour = Schedule::constant(1.0);
    let outcome = load(UdpPlan {
        schedule: hour,
        duration: Duration::from_secs(1),
        wait: duration,
        ..plan(silent(0, Stop::new()))
    });
    assert_eq!((outcome.sent, outcome.rate.saturated), (1, Some(false)), "{outcome}");
    assert_eq!(outcome.saturation(), None);
}

#[test]
fn what_takes_more_than_twice_the_time_is_lost() {
    let wait = Duration::from_millis(100);
    let outcome = load(UdpPlan { wait, ..plan(delayed(Duration::from_millis(350))) });
    assert_eq!((outcome.late, outcome.lost), (0, outcome.sent), "{outcome}");
    assert_eq!(outcome.latency.sent, None, "{outcome}");
}

#[test]
fn the_rate_of_few_datagrams_is_their_rate() {
    for (datagrams_per_second, most) in [(4.0, 4.001), (2.0, 2.001)] {
        let wait = Duration::from_millis(50);
        let outcome = load(UdpPlan {
            schedule: Schedule::constant(datagrams_per_second),
            wait,
            ..plan(delayed(Duration::ZERO))
        });
        assert!(outcome.sent > 0 && outcome.rate.sent.is_some_and(|rate| rate < most), "{:?}", outcome.rate);
    }
}

#[test]
fn figures_of_nothing_are_unknown() {
    let stop = Stop::new();
    stop.stop();
    // The service is silent, and nothing is sent.
    let outcome = load_until(plan(silent(0, stop.clone())), stop);
    let json: serde_json::Value = serde_json::from_str(&outcome.to_json()).expect("JSON");
    assert_eq!((outcome.sent, &json["rate"]["interrupted"]), (0, &true.into()));
    for at in [
        "/loss",
        "/rate/sent",
        "/rate/received",
        "/rate/kept",
        "/rate/saturated",
        "/rate/lag_us_max",
        "/calls/datagrams_per_send",
        "/calls/datagrams_per_receive",
        "/calls/datagrams_per_message",
    ] {
        assert!(json.pointer(at).is_some_and(serde_json::Value::is_null), "{at}: {json}");
    }
    assert!(!outcome.to_string().contains("more loops"), "{outcome}");
}

/// A search from this rate on, of a service that returns nothing.
fn nothing_holds(datagrams_per_second: f64, duration: Duration) {
    let wait = Duration::from_millis(10);
    let plan = UdpPlan {
        schedule: Schedule::constant(datagrams_per_second),
        duration,
        wait,
        ..plan(silent(0, Stop::new()))
    };
    let loops = Loops::start(1).expect("a thread");
    let found = search(&loops, &plan, &Handles::default(), &Search::default(), |_| ()).expect("it runs");
    let last = found.trials.last().expect("there are some").datagrams_per_second;
    assert!(found.trials.len() > 1, "{found}");
    assert_eq!((found.highest_rate, found.outcome.plan.datagrams_per_second), (None, last));
}

#[test]
fn a_search_that_comes_to_no_datagram_ends_without_a_rate() {
    nothing_holds(50.0, Duration::from_millis(100));
}

#[test]
fn the_account_of_a_search_is_that_of_the_last_run_if_none_held() {
    nothing_holds(4.0, Duration::from_millis(500));
}

/// An echo that stops the run behind so many datagrams.
fn echo_until(stops_behind: u64, stop: Stop) -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    let address = socket.local_addr().expect("bound");
    std::thread::spawn(move || {
        let mut buffer = [0; 2048];
        for number in 0.. {
            let Ok((length, from)) = socket.recv_from(&mut buffer) else { return };
            let _ = socket.send_to(&buffer[..length], from);
            if number == stops_behind {
                stop.stop();
            }
        }
    });
    address
}

#[test]
fn a_search_that_is_ended_early_says_so() {
    let loops = Loops::start(1).expect("a thread");
    // Between two runs, and within the second one.
    let ended_early = |within: bool| {
        let stop = Stop::new();
        // Ample for the echo to see the second run begin.
        let duration = Duration::from_secs(2);
        let target = echo_until(if within { 400 } else { u64::MAX }, stop.clone());
        let plan = UdpPlan { wait: HANG, duration, ..plan(target) };
        let handles = Handles { stop: stop.clone(), ..Handles::default() };
        let lenient = Search { loss_max: 0.5, ..Search::default() };
        let found = search(&loops, &plan, &handles, &lenient, |_| {
            if !within {
                stop.stop()
            }
        })
        .expect("it can run");
        (found, plan)
    };
    for within in [false, true] {
        // A busy machine may not keep the rate of the first run, which then shows nothing.
        let mut tries = (0..20).map(|_| ended_early(within));
        let kept =
            tries.find(|(found, _)| found.trials.first().is_some_and(|first| first.kept == Some(true)));
        let (found, plan) = kept.expect("one of twenty runs keeps its rate");
        // What the first one has shown counts; what the second one has not does not.
        assert_eq!(
            (found.interrupted, found.highest_rate),
            (true, Some(plan.schedule.shape.mean())),
            "{found}"
        );
        let ended_early: Vec<_> = found.trials.iter().map(|trial| trial.held.is_none()).collect();
        assert_eq!(ended_early, if within { vec![false, true] } else { vec![false] });
        let said = found.to_string();
        assert!(said.contains("the search was ended early: higher rates may hold"), "{said}");
        assert!(!found.outcome.rate.interrupted, "{said}");
    }
}
