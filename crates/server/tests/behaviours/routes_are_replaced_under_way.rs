//! Other routes take the place of those of a running server: requests under way keep the old ones, new requests on the same connection
//! get the new ones, and the old states are dropped once nothing runs with them.

use std::io::Write;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, mpsc};
use std::time::Duration;

use anywire_http::{Body, Bytes, StatusCode};
use anywire_loops::{Loops, PoolLimits};
use anywire_server::codec::{Codec, CodecError, Source, Target};
use anywire_server::layers::Codecs;
use anywire_server::{
    Blocking, Handler, Limits, MatchedPath, Next, Request, Response, RouteError, RouteLimits, Router,
    RouterHandle, Server, ServerError, State, Upgrade,
};
use tokio::io::AsyncReadExt;
use tokio::sync::Notify;

use crate::support::h2::{Came, H2};
use crate::support::{HANG, Peer, Scene, serve};

/// Says on its drop that it is gone.
struct Told(mpsc::Sender<&'static str>, &'static str);

impl Drop for Told {
    fn drop(&mut self) {
        let _ = self.0.send(self.1);
    }
}

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n")
}

#[test]
fn new_requests_get_the_new_routes_on_the_same_connection() {
    let served = serve(Router::new().get("/", async || "old").get("/old", async || "old"));
    let mut peer = served.connect();
    peer.send(get("/"));
    assert_eq!(peer.answer(false).text(), "old");
    let routes = served.running.router();
    for round in 0..300_u32 {
        let text = format!("new {round}");
        routes
            .replace(Router::new().get("/", async move || text))
            .expect("right routes")
            .wait()
            .expect("all loops");
        peer.send(get("/"));
        assert_eq!(
            peer.answer(false).text(),
            format!("new {round}"),
            "more often than generations have numbers"
        );
    }
    peer.send(get("/old"));
    assert_eq!(peer.answer(false).status, 404);
}

#[test]
fn a_request_under_way_keeps_the_old_routes_until_it_ends() {
    let (gone, told) = mpsc::channel();
    let (began, begun) = mpsc::channel();
    let go = Arc::new(Notify::new());
    let old = {
        let (go, began) = (Arc::clone(&go), began);
        let states = Arc::new(Told(gone, "old"));
        let waits = async move |State(name): State<&'static str>, path: MatchedPath, request: Request| {
            let _ = began.send(());
            go.notified().await;
            format!("{} {} {}", *name, path.0, request.peer().to_string().len() > 1)
        };
        Router::new().state("old").state(states).get("/wait/{x}", waits).get("/", async || "old root")
    };
    let served = serve(old);
    let (mut waiting, mut other) = (served.connect(), served.connect());
    waiting.send(get("/wait/1"));
    begun.recv_timeout(HANG).expect("it has begun");
    served
        .running
        .router()
        .replace(Router::new().state("new").get("/", async || "new root"))
        .expect("right")
        .wait()
        .expect("all loops");
    other.send(get("/"));
    assert_eq!(other.answer(false).text(), "new root");
    assert!(told.try_recv().is_err(), "the old states are needed");
    go.notify_one();
    assert_eq!(waiting.answer(false).text(), "old /wait/{x} true");
    assert_eq!(told.recv_timeout(HANG), Ok("old"), "its last request has ended");
    waiting.send(get("/wait/1"));
    assert_eq!(waiting.answer(false).status, 404);
}

