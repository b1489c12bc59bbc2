//! A limit of `usize::MAX` is no limit, a duration of `Duration::MAX` never ends, and neither breaks a sum.

use std::time::Duration;

use crate::support::bytes_of_http2::HEADERS;
use crate::support::{OK, Peer, block_on, client, client_of_http2, on_each_wire, wire};
use anywire_client::{Balance, Call, ClientBuilder, Limits, Pipelining, Retries, Timeouts};
use anywire_http::{HeadLimits, h2};

#[test]
fn calls_are_answered_whichever_limit_is_the_largest() {
    const MAX: usize = usize::MAX;
    let limits = [
        Limits { connections_per_origin: MAX, ..Limits::default() },
        Limits { queue_per_origin: MAX, ..Limits::default() },
        Limits { dials_per_origin: MAX, ..Limits::default() },
        Limits { origins: MAX, ..Limits::default() },
        Limits { interim_responses: MAX, ..Limits::default() },
        Limits { body_bytes: MAX, ..Limits::default() },
        Limits { body_ahead_bytes: MAX, ..Limits::default() },
        Limits { head: unlimited(), ..Limits::default() },
        Limits {
            connections_per_origin: MAX,
            queue_per_origin: MAX,
            dials_per_origin: MAX,
            origins: MAX,
            interim_responses: MAX,
            body_bytes: MAX,
            body_ahead_bytes: MAX,
            drain_bytes: MAX,
            replay_bytes: MAX,
            head: unlimited(),
            http2: endless_http2(),
        },
        Limits { http2: endless_http2(), ..Limits::default() },
    ];
    on_each_wire(|wire| {
        let peer = Peer::answering(wire, OK);
        for limits in &limits {
            let (loops, client) = client(2, |builder| builder.limits(limits.clone()).timeouts(endless()));
            for _ in 0..4 {
                let call = client.get(peer.url("/")).via(peer.via());
                let text = block_on(async { call.send().await?.text().await }).expect("an answer");
                assert_eq!(text, "ok", "{limits:?}");
            }
            let panics: u64 = loops.counters().iter().map(|one| one.panics).sum();
            assert_eq!(panics, 0, "{limits:?}");
        }
    });
}

