//! Retries: what no peer has seen, and what does no harm twice, is sent again; a POST is seen exactly once.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use anywire_client::cookies::CookieJar;
use anywire_client::har::Recorder;
use anywire_client::rules::Rules;
use anywire_client::{
    Balance, Begun, Call, CallRequest, Client, ClientBuilder, Ended, Error, Limits, Next, Observer, Response,
    Retries, Timeouts,
};
use anywire_http::signatures::{Signer, SigningKey};
use anywire_http::{Body, Headers, Method, StatusCode};
use anywire_wire::names::{Answer, Records, ResolveError, Resolver, Resolving};

use crate::support::bytes_of_http2::{END_HEADERS, HEADERS, literals};
use crate::support::simulated::Simulated;
use crate::support::{HANG, OK, Peer, block_on, builder, on_each_wire, poll_once, wire};

/// Retries at once, more than any test needs, of all that may be repeated.
fn eager() -> Retries {
    Retries {
        max: 5,
        first_pause: Duration::ZERO,
        statuses: vec![StatusCode::SERVICE_UNAVAILABLE],
        when: Some(Arc::new(|_| true)),
        ..Retries::default()
    }
}

/// A peer that takes a request on each connection, and answers from the connection `answers_from` on.
fn closing(scheme: &str, answers_from: usize) -> (Peer, Arc<AtomicUsize>) {
    let requests = Arc::<AtomicUsize>::default();
    let count = Arc::clone(&requests);
    let peer = Peer::start(wire(scheme), move |mut talk| {
        while talk.request().is_some() {
            count.fetch_add(1, Ordering::SeqCst);
            if talk.number < answers_from {
                return;
            }
            talk.say(OK);
        }
    });
    (peer, requests)
}

/// The same over HTTP/2.
fn closing_http2() -> (Peer, Arc<AtomicUsize>) {
    let requests = Arc::<AtomicUsize>::default();
    let count = Arc::clone(&requests);
    let peer = Peer::of_http2(wire("tcp"), move |mut frames, _| {
        if frames.request().is_some() {
            count.fetch_add(1, Ordering::SeqCst);
        }
    });
    (peer, requests)
}

#[test]
fn what_is_idempotent_is_sent_again_by_default() {
    on_each_wire(|on| {
        let (peer, requests) = closing(on.scheme(), 2);
        let client = builder().retries(Retries::default()).build();
        let response =
            block_on(client.get(peer.url("/")).via(peer.via()).send()).expect("the third is answered");
        assert_eq!(response.status(), 200);
        assert_eq!((requests.load(Ordering::SeqCst), client.counters().total().retried), (3, 2));
    });
}

#[test]
fn what_fails_too_often_says_how_often() {
    let (peer, requests) = closing("tcp", usize::MAX);
    let client = Client::new();
    let error = block_on(client.get(peer.url("/")).send()).expect_err("no answer");
    assert!(matches!(error, Error::Retried { attempts: 3, is_budget_spent: false, .. }), "{error:?}");
    assert!(matches!(error.last(), Error::ClosedByPeer { .. }), "{error:?}");
    assert_eq!((error.attempts(), requests.load(Ordering::SeqCst)), (3, 3));
    assert!(error.may_have_been_processed());
}

#[test]
fn what_is_sent_again_is_said_by_its_method_or_its_caller() {
    let mark = |call: Call, name: &str| match name {
        "marked" => call.idempotent(),
        "keyed" => call.header("Idempotency-Key", "7"),
        _ => call,
    };
    for is_http2 in [false, true] {
        for (method, name, times) in
            [("POST", "", 1), ("PATCH", "", 1), ("POST", "marked", 6), ("POST", "keyed", 6), ("PUT", "", 6)]
        {
            let (peer, requests) = if is_http2 { closing_http2() } else { closing("tcp", usize::MAX) };
            let version =
                if is_http2 { ClientBuilder::http2_prior_knowledge } else { ClientBuilder::http1_only };
            let client = version(builder()).retries(eager()).build();
            let method = Method::from_bytes(method.as_bytes()).expect("a method");
            let call = mark(client.request(method.clone(), peer.url("/")).body("tea"), name).via(peer.via());
            let error = block_on(call.send()).expect_err("no answer");
            assert!(error.may_have_been_processed(), "{error:?}");
            assert_eq!(requests.load(Ordering::SeqCst), times, "{method} {name}: {error:?}");
        }
    }
}

