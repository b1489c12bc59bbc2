//! The service within the test, on a clock that the test moves, and the program as a process.

mod program;
mod table;

use std::ffi::OsString;
use std::future::poll_fn;
use std::pin::Pin;
use std::process::Command;
use std::task::Poll;
use std::time::Duration;

use anywire::Method;
use anywire::client::{Call, Error, Response};
use anywire::loops::Task;
use anywire::test::TestServer;
use clap::Parser;
use orders::Settings;
use rusqlite::Connection;
use table::{Answer, Ask};
use tempfile::TempDir;

const PROGRAM: &str = env!("CARGO_BIN_EXE_orders");

#[test]
fn each_request_gets_its_answer() {
    let (server, _folder) = start(&[]);
    table::check(|request| answer(&server, call(&server, request).send()));
}

#[test]
fn the_routes_have_a_page() {
    let (server, _folder) = start(&[]);
    let page = answer(&server, server.get("/openapi").send());
    assert_eq!(
        (page.status, page.field("content-type")),
        (200, Some("text/html; charset=utf-8")),
        "{page:?}"
    );
    for text in ["Orders", "/orders/{id}/cancel", "It was cancelled before."] {
        assert!(page.body.contains(text), "{text}: {}", page.body);
    }
}

#[test]
fn what_the_server_refuses_itself_is_a_problem_document() {
    let (server, _folder) = start(&[]);
    let mut connection = server.connect();
    connection.send("GET /orders HTTP/1.1\r\n\r\n");
    let answer = String::from_utf8(connection.read_to_end()).expect("text");
    assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
    assert!(answer.contains("\r\ncontent-type: application/problem+json\r\n"), "{answer}");
}

#[test]
fn one_request_too_many_is_refused_at_once() {
    let (server, folder) = start(&["--threads", "1", "--queue", "0"]);
    let _locked = lock(&folder);
    // Whichever comes second finds the only thread taken.
    let calls = [(); 2].map(|()| server.start(call(&server, &table::order())));
    let refused = answer(&server, first_of(calls));
    assert_eq!((refused.status, refused.field("retry-after")), (503, Some("1")), "{refused:?}");
    refused.check_problem();
}

#[test]
fn a_request_waits_no_longer_than_it_may() {
    let (server, folder) = start(&["--threads", "1", "--wait", "300"]);
    let _locked = lock(&folder);
    let calls = [(); 2].map(|()| server.start(call(&server, &table::order())));
    server.advance(Duration::from_millis(400));
    let refused = answer(&server, first_of(calls));
    assert_eq!((refused.status, refused.field("retry-after")), (503, Some("1")), "{refused:?}");
    refused.check_problem();
}

#[test]
fn a_mistake_in_the_settings_is_said() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let nowhere = folder.path().join("nowhere/orders.db");
    let nowhere = nowhere.to_str().expect("a path of text");
    for (options, status, said) in [
        (&["--tokens", ""][..], 2, "it is not NAME=TOKEN with a token of 8 characters or more"),
        (&["--tokens", "ada=short"], 2, "it is not NAME=TOKEN with a token of 8 characters or more"),
        (&["--listen", "http:127.0.0.1:8080"], 2, "there is no wire \"http\""),
        (&["--wait", "1s"], 2, "invalid digit"),
        (&["--threads", "0"], 1, "a pool cannot have 0 threads"),
        (&["--database", nowhere], 1, "cannot open the database"),
        (&["--listen", "unix:/no/such/folder/orders.sock"], 1, "/no/such/folder"),
    ] {
        let mut program = Command::new(PROGRAM);
        program.env("ORDERS_TOKENS", table::TOKENS).env("ORDERS_LISTEN", "tcp:127.0.0.1:0");
        program.env("ORDERS_DATABASE", folder.path().join("orders.db"));
        let output = program.args(options).output().expect("the program is built");
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(status) && text.contains(said), "{options:?}: {text}");
    }
}

#[test]
fn the_program_answers_curl() {
    program::answers_curl(PROGRAM, "tcp:127.0.0.1:0");
}

#[test]
fn the_program_refuses_what_is_too_much() {
    program::refuses_what_is_too_much(PROGRAM, "tcp:127.0.0.1:0");
}

/// The service in memory, with a database that goes with the folder.
fn start(options: &[&str]) -> (TestServer, TempDir) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let database = folder.path().join("orders.db");
    let words = ["orders", "--tokens", table::TOKENS, "--database"].map(Into::into);
    let words = words.into_iter().chain([database.into()]).chain(options.iter().map(Into::into));
    let settings = Settings::parse_from::<_, OsString>(words);
    let server = orders::server(&settings).expect("a database");
    (TestServer::of(server).expect("a server"), folder)
}

/// Lets nobody else write until it is dropped.
fn lock(folder: &TempDir) -> Connection {
    let locked = Connection::open(folder.path().join("orders.db")).expect("the service has made it");
    locked.execute_batch("BEGIN IMMEDIATE").expect("nobody writes");
    locked
}

fn call(server: &TestServer, request: &Ask) -> Call {
    let method = Method::from_bytes(request.method.as_bytes()).expect("a method");
    let call = server.request(method, request.target);
    let call = request.authorization.into_iter().fold(call, |call, sent| call.header("authorization", sent));
    let content = request.content.iter();
    content.fold(call, |call, (of_type, text)| call.header("content-type", of_type).body(text.clone()))
}

/// The whole of a response.
fn answer(server: &TestServer, sent: impl Future<Output = Result<Response, Error>>) -> Answer {
    let response = server.wait(sent).expect("a response");
    let fields = response.headers().iter();
    let text = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
    let fields = fields.map(|(name, value)| (name.to_owned(), text(value))).collect();
    let status = response.status().as_u16();
    Answer { status, fields, body: server.wait(response.text()).expect("text") }
}

/// The response that comes first.
async fn first_of(mut calls: [Task<Result<Response, Error>>; 2]) -> Result<Response, Error> {
    let first = poll_fn(|cx| {
        let ended = calls.iter_mut().map(|call| Pin::new(call).poll(cx)).find(Poll::is_ready);
        ended.unwrap_or(Poll::Pending)
    });
    first.await.expect("the call does not panic")
}
