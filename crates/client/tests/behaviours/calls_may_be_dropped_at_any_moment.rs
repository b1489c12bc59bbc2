//! Thousands of calls that are dropped at a random moment: in the queue, a dial, its handshake, the writing, the wait for a 100, head,
//! body, trailers, between two hops or attempts, in interceptors. Peers do all that peers may do. Every response belongs to its call,
//! the cap holds, and in the end every place is free and every connection accounted for.
//!
//! Client and peers are tasks of one loop with simulated time, so that a seed gives the same run again. `ANYWIRE_SEEDS` says how
//! many runs.

mod peer;
mod roads;

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anywire_client::{Call, CallRequest, Client, ClientBuilder, Error, Limits, Next, Redirects, Retries};
use anywire_http::{Body, Headers, Method, StatusCode, h2};
use tokio::time::{Instant, sleep};

use self::peer::{Seen, body_of};
use self::roads::Roads;
use crate::random::for_each_seed;
use crate::support::Dice;
use crate::support::simulated::Simulated;

/// Connections that there may be at a time.
const CONNECTIONS: usize = 4;

/// Calls that each may carry over HTTP/2.
const STREAMS: usize = 3;

/// Callers at a time: some wait in the queue.
const CALLERS: u64 = 24;

/// Calls that are dropped in a run.
const DROPS: u64 = 1000;

/// Runs of each kind: 10,000 dropped calls in all, and some more.
const RUNS: u64 = 3;

#[test]
fn over_http1() {
    for_each_seed(RUNS, |seed| play(seed, "http", "memory:", false, ClientBuilder::http1_only));
}

#[test]
fn over_http1_that_calls_share() {
    let shared = |builder: ClientBuilder| builder.http1_only().pipelining(3);
    for_each_seed(RUNS, |seed| play(seed, "http", "memory:", false, shared));
}

#[test]
fn over_http2() {
    for_each_seed(RUNS, |seed| play(seed, "http", "memory:", true, ClientBuilder::http2_prior_knowledge));
}

#[cfg(feature = "tls")]
#[test]
fn over_tls() {
    for_each_seed(RUNS, |seed| play(seed, "https", "tls+memory:", false, ClientBuilder::http1_only));
}

fn play(
    seed: u64,
    scheme: &'static str,
    wire: &str,
    is_http2: bool,
    version: fn(ClientBuilder) -> ClientBuilder,
) {
    let scene = Simulated::new();
    let seen = Seen::default();
    let served = seen.clone();
    let peer = scene.peer_on(wire, move |line| peer::serve(line, is_http2, seed, served.clone()));
    let roads = Roads::new(peer.via(), seed);
    let client = scene.client(|builder| {
        let http2 = h2::Limits { streams: STREAMS, ..Limits::default().http2 };
        let limits = Limits { connections_per_origin: CONNECTIONS, http2, ..Limits::default() };
        // A peer that asks for it is given a second; the rest comes at once, so that the clock depends on the seed alone.
        let retries = Retries {
            first_pause: Duration::ZERO,
            statuses: vec![StatusCode::SERVICE_UNAVAILABLE],
            budget_percent: 1000,
            ..Retries::default()
        };
        let (of_calls, of_attempts) = (loiterer(seed), loiterer(seed + 1));
        let builder = builder.limits(limits).connector(roads.clone()).retries(retries);
        version(builder).intercept(of_calls).intercept_attempts(of_attempts)
    });
    scene.run(async move || {
        let dropped = Rc::new(Cell::new(0));
        let callers: Vec<_> = (0..CALLERS)
            .map(|number| {
                let caller = Caller {
                    client: client.clone(),
                    scheme,
                    number,
                    dice: Dice::new(seed * 1000 + number),
                    dropped: Rc::clone(&dropped),
                };
                anywire_loops::spawn(caller.run())
            })
            .collect();
        for caller in callers {
            caller.await.expect("a response was another's");
        }
        assert!(dropped.get() >= DROPS);
        // What is on its way is still heard of.
        sleep(Duration::from_secs(100)).await;
        let counters = client.counters().total();
        assert_eq!((counters.active, counters.waiting), (0, 0), "{counters:?}");
        assert_eq!(roads.open() as u64, counters.idle, "a connection is lost: {counters:?}");
        let most = roads.most_open();
        assert_eq!(most, CONNECTIONS, "the cap is reached and holds: {counters:?}");
        seen.check();

        // Every place is free: as many calls as there are places have their response together, and in time.
        let begin = Instant::now();
        let places = CONNECTIONS * if is_http2 { STREAMS } else { 1 };
        let calls: Vec<_> = (0..places)
            .map(|_| anywire_loops::spawn(client.get(format!("{scheme}://peer.example/calm/0")).send()))
            .collect();
        for call in calls {
            let response = call.await.expect("no panic").expect("an answer");
            assert_eq!(response.text().await.expect("a body"), body_of("calm"));
        }
        assert!(begin.elapsed() < 2 * peer::CALM, "a place is lost: {:?}", client.counters().total());
        client.shutdown(Duration::from_secs(60)).await;
        let counters = client.counters().total();
        assert_eq!((roads.open(), counters.idle, counters.active), (0, 0, 0), "{counters:?}");
    });
}

