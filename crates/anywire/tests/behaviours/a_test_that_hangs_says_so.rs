//! A test that waits for what never comes fails with a sentence, not by its runner: calls, and connections for raw bytes.

use std::io::{ErrorKind, Read, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use anywire::Router;
use anywire::server::{Limits, Request};
use anywire::test::TestServer;

const PATIENCE: Duration = Duration::from_millis(200);

fn server() -> TestServer {
    let never = async |request: Request| {
        std::future::pending::<()>().await;
        drop(request);
    };
    let router = Router::new().get("/", async || "hello").get("/never", never).post("/never", never);
    TestServer::new(router).expect("right routes").patience(PATIENCE)
}

/// The text of a panic.
#[track_caller]
fn panics(run: impl FnOnce()) -> String {
    let panic = catch_unwind(AssertUnwindSafe(run)).expect_err("it fails");
    *panic.downcast::<String>().expect("a text")
}

#[test]
fn a_connection_that_is_kept_alive_does_not_end() {
    let server = server();
    let mut connection = server.connect();
    connection.send("GET / HTTP/1.1\r\nhost: x\r\n\r\n");
    let text = panics(|| drop(connection.read_to_end()));
    assert!(text.contains("hello") && text.contains("`connection: close`"), "{text}");
    // It goes on, and ends with the deadline of the server.
    connection.send("GET / HTTP/1.1\r\nhost: x\r\n\r\n");
    assert!(connection.read_until(b"\r\n\r\n").starts_with(b"HTTP/1.1 200 OK\r\n"));
    server.advance(2 * Limits::default().idle_timeout);
    assert_eq!(connection.read_to_end(), b"hello");
}

#[test]
fn an_answer_that_never_comes() {
    let server = server();
    let mut connection = server.connect();
    connection.send("GET /never HTTP/1.1\r\nhost: x\r\n\r\n");
    assert_eq!(connection.read(&mut [0; 10]).expect_err("nothing comes").kind(), ErrorKind::TimedOut);
    let text = panics(|| drop(connection.read_until(b"\r\n")));
    assert!(text.contains("TestServer::advance"), "{text}");
    let call = server.start(server.get("/never"));
    let text = panics(|| drop(server.wait(call)));
    assert!(text.contains("200ms") && text.contains("TestServer::advance"), "{text}");
}

#[test]
fn a_body_that_nobody_reads() {
    let server = server();
    let mut connection = server.connect();
    connection.send("POST /never HTTP/1.1\r\nhost: x\r\ncontent-length: 10000000\r\n\r\n");
    let body = vec![b'x'; 10_000_000];
    let text = panics(|| connection.send(&body));
    assert!(text.contains("the server read nothing"), "{text}");
    assert_eq!(connection.write(b"x").expect_err("it is full").kind(), ErrorKind::TimedOut);
}

#[test]
fn progress_is_no_hang() {
    let server = server();
    let mut connection = server.connect();
    connection.send("GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    assert!(connection.read_to_end().ends_with(b"hello"));
}
