//! Each timeout of a client, set to a millisecond, a minute and much between: it is never early, and late by 1 ms and 1 % of
//! its length at most.
//!
//! Server and client share one loop, whose time stands still while one of them has something to do.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use crate::support::paused::{NO_TIMEOUT, beside_a_server, settle};
use anywire::client::{ClientBuilder, Counters, Limits, Response as Answer, Timeouts};
use anywire::http::{Body, h2};
use anywire::wire::names::{Records, Resolver, Resolving};
use anywire::wire::{Connection, Dialer};
use anywire::{Client, Response, Router, StatusCode};
use bytes::Bytes;
use tokio::time::{Instant, advance, sleep_until, timeout};

/// A timeout: how it is set, and what meets it.
struct Timeout {
    name: &'static str,
    set: fn(&mut Timeouts, &mut Limits, Duration),
    /// The connections that the server serves at a time.
    connections: usize,
    /// The protocols of calls for which it is tried.
    http2: &'static [bool],
    /// How often it passes until that is seen.
    times: u32,
    meet: Meet,
}

type Playing<T> = Pin<Box<dyn Future<Output = T>>>;

/// The time from which a timeout counts, and a call.
type Begun = (Instant, Playing<bool>);

enum Meet {
    /// A call that ends by it. Gives the time from which it counts, and the call.
    Call(fn(Client, String) -> Playing<Begun>),
    /// A count of the client, and the call after which it begins.
    Count(fn(&Counters) -> u64),
}

const BOTH: &[bool] = &[false, true];