/// An interceptor that takes its time on both ways.
fn loiterer(seed: u64) -> impl anywire_client::Interceptor {
    let turns = Arc::new(AtomicU64::new(seed << 32));
    move |request: CallRequest, next: Next| {
        let dice = Dice::new(turns.fetch_add(1, Ordering::Relaxed));
        async move {
            dice.rest(5).await;
            let response = next.call(request).await;
            dice.rest(5).await;
            response
        }
    }
}

struct Caller {
    client: Client,
    scheme: &'static str,
    number: u64,
    dice: Dice,
    dropped: Rc<Cell<u64>>,
}

impl Caller {
    /// Makes calls until enough of all callers' were dropped.
    async fn run(self) {
        for call in 0.. {
            if self.dropped.get() >= DROPS {
                return;
            }
            let name = format!("{}-{call}", self.number);
            let whole = self.call(&name);
            if self.dice.once_in(8) {
                // An error is fine.
                let _ = whole.await;
                continue;
            }
            let patience = [10, 40, 200, 1500][self.dice.roll(4) as usize];
            let moment = Duration::from_millis(self.dice.roll(patience));
            let turns = self.dice.roll(6);
            let leave = async {
                sleep(moment).await;
                for _ in 0..turns {
                    tokio::task::yield_now().await;
                }
            };
            tokio::select! {
                biased;
                _ = whole => {}
                () = leave => self.dropped.set(self.dropped.get() + 1),
            }
        }
    }

    /// A call with its response to the end, which must be its own.
    async fn call(&self, name: &str) -> Result<(), Error> {
        let dice = &self.dice;
        let method = [Method::GET, Method::POST, Method::PUT][dice.roll(3) as usize].clone();
        let with_body = method != Method::GET;
        let url = format!("{}://peer.example/{name}/0", self.scheme);
        let mut call = self.client.request(method, url).redirects(Redirects::from(3));
        if with_body {
            call = give_body(call, name, dice);
            if dice.once_in(3) {
                call = call.expect_continue(1);
            }
        }
        let mut response = call.send().await?;
        assert_eq!(response.headers().get("x-name"), Some(name), "a response of another call");
        let whole = body_of(name);
        let mut at = 0;
        while let Some(chunk) = response.chunk().await? {
            assert!(whole.as_bytes()[at..].starts_with(&chunk), "{name}: a body of another call");
            at += chunk.len();
            dice.rest(4).await;
            if dice.once_in(10) {
                return Ok(());
            }
        }
        assert_eq!(at, whole.len(), "{name}: a body that is cut looks whole");
        if let Some(trailers) = response.trailers() {
            assert_eq!(trailers.get("x-name"), Some(name), "trailers of another call");
        }
        Ok(())
    }
}

/// A body that is there, or comes piece by piece.
fn give_body(call: Call, name: &str, dice: &Dice) -> Call {
    let whole = body_of(name);
    if dice.once_in(2) {
        return call.body(whole);
    }
    let (mut sender, body) = Body::channel(1000);
    let dice = Dice::new(dice.roll(1 << 20));
    let trailer = name.to_owned();
    drop(anywire_loops::spawn(async move {
        for piece in whole.as_bytes().chunks(3000) {
            dice.rest(4).await;
            if sender.ready().await.is_err() || sender.try_send(piece.to_vec()).is_err() {
                return;
            }
        }
        let mut trailers = Headers::new();
        trailers.append("x-name", trailer).expect("a good field");
        sender.trailers(trailers);
        sender.finish();
    }));
    call.body(body)
}