/// All that may repeat a request, wait with it, lead it elsewhere, or stand around it.
fn with_every_option(builder: ClientBuilder, is_http2: bool, keep_alive: bool, peers: &[Peer; 2]) -> Client {
    struct Watches;
    impl Observer for Watches {
        type Attempt = ();
        fn begin(&self, _: &Begun<'_>) {}
        fn end(&self, (): (), _: &Ended<'_>) {}
    }
    let rules = Rules::from_toml("[[rule]]\nto = [{ set_headers = { x-shop = 'one' } }]").expect("rules");
    let balance = Balance::over(peers.each_ref().map(|peer| peer.via().clone())).eject_after(1);
    let statuses = [StatusCode::BAD_GATEWAY, StatusCode::SERVICE_UNAVAILABLE];
    let signer = Signer::new("me", SigningKey::hmac_sha256(b"at least 32 bytes that nobody else knows"))
        .covers(["@method", "@target-uri", "content-digest"]);
    let builder = match (is_http2, keep_alive) {
        (true, _) => builder.http2_prior_knowledge(),
        (false, true) => builder.http1_only().pipelining(8),
        (false, false) => builder.http1_only(),
    };
    builder
        .retries(eager())
        .redirects(5)
        .keep_alive(keep_alive)
        .expect_continue(0)
        .timeouts(Timeouts { expect: Duration::from_millis(1), ..Timeouts::default() })
        .balance("http://shop.example", balance.eject_on_statuses(statuses))
        .intercept(|request: CallRequest, next: Next| next.call(request))
        .intercept(Recorder::new())
        .intercept_attempts(|request: CallRequest, next: Next| next.call(request))
        .rules(&rules)
        .basic("http://shop.example", "ada", "secret")
        .cookies(CookieJar::new())
        .sign(signer)
        .observe(Watches)
        .latencies()
        .spans()
        .build()
}

#[test]
fn a_post_is_seen_once_with_every_option_on() {
    for (is_http2, keep_alive) in [(false, true), (false, false), (true, true), (true, false)] {
        for ahead in [0, 4] {
            for (method, is_once) in [("POST", true), ("PATCH", true), ("PUT", false)] {
                let one = || if is_http2 { closing_http2() } else { closing("tcp", usize::MAX) };
                let ((one, of_one), (other, of_other)) = (one(), one());
                let peers = [one, other];
                let client = with_every_option(builder(), is_http2, keep_alive, &peers);
                block_on(client.connect_ahead("http://shop.example", ahead)).expect("an origin");
                let method = Method::from_bytes(method.as_bytes()).expect("a method");
                let call = client.request(method.clone(), "http://shop.example/orders").body("tea");
                let error = block_on(call.send()).expect_err("no answer");
                assert!(error.may_have_been_processed(), "{error:?}");
                let times = of_one.load(Ordering::SeqCst) + of_other.load(Ordering::SeqCst);
                assert_eq!(
                    times == 1,
                    is_once,
                    "{method} {times} times, {is_http2} {keep_alive} {ahead}: {error:?}"
                );
            }
        }
    }
}

/// What an interceptor makes of a response does not undo that the peer has seen the request.
#[test]
fn a_post_is_seen_once_if_an_interceptor_gives_up_on_its_response() {
    fn its_own() -> Error {
        Error::custom("not this one")
    }
    fn of_a_field() -> Error {
        Headers::new().append("no name", "x").expect_err("a space is in it").into()
    }
    for gives_up in [its_own as fn() -> Error, of_a_field] {
        for (method, times) in [(Method::POST, 1), (Method::GET, 6)] {
            let (peer, requests) = closing("tcp", 0);
            let link = move |request: CallRequest, next: Next| async move {
                next.call(request).await?;
                Err(gives_up())
            };
            let client = builder().retries(eager()).intercept_attempts(link).build();
            let error = block_on(client.request(method.clone(), peer.url("/")).body("tea").send());
            let error = error.expect_err("the interceptor gives up");
            assert_eq!(requests.load(Ordering::SeqCst), times, "{method}: {error:?}");
        }
    }
    assert!(its_own().may_have_been_processed(), "nobody knows what the interceptor did");
}

/// One that waits no longer drops a request that is under way.
#[test]
fn a_post_is_seen_once_if_an_interceptor_drops_it_under_way() {
    let (peer, requests) = on_each_request();
    let link = move |request: CallRequest, next: Next| {
        let requests = requests.clone();
        async move {
            let mut sending = next.call(request);
            while requests.lock().expect("no panic").try_recv().is_err() {
                assert!(poll_once(&mut sending).is_pending());
                std::thread::sleep(Duration::from_millis(1));
            }
            drop(sending);
            Err(Headers::new().append("no name", "x").expect_err("a space is in it").into())
        }
    };
    let client = builder().retries(eager()).intercept_attempts(link).build();
    let error = block_on(client.post(peer.url("/")).body("tea").send()).expect_err("it gives up");
    assert_eq!((error.attempts(), peer.accepted()), (1, 1), "{error:?}");
}

/// A peer that answers nothing, and tells of each request.
fn on_each_request() -> (Peer, Arc<Mutex<mpsc::Receiver<()>>>) {
    let (report, requests) = mpsc::channel();
    let peer = Peer::start(wire("tcp"), move |mut talk| {
        if talk.request().is_some() {
            let _ = report.send(());
            talk.wait_for_end();
        }
    });
    (peer, Arc::new(Mutex::new(requests)))
}

#[test]
fn a_body_that_was_read_is_not_sent_again() {
    let (peer, requests) = closing("tcp", 1);
    let (mut sender, body) = Body::channel(16);
    let _ = sender.try_send("tea");
    sender.finish();
    let client = builder().retries(eager()).build();
    block_on(client.put(peer.url("/")).body(body).send()).expect_err("no answer");
    assert_eq!(requests.load(Ordering::SeqCst), 1);
}

#[test]
fn a_body_that_nobody_has_read_is_sent_when_there_is_a_peer() {
    sends_a_body_when_there_is_a_peer(|builder| builder);
}

/// Who only looks changes nothing of what is repeated.
#[test]
fn a_body_that_nobody_has_read_is_sent_through_interceptors_too() {
    sends_a_body_when_there_is_a_peer(ClientBuilder::spans);
    sends_a_body_when_there_is_a_peer(|builder| builder.intercept_attempts(pass));
}

/// A body that an interceptor has put in the place of the caller's is its own: another attempt would have it twice.
#[test]
fn a_body_in_pieces_of_an_interceptor_is_not_sent_again() {
    async fn wrap(mut request: CallRequest, next: Next) -> Result<Response, Error> {
        let (_, body) = Body::channel(1);
        request.set_body(body);
        next.call(request).await
    }
    let (_, body) = Body::channel(1);
    let client = builder().retries(eager()).intercept_attempts(wrap).build();
    let address = wire("unix").scratch().expect("a path");
    let error = block_on(client.post("http://peer.example/").via(address).body(body).send());
    let error = error.expect_err("nobody listens");
    assert_eq!((error.is_connect(), error.attempts()), (true, 1), "{error:?}");
}

async fn pass(request: CallRequest, next: Next) -> Result<Response, Error> {
    next.call(request).await
}

fn sends_a_body_when_there_is_a_peer(options: impl FnOnce(ClientBuilder) -> ClientBuilder) {
    let address = wire("unix").scratch().expect("a path");
    let (listen, dialled) = mpsc::channel();
    let when = move |_: &anywire_client::Failure<'_>| listen.send(()).is_ok();
    let retries = Retries {
        when: Some(Arc::new(when)),
        first_pause: Duration::from_millis(1),
        max: u32::MAX,
        budget_percent: u32::MAX,
        ..Retries::default()
    };
    let client = options(builder().retries(retries)).build();
    let (mut sender, body) = Body::channel(16);
    let _ = sender.try_send("tea");
    sender.finish();
    let call = std::thread::spawn({
        let call = client.post("http://peer.example/").via(address.clone()).body(body);
        move || block_on(call.send())
    });
    dialled.recv_timeout(HANG).expect("a dial, and another try");
    let loops = anywire_loops::Loops::start(1).expect("loops start");
    let listener = anywire_wire::Listener::bind(&address, &crate::support::listening(), &loops);
    let (report, seen) = mpsc::channel();
    let _listening = listener.expect("the name is free").serve(move |connection| {
        let mut talk = crate::support::Talk::on(connection, 0);
        let report = report.clone();
        std::thread::spawn(move || {
            if let Some(request) = talk.request() {
                let _ = report.send(request.body);
                talk.say(OK);
            }
        });
    });
    call.join().expect("no panic").expect("an answer");
    assert_eq!(seen.recv().expect("a request"), b"tea");
}

#[test]
fn statuses_are_tried_again_if_they_are_listed() {
    let busy = "HTTP/1.1 503 Busy\r\nretry-after: 0\r\ncontent-length: 4\r\n\r\nlate";
    for (statuses, method, times) in
        [(vec![], Method::GET, 1), (vec![503], Method::GET, 2), (vec![503], Method::POST, 1)]
    {
        let requests = Arc::<AtomicUsize>::default();
        let count = Arc::clone(&requests);
        let peer = Peer::start(wire("tcp"), move |mut talk| {
            while talk.request().is_some() {
                talk.say(if count.fetch_add(1, Ordering::SeqCst) == 0 { busy } else { OK });
            }
        });
        let statuses =
            statuses.into_iter().map(|code| StatusCode::from_u16(code).expect("a status")).collect();
        let retries = Retries { statuses, first_pause: Duration::ZERO, ..Retries::default() };
        let client = Client::new();
        let response = block_on(client.request(method, peer.url("/")).retries(retries).send());
        let status = response.expect("an answer").status();
        assert_eq!(status.as_u16(), if times == 2 { 200 } else { 503 });
        assert_eq!(client.counters().total().retried, times as u64 - 1);
        // The connection was kept.
        assert_eq!((requests.load(Ordering::SeqCst), peer.accepted()), (times, 1));
    }
}

/// Whatever else the client does with responses.
#[test]
fn a_success_is_never_tried_again() {
    async fn pass(request: CallRequest, next: Next) -> Result<Response, Error> {
        next.call(request).await
    }
    type Options = fn(ClientBuilder) -> ClientBuilder;
    let links: [Options; 3] = [
        |builder| builder,
        |builder| builder.bearer("http://elsewhere.example", "token"),
        |builder| builder.intercept_attempts(pass),
    ];
    let eager = Retries { statuses: vec![StatusCode::ACCEPTED], ..eager() };
    for options in links {
        let peer = Peer::answering(wire("tcp"), "HTTP/1.1 202 Accepted\r\ncontent-length: 2\r\n\r\nok");
        let client = options(builder().retries(eager.clone())).build();
        let response = block_on(client.get(peer.url("/")).send()).expect("an answer");
        assert_eq!((response.status(), client.counters().total().requests), (StatusCode::ACCEPTED, 1));
    }
}

#[test]
fn a_long_retry_after_is_the_callers() {
    // The last one is more than a number of 64 bits.
    for seconds in ["3600", "18446744073709551615", "99999999999999999999"] {
        let busy = format!("HTTP/1.1 503 Busy\r\nretry-after: {seconds}\r\ncontent-length: 0\r\n\r\n");
        let requests = Arc::new(AtomicUsize::new(0));
        let count = requests.clone();
        let peer = Peer::start(wire("tcp"), move |mut talk| {
            while talk.request().is_some() {
                count.fetch_add(1, Ordering::SeqCst);
                talk.say(&busy);
            }
        });
        let response = block_on(Client::new().get(peer.url("/")).retries(eager()).send()).expect("an answer");
        assert_eq!((response.status().as_u16(), requests.load(Ordering::SeqCst)), (503, 1), "{seconds}");
        assert_eq!(response.headers().get("retry-after"), Some(seconds));
    }
}

#[test]
fn the_deadline_of_the_call_leaves_no_time_for_a_pause() {
    let (peer, requests) = closing("tcp", usize::MAX);
    let hour = Duration::from_secs(3600);
    let retries = Retries { first_pause: hour * 1000, pause_max: hour * 1000, ..Retries::default() };
    let error = block_on(Client::new().get(peer.url("/")).retries(retries).send()).expect_err("no answer");
    assert!(matches!(error, Error::ClosedByPeer { .. }), "{error:?}");
    assert_eq!(requests.load(Ordering::SeqCst), 1);
}

#[test]
fn an_origin_in_trouble_gets_no_more_than_its_budget() {
    let (peer, requests) = closing("tcp", usize::MAX);
    let retries = Retries { first_pause: Duration::ZERO, ..Retries::default() };
    let loops = anywire_loops::Loops::start(1).expect("loops start");
    let client = Client::builder().on(&loops).retries(retries).build();
    let mut spent = 0;
    for _ in 0..100 {
        let error = block_on(client.get(peer.url("/")).send()).expect_err("no answer");
        spent += usize::from(matches!(error, Error::Retried { is_budget_spent: true, .. }));
    }
    let counters = client.counters().total();
    assert!(spent > 0 && counters.retries_refused == spent as u64, "{spent} {counters:?}");
    // A fifth of all attempts that were asked for, and 10; once more if a window ends meanwhile.
    assert!(counters.retried <= 2 * (10 + 100), "{counters:?}");
    assert_eq!(requests.load(Ordering::SeqCst) as u64, 100 + counters.retried);
}

/// An origin in trouble gets no load on top by each of its addresses.
#[test]
fn the_addresses_of_an_origin_share_its_budget() {
    let unavailable = "HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n";
    // An odd number, so that each gets as many retries as first attempts.
    let peers = [(); 7].map(|()| Peer::answering(wire("tcp"), unavailable));
    let balance = Balance::over(peers.each_ref().map(Peer::via)).round_robin();
    let statuses = vec![StatusCode::SERVICE_UNAVAILABLE];
    let retries = Retries { max: 1, first_pause: Duration::ZERO, statuses, ..Retries::default() };
    let loops = anywire_loops::Loops::start(1).expect("loops start");
    let client =
        Client::builder().on(&loops).retries(retries).balance("http://shop.example", balance).build();
    for _ in 0..60 {
        let response = block_on(client.get("http://shop.example/").send()).expect("an answer");
        assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
    }
    let counters = client.counters().total();
    // 10 and a fifth of 60 calls and the retries; once more if a window ends meanwhile.
    assert!((1..=2 * 27).contains(&counters.retried), "{counters:?}");
    let of_origin = block_on(client.origins()).remove("http://shop.example").expect("it was called");
    assert_eq!(
        (of_origin.attempts, of_origin.retries),
        (60 + counters.retried + counters.retries_refused, counters.retried)
    );
}

/// No status is an error of the call: when the budget is spent, the response is the caller's.
#[test]
fn an_origin_that_is_busy_gets_no_more_than_its_budget() {
    for is_intercepted in [false, true] {
        let requests = Arc::<AtomicUsize>::default();
        let count = Arc::clone(&requests);
        let peer = Peer::start(wire("tcp"), move |mut talk| {
            while talk.request().is_some() {
                count.fetch_add(1, Ordering::SeqCst);
                talk.say("HTTP/1.1 503 Busy\r\ncontent-length: 4\r\n\r\nlate");
            }
        });
        // The hook must not bring back what the budget has ended.
        let retries = Retries { budget_percent: 0, ..eager() };
        let loops = anywire_loops::Loops::start(1).expect("loops start");
        let builder = Client::builder().on(&loops).retries(retries);
        let client = if is_intercepted { builder.intercept_attempts(pass) } else { builder }.build();
        for _ in 0..20 {
            let response = block_on(client.get(peer.url("/")).send()).expect("an answer");
            assert_eq!((response.status().as_u16(), response.length()), (503, Some(4)));
            assert_eq!(block_on(response.text()).expect("its body"), "late");
        }
        let counters = client.counters().total();
        assert!(counters.retried >= 10 && counters.retries_refused > 0, "{counters:?}");
        assert_eq!(requests.load(Ordering::SeqCst) as u64, 20 + counters.retried);
        assert_eq!(peer.accepted(), 1, "the connection was kept");
    }
}

#[test]
fn a_full_queue_is_never_tried_again() {
    let peer = Peer::start(wire("tcp"), |talk| talk.wait_for_end());
    let limits = Limits { connections_per_origin: 1, queue_per_origin: 0, ..Limits::default() };
    let client = Client::builder().limits(limits).retries(eager()).build();
    let mut first = client.get(peer.url("/")).send();
    assert!(poll_once(&mut first).is_pending());
    crate::support::eventually("the first call has the connection", || peer.accepted() == 1);
    let error = block_on(client.get(peer.url("/")).send()).expect_err("no place");
    assert!(matches!(error, Error::QueueFull { .. }), "{error:?}");
    assert_eq!((client.counters().total().queue_full, error.attempts()), (1, 1));
}

#[test]
fn a_call_that_is_dropped_in_its_pause_leaves_nothing() {
    let (peer, requests) = closing("tcp", usize::MAX);
    let long = Duration::from_secs(50);
    let (asked, failed) = mpsc::channel();
    let when = move |_: &anywire_client::Failure<'_>| asked.send(()).is_ok();
    let retries =
        Retries { first_pause: long, pause_max: long, when: Some(Arc::new(when)), ..Retries::default() };
    let client = Client::builder().retries(retries).build();
    let mut call = client.get(peer.url("/")).send();
    while failed.try_recv().is_err() {
        assert!(poll_once(&mut call).is_pending());
        std::thread::sleep(Duration::from_millis(1));
    }
    drop(call);
    crate::support::until_no_call(&client);
    assert_eq!(requests.load(Ordering::SeqCst), 1);
}

/// A resolver that fails so many times before it knows all names.
struct Failing {
    left: AtomicUsize,
    address: std::net::SocketAddr,
}

impl Resolver for Failing {
    fn resolve<'a>(&'a self, name: &'a str, _: Records) -> Resolving<'a> {
        let fails = self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        Box::pin(async move {
            match (name, fails) {
                ("no.example", _) => Err(ResolveError::NotFound),
                (_, Ok(_)) => Err(ResolveError::failed(std::io::ErrorKind::ConnectionReset)),
                (_, Err(_)) => Ok(Answer { addresses: vec![self.address], ttl: None }),
            }
        })
    }
}

#[test]
fn a_resolver_that_fails_is_asked_again() {
    let (peer, requests) = closing("tcp", 0);
    let address = peer.via().location().parse().expect("an address of TCP");
    let client = |failures| {
        let resolver = Failing { left: AtomicUsize::new(failures), address };
        let retries = Retries { first_pause: Duration::ZERO, ..Retries::default() };
        builder().resolver(resolver).retries(retries).build()
    };
    let url = peer.url("/").replace("127.0.0.1", "shop.example");
    // Nothing was sent, so a POST may go out as well.
    let again = client(2);
    block_on(again.post(&url).body("tea").send()).expect("the third query is answered");
    assert_eq!((requests.load(Ordering::SeqCst), again.counters().total().retried), (1, 2));
    let error = block_on(client(3).post(&url).send()).expect_err("all three failed");
    assert_eq!((error.attempts(), error.may_have_been_processed()), (3, false));
    // That a name does not exist is an answer.
    let error = block_on(client(0).get("http://no.example/").send()).expect_err("no such name");
    assert_eq!(error.attempts(), 1);
}

/// An interim response is a part of a response: nothing is sent again behind it, with interceptors around the attempts or without.
#[test]
fn nothing_is_sent_again_behind_an_interim_response() {
    for is_http2 in [false, true] {
        for is_intercepted in [false, true] {
            let requests = Arc::<AtomicUsize>::default();
            let count = Arc::clone(&requests);
            let scene = Simulated::new();
            let peer = scene.peer(move |mut line| {
                let count = Arc::clone(&count);
                async move {
                    if is_http2 {
                        line.greet(&[]).await;
                        let Some(stream) = line.request().await else { return };
                        let interim = literals(&[(":status", "103")]);
                        line.frame(HEADERS, END_HEADERS, stream, &interim).await;
                    } else if line.head().await.is_some() {
                        line.say("HTTP/1.1 103 Early Hints\r\n\r\n").await;
                    }
                    count.fetch_add(1, Ordering::SeqCst);
                }
            });
            let client = scene.client(|builder| {
                let version =
                    if is_http2 { ClientBuilder::http2_prior_knowledge } else { ClientBuilder::http1_only };
                let builder = version(builder).retries(eager());
                if is_intercepted { builder.intercept_attempts(pass) } else { builder }
            });
            let error = scene.run(async move || {
                let call = client.get("http://peer.example/").via(peer.via());
                call.send().await.expect_err("no answer")
            });
            let seen = (requests.load(Ordering::SeqCst), error.attempts());
            assert_eq!(seen, (1, 1), "HTTP/2: {is_http2}, intercepted: {is_intercepted}: {error:?}");
        }
    }
}

#[test]
fn a_hook_is_asked_once_about_each_failure() {
    for is_intercepted in [false, true] {
        let peer = Peer::answering(wire("tcp"), "HTTP/1.1 503 Busy\r\ncontent-length: 0\r\n\r\n");
        let asked = Arc::<AtomicUsize>::default();
        let count = Arc::clone(&asked);
        let when = move |_: &anywire_client::Failure<'_>| count.fetch_add(1, Ordering::SeqCst) < 100;
        let retries = Retries { max: 1, when: Some(Arc::new(when)), ..eager() };
        let builder = builder().retries(retries);
        let client = if is_intercepted { builder.intercept(pass) } else { builder }.build();
        let response = block_on(client.get(peer.url("/")).send()).expect("the second response");
        assert_eq!((response.status().as_u16(), client.counters().total().retried), (503, 1));
        assert_eq!(asked.load(Ordering::SeqCst), 1, "intercepted: {is_intercepted}");
    }
}