/// Streams of old and of new routes share a connection.
#[test]
fn a_stream_under_way_keeps_the_old_routes_beside_those_of_the_new_ones() {
    let (gone, told) = mpsc::channel();
    let (began, begun) = mpsc::channel();
    let go = Arc::new(Notify::new());
    let old = {
        let (go, state) = (Arc::clone(&go), Arc::new(Told(gone, "old")));
        let waits = async move |path: MatchedPath| {
            let _ = began.send(());
            go.notified().await;
            path.0.to_string()
        };
        Router::new().state(state).get("/wait/{x}", waits).get("/", async || "old root")
    };
    let served = serve(old);
    let mut peer = H2::connect(&served);
    let waiting = peer.get("/wait/1");
    begun.recv_timeout(HANG).expect("it has begun");
    assert_eq!(peer.ask("/").text(), "old root");
    let new = Router::new()
        .get("/", async || "new root")
        .get("/wait/{y}", async |path: MatchedPath| path.0.to_string());
    served.running.router().replace(new).expect("right").wait().expect("all loops");
    assert_eq!(peer.ask("/").text(), "new root");
    assert_eq!(peer.ask("/wait/1").text(), "/wait/{y}");
    assert!(told.try_recv().is_err(), "the old states are needed");
    go.notify_one();
    assert_eq!(peer.answer(waiting).text(), "/wait/{x}");
    assert_eq!(told.recv_timeout(HANG), Ok("old"), "its last request has ended");
}

#[test]
fn idle_connections_hold_nothing_of_the_old_routes() {
    let (gone, told) = mpsc::channel();
    let served = serve(Router::new().state(Arc::new(Told(gone, "old"))).get("/", async || "old"));
    let mut peer = served.connect();
    peer.send(get("/"));
    assert_eq!(peer.answer(false).text(), "old");
    served.running.router().replace(Router::new()).expect("no routes are right").wait().expect("all loops");
    assert_eq!(told.recv_timeout(HANG), Ok("old"), "while the connection is open and silent");
}

#[test]
fn connections_that_have_left_http_hold_nothing_of_the_routes_that_came_since() {
    let (gone, told) = mpsc::channel();
    let (ends, ended) = mpsc::channel();
    let upgrade = async move |upgrade: Upgrade| {
        let ends = ends.clone();
        upgrade.accept("echo", async move |mut connection| {
            let _ = ends.send(connection.read(&mut [0; 1]).await.unwrap_or(0));
        })
    };
    let served = Scene::tcp().serve_on(1, Router::new().get("/echo", upgrade), Limits::default());
    let mut peer = served.connect();
    peer.send("GET /echo HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: echo\r\n\r\n");
    assert_eq!(peer.head().status, 101);
    let routes = served.running.router();
    for name in ["first", "second", "last"] {
        let router = Router::new().state(Arc::new(Told(gone.clone(), name)));
        routes.replace(router).expect("no routes are right").wait().expect("all loops");
    }
    assert_eq!(told.recv_timeout(HANG), Ok("first"), "while the connection is open");
    assert_eq!(told.recv_timeout(HANG), Ok("second"), "while the connection is open");
    peer.send("x");
    assert_eq!(ended.recv_timeout(HANG), Ok(1), "it goes on");
}

/// A response whose body has begun, and ends when it may.
fn streaming(go: Arc<Notify>) -> Response {
    let (mut sender, body) = Body::channel(1024);
    tokio::task::spawn_local(async move {
        let _ = sender.send("begun ").await;
        go.notified().await;
        let _ = sender.send("ended").await;
    });
    Response::new(StatusCode::OK).body(body)
}

#[test]
fn a_body_that_streams_goes_on() {
    let go = Arc::new(Notify::new());
    let streams = {
        let go = Arc::clone(&go);
        async move || streaming(go)
    };
    let limits = RouteLimits { handler_timeout: Some(Duration::MAX), ..Default::default() };
    let served = serve(Router::new().get("/", streams.limits(limits)));
    let mut peer = served.connect();
    peer.send("GET / HTTP/1.0\r\n\r\n");
    peer.read_until(b"begun ");
    served.running.router().replace(Router::new()).expect("right").wait().expect("all loops");
    go.notify_one();
    assert_eq!(peer.rest(), b"ended");
}

#[test]
fn layers_of_the_server_stay_as_they_are() {
    async fn marked(request: Request, next: Next) -> Response {
        next.run(request).await.header("x-layer", "yes")
    }
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    let count = async move |request: Request, next: Next| {
        counted.fetch_add(1, Ordering::Relaxed);
        next.run(request).await
    };
    let server = Server::new(Router::new().get("/", async || "old")).layer(marked).layer(count);
    let served = Scene::tcp().serve_by(server);
    served
        .running
        .router()
        .replace(Router::new().get("/", async || "new"))
        .expect("right")
        .wait()
        .expect("all loops");
    let answer = served.ask(&get("/"));
    assert_eq!((answer.text(), answer.header("x-layer")), ("new", Some("yes")));
    assert_eq!(calls.load(Ordering::Relaxed), 1);
}

