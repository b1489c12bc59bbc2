//! One query serves all who ask, its answer is kept for its TTL, and no dial waits for a resolver for longer than it may.

use std::net::SocketAddr;
use std::time::Duration;

use anywire_wire::names::{Limits, Names, ResolveError};
use anywire_wire::{DialError, DialOptions, Dialer, ListenerHandle};

use crate::support::names::Book;

fn echo() -> (ListenerHandle, SocketAddr, anywire_loops::Loops) {
    let loops = crate::support::loops(1);
    let any = "tcp:127.0.0.1:0".parse().expect("an address");
    let listening = crate::support::serve_echo(&loops, &any, &crate::support::listening());
    let address = SocketAddr::from(([127, 0, 0, 1], listening.local().port().expect("TCP has ports")));
    (listening, address, loops)
}

fn dialer(names: &Names) -> Dialer {
    Dialer::new(DialOptions { names: names.clone(), ..DialOptions::default() })
}

#[test]
fn twenty_dials_on_two_loops_are_one_query() {
    let (_listening, address, _loops) = echo();
    let book = Book::new();
    book.set("shop.test", &[address]);
    book.open(false);
    let names = Names::new(book.clone());
    let loops = crate::support::loops(2);
    let dials: Vec<_> = (0..20)
        .map(|at| {
            let dialer = dialer(&names);
            loops.get(at % 2).spawn(move || async move { dialer.dial("tcp:Shop.test:80").await.map(drop) })
        })
        .collect();
    crate::support::eventually("all but one have joined", || names.counters().joined == 19);
    book.open(true);
    for dial in dials {
        dial.wait().expect("no panic").expect("it is answered");
    }
    assert_eq!(book.asked(), ["shop.test"]);
    let dialer = dialer(&names);
    crate::support::on_a_loop(move || async move { dialer.dial("tcp:shop.test:80").await.map(drop) })
        .expect("it is kept");
    assert_eq!(book.asked().len(), 1);
    let counters = names.counters();
    assert_eq!((counters.queries, counters.hits), (1, 1));
}

#[test]
fn a_query_goes_on_when_its_loop_has_ended() {
    let (_listening, address, _loops) = echo();
    let book = Book::new();
    book.set("shop.test", &[address]);
    book.open(false);
    let names = Names::new(book.clone());
    let (first, second) = (crate::support::loops(1), crate::support::loops(1));
    let (one, other) = (dialer(&names), dialer(&names));
    let cut = first.get(0).spawn(move || async move { one.dial("tcp:shop.test:80").await.map(drop) });
    crate::support::eventually("the first one asks", || book.asked().len() == 1);
    let dial = second.get(0).spawn(move || async move { other.dial("tcp:shop.test:80").await.map(drop) });
    crate::support::eventually("the second one joins", || names.counters().joined == 1);
    first.shutdown(Duration::ZERO).expect("it has begun");
    cut.wait().expect_err("its loop has ended");
    crate::support::eventually("the second one asks", || book.asked().len() == 2);
    book.open(true);
    dial.wait().expect("no panic").expect("it is answered");
}

#[test]
fn a_resolver_that_is_silent_costs_only_those_who_ask_it() {
    let (_listening, address, _loops) = echo();
    let book = Book::new();
    book.set("shop.test", &[address]);
    book.open(false);
    let names = Names::new(book.clone());
    let after = Duration::from_millis(50);
    let options = DialOptions { resolve_timeout: after, names, ..DialOptions::default() };
    let dialer = Dialer::new(options);
    let again = dialer.clone();
    let error = crate::support::on_a_loop(move || async move {
        let waiting = anywire_loops::spawn({
            let dialer = dialer.clone();
            async move { dialer.dial("tcp:shop.test:80").await.map(drop) }
        });
        // On the same loop.
        dialer.dial(address).await.expect("an address needs no resolver");
        waiting.await.expect("no panic").expect_err("nobody answers")
    });
    assert!(error.is_timeout(), "{error:?}");
    let DialError::Resolve { cause, .. } = &error else { panic!("{error:?}") };
    let Some(ResolveError::Timeout { after: told }) = ResolveError::of(cause) else { panic!("{cause:?}") };
    assert_eq!(*told, after);
    assert!(error.to_string().contains("does not resolve (no answer within 50ms)"), "{error}");
    // The loop of the query has ended, and so has the query.
    book.open(true);
    crate::support::on_a_loop(move || async move { again.dial("tcp:shop.test:80").await.map(drop) })
        .expect("it is answered now");
}

#[test]
fn a_change_is_seen_when_the_ttl_is_over_and_no_sooner() {
    let [one, other] = [1, 2].map(|last| SocketAddr::from(([10, 0, 0, last], 80)));
    let book = Book::new().with_ttl(Duration::from_secs(10));
    book.set("shop.test", &[one]);
    let names = Names::with_limits(book.clone(), Limits { stale: Duration::ZERO, ..Limits::default() });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("a runtime").block_on(async {
        let ask = async || names.addresses("shop.test", 80).await.expect("an address");
        assert_eq!(ask().await, [one]);
        book.set("shop.test", &[other]);
        tokio::time::advance(Duration::from_secs(9)).await;
        assert_eq!(ask().await, [one]);
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(ask().await, [other]);
    });
    assert_eq!(book.asked().len(), 2);
}

