//! A proxy made of client and server states the length of the answer to HEAD, and of a 304, as its origin does, and none
//! if the origin states none.

use std::io::{Read, Write};
use std::net::TcpStream;

use anywire::http::{Body, Response, StatusCode};
use anywire::server::{Error, Request, ServerHandle, State};
use anywire::{Client, Router, Server};

/// Where the origin is, and a client to call it.
#[derive(Clone)]
struct Upstream {
    origin: String,
    client: Client,
}

async fn hand_on(upstream: State<Upstream>, request: Request) -> Result<Response, Error> {
    let url = format!("http://{}{}", upstream.origin, request.path());
    let answer = upstream.client.request(request.method().clone(), url).send().await?;
    let (head, body) = answer.into_parts();
    Ok(Response::from_parts(head.status(), head.into_headers(), body))
}

fn start(router: Router) -> (ServerHandle, String) {
    let running = Server::new(router).loops(1).listen("tcp:127.0.0.1:0").start().expect("a free port");
    let authority = running.addresses().next().expect("one address").location().to_owned();
    (running, authority)
}

/// The whole answer to one request on a connection of its own.
fn ask(authority: &str, line: &str) -> String {
    let mut peer = TcpStream::connect(authority).expect("it listens");
    write!(peer, "{line} HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\r\n").expect("it reads");
    let mut answer = String::new();
    peer.read_to_string(&mut answer).expect("it answers");
    answer
}

#[test]
fn length_and_body_are_the_origins() {
    let origin = Router::new()
        .get("/", async || "Hello, World!")
        .get("/stream", async || {
            let (sender, body) = Body::channel(1);
            sender.finish();
            body
        })
        .get("/same", async || Response::new(StatusCode::NOT_MODIFIED).body(Body::withheld(Some(13))));
    let (_origin, authority) = start(origin);
    let upstream = Upstream { origin: authority, client: Client::new() };
    let (_proxy, proxy) = start(Router::new().fallback(hand_on).state(upstream));

    let get = ask(&proxy, "GET /");
    assert!(get.contains("\r\ncontent-length: 13\r\n") && get.ends_with("\r\n\r\nHello, World!"), "{get}");
    let head = ask(&proxy, "HEAD /");
    assert!(head.starts_with("HTTP/1.1 200 ") && head.contains("\r\ncontent-length: 13\r\n"), "{head}");
    assert!(head.contains("content-type: text/plain") && head.ends_with("\r\n\r\n"), "{head}");
    let same = ask(&proxy, "GET /same");
    assert!(same.starts_with("HTTP/1.1 304 ") && same.contains("\r\ncontent-length: 13\r\n"), "{same}");
    assert!(same.ends_with("\r\n\r\n"), "{same}");
    // Not even 0: a cache that knows the body of a GET would take it for another one (RFC 9111 section 4.3.5).
    let unknown = ask(&proxy, "HEAD /stream");
    assert!(unknown.starts_with("HTTP/1.1 200 ") && !unknown.contains("content-length"), "{unknown}");
}