#[test]
fn mistakes_leave_the_old_routes() {
    let served = serve(Router::new().get("/", async || "old"));
    let twice = Router::new().get("/", async || "1").get("/", async || "2");
    let Err(error) = served.running.router().replace(twice) else { panic!("two handlers") };
    assert!(matches!(error, RouteError::Twice { .. }), "{error}");
    assert_eq!(served.ask(&get("/")).text(), "old");
}

#[test]
fn shutdown_tells_requests_of_old_and_new_routes() {
    let (began, begun) = mpsc::channel();
    let stops = |name: &'static str| {
        let began = began.clone();
        async move |request: Request| {
            let _ = began.send(());
            request.stopping().await;
            name
        }
    };
    let served = serve(Router::new().get("/", stops("old")));
    let (mut one, mut other) = (served.connect(), served.connect());
    one.send(get("/"));
    begun.recv_timeout(HANG).expect("the old one");
    let routes = served.running.router();
    routes.replace(Router::new().get("/", stops("new"))).expect("right").wait().expect("all loops");
    other.send(get("/"));
    begun.recv_timeout(HANG).expect("the new one");
    let stopping = served.running.shutdown(Duration::from_secs(60));
    assert_eq!(one.answer(false).text(), "old");
    assert_eq!(other.answer(false).text(), "new");
    assert_eq!(stopping.wait().connections_cut, 0);
    routes.replace(Router::new()).expect("right routes").wait().expect("all loops");
}

#[test]
fn loops_that_come_later_have_the_new_routes() {
    let served = Scene::tcp().serve_on(3, Router::new().get("/", async || "old"), Limits::default());
    served
        .running
        .router()
        .replace(Router::new().get("/", async || "new"))
        .expect("right")
        .wait()
        .expect("all loops");
    for _ in 0..12 {
        assert_eq!(served.ask(&get("/")).text(), "new");
    }
}

#[test]
fn new_routes_run_on_the_pools_that_there_are() {
    let server = Server::new(Router::new()).pool("cpu", PoolLimits::default());
    let served = Scene::tcp().serve_by(server);
    let routes = served.running.router();
    let on = |pool: &str| Router::new().get("/", (|| "done").on_pool(pool));
    assert!(matches!(routes.replace(on("gpu")), Err(RouteError::Pool { pool, .. }) if pool == "gpu"));
    routes.replace(on("cpu")).expect("the server has it").wait().expect("all loops");
    let mut peer = served.connect();
    peer.send(get("/"));
    assert_eq!(peer.answer(false).text(), "done");
}

#[test]
fn a_stream_outlives_any_number_of_routes() {
    let go = Arc::new(Notify::new());
    let streams = {
        let go = Arc::clone(&go);
        async move || streaming(go)
    };
    // The last of several, so that fewer routes do not have its number.
    let many = (0..9).fold(Router::new(), |router, n| router.get(&format!("/{n}"), async || ""));
    let served = serve(many.get("/", streams));
    let mut peer = served.connect();
    peer.send("GET / HTTP/1.0\r\n\r\n");
    peer.read_until(b"begun ");
    let routes = served.running.router();
    for _ in 0..255 {
        routes.replace(Router::new()).expect("no routes are right").wait().expect("all loops");
    }
    go.notify_one();
    assert_eq!(peer.rest(), b"ended");
    assert_eq!(served.running.counters().panics, 0);
}

