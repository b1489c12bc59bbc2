//! A handler sends interim responses (1xx) before its final one, in each version that has them, through all layers.

use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;

use anywire_http::{Method, Request as Message, StatusCode};
use anywire_server::layers::{RequestIds, Timeout};
use anywire_server::{
    Handler, InformError, Informational, IntoResponse, Limits, Next, Request, Response, RouteLimits, Router,
    Server, tower,
};

use crate::support::h2::{Came, H2};
use crate::support::tower::Tagged;
use crate::support::{Scene, channel};

const LINK: &str = "</style.css>; rel=preload; as=style";

async fn hinted(mut hints: Informational) -> Result<String, Fault> {
    hints.send(StatusCode::EARLY_HINTS, [("link", LINK), ("content-length", "7")]).await?;
    hints.send(StatusCode::PROCESSING, [("x-step", "2")]).await?;
    Ok("done".to_owned())
}

/// So that a test sees what the handler saw.
struct Fault(InformError);

impl IntoResponse for Fault {
    fn into_response(self) -> Response {
        (StatusCode::INTERNAL_SERVER_ERROR, format!("{:?}", self.0)).into_response()
    }
}

impl From<InformError> for Fault {
    fn from(error: InformError) -> Self {
        Self(error)
    }
}

/// What a request gets over HTTP/1.1, to the byte, but for the final response's fields.
#[track_caller]
fn assert_hinted(served: &crate::support::Served, path: &str) {
    let mut peer = served.connect();
    for _ in 0..2 {
        peer.send(format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n"));
        assert_eq!(peer.head().head, format!("HTTP/1.1 103 Early Hints\r\nlink: {LINK}\r\n\r\n"), "{path}");
        assert_eq!(peer.head().head, "HTTP/1.1 102 Processing\r\nx-step: 2\r\n\r\n", "{path}");
        let answer = peer.answer(false);
        assert_eq!((answer.status, answer.text()), (200, "done"), "{path}");
    }
    let mut peer = H2::connect(served);
    let id = peer.get(path);
    for (status, name, value) in [(103, "link", LINK), (102, "x-step", "2")] {
        let fields = loop {
            match peer.next() {
                Came::Interim(of, came, fields) if (of, came) == (id, status) => break fields,
                Came::Interim(_, came, _) => panic!("{came} instead of {status}"),
                Came::Head(..) => panic!("a final response before {status}"),
                _ => {}
            }
        };
        assert_eq!((fields.len(), fields.get(name)), (1, Some(value)), "{path}");
    }
    assert_eq!(peer.answer(id).text(), "done", "{path}");
}

#[test]
fn on_each_wire_and_through_layers() {
    let layered = async |mut hints: Informational, request: Request, next: Next| {
        // The handler within has the same handle.
        let sent = hints.send(StatusCode::EARLY_HINTS, [("link", LINK)]).await;
        sent.expect("the handler has not ended");
        next.run(request).await
    };
    let rest = async |mut hints: Informational| -> Result<&str, Fault> {
        hints.send(StatusCode::PROCESSING, [("x-step", "2")]).await?;
        Ok("done")
    };
    let tagged = || tower::layer(Tag);
    let gate = RouteLimits { concurrency: Some(8), ..Default::default() };
    crate::support::on_each_wire(|scene| {
        let router = Router::new()
            .get("/", hinted)
            .get("/tower", hinted.layer(tagged()))
            .get("/gated", hinted.limits(gate))
            .get("/both", rest.layer(layered))
            .nest("/nested", Router::new().get("/", hinted).layer(Timeout::new(crate::support::HANG)));
        let server = Server::new(router).layer(RequestIds::new()).layer(tagged());
        let served = scene.elsewhere().serve_by(server);
        for path in ["/", "/tower", "/gated", "/both", "/nested"] {
            assert_hinted(&served, path);
        }
        assert_eq!(served.running.counters().interim_responses, 5 * 3 * 2);
    });
}

/// Tags what goes through it, as a layer of the tower crates.
struct Tag;

impl<S> tower_layer::Layer<S> for Tag {
    type Service = Tagged<S>;

    fn layer(&self, inside: S) -> Tagged<S> {
        Tagged { inside, tag: "seen" }
    }
}

/// The peer has one while the handler still works.
#[test]
fn they_leave_at_once() {
    let (goes_on, may_go_on) = tokio::sync::mpsc::unbounded_channel();
    let may_go_on = Arc::new(tokio::sync::Mutex::new(may_go_on));
    let waits = async move |mut hints: Informational| -> Result<&str, Fault> {
        hints.send(StatusCode::EARLY_HINTS, [("link", LINK)]).await?;
        may_go_on.lock().await.recv().await.expect("the test tells");
        Ok("done")
    };
    crate::support::on_each_wire(|scene| {
        let served = scene.serve(Router::new().get("/", waits.clone()));
        let mut peer = served.connect();
        peer.send("GET / HTTP/1.1\r\nhost: x\r\n\r\n");
        assert_eq!(peer.head().status, 103);
        let mut other = H2::connect(&served);
        let id = other.get("/");
        while !matches!(other.next(), Came::Interim(of, 103, _) if of == id) {}
        (0..2).for_each(|_| goes_on.send(()).expect("the handlers wait"));
        assert_eq!(peer.answer(false).text(), "done");
        assert_eq!(other.answer(id).text(), "done");
    });
}

/// A layer of the server goes on in a task of its own: its run is woken for them.
#[test]
fn a_task_of_the_servers_layer_sends_them() {
    let served = Scene::tcp().serve_by(Server::new(Router::new().get("/", hinted)).layer(in_a_task));
    assert_hinted(&served, "/");
}

/// A run whose route is known does not look after tasks. They are hints: the handler goes on without them.
#[test]
fn a_task_of_a_routes_layer_sends_them_to_nobody() {
    let served = Scene::tcp().serve(Router::new().get("/", hinted.layer(in_a_task)));
    let reply = served.get("/");
    assert_eq!((reply.status, &*reply.text), (200, "done"));
    assert_eq!(served.running.counters().interim_responses, 0);
}

async fn in_a_task(request: Request, next: Next) -> Response {
    anywire_loops::spawn(async move { next.run(request).await }).await.expect("it runs to its end")
}

#[test]
fn pipelined_requests_keep_their_order() {
    let served = Scene::tcp().serve(Router::new().get("/", hinted).get("/plain", async || "plain"));
    let mut peer = served.connect();
    let get = |path: &str| format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n");
    peer.send(get("/plain") + &get("/") + &get("/plain") + &get("/"));
    for _ in 0..2 {
        assert_eq!(peer.answer(false).text(), "plain");
        assert_eq!((peer.head().status, peer.head().status), (103, 102));
        assert_eq!(peer.answer(false).text(), "done");
    }
}

#[test]
fn a_peer_of_http_1_0_gets_the_final_one_alone() {
    let served = Scene::tcp().serve(Router::new().get("/", hinted));
    let answer = served.ask("GET / HTTP/1.0\r\n\r\n");
    assert_eq!((answer.status, answer.text()), (200, "done"));
}

#[test]
fn without_a_connection_nobody_hears_them_and_nothing_fails() {
    let router = Router::new().get("/", hinted);
    let text = anywire_loops::block_on(async {
        let mut response = router.call(Message::new(Method::GET, "/")).await;
        response.body.text(100).await.expect("a text")
    });
    assert_eq!(text, "done");
}

#[test]
fn what_is_none_is_an_error_of_the_handler() {
    let sends = |status: u16| {
        async move |mut hints: Informational| -> Result<&str, Fault> {
            hints.send(StatusCode::from_u16(status).expect("a status"), [("x", "1")]).await?;
            Ok("sent")
        }
    };
    let breaks = async |mut hints: Informational| -> Result<&str, Fault> {
        hints.send(StatusCode::EARLY_HINTS, [("link", "a\r\n\r\nHTTP/1.1 200 OK")]).await?;
        Ok("sent")
    };
    let many = async |mut hints: Informational| -> Result<&str, Fault> {
        loop {
            hints.send(StatusCode::PROCESSING, [("x", "1")]).await?;
        }
    };
    let router = Router::new()
        .get("/100", sends(100))
        .get("/101", sends(101))
        .get("/200", sends(200))
        .get("/199", sends(199))
        .get("/breaks", breaks)
        .get("/many", many);
    let limits = Limits { interim_responses: 2, ..Limits::default() };
    let served = Scene::tcp().serve_with(router, limits);
    for (path, text) in [("/100", "Status(100)"), ("/101", "Status(101)"), ("/200", "Status(200)")] {
        assert_eq!(served.get(path).text, text);
    }
    assert!(served.get("/breaks").text.starts_with("Header(Value"));
    let answer = H2::connect(&served).ask("/199");
    assert_eq!((answer.text(), &answer.interim[..]), ("sent", &[199][..]));
    let answer = H2::connect(&served).ask("/many");
    assert_eq!((answer.text(), &answer.interim[..]), ("TooMany { limit: 2 }", &[102, 102][..]));
    served.assert_alive();
}

/// A handle outlives its handler, which has waited or not: it fails, and what the same connection asks next gets nothing of it.
#[test]
fn a_handle_that_is_kept_too_long_fails() {
    thread_local! {
        static KEPT: Rc<RefCell<Option<Informational>>> = Rc::default();
    }
    let keeps = |waits: bool| {
        async move |mut hints: Informational| {
            if waits {
                hints.send(StatusCode::PROCESSING, ()).await.expect("it is the handler's");
            }
            KEPT.with(|kept| kept.replace(Some(hints)));
            "kept"
        }
    };
    let (told, heard) = channel();
    let tries = async move || {
        let kept = KEPT.with(|kept| kept.take());
        let mut hints = kept.expect("the other handler has left it");
        let _ = told.send(hints.send(StatusCode::PROCESSING, ()).await);
        "tried"
    };
    let router = Router::new().get("/keeps", keeps(false)).get("/waits", keeps(true)).get("/tries", tries);
    let served = Scene::tcp().serve_on(1, router, Limits::default());
    let mut peer = served.connect();
    for path in ["/keeps", "/waits"] {
        peer.send(format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n"));
        if path == "/waits" {
            assert_eq!(peer.head().status, 102);
        }
        assert_eq!(peer.answer(false).text(), "kept");
        peer.send("GET /tries HTTP/1.1\r\nhost: x\r\n\r\n");
        assert_eq!(peer.answer(false).text(), "tried");
        assert_eq!(heard.next(), Err(InformError::TooLate));
    }
}

/// A handler that asks for its handle late has one all the same.
#[test]
fn a_handle_may_be_taken_behind_a_wait() {
    async fn waits(request: Request, next: Next) -> Response {
        tokio::task::yield_now().await;
        next.run(request).await
    }
    let served = Scene::tcp().serve(Router::new().get("/", hinted).layer(waits));
    assert_hinted(&served, "/");
    assert_eq!(served.running.counters().interim_responses, 3 * 2);
}

/// A task that waits for one to leave learns that none leaves any more.
#[test]
fn one_that_waits_fails_with_the_end_of_its_handler() {
    let (told, heard) = channel();
    let leaves = async move |mut hints: Informational| {
        let told = told.clone();
        let mut sending = Box::pin(async move { hints.send(StatusCode::PROCESSING, ()).await });
        let waits = poll_fn(|cx| Poll::Ready(sending.as_mut().poll(cx).is_pending())).await;
        drop(anywire_loops::spawn(async move {
            let _ = told.send(sending.await);
        }));
        waits.to_string()
    };
    let served = Scene::tcp().serve(Router::new().get("/", leaves));
    assert_eq!(served.ask("GET / HTTP/1.1\r\nhost: x\r\n\r\n").text(), "true");
    assert_eq!(heard.next(), Err(InformError::TooLate));
}

/// A task of the handler's sends while the handler waits for something else.
#[test]
fn another_task_may_send() {
    let spawns = async |mut hints: Informational| {
        let (done, is_done) = tokio::sync::oneshot::channel();
        drop(anywire_loops::spawn(async move {
            tokio::task::yield_now().await;
            let _ = done.send(hints.send(StatusCode::PROCESSING, ()).await);
        }));
        format!("{:?}", is_done.await.expect("the task goes on"))
    };
    let served = Scene::tcp().serve(Router::new().get("/", spawns));
    let mut peer = served.connect();
    peer.send("GET / HTTP/1.1\r\nhost: x\r\n\r\n");
    assert_eq!((peer.head().status, peer.answer(false).text()), (102, "Ok(())"));
    let answer = H2::connect(&served).ask("/");
    assert_eq!((answer.text(), &answer.interim[..]), ("Ok(())", &[102][..]));
}
