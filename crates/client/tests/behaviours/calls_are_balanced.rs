//! An origin may have several addresses. Calls are shared among them, and no call fails because one of them is dead.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::support::names::Book;
use crate::support::{HANG, OK, Peer, block_on, client, eventually, on_token, poll_once, wire};
use anywire_client::{Balance, Client, Error};
use anywire_http::StatusCode;
use anywire_wire::names::{Limits, Names};

const URL: &str = "http://shop.example/";
const DEAD: &str = "unix:/nowhere/at/all.sock";

/// Answers each request, and counts them.
fn counting(scheme: &str) -> (Peer, Arc<AtomicUsize>) {
    let count = Arc::<AtomicUsize>::default();
    let requests = Arc::clone(&count);
    let peer = Peer::start(wire(scheme), move |mut talk| {
        while talk.request().is_some() {
            requests.fetch_add(1, Ordering::SeqCst);
            talk.say(OK);
        }
    });
    (peer, count)
}

fn counting_http2() -> (Peer, Arc<AtomicUsize>) {
    let count = Arc::<AtomicUsize>::default();
    let requests = Arc::clone(&count);
    let peer = Peer::of_http2(wire("tcp"), move |mut frames, _| {
        while let Some(stream) = frames.request() {
            requests.fetch_add(1, Ordering::SeqCst);
            frames.answer(stream);
        }
    });
    (peer, count)
}

fn call(client: &Client) -> Result<(), Error> {
    block_on(client.get(URL).send()).map(drop)
}

fn address_of(peer: &Peer) -> SocketAddr {
    peer.via().location().parse().expect("an address of TCP")
}

#[test]
fn round_robin_goes_from_one_to_the_next_on_any_wire() {
    let peers = ["tcp", "unix", "memory"].map(counting);
    let addresses = peers.each_ref().map(|(peer, _)| peer.via().clone());
    let (_loops, client) =
        client(1, |builder| builder.balance("http://shop.example", Balance::over(addresses).round_robin()));
    for _ in 0..9 {
        call(&client).expect("an answer");
    }
    assert_eq!(peers.each_ref().map(|(_, count)| count.load(Ordering::SeqCst)), [3, 3, 3]);
    assert_eq!(client.counters().total().dialed, 3);
    // What names its wire goes there.
    block_on(client.get(URL).via(peers[1].0.via()).send()).expect("an answer");
    assert_eq!(peers[1].1.load(Ordering::SeqCst), 4);
    // Another origin has nothing to do with it.
    block_on(client.get(peers[0].0.url("/")).send()).expect("an answer");
    assert_eq!(peers[0].1.load(Ordering::SeqCst), 4);
}

#[test]
fn an_address_that_is_busy_gets_no_more_than_others() {
    let slow = Arc::<AtomicUsize>::default();
    let requests = Arc::clone(&slow);
    let silent = Peer::start(wire("tcp"), move |mut talk| {
        talk.request();
        requests.fetch_add(1, Ordering::SeqCst);
        talk.wait_for_end();
    });
    let (good, quick) = counting("tcp");
    let addresses = [silent.via(), good.via()];
    let (_loops, client) = client(1, |builder| builder.balance("http://shop.example", addresses));
    let mut waiting = Vec::new();
    for number in 1..=20 {
        let mut sending = client.get(URL).send();
        let polled = poll_once(&mut sending);
        eventually("a peer has it", || slow.load(Ordering::SeqCst) + quick.load(Ordering::SeqCst) == number);
        if slow.load(Ordering::SeqCst) > waiting.len() {
            waiting.push(sending);
        } else if polled.is_pending() {
            block_on(sending).expect("an answer");
        }
    }
    assert!(slow.load(Ordering::SeqCst) <= 1, "it has one in flight, and the other one none");
}

#[test]
fn a_dead_address_costs_no_call_and_is_left_alone() {
    let (good, count) = counting("tcp");
    let addresses = Balance::over([DEAD.parse().expect("an address"), good.via().clone()]);
    let (_loops, client) =
        client(1, |builder| builder.balance("http://shop.example", addresses.eject_after(1).eject_for(HANG)));
    for _ in 0..40 {
        call(&client).expect("the other one answers");
    }
    assert_eq!(count.load(Ordering::SeqCst), 40);
    let counters = client.counters().total();
    assert_eq!((counters.ejected, counters.moved, counters.dial_failures), (1, 1, 1));
}

