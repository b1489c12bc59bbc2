//! A proxy passes on an upgrade to a protocol that it names, and the bytes of that protocol both ways, until it shuts down.

use anywire::client::{Error, Response};
use anywire::server::{ServerHandle, Upgrade, Upgraded};
use anywire::{Client, IntoResponse, Request, Response as Answer, Router, Server, State, StatusCode, loops};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::support::HANG;

/// Where the backend is, and a client to call it.
#[derive(Clone)]
struct Backend {
    url: String,
    client: Client,
}

/// Sends on a request that asks for the toy protocol. If the backend switches, so does the proxy.
async fn forward(backend: State<Backend>, upgrade: Upgrade, request: Request) -> Result<Answer, Error> {
    let stopping = request.stopping();
    let response = backend.client.forward(request, &backend.url).upgrade("toy").send().await?;
    if response.status() != StatusCode::SWITCHING_PROTOCOLS {
        return Ok(response.into_response());
    }
    let mut fields = response.headers().clone();
    fields.remove_hop_by_hop();
    let mut theirs = response.upgrade()?;
    let answer = upgrade.accept("toy", async move |mut ours| {
        tokio::select! {
            // Each side learns of a failure of the other one by the end of its stream.
            _ = tokio::io::copy_bidirectional(&mut ours, &mut theirs) => {}
            () = stopping => {}
        }
    });
    Ok(fields.iter().fold(answer, |answer, (name, value)| answer.header(name, value)))
}

/// The toy protocol: a greeting, and then the peer's bytes come back until it ends its direction.
async fn toy(mut connection: Upgraded) {
    let mut bytes = Vec::new();
    // Errors are those of a peer that has left.
    let _ = connection.write_all(b"hello ").await;
    let _ = connection.read_to_end(&mut bytes).await;
    let _ = connection.write_all(&bytes).await;
}

fn backend() -> Router {
    Router::new()
        .get("/toy", async |upgrade: Upgrade| upgrade.accept("toy", toy).header("toy-key", "7"))
        .get("/busy", async || StatusCode::SERVICE_UNAVAILABLE)
}

/// A backend, and a proxy before it on this wire.
fn servers(wire: &str) -> (ServerHandle, ServerHandle) {
    let behind = Server::new(backend()).listen("tcp:127.0.0.1:0").loops(1).start().expect("a free port");
    let port = behind.addresses().next().and_then(|address| address.port()).expect("TCP has ports");
    let state = Backend { url: format!("http://127.0.0.1:{port}"), client: Client::new() };
    let router = Router::new().get("/{*rest}", forward).state(state);
    let proxy = Server::new(router).listen(wire).loops(1).start().expect("a free address");
    (proxy, behind)
}

/// The response to a call of the proxy that asks for the protocol.
async fn call(proxy: &ServerHandle, path: &str) -> Response {
    let address = proxy.addresses().next().expect("one address");
    let call = Client::new().get(format!("http://proxy{path}")).via(address).upgrade("toy");
    call.send().await.expect("a response")
}

const WIRES: [&str; 2] = ["memory:", "tcp:127.0.0.1:0"];

/// On either wire.
fn ask(path: &str, then: impl AsyncFn(Response)) {
    for wire in WIRES {
        let (proxy, behind) = servers(wire);
        loops::block_on(async { then(call(&proxy, path).await).await });
        for server in [proxy, behind] {
            assert_eq!(server.shutdown(HANG).wait().connections_cut, 0, "{wire}");
        }
    }
}

#[test]
fn bytes_and_ends_go_both_ways() {
    ask("/toy", async |response| {
        assert_eq!((response.status().as_u16(), response.headers().get("toy-key")), (101, Some("7")));
        let mut toy = response.upgrade().expect("the connection");
        let large = "x".repeat(300_000);
        toy.write_all(large.as_bytes()).await.expect("the proxy reads");
        toy.shutdown().await.expect("an end");
        let mut heard = String::new();
        toy.read_to_string(&mut heard).await.expect("the backend's end");
        assert!(heard == format!("hello {large}"), "{} bytes", heard.len());
    });
}

#[test]
fn a_client_that_leaves_ends_the_connection_behind() {
    ask("/toy", async |response| drop(response.upgrade().expect("the connection")));
}

#[test]
fn a_shutdown_of_the_proxy_waits_for_no_idle_connection() {
    for wire in WIRES {
        let (proxy, behind) = servers(wire);
        loops::block_on(async {
            let mut toy = call(&proxy, "/toy").await.upgrade().expect("the connection");
            let mut heard = [0; 6];
            toy.read_exact(&mut heard).await.expect("the greeting");
            // Neither side says anything more, and none ends.
            assert_eq!(proxy.shutdown(HANG).await.connections_cut, 0, "{wire}");
            assert_eq!(toy.read(&mut heard).await.unwrap_or_default(), 0, "{wire}");
            assert_eq!(behind.shutdown(HANG).await.connections_cut, 0, "{wire}: the backend learns of it");
        });
    }
}

#[test]
fn a_refusal_of_the_backend_is_a_response() {
    ask("/busy", async |response| assert_eq!(response.status(), 503));
}