#[test]
fn a_stale_answer_serves_while_it_is_refreshed() {
    let [one, other] = [1, 2].map(|last| SocketAddr::from(([10, 0, 0, last], 80)));
    let book = Book::new().with_ttl(Duration::from_secs(10));
    book.set("shop.test", &[one]);
    let names = Names::new(book.clone());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("a runtime").block_on(async {
        let ask = async || names.addresses("shop.test", 80).await.expect("an address");
        assert_eq!(ask().await, [one]);
        book.set("shop.test", &[other]);
        book.open(false);
        tokio::time::advance(Duration::from_secs(11)).await;
        assert_eq!((ask().await, ask().await), (vec![one], vec![one]), "nobody waits");
        book.open(true);
        while book.asked().len() < 2 || ask().await != [other] {
            tokio::task::yield_now().await;
        }
    });
    assert_eq!(book.asked().len(), 2, "one query refreshes it");
}

#[test]
fn a_name_that_does_not_exist_is_not_asked_for_again_at_once() {
    let book = Book::new();
    let names = Names::new(book.clone());
    for _ in 0..3 {
        let dialer = dialer(&names);
        let error =
            crate::support::on_a_loop(move || async move { dialer.dial("tcp:no.test:80").await.map(drop) });
        let error = error.expect_err("there is no such name");
        let DialError::Resolve { cause, .. } = &error else { panic!("{error:?}") };
        assert!(matches!(ResolveError::of(cause), Some(ResolveError::NotFound)), "{cause:?}");
    }
    assert_eq!(book.asked().len(), 1);
    assert_eq!(names.counters().not_found, 1);
}

#[test]
fn families_that_are_asked_for_apart_make_one_name() {
    let (_listening, good, _loops) = echo();
    let dead = SocketAddr::from(([0, 0, 0, 0, 0, 0, 0, 1], crate::support::unused_tcp_address().port()));
    let book = Book::new().split();
    book.set("both.test", &[good, dead]);
    book.set("v4.test", &[good]);
    book.set("v6.test", &[dead]);
    let names = Names::new(book.clone());
    let dial = |name: &str| {
        // Nothing but answers and refusals is waited for.
        let never = Duration::from_secs(3600);
        let options = DialOptions {
            names: names.clone(),
            attempt_delay: never,
            connect_timeout: never,
            resolve_timeout: never,
            ..DialOptions::default()
        };
        let address = format!("tcp:{name}:80");
        crate::support::on_a_loop(move || async move { Dialer::new(options).dial(address).await.map(drop) })
    };
    dial("both.test").expect("the other family answers");
    dial("v4.test").expect("it answers");
    assert!(!matches!(dial("v6.test"), Ok(()) | Err(DialError::Resolve { .. })), "nobody listens there");
    assert!(matches!(dial("no.test"), Err(DialError::Resolve { .. })));
    // Nobody is asked for this one, in no family.
    assert!(!matches!(dial("localhost"), Err(DialError::Resolve { .. })));
    assert_eq!(book.asked().len(), 8);
}

#[test]
fn an_address_that_failed_is_tried_last() {
    let (_listening, good, _loops) = echo();
    let dead = crate::support::unused_tcp_address();
    let book = Book::new();
    book.set("shop.test", &[dead, good]);
    let names = Names::new(book);
    for _ in 0..3 {
        let dialer = dialer(&names);
        crate::support::on_a_loop(move || async move { dialer.dial("tcp:shop.test:80").await.map(drop) })
            .expect("the other one answers");
    }
    assert_eq!(names.counters().addresses_failed, 1);
}

/// A service that has moved is found at the next dial, however long its old address was to hold. But a name is not asked for at each
/// dial that fails.
#[test]
fn a_name_whose_addresses_all_fail_is_asked_for_anew() {
    for (shortest_ttl, is_found) in [(Duration::ZERO, true), (Duration::from_secs(3600), false)] {
        let (_listening, good, _loops) = echo();
        let book = Book::new().with_ttl(Duration::from_secs(3600));
        book.set("shop.test", &[crate::support::unused_tcp_address()]);
        let names = Names::with_limits(book.clone(), Limits { shortest_ttl, ..Limits::default() });
        let dial = || {
            let dialer = dialer(&names);
            crate::support::on_a_loop(move || async move { dialer.dial("tcp:shop.test:80").await.map(drop) })
        };
        assert!(dial().expect_err("nobody is there").is_refused());
        book.set("shop.test", &[good]);
        assert_eq!((dial().is_ok(), book.asked().len()), (is_found, 1 + usize::from(is_found)));
    }
}