#[test]
fn a_gateway_that_fails_is_out_if_its_statuses_count() {
    // The second one is so long that its body is read by and by.
    for length in [3, 200_000] {
        let body = "x".repeat(length);
        let bad = Peer::start(wire("tcp"), move |mut talk| {
            while talk.request().is_some() {
                talk.say(format!("HTTP/1.1 502 Bad Gateway\r\ncontent-length: {length}\r\n\r\n{body}"));
            }
        });
        let (good, _count) = counting("tcp");
        let statuses = |options: &dyn Fn(Balance) -> Balance| {
            let balance = Balance::over([bad.via(), good.via()]).round_robin().eject_after(2).eject_for(HANG);
            let (_loops, client) =
                client(1, |builder| builder.balance("http://shop.example", options(balance)));
            let one = || {
                let response = block_on(client.get(URL).send()).expect("an answer");
                let status = response.status().as_u16();
                assert!(!block_on(response.bytes()).expect("a body").is_empty());
                status
            };
            let failed = (0..12).filter(|_| one() == 502).count();
            // What ends a body is seen on the loop before its connection takes the next call.
            (failed, block_on(client.address_counters()))
        };
        let (failed, counters) = statuses(&|balance| balance);
        assert_eq!(failed, 6, "a status is a response");
        assert_eq!((counters[0].failures, counters[0].ejected), (0, 0));
        let (failed, counters) = statuses(&|balance| balance.eject_on_statuses([StatusCode::BAD_GATEWAY]));
        assert_eq!(failed, 2, "{counters:?}");
        let [bad, good] = &counters[..] else { panic!("two addresses: {counters:?}") };
        assert_eq!((bad.calls, bad.failures, bad.ejected, bad.out), (2, 2, 1, 1));
        assert_eq!((good.calls, good.failures, good.ejected, good.out), (10, 0, 0, 0));
        let others = statuses(&|balance| {
            balance.eject_on_statuses([StatusCode::NOT_FOUND, StatusCode::GATEWAY_TIMEOUT])
        });
        assert_eq!(others.0, 6);
    }
}

#[test]
fn each_address_has_counters_over_all_loops() {
    let silent = Peer::start(wire("tcp"), |mut talk| {
        talk.request();
        talk.wait_for_end();
    });
    let dead: anywire_wire::Address = DEAD.parse().expect("an address");
    let (loops, client) = client(2, |builder| {
        let balance = Balance::over([dead.clone()]).or_else([silent.via()]).eject_for(HANG).eject_after(1);
        builder.balance("http://shop.example", balance).balance("http://a.example", [silent.via()])
    });
    assert!(block_on(client.address_counters()).is_empty(), "no call has asked for one");
    let mut calls: Vec<_> = (0..4).map(|_| client.get(URL).send()).collect();
    calls.push(client.get("http://a.example/").send());
    for call in &mut calls {
        assert!(poll_once(call).is_pending());
    }
    // Two calls on each loop have moved there, and wait for a response.
    eventually("all are there", || {
        let counters = block_on(client.address_counters());
        counters.len() == 3 && counters[0].in_flight == 1 && counters[2].in_flight == 4
    });
    let counters = block_on(client.address_counters());
    let of = |at: usize| {
        let one = &counters[at];
        (&*one.origin, &one.address, one.calls, one.failures, one.ejected, one.out)
    };
    assert_eq!(of(0), ("http://a.example", silent.via(), 1, 0, 0, 0));
    assert_eq!((of(1).0, of(1).1, of(1).4, of(1).5), ("http://shop.example", &dead, 2, 2));
    assert!(counters[1].failures >= 2 && counters[1].calls >= 2, "{counters:?}");
    assert_eq!((of(2).1, of(2).2, of(2).3), (silent.via(), 4, 0));
    drop((calls, loops));
}

#[test]
fn the_second_choice_serves_while_the_first_is_dead() {
    let (first, second) = (counting("tcp"), counting("tcp"));
    let over = |first: &str| {
        let first = first.parse::<anywire_wire::Address>().expect("an address");
        let balance = Balance::over([first]).or_else([second.0.via()]).eject_for(HANG);
        client(1, |builder| builder.balance("http://shop.example", balance))
    };
    let (_loops, client) = over(&first.0.via().to_string());
    for _ in 0..5 {
        call(&client).expect("an answer");
    }
    assert_eq!((first.1.load(Ordering::SeqCst), second.1.load(Ordering::SeqCst)), (5, 0));
    let (_loops, client) = over(DEAD);
    for _ in 0..5 {
        call(&client).expect("the second choice answers");
    }
    assert_eq!(second.1.load(Ordering::SeqCst), 5);
    let counters = client.counters().total();
    assert_eq!((counters.moved, counters.ejected, counters.dial_failures), (3, 1, 3));
}

