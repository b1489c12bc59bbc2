//! The same router answers on every wire, and a handler learns from the wire who is at the other end.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use anywire_server::{Request, Router, Server};
use anywire_wire::{Address, Dialer};

const REQUEST: &[u8] = b"GET /who HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";

fn router() -> Router {
    Router::new().get("/who", async |request: Request| match request.credentials() {
        Some(credentials) => format!("{} uid {}", request.peer().scheme(), credentials.uid),
        None => request.peer().scheme().to_owned(),
    })
}

#[test]
fn a_unix_socket_says_who_asks() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("app.sock");
    let address = format!("unix:{}", path.display());
    let running = Server::new(router()).loops(2).listen(address).start().expect("a free path");
    let mut stream = UnixStream::connect(&path).expect("the server listens");
    stream.write_all(REQUEST).expect("the server reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert!(answer.contains("\r\n\r\nunix uid "), "{answer}");
    drop(stream);
    running.shutdown(std::time::Duration::from_secs(5)).wait();
    assert!(!path.exists(), "the socket file goes with its server");
}

#[test]
fn memory_needs_no_kernel() {
    let running =
        Server::new(router()).loops(1).listen("memory:every-wire-serves-alike").start().expect("a free name");
    let address: Address = "memory:every-wire-serves-alike".parse().expect("an address");
    let (sender, answers) = std::sync::mpsc::channel();
    drop(running.loops().get(0).spawn(move || async move {
        let mut connection = Dialer::default().dial(&address).await.expect("the server listens");
        connection.write_all(REQUEST).await.expect("the server reads");
        let mut answer = Vec::new();
        let mut part = [0; 1024];
        loop {
            match connection.read(&mut part).await.expect("an answer") {
                0 => break,
                read => answer.extend_from_slice(&part[..read]),
            }
        }
        sender.send(String::from_utf8(answer)).expect("the test waits");
    }));
    let answer = answers.recv().expect("an answer").expect("ASCII");
    assert!(answer.ends_with("\r\n\r\nmemory"), "{answer}");
}
