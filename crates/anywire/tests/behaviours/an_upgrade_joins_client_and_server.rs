//! A client's call leaves HTTP with a server's handler, and both go on in a protocol of their own on the same connection.

use std::time::Duration;

use anywire::client::Error;
use anywire::server::{Upgrade, Upgraded};
use anywire::{Client, Router, Server, StatusCode, loops};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};

/// The toy protocol: the server greets, then answers each line by its length, until the client ends its direction.
async fn lengths(connection: Upgraded) {
    let mut connection = BufReader::new(connection);
    let mut said = "hello\n".to_owned();
    let mut line = String::new();
    while connection.write_all(said.as_bytes()).await.is_ok() {
        line.clear();
        match connection.read_line(&mut line).await {
            Ok(1..) => said = format!("{}\n", line.len()),
            _ => return drop(connection.write_all(b"bye\n").await),
        }
    }
}

fn router() -> Router {
    Router::new()
        .get("/lengths", async |upgrade: Upgrade| upgrade.accept("lengths", lengths))
        .get("/http", async || "no other protocol here")
}

#[test]
fn both_ends_go_on_in_the_protocol_that_they_agreed_on() {
    for wire in ["memory:", "tcp:127.0.0.1:0"] {
        let server = Server::new(router()).listen(wire).loops(1).start().expect("a free address");
        let address = server.addresses().next().expect("one address").clone();
        let client = Client::new();
        loops::block_on(async {
            let call = client.get("http://localhost/lengths").via(&address).upgrade("lengths");
            let response = call.send().await.expect("a response");
            assert_eq!(response.status(), StatusCode::SWITCHING_PROTOCOLS, "{wire}");
            let mut connection = BufReader::new(response.upgrade().expect("the connection"));
            connection.write_all(b"one\nthree\n").await.expect("the server reads");
            // Longer than any buffer on the way.
            connection.write_all(&[b'x'; 200_000]).await.expect("the server reads");
            connection.write_all(b"\n").await.expect("the server reads");
            connection.shutdown().await.expect("an end");
            let mut heard = String::new();
            connection.read_to_string(&mut heard).await.expect("the server's end");
            assert_eq!(heard, "hello\n4\n6\n200001\nbye\n", "{wire}");
        });
        assert_eq!(server.counters().upgrades, 1, "{wire}");
        assert_eq!(server.shutdown(Duration::from_secs(60)).wait().connections_cut, 0, "{wire}");
    }
}

#[test]
fn a_refusal_leaves_both_with_http() {
    let server = Server::new(router()).listen("memory:").loops(1).start().expect("a free name");
    let address = server.addresses().next().expect("one address").clone();
    let client = Client::new();
    loops::block_on(async {
        for (path, protocol, status) in [("/lengths", "other", 426), ("/http", "lengths", 200)] {
            let call = client.get(format!("http://localhost{path}")).via(&address).upgrade(protocol);
            let error = call.send().await.expect("a response").upgrade().expect_err("no switch");
            assert!(matches!(&error, Error::Status { status: said, .. } if *said == status), "{error:?}");
        }
    });
    assert_eq!(server.counters().upgrades, 0);
}
