//! A server starts, serves and shuts down from within a runtime of its user's, and blocks none of its threads.
//!
//! Each test has one thread. A call that blocked it would keep the handler's gate shut until the deadline, and the
//! connection would be cut.

use std::sync::Arc;
use std::time::Duration;

use anywire_server::{Router, Server, ServerError, State};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::sync::Notify;

/// Far beyond what any test needs: only a hang gets there.
const HANG: Duration = Duration::from_secs(60);

#[derive(Clone, Default)]
struct Gate {
    entered: Arc<Notify>,
    open: Arc<Notify>,
}

async fn gated(State(gate): State<Gate>) -> &'static str {
    gate.entered.notify_one();
    gate.open.notified().await;
    "finished"
}

/// A server at a Unix socket, its gate, and the peer's side: one request, and all that comes of it.
fn scene() -> (tempfile::TempDir, Server, Gate, impl Future<Output = String>) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (path, gate) = (folder.path().join("app.sock"), Gate::default());
    let server = Server::new(Router::new().state(gate.clone()).get("/", gated));
    let server = server.loops(1).listen(format!("unix:{}", path.display())).shutdown_deadline(HANG);
    let ask = async move {
        let mut peer = UnixStream::connect(path).await.expect("the server listens");
        peer.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").await.expect("the server reads");
        let mut answer = String::new();
        peer.read_to_string(&mut answer).await.expect("an answer, and the end");
        answer
    };
    (folder, server, gate, ask)
}

#[tokio::test]
async fn it_ends_with_a_future_and_finishes_its_requests() {
    let (folder, server, gate, ask) = scene();
    let (started, greeted) = (Notify::new(), Notify::new());
    let until = async {
        started.notify_one();
        gate.entered.notified().await;
        greeted.notified().await;
        "enough"
    };
    let ask_and_stay = async {
        started.notified().await;
        let mut idle = UnixStream::connect(folder.path().join("app.sock")).await.expect("it listens");
        idle.write_all(b"GET /nowhere HTTP/1.1\r\nhost: x\r\n\r\n").await.expect("the server reads");
        assert!(idle.read(&mut [0; 1024]).await.expect("an answer") > 0);
        greeted.notify_one();
        let open = async {
            assert_eq!(idle.read(&mut [0; 1024]).await.expect("the end"), 0);
            // A server that gave it no time to finish would have cut it by then.
            tokio::time::sleep(Duration::from_millis(100)).await;
            gate.open.notify_one();
        };
        tokio::join!(ask, open).0
    };
    let (outcome, answer) = tokio::join!(server.run_until(until), ask_and_stay);
    let (reason, shutdown) = outcome.expect("a free path");
    assert_eq!((reason, shutdown.connections_cut), ("enough", 0));
    assert!(answer.ends_with("finished"), "{answer}");
}

#[tokio::test]
async fn its_shutdown_can_be_awaited() {
    let (_folder, server, gate, ask) = scene();
    let running = server.start().expect("a free path");
    let shut_down = async {
        gate.entered.notified().await;
        let stopping = running.shutdown(HANG);
        gate.open.notify_one();
        stopping.await
    };
    let (shutdown, answer) = tokio::join!(shut_down, ask);
    assert_eq!(shutdown.connections_cut, 0);
    assert!(answer.ends_with("finished"), "{answer}");
}

#[tokio::test]
async fn a_server_that_cannot_start_says_so() {
    let until = async { panic!("nothing listens, so nothing may follow") };
    let outcome = Server::new(Router::new()).run_until(until).await.map(|((), _)| ());
    assert!(matches!(outcome, Err(ServerError::NoAddress)), "{outcome:?}");
}