const TIMEOUTS: &[Timeout] = &[
    Timeout {
        name: "acquire",
        set: |timeouts, limits, after| {
            (timeouts.acquire, limits.connections_per_origin, limits.http2.streams) = (after, 1, 1);
        },
        connections: 9,
        http2: BOTH,
        times: 1,
        meet: Meet::Call(|client, address| {
            Box::pin(async move {
                let first = get(&client, &address, "/never");
                drop(anywire::loops::spawn(first));
                settle().await;
                now(get(&client, &address, "/"))
            })
        }),
    },
    Timeout {
        name: "resolve",
        set: |timeouts, _, after| timeouts.resolve = after,
        connections: 9,
        http2: BOTH,
        times: 1,
        meet: Meet::Call(|client, _| {
            Box::pin(async move {
                let call = client.get("http://peer.example/");
                now(async { is_timeout(call.send().await) })
            })
        }),
    },
    Timeout {
        name: "connect",
        set: |timeouts, _, after| timeouts.connect = after,
        connections: 1,
        http2: BOTH,
        times: 1,
        meet: Meet::Call(|client, address| {
            Box::pin(async move {
                // One is served, one waits for its place, one to be accepted, and there is no room for another.
                for _ in 0..3 {
                    let held = held(&address).await;
                    drop(anywire::loops::spawn(async { keep(held).await }));
                    settle().await;
                }
                now(get(&client, &address, "/"))
            })
        }),
    },
    #[cfg(feature = "tls")]
    Timeout {
        name: "handshake",
        set: |timeouts, _, after| timeouts.handshake = after,
        connections: 1,
        http2: &[false],
        times: 1,
        meet: Meet::Call(|client, address| {
            Box::pin(async move {
                // What waits to be accepted is not spoken to.
                let held = held(&address).await;
                drop(anywire::loops::spawn(async { keep(held).await }));
                settle().await;
                now(get(&client, &format!("tls+{address}"), "/"))
            })
        }),
    },
    Timeout {
        name: "write",
        set: |timeouts, _, after| timeouts.write = after,
        connections: 9,
        http2: BOTH,
        times: 1,
        meet: Meet::Call(|client, address| {
            Box::pin(async move {
                static LARGE: [u8; 4 << 20] = [b'x'; 4 << 20];
                let call =
                    client.post("http://peer.example/never").via(&*address).body(Bytes::from_static(&LARGE));
                now(async { is_timeout(call.send().await) })
            })
        }),
    },
    Timeout {
        name: "read, up to the head",
        set: |timeouts, _, after| timeouts.read = after,
        connections: 9,
        http2: BOTH,
        times: 1,
        meet: Meet::Call(|client, address| Box::pin(async move { now(get(&client, &address, "/never")) })),
    },
    Timeout {
        name: "read, of the body",
        set: |timeouts, _, after| timeouts.read = after,
        connections: 9,
        http2: BOTH,
        times: 1,
        meet: Meet::Call(|client, address| {
            Box::pin(async move {
                let call = client.get("http://peer.example/begins").via(&*address);
                let mut response = call.send().await.expect("a head");
                assert_eq!(response.chunk().await.expect("a piece").as_deref(), Some(&b"one"[..]));
                now(async move { is_timeout(response.chunk().await) })
            })
        }),
    },
    Timeout {
        name: "total, up to the head",
        set: |timeouts, _, after| timeouts.total = after,
        connections: 9,
        http2: BOTH,
        times: 1,
        meet: Meet::Call(|client, address| Box::pin(async move { now(get(&client, &address, "/never")) })),
    },
    Timeout {
        name: "total, of a collected body",
        set: |timeouts, _, after| timeouts.total = after,
        connections: 9,
        http2: BOTH,
        times: 1,
        meet: Meet::Call(|client, address| {
            Box::pin(async move {
                let call = client.get("http://peer.example/begins").via(&*address);
                now(async { is_timeout(call.send().await.expect("a head").bytes().await) })
            })
        }),
    },
    Timeout {
        name: "total, of a stream",
        set: |timeouts, _, after| timeouts.stream_total = after,
        connections: 9,
        http2: BOTH,
        times: 1,
        meet: Meet::Call(|client, address| {
            Box::pin(async move {
                let call = client.get("http://peer.example/begins").via(&*address);
                now(async { is_timeout(drain(call.send().await.expect("a head")).await) })
            })
        }),
    },
    Timeout {
        name: "silence of an event stream",
        set: |timeouts, _, after| {
            timeouts.read = Duration::from_micros(900);
            timeouts.stream = after;
        },
        connections: 9,
        http2: BOTH,
        times: 1,
        meet: Meet::Call(|client, address| {
            Box::pin(async move {
                let call = client.get("http://peer.example/events").via(&*address);
                now(async { is_timeout(drain(call.send().await.expect("a head")).await) })
            })
        }),
    },
    Timeout {
        name: "silence of a stream that is forwarded",
        set: |timeouts, _, after| {
            timeouts.read = Duration::from_micros(900);
            timeouts.forwarded = after;
        },
        connections: 9,
        http2: BOTH,
        times: 1,
        meet: Meet::Call(|client, address| {
            Box::pin(async move {
                let request = anywire::http::Request::get("/begins");
                let call = client.forward(request, "http://peer.example").via(&*address);
                now(async { is_timeout(drain(call.send().await.expect("a head")).await) })
            })
        }),
    },
    Timeout {
        name: "total, while it waits for a connection",
        set: |timeouts, _, after| timeouts.total = after,
        connections: 1,
        http2: BOTH,
        times: 1,
        meet: Meet::Call(|client, address| {
            Box::pin(async move {
                for _ in 0..3 {
                    let held = held(&address).await;
                    drop(anywire::loops::spawn(async { keep(held).await }));
                    settle().await;
                }
                now(get(&client, &address, "/"))
            })
        }),
    },
    Timeout {
        name: "idle",
        set: |timeouts, _, after| timeouts.idle = after,
        connections: 9,
        http2: BOTH,
        times: 1,
        meet: Meet::Count(|counters| counters.idle_timeouts),
    },
    Timeout {
        name: "pool_unused",
        set: |timeouts, _, after| timeouts.pool_unused = after,
        connections: 9,
        http2: BOTH,
        times: 1,
        meet: Meet::Count(|counters| counters.pools_unused),
    },
    Timeout {
        name: "settings_deadline",
        set: |_, limits, after| limits.http2.settings_deadline = after,
        connections: 1,
        http2: &[true],
        times: 1,
        meet: Meet::Call(|client, address| {
            Box::pin(async move {
                let held = held(&address).await;
                drop(anywire::loops::spawn(async { keep(held).await }));
                settle().await;
                now(async move { client.get("http://peer.example/").via(&*address).send().await.is_err() })
            })
        }),
    },
    Timeout {
        name: "ping_interval and ping_deadline",
        set: |_, limits, after| {
            (limits.http2.ping_interval, limits.http2.ping_deadline) = (Some(after), after);
        },
        connections: 1,
        http2: &[true],
        times: 2,
        meet: Meet::Call(|client, address| {
            Box::pin(async move {
                let held = held(&address).await;
                drop(anywire::loops::spawn(async { keep(held).await }));
                settle().await;
                now(async move { client.get("http://peer.example/").via(&*address).send().await.is_err() })
            })
        }),
    },
];

/// A resolver that never answers.
struct Silent;

impl Resolver for Silent {
    fn resolve<'a>(&'a self, _: &'a str, _: Records) -> Resolving<'a> {
        Box::pin(std::future::pending())
    }
}

/// The time counts from here.
fn now(call: impl Future<Output = bool> + 'static) -> Begun {
    (Instant::now(), Box::pin(call))
}

/// A call, and whether it ends by a timeout.
fn get(client: &Client, address: &str, path: &str) -> impl Future<Output = bool> + use<> {
    let scheme = if address.starts_with("tls") { "https" } else { "http" };
    let call = client.get(format!("{scheme}://peer.example{path}")).via(address);
    async { is_timeout(call.send().await) }
}

