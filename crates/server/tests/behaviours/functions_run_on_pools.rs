//! A function on a pool is run there while its loop goes on, in both versions and within layers: refused at once, or at its queue
//! deadline, or at the end of the server, if no thread is free; and once it runs, nothing that happens to its peer ends it.

use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use anywire_http::h2::{Code, StreamId};
use anywire_http::{Body, Request as OwnRequest, StatusCode};
use anywire_loops::{Loops, Pool, PoolCounters, PoolLimits, PoolOrder};
use anywire_server::layers::Timeout;
use anywire_server::{
    Blocking, Error, Handler, Limits, Next, PeerGone, QueueDeadline, Request, RouteLimits, Router, Server,
    State,
};

use tower_service::Service as _;

use crate::support::clock::StillLoop;
use crate::support::h2::H2;
use crate::support::{HANG, Peer, Remote, Scene, Served, Told, channel};

/// How a function and its test talk to each other.
struct Cues {
    began: Mutex<Sender<String>>,
    goes_on: Mutex<Receiver<()>>,
    ended: Mutex<Sender<String>>,
}

/// Answers the length of the text; waits or panics before that if the text says so.
#[expect(clippy::needless_pass_by_value, reason = "a handler takes values")]
fn work(cues: Arc<Cues>, gone: PeerGone, text: String) -> String {
    let _ = cues.began.lock().expect("no panic").send(text.clone());
    match text.split(' ').next() {
        Some("wait") => _ = cues.goes_on.lock().expect("no panic").recv(),
        Some("ask") => {
            while !gone.is_gone() {
                thread::yield_now();
            }
        }
        Some("panic") => panic!("on purpose"),
        _ => {}
    }
    let _ = cues.ended.lock().expect("no panic").send(text.clone());
    text.len().to_string()
}

/// A server with a pool.
struct Play {
    served: Served,
    version: u8,
    began: Told<String>,
    goes_on: Sender<()>,
    ended: Told<String>,
}

/// A request on its way.
enum Asked {
    H1(Peer<Remote>),
    H2(Box<H2>, StreamId),
}

const ONE: PoolLimits = PoolLimits { threads: 1, queue: 2, order: PoolOrder::OldestFirst };

/// Plays in both versions, alone and within layers. `/late` and others like it have a short queue deadline, and `/in-time` one that is never reached.
fn in_each_way(limits: PoolLimits, of_server: &Limits, play: impl Fn(&mut Play)) {
    for version in [1, 2] {
        for has_layers in [false, true] {
            let ((began, has_begun), (ended, has_ended)) = (channel(), channel());
            let (goes_on, told) = std::sync::mpsc::channel();
            let cues = Cues { began: began.into(), goes_on: told.into(), ended: ended.into() };
            let short = Duration::from_millis(1);
            let within = RouteLimits { concurrency: Some(100), ..RouteLimits::default() };
            let mut router = Router::new()
                .post("/work", work.on_pool("cpu").limits(within))
                .post("/alone", work.on_pool("cpu").limits(RouteLimits { concurrency: Some(1), ..within }))
                .post("/late", work.on_pool("cpu").queue_deadline(short))
                .post(
                    "/late-from-arrival",
                    work.on_pool("cpu").queue_deadline(QueueDeadline::from_arrival(short)),
                )
                .merge(
                    Router::new()
                        .post("/late-by-router", work.on_pool("cpu"))
                        .post("/in-time", work.on_pool("cpu").queue_deadline(Duration::MAX))
                        .limits(RouteLimits { queue_deadline: Some(short.into()), ..RouteLimits::default() }),
                )
                .post("/timeout", work.on_pool("cpu").layer(Timeout::new(Duration::from_millis(20))))
                .get("/alive", async || "")
                .state(Arc::new(cues));
            if has_layers {
                router = router.layer(async |request: Request, next: Next| next.run(request).await);
            }
            let mut server = Server::new(router).pool("cpu", limits).limits(of_server.clone());
            if has_layers {
                server = server.layer(async |request: Request, next: Next| next.run(request).await);
            }
            let served = Scene::tcp().serve_by(server);
            play(&mut Play { served, version, began: has_begun, goes_on, ended: has_ended });
        }
    }
}