/// Sets one duration.
type Set = (&'static str, fn(ClientBuilder) -> ClientBuilder);

fn durations() -> Vec<Set> {
    const MAX: Duration = Duration::MAX;
    fn timeouts(builder: ClientBuilder, set: impl FnOnce(&mut Timeouts)) -> ClientBuilder {
        let mut timeouts = Timeouts::default();
        set(&mut timeouts);
        builder.timeouts(timeouts)
    }
    fn http2(builder: ClientBuilder, set: impl FnOnce(&mut h2::Limits)) -> ClientBuilder {
        let mut limits = Limits::default();
        set(&mut limits.http2);
        builder.limits(limits)
    }
    vec![
        ("acquire", |builder| timeouts(builder, |all| all.acquire = MAX)),
        ("resolve", |builder| timeouts(builder, |all| all.resolve = MAX)),
        ("connect", |builder| timeouts(builder, |all| all.connect = MAX)),
        ("handshake", |builder| timeouts(builder, |all| all.handshake = MAX)),
        ("expect", |builder| timeouts(builder.expect_continue(0), |all| all.expect = MAX)),
        ("write", |builder| timeouts(builder, |all| all.write = MAX)),
        ("stream", |builder| timeouts(builder, |all| all.stream = MAX)),
        ("forwarded", |builder| timeouts(builder, |all| all.forwarded = MAX)),
        ("stream_total", |builder| timeouts(builder, |all| all.stream_total = MAX)),
        ("first_byte", |builder| timeouts(builder, |all| all.first_byte = Some(MAX))),
        ("read", |builder| timeouts(builder, |all| all.read = MAX)),
        ("total", |builder| timeouts(builder, |all| all.total = MAX)),
        ("idle", |builder| timeouts(builder, |all| all.idle = MAX)),
        ("lifetime", |builder| timeouts(builder, |all| all.lifetime = MAX)),
        ("pool_unused", |builder| timeouts(builder, |all| all.pool_unused = MAX)),
        ("settings_deadline", |builder| http2(builder, |all| all.settings_deadline = MAX)),
        ("ping_interval", |builder| http2(builder, |all| all.ping_interval = Some(MAX))),
        ("ping_deadline", |builder| {
            http2(builder, |all| {
                (all.ping_interval, all.ping_deadline) = (Some(Duration::from_millis(1)), MAX);
            })
        }),
        ("all", |builder| builder.timeouts(endless())),
    ]
}

#[test]
fn calls_are_answered_whichever_duration_is_endless() {
    let http1 = Peer::answering(wire("tcp"), OK);
    let http2 = Peer::of_http2(wire("tcp"), |mut frames, _| {
        while let Some(frame) = frames.next() {
            if frame.kind == HEADERS {
                frames.answer(frame.stream);
            }
        }
    });
    for (name, set) in durations() {
        for (version, peer, (loops, client)) in
            [("HTTP/1", &http1, client(1, set)), ("HTTP/2", &http2, client_of_http2(set))]
        {
            let usual: fn(Call) -> Call = |call| call;
            let endless: fn(Call) -> Call =
                |call| call.read_timeout(Duration::MAX).total_timeout(Duration::MAX);
            for with in [usual, usual, endless] {
                let call = with(client.get(peer.url("/")));
                let text = block_on(async { call.send().await?.text().await }).expect(name);
                assert_eq!(text, "ok", "{name} over {version}");
            }
            assert_eq!(block_on(client.shutdown(Duration::MAX)).calls_cut, 0, "{name} over {version}");
            let panics: u64 = loops.counters().iter().map(|one| one.panics).sum();
            assert_eq!(panics, 0, "{name} over {version}");
        }
    }
}

#[test]
fn options_may_be_as_large_as_they_like_too() {
    let max = Duration::MAX;
    let peer = Peer::start(wire("tcp"), |mut talk| {
        let is_first = talk.number == 0;
        while talk.request().is_some() && !is_first {
            talk.say(OK);
        }
    });
    let pipelining = Pipelining { depth: usize::MAX, drain_bytes: usize::MAX };
    let retries = Retries {
        max: u32::MAX,
        pause_max: Duration::ZERO,
        first_pause: max,
        retry_after_max: max,
        budget_percent: u32::MAX,
        ..Retries::default()
    };
    let dead: anywire_wire::Address = "unix:/nowhere/at/all.sock".parse().expect("an address");
    let balance = Balance::over([&dead, peer.via()]).eject_after(1).eject_for(max).slow_start(max);
    let (loops, client) = client(2, |builder| {
        let builder = builder.pipelining(pipelining).retries(retries);
        builder.redirects(usize::MAX).balance("http://shop.example", balance)
    });
    for _ in 0..8 {
        let call = client.get("http://shop.example/").expect_continue(u64::MAX);
        assert_eq!(block_on(call.send()).expect("an answer").status(), 200);
        block_on(client.post(peer.url("/")).body("order").send()).expect("an answer");
    }
    // A pause without end ends with the call, and is not begun.
    let endless = Retries { first_pause: max, pause_max: max, ..Retries::default() };
    let call = client.get("http://nobody.example/").via(&dead).retries(endless);
    assert!(block_on(call.send()).is_err_and(|error| error.is_connect()));
    assert_eq!(loops.counters().iter().map(|one| one.panics).sum::<u64>(), 0);
}

fn unlimited() -> HeadLimits {
    HeadLimits {
        bytes: usize::MAX,
        target_bytes: usize::MAX,
        fields: usize::MAX,
        trailer_bytes: usize::MAX,
        trailer_fields: usize::MAX,
    }
}

fn endless_http2() -> h2::Limits {
    let rate = h2::Rate { burst: u32::MAX, per_second: u32::MAX };
    h2::Limits {
        streams: usize::MAX,
        stream_window_bytes: u32::MAX,
        connection_window_bytes: u32::MAX,
        continuations: usize::MAX,
        resets: rate,
        idle_frames: rate,
        settings_deadline: Duration::MAX,
        ping_interval: Some(Duration::MAX),
        ping_deadline: Duration::MAX,
        extended_connect: true,
    }
}

fn endless() -> Timeouts {
    let max = Duration::MAX;
    Timeouts {
        acquire: max,
        resolve: max,
        connect: max,
        handshake: max,
        expect: max,
        write: max,
        first_byte: Some(max),
        read: max,
        stream: max,
        forwarded: max,
        total: max,
        stream_total: max,
        drain: max,
        idle: max,
        lifetime: max,
        pool_unused: max,
    }
}