/// Takes a body as it comes.
async fn drain(mut response: Answer) -> Result<(), anywire::client::Error> {
    while response.chunk().await?.is_some() {}
    Ok(())
}

fn is_timeout<T>(outcome: Result<T, anywire::client::Error>) -> bool {
    outcome.is_err_and(|error| error.is_timeout())
}

async fn held(address: &str) -> Connection {
    Dialer::default().dial(address).await.expect("there is room")
}

async fn keep(held: Connection) {
    std::future::pending::<()>().await;
    drop(held);
}

fn router() -> Router {
    let never = async || std::future::pending::<()>().await;
    let events = async || {
        Response::new(StatusCode::OK).header("content-type", "text/Event-Stream; x=y").body(begins())
    };
    Router::new()
        .get("/", async || "ok")
        .get("/never", never)
        .post("/never", never)
        .get("/begins", async || begins())
        .get("/events", events)
}

/// A body that goes no further.
fn begins() -> Body {
    let (mut sender, body) = Body::channel(99);
    drop(anywire::loops::spawn(async move {
        sender.send("one").await.expect("a reader");
        std::future::pending::<()>().await;
    }));
    body
}

fn timeouts() -> Timeouts {
    Timeouts {
        acquire: NO_TIMEOUT,
        expect: NO_TIMEOUT,
        resolve: NO_TIMEOUT,
        connect: NO_TIMEOUT,
        handshake: NO_TIMEOUT,
        write: NO_TIMEOUT,
        first_byte: None,
        read: NO_TIMEOUT,
        stream: NO_TIMEOUT,
        forwarded: NO_TIMEOUT,
        total: NO_TIMEOUT,
        stream_total: NO_TIMEOUT,
        drain: NO_TIMEOUT,
        idle: NO_TIMEOUT,
        lifetime: NO_TIMEOUT,
        pool_unused: NO_TIMEOUT,
    }
}

fn limits() -> Limits {
    let http2 = h2::Limits { settings_deadline: NO_TIMEOUT, ..Limits::default().http2 };
    Limits { http2, ..Limits::default() }
}

#[test]
fn each_timeout_is_late_by_a_millisecond_and_a_hundredth_at_most() {
    std::thread::scope(|threads| {
        for timeout in TIMEOUTS {
            for &http2 in timeout.http2 {
                let name = format!("{}{}", timeout.name, if http2 { ", HTTP/2" } else { "" });
                let named = std::thread::Builder::new().name(name.clone());
                let play = move || {
                    for ms in [1, 10, 150, 1000, 10_000, 60_000] {
                        try_length(timeout, http2, name.clone(), Duration::from_millis(ms));
                    }
                    try_length(timeout, http2, name, Duration::MAX);
                };
                named.spawn_scoped(threads, play).expect("the system has threads left");
            }
        }
    });
}

fn try_length(timeout: &'static Timeout, http2: bool, name: String, after: Duration) {
    let (mut timeouts, mut limits) = (timeouts(), limits());
    (timeout.set)(&mut timeouts, &mut limits, after);
    beside_a_server(timeout.connections, router(), move |loops, address| async move {
        let builder =
            Client::builder().on(&loops).timeouts(timeouts).limits(limits).resolver(Silent).retries(0);
        let client = if http2 { builder.http2_prior_knowledge() } else { trusting(builder) }.build();
        match timeout.meet {
            Meet::Call(begin) => {
                let (begin, call) = begin(client, address).await;
                ends(&name, after, timeout.times, begin, call).await;
            }
            Meet::Count(count) => {
                let _ = get(&client, &address, "/").await;
                counts(&name, after..=after, Instant::now(), || count(&client.counters().total())).await;
            }
        }
    });
}

#[cfg(feature = "tls")]
fn trusting(builder: ClientBuilder) -> ClientBuilder {
    builder.tls(crate::support::trial::client())
}

#[cfg(not(feature = "tls"))]
fn trusting(builder: ClientBuilder) -> ClientBuilder {
    builder
}

/// A call ends by its timeout, in time, when that has passed so often.
async fn ends(name: &str, after: Duration, times: u32, begin: Instant, call: Playing<bool>) {
    if after == Duration::MAX {
        timeout(Duration::from_secs(600), call).await.expect_err("the endless one goes on");
        return;
    }
    assert!(call.await, "{name}: it ended for another reason");
    let elapsed = begin.elapsed();
    let in_time = after * times..=latest(after) * times;
    assert!(in_time.contains(&elapsed), "{name}: {times} * {after:?} expired after {elapsed:?}");
}