impl Play {
    fn begin(&self, path: &str, text: &str) -> Asked {
        if self.version == 1 {
            let mut peer = self.served.connect();
            let length = text.len();
            peer.send(format!("POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: {length}\r\n\r\n{text}"));
            return Asked::H1(peer);
        }
        let mut peer = H2::connect(&self.served);
        let id = peer.open("POST", path, &[], Some(text.len() as u64), false);
        peer.body(id, text.as_bytes(), true);
        Asked::H2(Box::new(peer), id)
    }

    fn ask(&self, path: &str, text: &str) -> (u16, String) {
        let (status, text, _) = self.begin(path, text).answer();
        (status, text)
    }

    /// A request whose function has begun.
    fn running(&self, path: &str, text: &str) -> Asked {
        let asked = self.begin(path, text);
        assert_eq!(self.began.next(), text);
        asked
    }

    /// A request whose function waits for a thread, as the one of this number.
    fn queued(&self, text: &str, number: u64) -> Asked {
        let asked = self.begin("/work", text);
        self.await_queued(number);
        asked
    }

    fn await_queued(&self, number: u64) {
        self.served.await_count("the queue", |_| self.pool().counters().queued, number);
    }

    fn pool(&self) -> &Pool {
        self.served.running.pool("cpu").expect("it was given")
    }
}

impl Asked {
    /// Status, text, and when to try again.
    fn answer(self) -> (u16, String, Option<String>) {
        match self {
            Self::H1(mut peer) => {
                let answer = peer.answer(false);
                let retry = answer.header("retry-after").map(str::to_owned);
                (answer.status, answer.text().to_owned(), retry)
            }
            Self::H2(mut peer, id) => {
                let answer = peer.answer(id);
                let retry = answer.header("retry-after").map(str::to_owned);
                (answer.status(), answer.text().to_owned(), retry)
            }
        }
    }

    fn reset(self) {
        match self {
            Self::H1(peer) => peer.reset(),
            Self::H2(mut peer, id) => {
                peer.engine.reset(id, Code::CANCEL, &mut peer.out);
                peer.flush();
            }
        }
    }
}

#[track_caller]
fn assert_refused(asked: Asked, expected: &str) {
    let (status, text, retry) = asked.answer();
    assert_eq!((status, retry.as_deref()), (503, Some("1")), "{text}");
    assert!(text.contains(expected), "{text}");
}

#[test]
fn the_loop_goes_on_while_a_function_blocks() {
    in_each_way(ONE, &Limits::default(), |play| {
        let asked = play.running("/work", "wait");
        // There is one loop.
        play.served.assert_alive();
        play.goes_on.send(()).expect("it waits");
        assert_eq!(asked.answer().1, "4");
        assert_eq!(play.ask("/in-time", "four").1, "4");
        let counters = play.pool().counters();
        assert_eq!((counters.ended, counters.running, counters.queued), (2, 0, 0));
        assert_eq!(play.pool().queue_times().count(), 2);
    });
}

#[test]
fn a_full_queue_refuses_at_once() {
    in_each_way(ONE, &Limits::default(), |play| {
        let first = play.running("/work", "wait");
        let (second, third) = (play.queued("second", 1), play.queued("third", 2));
        assert_refused(play.begin("/work", "one too many"), "too many requests of this kind wait");
        assert_eq!(play.served.running.counters().pool_refusals, 1);
        assert_eq!(play.pool().counters().rejected_full, 1);
        play.goes_on.send(()).expect("it waits");
        assert_eq!([first, second, third].map(|asked| asked.answer().1), ["4", "6", "5"]);
        assert_eq!(play.ask("/work", "more"), (200, "4".to_owned()));
    });
}

