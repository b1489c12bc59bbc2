//! A handler that calls another server by `?` answers 502 if that one fails, 504 if it is too slow, and 500 for its own mistakes.

use std::fmt;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use anywire::client::Response;
use anywire::http::Request;
use anywire::{Client, Error, Router, loops};

/// An upstream on a plain socket that does this with each connection, once it has read something.
fn upstream(script: impl Fn(TcpStream) + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}", listener.local_addr().expect("bound"));
    thread::spawn(move || {
        for peer in listener.incoming() {
            let mut peer = peer.expect("an arrival");
            assert!(peer.read(&mut [0; 1000]).expect("a request") > 0);
            script(peer);
        }
    });
    url
}

fn says(text: &'static str) -> impl Fn(TcpStream) + Send {
    move |mut peer| peer.write_all(text.as_bytes()).expect("it is read")
}

/// Reads until the other end closes, and sends nothing more.
fn is_silent(mut peer: TcpStream) {
    drop(peer.read_to_end(&mut Vec::new()));
}

/// What a handler answers that calls this URL and reads the response.
fn status(
    url: &str,
    read: impl AsyncFn(Response) -> Result<(), Error> + Clone + Send + Sync + 'static,
) -> u16 {
    let client = Client::builder().read_timeout(Duration::from_millis(200)).build();
    let url = url.to_owned();
    let handler = async move || -> Result<(), Error> { read(client.get(&url).send().await?).await };
    loops::block_on(Router::new().get("/", handler).call(Request::get("/"))).status.as_u16()
}

async fn text(response: Response) -> Result<(), Error> {
    response.text().await?;
    Ok(())
}

async fn json(response: Response) -> Result<(), Error> {
    response.json::<u8>().await?;
    Ok(())
}

async fn success(response: Response) -> Result<(), Error> {
    response.error_for_status()?;
    Ok(())
}

#[test]
fn an_upstream_that_fails_is_502() {
    let refusing = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}", refusing.local_addr().expect("bound"));
    drop(refusing);
    assert_eq!(status(&url, text), 502, "nobody listens");
    assert_eq!(status(&upstream(drop), text), 502, "closed without a response");
    assert_eq!(status(&upstream(says("what?\r\n\r\n")), text), 502, "not HTTP");
    let cut = "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nno";
    assert_eq!(status(&upstream(says(cut)), text), 502, "a body cut short");
    let no_text = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}";
    assert_eq!(status(&upstream(says(no_text)), json), 502, "another JSON");
    let failed = "HTTP/1.1 503 Busy\r\ncontent-length: 0\r\n\r\n";
    assert_eq!(status(&upstream(says(failed)), success), 502, "the status of an error");
}

#[test]
fn an_upstream_that_is_too_slow_is_504() {
    assert_eq!(status(&upstream(is_silent), text), 504);
    let head_alone = |mut peer: TcpStream| {
        peer.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nno").expect("it is read");
        is_silent(peer);
    };
    assert_eq!(status(&upstream(head_alone), text), 504, "in the middle of a body");
}

#[test]
fn a_mistake_of_the_handler_stays_500() {
    assert_eq!(status("no URL", text), 500);
    assert_eq!(status("ftp://127.0.0.1/", text), 500);
    let found_nothing = "HTTP/1.1 404 No\r\ncontent-length: 0\r\n\r\n";
    assert_eq!(status(&upstream(says(found_nothing)), success), 500, "it asked for what is not there");
}

#[derive(Debug)]
struct NoPrice(anywire::client::Error);

impl fmt::Display for NoPrice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the price is not known")
    }
}

impl std::error::Error for NoPrice {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.0)
    }
}

#[test]
fn an_error_of_ones_own_keeps_the_status_of_its_cause() {
    let url = upstream(drop);
    let client = Client::new();
    let handler = async move || -> Result<(), Error> {
        client.get(&url).send().await.map_err(NoPrice)?;
        Ok(())
    };
    let response = loops::block_on(Router::new().get("/", handler).call(Request::get("/")));
    assert_eq!(response.status.as_u16(), 502);
    assert!(response.cause().is_some_and(|cause| cause.starts_with("the price is not known: ")));
}