/// Before the addresses of the name are known, while they are dead, and once the name has none.
#[test]
fn the_second_choice_of_a_name_serves_while_its_addresses_are_dead() {
    let (first, second) = (counting("tcp"), counting("tcp"));
    let counts = || (first.1.load(Ordering::SeqCst), second.1.load(Ordering::SeqCst));
    let over = |addresses: Option<SocketAddr>| {
        let book = Book::new().with_ttl(Duration::ZERO);
        addresses.iter().for_each(|&address| book.set("shop.example", &[address]));
        let balance = Balance::over_name().or_else([second.0.via()]).eject_for(HANG);
        client(1, |builder| builder.names(Names::new(book)).balance("http://shop.example", balance))
    };
    let knows = |client: &Client, count: usize| {
        // The first call has the loop look at the name, and the other pool is there once its addresses are known.
        let _ = call(client);
        let known = || block_on(client.address_counters()).len() == count;
        eventually("the addresses of the name are known", known);
    };
    let (_loops, living) = over(Some(address_of(&first.0)));
    (0..5).for_each(|_| call(&living).expect("an answer"));
    assert_eq!(counts(), (5, 0), "the second choice gets none");
    knows(&living, 2);
    let (_loops, dead) = over(Some("127.0.0.1:1".parse().expect("an address")));
    knows(&dead, 2);
    let before = counts();
    (0..5).for_each(|_| call(&dead).expect("the second choice answers"));
    let (_loops, nameless) = over(None);
    eventually("the name is known to be none", || call(&nameless).is_ok());
    assert_eq!(counts(), (before.0, before.1 + 6));
}

#[test]
fn if_all_are_dead_that_is_said() {
    let (_loops, client) =
        client(1, |builder| builder.balance("http://shop.example", [DEAD, DEAD]).retries(0));
    for _ in 0..10 {
        let error = call(&client).expect_err("nobody is there");
        assert!(error.is_connect() && !error.may_have_been_processed(), "{error:?}");
    }
}

#[test]
fn an_address_that_answers_nothing_is_left_alone_too() {
    let cutting = Peer::start(wire("tcp"), |mut talk| drop(talk.request()));
    let (good, _count) = counting("tcp");
    let balance = Balance::over([cutting.via(), good.via()]).round_robin().eject_for(HANG);
    let (_loops, client) = client(1, |builder| builder.balance("http://shop.example", balance));
    let failed = (0..20).filter(|_| block_on(client.post(URL).body("order").send()).is_err()).count();
    // A POST is never sent twice.
    assert_eq!((failed, cutting.accepted(), client.counters().total().ejected), (3, 3, 1));
}

#[test]
fn the_addresses_of_a_name_share_its_calls_as_they_change() {
    share_calls_as_they_change(false);
}

/// While the name has it, it is one of the first choice; and again one of the second when the name has it no longer.
#[test]
fn an_address_of_a_name_may_be_its_second_choice_too() {
    share_calls_as_they_change(true);
}

fn share_calls_as_they_change(is_second_choice: bool) {
    let [one, other] = [counting("tcp"), counting("tcp")];
    let book = Book::new().with_ttl(Duration::ZERO);
    book.set("shop.example", &[address_of(&one.0), address_of(&other.0)]);
    let limits = Limits { shortest_ttl: Duration::ZERO, stale: Duration::ZERO, ..Limits::default() };
    let names = Names::with_limits(book.clone(), limits);
    let (_loops, client) = client(1, |builder| {
        let balance = Balance::over_name().or_else(is_second_choice.then(|| one.0.via())).round_robin();
        builder.names(names).balance("http://shop.example", balance)
    });
    let counts = || (one.1.load(Ordering::SeqCst), other.1.load(Ordering::SeqCst));
    let call_until = |is_so: &dyn Fn((usize, usize), (usize, usize)) -> bool| {
        let hang = Instant::now() + HANG;
        loop {
            let before = counts();
            (0..4).for_each(|_| call(&client).expect("an answer"));
            if is_so(before, counts()) {
                return;
            }
            assert!(Instant::now() < hang, "{before:?}, then {:?}", counts());
        }
    };
    call_until(&|before, now| now.0 == before.0 + 2 && now.1 == before.1 + 2);
    book.set("shop.example", &[address_of(&other.0)]);
    call_until(&|before, now| now.0 == before.0 && now.1 == before.1 + 4);
    if !is_second_choice {
        // Its idle connection is gone, too.
        eventually("one connection is left", || client.counters().total().idle == 1);
    }
}