#[test]
fn a_late_request_is_never_run() {
    for order in [PoolOrder::OldestFirst, PoolOrder::LatestFirst] {
        in_each_way(PoolLimits { order, ..ONE }, &Limits::default(), |play| {
            let first = play.running("/work", "wait");
            // It is told when its time has passed, though no thread is free.
            assert_refused(play.begin("/late", "late"), "too busy to answer in time");
            assert_refused(play.begin("/late-from-arrival", "late"), "too busy to answer in time");
            assert_refused(play.begin("/late-by-router", "late"), "too busy to answer in time");
            assert_eq!(play.served.running.counters().queue_deadlines, 3);
            assert_eq!((play.pool().counters().rejected_late, play.pool().counters().queued), (3, 0));
            play.goes_on.send(()).expect("it waits");
            assert_eq!(first.answer().0, 200);
            assert_eq!(play.ask("/in-time", "in time").0, 200);
            assert_eq!(play.began.next(), "in time");
        });
    }
}

/// The time of a layer counts from the arrival, and not from queueing.
#[test]
fn a_deadline_counts_from_the_arrival_if_asked_for() {
    let hour = Duration::from_secs(3600);
    // The clock of the loop stands still, and moves here alone.
    let slow = async |request: Request, next: Next| {
        tokio::time::advance(Duration::from_secs(3600)).await;
        next.run(request).await
    };
    for of_server in [false, true] {
        let quick = || "quick";
        let router = Router::new()
            .get("/arrival", quick.on_pool("cpu").queue_deadline(QueueDeadline::from_arrival(hour)))
            .get("/queueing", quick.on_pool("cpu").queue_deadline(QueueDeadline::from_queueing(hour)));
        let deadline = Some(QueueDeadline::from_arrival(hour));
        let limits = RouteLimits { queue_deadline: deadline, ..RouteLimits::default() };
        let router = router.merge(Router::new().get("/by-router", quick.on_pool("cpu")).limits(limits));
        let described = router.describe().expect("the routes are right");
        assert_eq!(described.matches("queue_deadline 3600s from arrival").count(), 2, "{described}");
        let never = Limits { handler_timeout: Duration::MAX, ..Limits::default() };
        let clock = StillLoop::start();
        let server = match of_server {
            true => Server::new(router).layer(slow),
            false => Server::new(router.layer(slow)),
        };
        let served = clock.serve(&Scene::tcp(), server.limits(never).pool("cpu", ONE));
        let get = |path| served.ask(&format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"));
        assert_eq!((get("/arrival").status, get("/queueing").status), (503, 200));
        assert_eq!(get("/by-router").status, 503);
        assert_eq!(served.running.counters().queue_deadlines, 2);
    }
}

/// A `Duration` counts from queueing, and a clone of the function has the same deadline.
#[test]
fn a_clone_has_the_deadline_of_its_function() {
    let late = (|| "quick").on_pool("cpu").queue_deadline(Duration::from_secs(3600));
    let router = Router::new().get("/a", late.clone()).get("/b", late);
    let described = router.describe().expect("the routes are right");
    assert_eq!(described.matches("queue_deadline 3600s").count(), 2, "{described}");
    assert!(!described.contains("from arrival"), "{described}");
}

#[test]
fn the_latest_is_first_if_asked_for() {
    for (order, expected) in
        [(PoolOrder::OldestFirst, ["one", "two"]), (PoolOrder::LatestFirst, ["two", "one"])]
    {
        in_each_way(PoolLimits { order, ..ONE }, &Limits::default(), |play| {
            let first = play.running("/work", "wait");
            let (one, two) = (play.queued("one", 1), play.queued("two", 2));
            play.goes_on.send(()).expect("it waits");
            assert_eq!([play.began.next(), play.began.next()], expected);
            assert_eq!([first, one, two].map(|asked| asked.answer().0), [200; 3]);
        });
    }
}

#[test]
fn a_pool_is_resized_while_it_serves() {
    in_each_way(ONE, &Limits::default(), |play| {
        let first = play.running("/work", "wait");
        let second = play.queued("wait", 1);
        play.pool().resize(2).expect("a thread can be had");
        assert_eq!(play.began.next(), "wait");
        play.pool().resize(1).expect("no thread is needed");
        play.pool().resize_queue(0);
        assert_refused(play.begin("/work", "one too many"), "too many requests of this kind wait");
        (0..2).for_each(|_| play.goes_on.send(()).expect("it waits"));
        assert_eq!([first, second].map(|asked| asked.answer().0), [200; 2]);
        play.served.await_count("the threads", |_| play.pool().counters().threads, 1);
        assert_eq!(play.ask("/work", "more").0, 200);
    });
}

#[test]
fn a_panic_is_a_500_of_its_own_request() {
    in_each_way(ONE, &Limits::default(), |play| {
        for _ in 0..3 {
            assert_eq!(play.ask("/work", "panic").0, 500);
        }
        assert_eq!(play.ask("/work", "more").0, 200);
        assert_eq!((play.served.running.counters().panics, play.pool().counters().panics), (3, 3));
        assert_eq!(play.pool().counters().threads, 1);
    });
}

#[test]
fn a_function_whose_peer_has_gone_can_ask() {
    in_each_way(ONE, &Limits::default(), |play| {
        let asked = play.running("/work", "ask");
        let waits = play.queued("waits", 1);
        // One that has not begun never does.
        waits.reset();
        play.await_queued(0);
        asked.reset();
        assert_eq!(play.ended.next(), "ask");
        assert_eq!(play.ask("/work", "more").0, 200);
        assert_eq!([play.began.next(), play.ended.next()], ["more", "more"]);
        play.served.await_count("those given up", |_| play.pool().counters().abandoned, 2);
        let counters = play.pool().counters();
        assert_eq!((counters.abandoned, counters.ended, counters.panics), (2, 2, 0));
    });
}

#[test]
fn a_function_counts_for_the_limit_of_its_route_until_it_has_ended() {
    in_each_way(PoolLimits { threads: 2, ..ONE }, &Limits::default(), |play| {
        let asked = play.running("/alone", "wait");
        asked.reset();
        play.served.await_count("resets", |counters| counters.abandoned, 1);
        assert_eq!(play.ask("/alone", "second").0, 503);
        play.goes_on.send(()).expect("it waits");
        assert_eq!(play.ended.next(), "wait");
        play.served.await_count("those at work", |_| play.pool().counters().running, 0);
        assert_eq!(play.ask("/alone", "third").0, 200);
    });
}

/// A peer that has only ended its direction still gets its response.
#[test]
fn a_half_closed_peer_is_told_of_and_answered() {
    in_each_way(ONE, &Limits::default(), |play| {
        let mut asked = play.running("/work", "ask");
        match &mut asked {
            Asked::H1(peer) => peer.half_close(),
            Asked::H2(peer, _) => peer.half_close(),
        }
        assert_eq!(play.ended.next(), "ask");
        assert_eq!(asked.answer().0, 200);
    });
}

#[test]
fn a_timeout_answers_and_the_function_goes_on() {
    let short = Limits { handler_timeout: Duration::from_millis(20), ..Limits::default() };
    for (path, limits) in [("/work", &short), ("/timeout", &Limits::default())] {
        in_each_way(ONE, limits, |play| {
            // On a busy machine the time may pass before the body is there or a thread has the function, which is never run then.
            let mut asked = 0;
            while play.began.so_far().is_none() {
                asked += 1;
                assert_eq!(play.ask(path, "ask").0, 503);
                let in_pool = |PoolCounters { running, queued, .. }| running + queued;
                play.served.await_count("what is in the pool", |_| in_pool(play.pool().counters()), 0);
            }
            play.served.await_count("was given up", |_| play.pool().counters().abandoned.min(1), 1);
            assert!(play.pool().counters().abandoned <= asked);
            assert_eq!(play.ended.next(), "ask");
            assert_eq!((play.pool().counters().ended, play.pool().counters().running), (1, 0));
        });
    }
}

#[test]
fn a_shutdown_refuses_what_waits_and_leaves_what_runs() {
    in_each_way(ONE, &Limits::default(), |play| {
        let runs = play.running("/work", "wait");
        let waits = play.queued("waits", 1);
        let pool = play.pool().clone();
        let elsewhere = Scene::tcp().serve(Router::new());
        let Served { running, .. } = std::mem::replace(&mut play.served, elsewhere);
        // A tenth of that is for what waits to be refused.
        let stopping = running.shutdown(Duration::from_millis(500));
        assert_refused(waits, "shutting down");
        assert_eq!(stopping.wait().connections_cut, 1);
        drop(runs);
        assert_eq!(pool.counters().running, 1);
        play.goes_on.send(()).expect("it goes on");
        assert_eq!(play.ended.next(), "wait");
    });
}

/// Those whose routes were replaced meanwhile, too.
#[test]
fn a_shutdown_refuses_what_waits_by_replaced_routes() {
    in_each_way(ONE, &Limits::default(), |play| {
        let _runs = play.running("/work", "wait");
        let waits = play.queued("waits", 1);
        let quick = (|| "quick").on_pool("cpu");
        let next = Router::new().get("/quick", quick);
        play.served.running.router().replace(next).expect("the pool is there").wait().expect("all loops");
        let unknown = Router::new().get("/", (|| "").on_pool("gpu"));
        assert!(play.served.running.router().replace(unknown).is_err());
        let elsewhere = Scene::tcp().serve(Router::new());
        let Served { running, .. } = std::mem::replace(&mut play.served, elsewhere);
        let stopping = running.shutdown(Duration::from_millis(500));
        assert_refused(waits, "shutting down");
        stopping.wait();
        play.goes_on.send(()).expect("it goes on");
    });
}

#[test]
fn a_shutdown_waits_for_what_runs() {
    in_each_way(ONE, &Limits::default(), |play| {
        let runs = play.running("/work", "wait");
        let waits = play.queued("waits", 1);
        let elsewhere = Scene::tcp().serve(Router::new());
        let Served { running, .. } = std::mem::replace(&mut play.served, elsewhere);
        let stopping = running.shutdown(HANG);
        play.goes_on.send(()).expect("it waits");
        assert_eq!([runs, waits].map(|asked| asked.answer().0), [200; 2]);
        assert_eq!(stopping.wait().connections_cut, 0);
    });
}

#[test]
fn an_unknown_pool_is_a_mistake() {
    let mistake =
        |server: Server| server.listen("tcp:127.0.0.1:0").start().err().expect("a mistake").to_string();
    let line = line!() + 1;
    let router = || Router::new().nest("/in", Router::new().get("/work", (|| "").on_pool("gpu")));
    let text = mistake(Server::new(router()));
    for part in [
        "GET /in/work",
        &format!("functions_run_on_pools.rs:{line}:"),
        "\"gpu\"",
        ".pool(\"gpu\", PoolLimits::default())",
    ] {
        assert!(text.contains(part), "no {part} in {text}");
    }
    let text = mistake(Server::new(router()).pool("cpu", ONE));
    assert!(text.contains("(it has cpu)"), "{text}");
    let line = line!() + 1;
    let text = mistake(Server::new(router()).pool("gpu", ONE).pool("cpu", ONE).pool("gpu", ONE));
    assert_eq!(text.matches(&format!("functions_run_on_pools.rs:{line}:")).count(), 2, "{text}");
    let none = Server::new(router()).pool("gpu", PoolLimits { threads: 0, ..ONE });
    let error = none.listen("tcp:127.0.0.1:0").start().err().expect("a mistake");
    assert!(format!("{error:?}").contains("cannot have 0 threads"), "{error:?}");
    // A pool that no route has is none.
    assert!(Server::new(Router::new()).pool("cpu", ONE).listen("tcp:127.0.0.1:0").start().is_ok());
}

/// A part of a handler runs on a pool that several may share.
#[test]
fn an_async_handler_runs_a_part_on_a_pool() {
    let pool = Pool::start("shared", ONE).expect("a thread can be had");
    let part = async |State(pool): State<Pool>, text: String| -> Result<String, Error> {
        Ok(pool.run(move || text.to_uppercase()).await?)
    };
    let whole = |text: String| text.to_lowercase();
    let router =
        Router::new().post("/part", part).post("/whole", whole.on_pool("shared")).state(pool.clone());
    let served = Scene::tcp().serve_by(Server::new(router).on_pool(&pool));
    let post = |path| served.ask(&format!("POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\nAb"));
    assert_eq!((post("/part").text(), post("/whole").text()), ("AB", "ab"));
    assert_eq!(pool.counters().ended, 2);
    drop(served);
    // It outlives the server.
    assert_eq!(anywire_loops::block_on(pool.run(|| 7)), Ok(7));
    pool.stop();
    let router = Router::new().post("/part", part).state(pool);
    let refused = Scene::tcp().serve(router);
    let answer = refused.ask("POST /part HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\nAb");
    assert_eq!(answer.status, 503);
}

/// Beside another server the pools are given to the service.
#[test]
fn a_router_as_a_service_has_pools() {
    let pool = Pool::start("cpu", ONE).expect("a thread can be had");
    let loops = Loops::start(1).expect("a loop starts");
    let router = || {
        let name = || thread::current().name().unwrap_or_default().to_owned();
        let panics = || -> String { panic!("on purpose") };
        Router::new().get("/", name.on_pool("cpu")).get("/panic", panics.on_pool("cpu"))
    };
    let text = router().into_service(&loops).expect_err("a mistake").to_string();
    assert!(text.contains("GET /") && text.contains("\"cpu\""), "{text}");
    let mut service = router().into_service_with(&loops, std::slice::from_ref(&pool)).expect("right routes");
    let mut call = |path| {
        let request = http::Request::get(path).body(Body::empty()).expect("a request");
        let response = service.call(request);
        anywire_loops::block_on(async {
            let Ok(mut response) = response.await;
            (response.status(), response.body_mut().text(100).await.expect("text"))
        })
    };
    assert_eq!(call("/"), (StatusCode::OK, "cpu-0".to_owned()));
    assert_eq!(call("/panic").0, StatusCode::INTERNAL_SERVER_ERROR);
    assert_eq!(pool.counters().ended, 2);
}

/// Without a server there are no pools.
#[test]
fn a_router_without_a_server_runs_functions_in_place() {
    let here = || format!("{:?}", thread::current().id());
    let router = Router::new().get("/", here.on_pool("cpu"));
    let call = async { router.call(OwnRequest::get("/")).await.body.text(100).await };
    assert_eq!(anywire_loops::block_on(call).expect("text"), here());
}

#[test]
fn a_pool_error_that_a_handler_returns_says_when_to_try_again() {
    let pool = Pool::start("parts", ONE).expect("a thread");
    let late = async |State(pool): State<Pool>| -> Result<String, Error> {
        Ok(pool.run(String::new).queue_deadline(Duration::ZERO).await?)
    };
    let own = async |State(pool): State<Pool>| -> Result<String, Error> {
        let late = pool.run(String::new).queue_deadline(Duration::ZERO).await;
        late.map_err(|error| Error::new(StatusCode::CONFLICT, "not now").caused_by(error))
    };
    let panics = async |State(pool): State<Pool>| -> Result<String, Error> {
        Ok(pool.run(|| -> String { panic!("on purpose") }).await?)
    };
    let router = Router::new().get("/late", late).get("/own", own).get("/panics", panics).state(pool);
    let served = crate::support::serve(router);
    let ask = |path: &str| {
        let answer = served.ask(&format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n"));
        (answer.status, answer.header("retry-after").map(str::to_owned))
    };
    assert_eq!(ask("/late"), (503, Some("1".to_owned())));
    assert_eq!(ask("/own"), (409, None));
    assert_eq!(ask("/panics"), (500, None));
}