/// The handler has ended, and the body of its request goes on.
#[test]
fn an_echo_keeps_the_limits_of_its_route() {
    let silence = Duration::from_millis(300);
    let echo =
        (async |body: Body| body).limits(RouteLimits { body_timeout: Some(silence), ..Default::default() });
    let limits = Limits { body_timeout: Duration::MAX, ..Limits::default() };
    let served = Scene::tcp().serve_on(1, Router::new().post("/", echo), limits);
    let mut peer = served.connect();
    peer.send("POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\nbegun ");
    peer.read_until(b"begun ");
    let routes = served.running.router();
    for _ in 0..3 {
        routes.replace(Router::new()).expect("no routes are right").wait().expect("all loops");
    }
    peer.assert_closed();
    served.await_count("body timeouts", |counters| counters.body_timeouts, 1);
}

/// As over HTTP/1, on its stream alone: the connection goes on with the new routes.
#[test]
fn a_stream_keeps_the_limits_of_its_route() {
    let silence = Duration::from_millis(300);
    let echo =
        (async |body: Body| body).limits(RouteLimits { body_timeout: Some(silence), ..Default::default() });
    let limits = Limits { body_timeout: Duration::MAX, ..Limits::default() };
    let served = Scene::tcp().serve_on(1, Router::new().post("/", echo), limits);
    let mut peer = H2::connect(&served);
    // In one write: the silence of the body is short.
    let id = peer.open_later("POST", "/", &[], Some(100), false);
    peer.body(id, b"begun ", false);
    loop {
        match peer.next() {
            Came::Data(of, ..) if of == id => break,
            Came::Reset(..) | Came::End => panic!("nothing came back"),
            _ => {}
        }
    }
    let routes = served.running.router();
    for _ in 0..3 {
        let new = Router::new().get("/", async || "new");
        routes.replace(new).expect("right routes").wait().expect("all loops");
    }
    peer.reset_of(id);
    served.await_count("body timeouts", |counters| counters.body_timeouts, 1);
    assert_eq!(peer.ask("/").text(), "new");
}

/// A codec of the server's layers: it is asked for its types each time routes are built.
struct WhenBuilt<F>(F);

impl<F: Fn() + Send + Sync + 'static> Codec for WhenBuilt<F> {
    fn media_types(&self) -> &[&str] {
        (self.0)();
        &["text/x-never"]
    }

    fn decode(&self, _: &Bytes, _: Target<'_>) -> Result<(), CodecError> {
        Err("nothing is read")?
    }

    fn encode(&self, _: Source<'_>) -> Result<Bytes, CodecError> {
        Err("nothing is written")?
    }
}

/// A server that is starting when its routes are replaced by these, the last one first. Later this is called, each time routes are built.
fn replaced_at_the_start(next: Vec<Router>, later: impl Fn() + Send + Sync + 'static) -> Server {
    let (routes, next) = (Arc::new(OnceLock::<RouterHandle>::new()), Mutex::new(next));
    let when_built = {
        let routes = Arc::clone(&routes);
        move || {
            let Some(routes) = routes.get() else { return };
            let next = next.lock().expect("no panic").pop();
            match next {
                Some(next) => drop(routes.replace(next).expect("right routes")),
                None => later(),
            }
        }
    };
    let server = Server::new(Router::new().get("/", async || "old"));
    let server = server.layer(Codecs::new().with(WhenBuilt(when_built)));
    let _ = routes.set(server.router());
    server
}

#[test]
fn routes_may_be_replaced_at_the_moment_of_the_start() {
    let says = |text: &'static str| Router::new().get("/", async move || text);
    let served = Scene::tcp().serve_by(replaced_at_the_start(vec![says("last"), says("first")], || {}));
    assert_eq!(served.ask(&get("/")).text(), "last");
    let routes = served.running.router();
    routes.replace(says("later")).expect("right").wait().expect("all loops");
    assert_eq!(served.ask(&get("/")).text(), "later");
}

