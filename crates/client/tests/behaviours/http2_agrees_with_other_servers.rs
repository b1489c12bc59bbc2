//! Calls to servers of other projects over HTTP/2: bodies are theirs byte for byte, trailers come and go, a call that is
//! cancelled in the middle leaves its connection usable, and a server that ends its connections loses no call.

use crate::support::{all, block_on, client_of_http2, real_servers};
use anywire_client::Client;
use anywire_http::{Body, Headers, Method, Version};

/// What a server is to send.
fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at % 251) as u8).collect()
}

fn text(client: &Client, url: &str) -> String {
    block_on(async { client.get(url).send().await?.text().await }).expect("an answer")
}

#[test]
fn bodies_and_heads_are_the_servers() {
    let large = pattern(3_000_000);
    for server in
        real_servers(|folder| std::fs::write(folder.join("large"), pattern(3_000_000)).expect("a file"))
    {
        let (_loops, client) = client_of_http2(|builder| builder);
        let answer = block_on(client.get(server.url("/small")).send()).expect("an answer");
        assert_eq!((answer.status().as_u16(), answer.version()), (200, Version::HTTP_2));
        assert_eq!(block_on(answer.text()).expect("a body"), "small");
        let bytes = block_on(async { client.get(server.url("/large")).send().await?.bytes().await });
        assert!(bytes.expect("a body") == large, "the body differs");
        let head = block_on(client.request(Method::HEAD, server.url("/small")).send()).expect("an answer");
        assert_eq!((head.status().as_u16(), head.headers().get("content-length")), (200, Some("5")));
        let missing = block_on(client.get(server.url("/missing")).send());
        // Node's own helper ends the stream of a file that is not there.
        assert!(missing.is_ok_and(|answer| answer.status() == 404) || server.name == "node");
        assert_eq!(text(&client, &server.url("/small")), "small");
        assert_eq!(client.counters().total().dialed, 1);
    }
}

#[test]
fn many_calls_at_once_are_all_answered() {
    for server in real_servers(|_| {}) {
        let (_loops, client) = client_of_http2(|builder| builder);
        let call = async || client.get(server.url("/small")).send().await?.text().await;
        for answer in all((0..1000).map(|_| call())) {
            assert_eq!(answer.expect("an answer"), "small");
        }
        let counters = client.counters().total();
        // Nginx says goodbye in the middle, after 40 requests of each connection.
        let enough = if server.name == "nginx" { 25..=100 } else { 1..=12 };
        assert!(enough.contains(&counters.dialed), "{}: {counters:?}", server.name);
    }
}

#[test]
fn bodies_and_trailers_come_back() {
    for server in real_servers(|_| {}).filter(|server| server.echoes) {
        let (_loops, client) = client_of_http2(|builder| builder);
        for declared in [false, true] {
            let sent = pattern(1_000_000);
            let (mut sender, mut body) = Body::channel(10_000);
            if declared {
                body = body.with_length(sent.len() as u64);
            }
            let call = client.post(server.url("/echo")).body(body).header("trailer", "x-sum").send();
            let pieces: Vec<_> = sent.chunks(10_000).map(<[u8]>::to_vec).collect();
            let feeding = std::thread::spawn(move || {
                for piece in pieces {
                    block_on(sender.send(piece)).expect("a reader");
                }
                let mut trailers = Headers::new();
                trailers.append("x-sum", "7").expect("a good trailer");
                sender.trailers(trailers);
                sender.finish();
            });
            let mut answer = block_on(call).expect("an answer");
            let mut read = Vec::new();
            while let Some(chunk) = block_on(answer.chunk()).expect("a good body") {
                read.extend_from_slice(&chunk);
            }
            assert!(read == sent, "{}: {} bytes came back", server.name, read.len());
            if server.echoes_trailers {
                let sum = answer.trailers().and_then(|trailers| trailers.get("x-sum"));
                assert_eq!(sum, Some("7"), "{}", server.name);
            }
            feeding.join().expect("no panic");
        }
        assert_eq!(client.counters().total().dialed, 1);
    }
}

#[test]
fn a_response_that_is_dropped_in_the_middle_leaves_the_connection() {
    for server in
        real_servers(|folder| std::fs::write(folder.join("large"), pattern(3_000_000)).expect("a file"))
    {
        let (_loops, client) = client_of_http2(|builder| builder);
        for _ in 0..10 {
            let mut answer = block_on(client.get(server.url("/large")).send()).expect("an answer");
            assert!(block_on(answer.chunk()).expect("a good body").is_some());
            drop(answer);
            assert_eq!(text(&client, &server.url("/small")), "small", "{}", server.name);
        }
        assert_eq!(client.counters().total().dialed, 1);
    }
}