/// Something is counted between two times.
async fn counts(
    name: &str,
    after: std::ops::RangeInclusive<Duration>,
    begin: Instant,
    count: impl Fn() -> u64,
) {
    if *after.start() == Duration::MAX {
        sleep_until(begin + Duration::from_secs(600)).await;
        assert_eq!(count(), 0, "{name}: the endless one expired");
        return;
    }
    if let Some(most) = after.start().checked_sub(Duration::from_millis(2)) {
        sleep_until(begin + most).await;
    }
    while count() == 0 {
        assert!(begin.elapsed() <= latest(*after.end()), "{name}: {after:?} has not expired in time");
        advance((*after.start() / 1000).clamp(Duration::from_micros(100), Duration::from_millis(5))).await;
        settle().await;
    }
    assert!(begin.elapsed() >= *after.start(), "{name}: {after:?} expired after {:?}", begin.elapsed());
}

fn latest(after: Duration) -> Duration {
    after + after / 100 + Duration::from_millis(1)
}

/// The lifetime of a connection has a tenth more or less, by chance.
#[test]
fn lifetimes_end_within_their_tenth() {
    for http2 in BOTH {
        for ms in [1, 10, 150, 1000, 60_000] {
            let lifetime = Duration::from_millis(ms);
            beside_a_server(9, router(), move |loops, address| async move {
                let builder = Client::builder().on(&loops).timeouts(Timeouts { lifetime, ..timeouts() });
                let client = if *http2 { builder.http2_prior_knowledge() } else { builder }.build();
                let begin = Instant::now();
                let _ = get(&client, &address, "/").await;
                let allowed = lifetime * 9 / 10..=lifetime * 11 / 10;
                counts("lifetime", allowed, begin, || client.counters().total().lifetimes_ended).await;
            });
        }
    }
}

/// Those of one call come before the client's.
#[test]
fn calls_have_timeouts_of_their_own() {
    for ms in [1, 10, 150, 1000] {
        beside_a_server(9, router(), move |loops, address| async move {
            let after = Duration::from_millis(ms);
            let client = Client::builder().on(&loops).timeouts(timeouts()).limits(limits()).build();
            let call = || client.get("http://peer.example/never").via(&*address);
            for call in [call().read_timeout(after), call().total_timeout(after)] {
                let (begin, call) = now(async { is_timeout(call.send().await) });
                ends("of one call", after, 1, begin, call).await;
            }
        });
    }
}

#[cfg(feature = "load")]
#[test]
fn the_load_generator_has_its_timeout() {
    use anywire::load::{Amount, Handles, Plan, Protocol, start};
    for protocol in [Protocol::Http1, Protocol::Http2] {
        for timeout in [1, 10, 150, 1000, 10_000, 50_000].map(Duration::from_millis) {
            beside_a_server(9, router(), move |loops, address| async move {
                let plan = Plan {
                    via: Some(address.parse().expect("an address")),
                    protocol,
                    timeout,
                    connections: 3,
                    amount: Amount::Requests(12),
                    warm_up: Duration::ZERO,
                    ..Plan::new("http://peer.example/never")
                };
                let outcome = start(&loops, plan, Handles::default())
                    .expect("a good plan")
                    .outcome()
                    .await
                    .expect("it ends");
                assert_eq!(outcome.totals.measured.timed_out, 12, "{protocol:?}, {timeout:?}");
                let send = outcome.latency.send.expect("measured");
                let [least, longest] = [send.min, send.max].map(|us| Duration::from_secs_f64(us / 1e6));
                // A histogram has three digits.
                let in_time = timeout.mul_f64(0.999)..=latest(timeout).mul_f64(1.001);
                assert!(
                    in_time.contains(&least) && in_time.contains(&longest),
                    "{timeout:?}: {least:?}, {longest:?}"
                );
            });
        }
    }
}

#[cfg(feature = "udp")]
#[test]
fn datagrams_have_their_timeout() {
    use anywire::client::udp::{Matching, UdpClient, UdpClientOptions};
    for timeout in [1, 10, 150, 1000, 60_000].map(Duration::from_millis).into_iter().chain([Duration::MAX]) {
        beside_a_server(1, router(), move |_, _| async move {
            let silent = std::net::UdpSocket::bind("127.0.0.1:0").expect("a free port");
            let peer = silent.local_addr().expect("bound");
            for attempts in [1, 3] {
                let options = UdpClientOptions { timeout, attempts, ..UdpClientOptions::default() };
                let matching = Matching::Field { offset: 0, width: 1 };
                let client = UdpClient::connect(peer, matching, options).await.expect("there is a way");
                let (begin, call) = now(async move { client.call(b"x").await.is_err() });
                ends("of datagrams", timeout, attempts, begin, call).await;
            }
        });
    }
}
