//! A client's call leaves HTTP with a server's handler, and both go on in a protocol of their own: on the same connection, or over
//! HTTP/2 on the same stream.

use std::time::Duration;

use anywire::client::Error;
use anywire::http::h2;
use anywire::server::{Limits, ServerHandle, Upgrade, Upgraded};
use anywire::wire::Address;
use anywire::{Client, Router, Server, loops};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::sync::mpsc;

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

/// `heard` gets all that a client has said to `/hears` and to `/ends-first`.
fn router(heard: mpsc::UnboundedSender<Vec<u8>>) -> Router {
    let hears = heard.clone();
    Router::new()
        .get("/lengths", async |upgrade: Upgrade| upgrade.accept("lengths", lengths))
        .get("/brief", async |upgrade: Upgrade| {
            upgrade.accept("lengths", async |mut stream| drop(stream.write_all(b"that is all").await))
        })
        .get("/hears", async move |upgrade: Upgrade| {
            let heard = heard.clone();
            upgrade.accept("lengths", async move |mut stream| {
                let mut all = Vec::new();
                let _ = stream.read_to_end(&mut all).await;
                let _ = heard.send(all);
            })
        })
        .get("/ends-first", async move |upgrade: Upgrade| {
            let heard = hears.clone();
            upgrade.accept("lengths", async move |mut connection| {
                let mut all = Vec::new();
                let _ = connection.write_all(b"that is all").await;
                let _ = connection.shutdown().await;
                let _ = connection.read_to_end(&mut all).await;
                let _ = heard.send(all);
            })
        })
        .get("/http", async || "no other protocol here")
        .get("/late", async || std::future::pending::<()>().await)
}

/// A server at this address, and clients of both versions with the status by which a server agrees.
fn serve(wire: &str, router: Router) -> (ServerHandle, Address, [(Client, u16); 2]) {
    let http2 = h2::Limits { extended_connect: true, ..h2::Limits::default() };
    let server = Server::new(router).limits(Limits { http2, ..Limits::default() });
    let server = server.listen(wire).loops(1).start().expect("a free address");
    let address = server.addresses().next().expect("one address").clone();
    (server, address, [(Client::new(), 101), (Client::builder().http2_prior_knowledge().build(), 200)])
}

#[test]
fn both_ends_go_on_in_the_protocol_that_they_agreed_on() {
    for wire in ["memory:", "tcp:127.0.0.1:0"] {
        let (server, address, clients) = serve(wire, router(mpsc::unbounded_channel().0));
        for (client, agrees) in clients {
            loops::block_on(async {
                let call = client.get("http://localhost/lengths").via(&address).upgrade("lengths");
                let response = call.send().await.expect("a response");
                assert_eq!(response.status(), agrees, "{wire}");
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
        }
        assert_eq!(server.counters().upgrades, 2, "{wire}");
        assert_eq!(server.shutdown(Duration::from_secs(60)).wait().connections_cut, 0, "{wire}");
    }
}

#[test]
fn an_end_that_comes_with_the_agreement_is_no_refusal() {
    let (_server, address, clients) = serve("memory:", router(mpsc::unbounded_channel().0));
    for (client, agrees) in clients {
        loops::block_on(async {
            let call = client.get("http://localhost/brief").via(&address).upgrade("lengths");
            let mut stream = call.send().await.expect("a response").upgrade().expect("the stream");
            let mut heard = String::new();
            stream.read_to_string(&mut heard).await.expect("the server's end");
            assert_eq!(heard, "that is all", "{agrees}");
        });
    }
}

#[test]
fn the_server_may_end_its_direction_first() {
    let (sender, mut heard) = mpsc::unbounded_channel();
    let (_server, address, clients) = serve("memory:", router(sender));
    for (client, agrees) in clients {
        loops::block_on(async {
            let call = client.get("http://localhost/ends-first").via(&address).upgrade("lengths");
            let mut stream = call.send().await.expect("a response").upgrade().expect("the stream");
            let mut text = String::new();
            stream.read_to_string(&mut text).await.expect("the server's end");
            assert_eq!(text, "that is all", "{agrees}");
            // More than a window.
            stream.write_all(&[b'x'; 200_000]).await.expect("the server reads on");
            stream.shutdown().await.expect("an end");
            assert_eq!(heard.recv().await.map(|all| all.len()), Some(200_000), "{agrees}");
            // Its place is free again.
            assert_eq!(
                client.get("http://localhost/http").via(&address).send().await.expect("OK").status(),
                200
            );
        });
    }
}

#[test]
fn what_was_sent_before_the_end_arrives() {
    let (sender, mut heard) = mpsc::unbounded_channel();
    let (_server, address, clients) = serve("memory:", router(sender));
    for (client, agrees) in clients {
        loops::block_on(async {
            let call = client.get("http://localhost/hears").via(&address).upgrade("lengths");
            let mut stream = call.send().await.expect("a response").upgrade().expect("the stream");
            stream.write_all(b"a last word").await.expect("room");
            drop(stream);
            assert_eq!(heard.recv().await.as_deref(), Some(&b"a last word"[..]), "{agrees}");
        });
    }
}

#[test]
fn the_deadlines_of_the_call_end_with_its_response() {
    let (_server, address, clients) = serve("memory:", router(mpsc::unbounded_channel().0));
    for (client, agrees) in clients {
        loops::block_on(async {
            let short = Duration::from_millis(50);
            let call =
                |path| client.get(format!("http://localhost{path}")).via(&address).total_timeout(short);
            let call_up = call("/lengths").stream_timeout(short).upgrade("lengths");
            let response = call_up.send().await.expect("a response");
            let mut stream = BufReader::new(response.upgrade().expect("the stream"));
            // As long a deadline passes twice.
            for _ in 0..2 {
                assert!(call("/late").send().await.expect_err("it is late").is_timeout());
            }
            stream.write_all(b"one\n").await.expect("room");
            stream.shutdown().await.expect("an end");
            let mut heard = String::new();
            stream.read_to_string(&mut heard).await.expect("the server's end");
            assert_eq!(heard, "hello\n4\nbye\n", "{agrees}");
        });
    }
}

#[test]
fn a_refusal_leaves_both_with_http() {
    let (server, address, clients) = serve("memory:", router(mpsc::unbounded_channel().0));
    for ((client, _), statuses) in clients.into_iter().zip([[426, 200], [501, 501]]) {
        loops::block_on(async {
            for ((path, protocol), status) in
                [("/lengths", "other"), ("/http", "lengths")].into_iter().zip(statuses)
            {
                let call = client.get(format!("http://localhost{path}")).via(&address).upgrade(protocol);
                let error = call.send().await.expect("a response").upgrade().expect_err("no switch");
                assert!(matches!(&error, Error::Status { status: said, .. } if *said == status), "{error:?}");
            }
            let call = client.get("http://localhost/http").via(&address);
            assert_eq!(call.send().await.expect("a response").status(), 200);
        });
    }
    assert_eq!(server.counters().upgrades, 0);
}

#[test]
fn a_server_that_allows_none_over_http2_is_not_asked() {
    let server = Server::new(router(mpsc::unbounded_channel().0)).listen("memory:").loops(1).start();
    let server = server.expect("a free name");
    let address = server.addresses().next().expect("one address").clone();
    let client = Client::builder().http2_prior_knowledge().build();
    loops::block_on(async {
        let call = client.get("http://localhost/lengths").via(&address).upgrade("lengths");
        let error = call.send().await.expect_err("it is not allowed");
        assert!(matches!(error, Error::NoUpgrade { .. }), "{error:?}");
    });
    assert_eq!(server.counters().requests, 0);
}
