//! `TestServer`: time stands still until the test moves it, for deadlines of server and client and for handlers, and what is
//! due happens in its order.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use anywire::loops::clock;
use anywire::server::{Limits, State};
use anywire::test::TestServer;
use anywire::{Body, Router, Server, StatusCode};

const MINUTE: Duration = Duration::from_secs(60);

fn server(router: Router) -> TestServer {
    TestServer::new(router).expect("right routes")
}

#[test]
fn no_time_passes_by_itself() {
    let server = server(Router::new().get("/never", async || std::future::pending::<()>().await));
    let here = || server.loops().get(0).spawn(|| async { clock::precise() }).wait().expect("it runs");
    let before = here();
    let passed = || (here() - before).as_millis();
    let call = server.start(server.get("/never"));
    server.advance(Duration::from_secs(1));
    // Timers come in whole milliseconds.
    assert!((1000..=1001).contains(&passed()));
    // Nobody on the loop has anything to do, and there are deadlines that could come.
    let mut idle = server.connect();
    idle.send("GET / HTTP/1.1\r\n");
    assert!((1000..=1001).contains(&passed()));
    assert_eq!(server.counters().handler_timeouts + server.counters().head_timeouts, 0);
    drop(call);
}

#[test]
fn a_deadline_comes_when_the_test_says() {
    let limits = Limits { handler_timeout: 5 * MINUTE, ..Limits::default() };
    let router = Router::new().get("/never", async || std::future::pending::<()>().await);
    let server = TestServer::of(Server::new(router).limits(limits)).expect("right routes");
    let call = server.get("/never").total_timeout(10 * MINUTE).read_timeout(10 * MINUTE);
    let call = server.start(call);
    server.advance(5 * MINUTE - Duration::from_secs(1));
    assert_eq!(server.counters().handler_timeouts, 0);
    server.advance(Duration::from_secs(5));
    assert_eq!(server.counters().handler_timeouts, 1);
    assert_eq!(call.wait().expect("it runs").expect("an answer").status(), StatusCode::SERVICE_UNAVAILABLE);
}

#[test]
fn what_is_due_happens_in_its_order() {
    type Happened = State<Arc<Mutex<Vec<u64>>>>;
    let happened = Arc::new(Mutex::new(Vec::<u64>::new()));
    let router = Router::new().state(Arc::clone(&happened)).get(
        "/{seconds}",
        async |anywire::Path(seconds): anywire::Path<u64>, happened: Happened| {
            tokio::time::sleep(Duration::from_secs(seconds)).await;
            happened.lock().expect("no panic").push(seconds);
        },
    );
    let server = server(router);
    let calls =
        [30, 10, 20, 90].map(|seconds| server.start(server.get(&format!("/{seconds}")).read_timeout(MINUTE)));
    server.advance(MINUTE);
    assert_eq!(*happened.lock().expect("no panic"), [10, 20, 30]);
    server.advance(MINUTE);
    assert_eq!(happened.lock().expect("no panic").len(), 3, "the call of 90 seconds has ended after 60");
    let answers: Vec<_> = calls.into_iter().map(|call| call.wait().expect("it runs").is_ok()).collect();
    assert_eq!(answers, [true, true, true, false]);
}

#[test]
fn a_stream_comes_as_time_goes() {
    let router = Router::new().get("/ticks", async || {
        let (mut sender, body) = Body::channel(1024);
        drop(anywire::loops::spawn(async move {
            for tick in 0..3 {
                tokio::time::sleep(MINUTE).await;
                let _ = sender.try_send(tick.to_string());
            }
            sender.finish();
        }));
        body
    });
    let server = server(router);
    let mut response = server.wait(server.get("/ticks").send()).expect("an answer");
    for tick in 0..3 {
        server.advance(MINUTE);
        let chunk = server.wait(response.chunk()).expect("a good body");
        assert_eq!(chunk.as_deref(), Some(tick.to_string().as_bytes()));
    }
    assert_eq!(server.wait(response.chunk()).expect("a good body"), None);
}

#[test]
fn bytes_go_in_and_come_out() {
    let server = server(Router::new().get("/", async || "ok"));
    let mut connection = server.connect();
    connection.send("GET / HTTP/1.1\r\nhost: x\r\n\r\nGET / HTTP/1.1\r\nho");
    assert!(connection.read_until(b"\r\n\r\nok").starts_with(b"HTTP/1.1 200 OK\r\n"));
    server.advance(MINUTE);
    assert!(connection.read_to_end().starts_with(b"HTTP/1.1 408 "));
    let mut half = server.connect();
    half.send("GET / HTTP/1.1\r\nhost: x\r\n\r\n");
    half.finish();
    assert!(half.read_to_end().ends_with(b"ok"));
}

#[test]
fn a_real_address_has_the_time_of_the_world() {
    let server =
        TestServer::on(Router::new().get("/", async || "ok"), "tcp:127.0.0.1:0").expect("a free port");
    assert_ne!(server.address().port(), Some(0));
    let response = server.wait(server.get("/").send()).expect("an answer");
    assert_eq!(server.wait(response.text()).expect("a body"), "ok");
    let moved = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| server.advance(MINUTE)));
    assert!(moved.is_err());
}

#[tokio::test]
async fn calls_are_awaited_in_an_async_test() {
    let server = server(Router::new().get("/", async || "ok"));
    let response = server.get("/").send().await.expect("an answer");
    assert_eq!(response.text().await.expect("a body"), "ok");
}
