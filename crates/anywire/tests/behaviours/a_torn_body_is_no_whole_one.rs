//! A raw connection of a test tells a body that the server broke off from one that ends.

use std::sync::Arc;

use anywire::http::BodyError;
use anywire::server::State;
use anywire::test::TestServer;
use anywire::{Body, Response, Router, StatusCode};
use tokio::sync::Notify;

/// A body without a length, of which a part leaves before the test lets it go on.
fn in_two_parts(gate: Arc<Notify>, fails: bool) -> Response {
    let (mut sender, body) = Body::channel(100);
    drop(anywire::loops::spawn(async move {
        sender.send("a part").await.expect("it is read");
        gate.notified().await;
        if fails { sender.abort(BodyError::Timeout) } else { sender.finish() }
    }));
    Response::new(StatusCode::OK).body(body)
}

#[test]
fn a_torn_body_is_no_whole_one() {
    let gate = Arc::<Notify>::default();
    let router = Router::new()
        .state(Arc::clone(&gate))
        .get("/torn", async |State(gate): State<Arc<Notify>>| in_two_parts(Arc::clone(&gate), true))
        .get("/whole", async |State(gate): State<Arc<Notify>>| in_two_parts(Arc::clone(&gate), false));
    let server = TestServer::new(router).expect("right routes");
    for (path, is_reset) in [("/torn", true), ("/whole", false)] {
        let mut connection = server.connect();
        connection.send(format!("GET {path} HTTP/1.0\r\n\r\n"));
        assert!(connection.read_until(b"a part").starts_with(b"HTTP/1.1 200 OK\r\n"), "{path}");
        gate.notify_one();
        assert_eq!(connection.read_to_end(), b"", "{path}");
        assert_eq!(connection.is_reset(), is_reset, "{path}");
    }
}