#[test]
fn a_call_that_waits_for_an_address_that_goes_waits_elsewhere() {
    let (silent, _tokens) = on_token(wire("tcp"), false);
    let (other, _count) = counting("tcp");
    let book = Book::new().with_ttl(Duration::ZERO);
    book.set("shop.example", &[address_of(&silent)]);
    let limits = Limits { shortest_ttl: Duration::ZERO, stale: Duration::ZERO, ..Limits::default() };
    let names = Names::with_limits(book.clone(), limits);
    let (_loops, client) = client(1, |builder| {
        let one = anywire_client::Limits { connections_per_origin: 1, ..anywire_client::Limits::default() };
        builder.names(names).balance("http://shop.example", Balance::over_name()).limits(one)
    });
    // The first may have its connection before any address is known, and the second one, too.
    let mut calls: Vec<_> = (0..4).map(|_| client.get(URL).send()).collect();
    for call in &mut calls {
        assert!(poll_once(call).is_pending());
    }
    eventually("they wait", || client.counters().total().waiting >= 2);
    book.set("shop.example", &[address_of(&other)]);
    let try_once = || client.get(URL).total_timeout(Duration::from_millis(50)).send();
    eventually("the other address is known", || block_on(try_once()).is_ok());
    for waiting in calls.split_off(2) {
        assert_eq!(block_on(waiting).expect("an answer").status(), 200);
    }
}

#[test]
fn a_fault_is_said_by_the_call() {
    let (_loops, wrong) = client(1, |builder| builder.balance("shop.example", [DEAD]));
    assert!(matches!(call(&wrong), Err(Error::Url { .. })));
    let (_loops, wrong) = client(1, |builder| builder.balance("http://shop.example", ["pigeon:coop"]));
    assert!(matches!(call(&wrong), Err(Error::Via { .. })));
    let other = block_on(wrong.get("http://127.0.0.1:1/").send()).expect_err("nobody listens");
    assert!(other.is_connect(), "{other:?}");
}

/// A probe of one address, say, or a call to a leader: another machine is not what it asks for.
#[test]
fn a_call_that_names_its_wire_is_not_moved() {
    for is_http2 in [false, true] {
        let (good, count) = if is_http2 { counting_http2() } else { counting("tcp") };
        let dead: anywire_wire::Address = DEAD.parse().expect("an address");
        let (_loops, client) = client(1, |builder| {
            let balance = Balance::over([dead.clone(), good.via().clone()]).eject_after(1).eject_for(HANG);
            let version = if is_http2 { builder.http2_prior_knowledge() } else { builder.http1_only() };
            version.balance("http://shop.example", balance)
        });
        // Its pool is one of several from here.
        call(&client).expect("the other one answers");
        let before = count.load(Ordering::SeqCst);
        let calls: Vec<_> = (0..4).map(|_| client.get(URL).via(&dead).send()).collect();
        for answer in crate::support::all(calls) {
            let error = answer.expect_err("nobody is there");
            assert!(matches!(error, Error::Connect { .. }), "{error:?}");
        }
        assert_eq!(count.load(Ordering::SeqCst), before);
    }
}

#[test]
fn an_address_that_is_named_twice_is_one() {
    let (good, _count) = counting("tcp");
    let dead: anywire_wire::Address = DEAD.parse().expect("an address");
    let (_loops, client) = client(1, |builder| {
        let balance = Balance::over([dead.clone(), dead.clone(), good.via().clone()]).round_robin();
        builder.balance("http://shop.example", balance.eject_after(1).eject_for(HANG))
    });
    for _ in 0..12 {
        call(&client).expect("the other one answers");
    }
    assert_eq!(client.counters().total().dial_failures, 1);
    assert_eq!(block_on(client.address_counters()).len(), 2);
}