/// Nobody has been served by then, although the server has bound its address.
#[test]
fn a_pool_that_is_missing_at_the_moment_of_the_start_is_an_error() {
    let loops = Loops::start(1).expect("a loop");
    let name = format!("anywire-replaced-at-the-start-{}", std::process::id());
    let (connected, connects) = mpsc::channel();
    let asks = {
        let address = SocketAddr::from_abstract_name(&name).expect("a short name");
        move || {
            // It fails until the address is bound.
            let Ok(mut peer) = UnixStream::connect_addr(&address) else { return };
            peer.write_all(get("/").as_bytes()).expect("it is connected");
            let _ = connected.send(peer);
        }
    };
    let missing = Router::new().get("/", (|| "new").on_pool("none"));
    let server = replaced_at_the_start(vec![missing], asks).listen(&*format!("unix:@{name}")).on(&loops);
    let Err(error) = server.start() else { panic!("the pool is missing") };
    assert!(matches!(&error, ServerError::Route(RouteError::Pool { pool, .. }) if pool == "none"), "{error}");
    let mut peer =
        Peer::new(connects.try_recv().expect("the new routes were built after the address was bound"));
    assert_eq!(peer.rest(), b"");
    loops.shutdown(HANG).expect("nothing runs");
}

/// A state that cannot be cloned on the loops.
struct Unclonable;

impl Clone for Unclonable {
    fn clone(&self) -> Self {
        panic!("this state has no copies");
    }
}

#[test]
fn a_state_that_panics_leaves_the_old_routes_and_says_so() {
    let served = Scene::tcp().serve_on(1, Router::new().get("/", async || "old"), Limits::default());
    assert_eq!(served.ask(&get("/")).text(), "old");
    let routes = served.running.router();
    let next = Router::new().state(Unclonable).get("/", async |_: State<Unclonable>| "new");
    let error = routes.replace(next).expect("right routes").wait().expect_err("a panic");
    assert_eq!((error.loops, error.panic.as_str()), (1, "this state has no copies"));
    assert_eq!(served.ask(&get("/")).text(), "old");
    routes.replace(Router::new().get("/", async || "newer")).expect("right").wait().expect("all loops");
    assert_eq!(served.ask(&get("/")).text(), "newer");
}

#[test]
fn routes_may_be_replaced_before_the_start() {
    let server = Server::new(Router::new().get("/", async || "old")).listen("tcp:127.0.0.1:0").loops(1);
    let routes = server.router();
    routes.replace(Router::new().get("/", async || "new")).expect("right").wait().expect("no loop yet");
    let new = Router::new().get("/new", async || "new").get("/", async || "new");
    routes.replace(new).expect("right").wait().expect("no loop yet");
    let table = server.describe().expect("right routes");
    assert!(table.contains("GET /new at "), "{table}");
    let twice = Router::new().get("/", async || "1").get("/", async || "2");
    assert!(matches!(routes.replace(twice), Err(RouteError::Twice { .. })));
    let served = Scene::tcp().serve_by(server);
    assert_eq!(served.ask(&get("/")).text(), "new");
    routes.replace(Router::new().get("/", async || "newer")).expect("right").wait().expect("all loops");
    assert_eq!(served.ask(&get("/")).text(), "newer");
    served.running.shutdown(Duration::from_secs(1)).wait();
    routes.replace(Router::new()).expect("right").wait().expect("no loop any more");
}

/// Counts its copies, and cannot be copied for the first time.
struct Counted(Arc<AtomicUsize>);

impl Clone for Counted {
    fn clone(&self) -> Self {
        assert!(self.0.fetch_add(1, Ordering::Relaxed) > 0, "not the first time");
        Self(Arc::clone(&self.0))
    }
}

#[test]
fn a_state_that_panics_costs_the_connection_that_needed_it() {
    let copies = Arc::new(AtomicUsize::new(0));
    let routes =
        || Router::new().state(Counted(Arc::clone(&copies))).get("/", async |_: State<Counted>| "ok");
    // A loop that has served nothing needs no states at its end.
    let served = Scene::tcp().serve_on(2, routes(), Limits::default());
    served.running.shutdown(Duration::from_secs(1)).wait();
    assert_eq!(copies.load(Ordering::Relaxed), 0);
    let served = Scene::tcp().serve_on(1, routes(), Limits::default());
    let mut peer = served.connect();
    peer.assert_closed();
    served.await_count("panics", |counters| counters.panics, 1);
    assert_eq!(served.ask(&get("/")).text(), "ok");
}
