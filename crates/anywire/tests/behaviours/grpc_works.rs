//! gRPC needs HTTP/2, streams both ways side by side, and trailers: Python's grpcio calls a server of ours, and a client of
//! ours calls grpcio's. The framing of messages, five bytes before each, is here.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::support::{block_on, client_of_http2, eventually};
use anywire::http::BodyError;
use anywire::http::body::Sender;
use anywire::{Body, Bytes, Client, Headers, Request, Response, Router, Server, StatusCode};

#[test]
fn grpcio_calls_a_server_of_ours() {
    let Some(python) = crate::tools::python() else { return };
    let router = Router::new()
        .post("/test.Echo/Unary", async |request: Request| {
            let fields = request.headers().clone();
            assert_eq!(
                (fields.get("te"), fields.get("content-type")),
                (Some("trailers"), Some("application/grpc"))
            );
            let mut answer = serve(request, async |messages, answers| {
                let message = messages.next().await.expect("a good body").expect("one message");
                answers.send(&message).await;
                ("0", "")
            });
            for name in ["x-text", "x-data-bin"] {
                if let Some(value) = fields.get(name) {
                    answer = answer.header(name, value);
                }
            }
            answer
        })
        .post("/test.Echo/Collect", async |request: Request| {
            serve(request, async |messages, answers| {
                let mut sum = 0;
                while let Some(message) = messages.next().await.expect("a good body") {
                    sum += message.len();
                }
                answers.send(sum.to_string().as_bytes()).await;
                ("0", "")
            })
        })
        .post("/test.Echo/Repeat", async |request: Request| {
            serve(request, async |messages, answers| {
                let message = messages.next().await.expect("a good body").expect("one message");
                let count: u64 = std::str::from_utf8(&message).expect("text").parse().expect("a number");
                for at in 0..count {
                    if !answers.send(at.to_string().as_bytes()).await {
                        break;
                    }
                }
                ("0", "")
            })
        })
        .post("/test.Echo/Talk", async |request: Request| {
            serve(request, async |messages, answers| {
                while let Some(message) = messages.next().await.expect("a good body") {
                    answers.send(&message).await;
                }
                ("0", "")
            })
        })
        // Nothing but a status: it is in the head, and there is no body.
        .post("/test.Echo/Fail", async || {
            grpc_head().header("grpc-status", "5").header("grpc-message", "no such thing")
        })
        .post("/test.Echo/Never", async || std::future::pending::<()>().await);
    let running = Server::new(router).listen("tcp:127.0.0.1:0").loops(1).start().expect("a free port");
    let address = running.addresses().next().expect("one address").location().to_owned();
    let script = crate::tools::source("python/grpc_client.py");
    let said = Command::new(python).arg(script).arg(address).output().expect("it was made");
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    assert_eq!(said.stdout, b"done\n");
    eventually("two calls end early", || running.counters().abandoned == 2);
    let counters = running.counters();
    assert_eq!((counters.http2_connections, counters.panics, counters.bad_requests), (1, 0, 0));
}

/// Answers with as many messages as `work` sends, and the status that it returns.
fn serve(
    request: Request,
    work: impl AsyncFnOnce(&mut Messages, &mut Answers) -> (&'static str, &'static str) + 'static,
) -> Response {
    let (sender, body) = Body::channel(64 * 1024);
    drop(anywire::loops::spawn(async move {
        let mut answers = Answers(sender);
        let (status, message) = work(&mut Messages::of(request.into_body()), &mut answers).await;
        let mut trailers = Headers::new();
        trailers.append("grpc-status", status).expect("a good field");
        trailers.append("grpc-message", message).expect("a good field");
        answers.0.trailers(trailers);
        answers.0.finish();
    }));
    grpc_head().body(body)
}

fn grpc_head() -> Response {
    Response::new(StatusCode::OK).header("content-type", "application/grpc")
}

#[test]
fn a_client_of_ours_calls_grpcio() {
    let Some(python) = crate::tools::python() else { return };
    let mut server = Grpcio::start(Command::new(python).arg(crate::tools::source("python/grpc_server.py")));
    let (_loops, client) = client_of_http2(|builder| builder);

    let large: Vec<u8> = (0..3_000_000).map(|at| (at * 31 % 251) as u8).collect();
    for message in [&b""[..], b"x", &large] {
        let mut call = server.call(&client, "Unary", framed(message).into());
        assert_eq!(call.answer.headers().get("x-text"), Some("a b"));
        assert!(call.next().expect("a message") == message, "{} bytes differ", message.len());
        assert_eq!(call.end(), ("0".into(), String::new()));
        assert_eq!(call.answer.trailers().and_then(|trailers| trailers.get("x-sum")), Some("7"));
    }

    let sizes = 0..1000usize;
    let all: Vec<u8> = sizes.clone().flat_map(|size| framed(&vec![7; size])).collect();
    let mut call = server.call(&client, "Collect", all.into());
    assert_eq!(call.next().expect("a message"), sizes.sum::<usize>().to_string());
    assert_eq!(call.end().0, "0");

    let mut call = server.call(&client, "Repeat", framed(b"1000").into());
    for at in 0..1000 {
        assert_eq!(call.next().expect("a message"), at.to_string());
    }
    assert_eq!(call.end().0, "0");

    let mut call = server.call(&client, "Fail", framed(b"").into());
    assert_eq!(call.end(), ("5".into(), "no such thing".into()));
    let mut call = server.call(&client, "Missing", framed(b"").into());
    assert_eq!(call.end().0, "12");

    assert_eq!(client.counters().total().dialed, 1);
    // A call that is given up, and one that is dropped in the middle. The first may cost its connection, on which nothing came.
    let late = server.post(&client, "Never").body(framed(b"")).total_timeout(Duration::from_millis(200));
    assert!(block_on(late.send()).is_err_and(|error| error.is_timeout()));
    let mut call = server.call(&client, "WasCancelled", framed(b"").into());
    assert_eq!(call.next().expect("a message"), "yes");
    let mut call = server.call(&client, "Repeat", framed(b"1000000000").into());
    assert_eq!(call.next().expect("a message"), "0");
    drop(call);

    // Each message leaves once the one before it has come back. The server goes away in the middle.
    let (mut sender, body) = Body::channel(64 * 1024);
    block_on(sender.send(framed(b"0"))).expect("a reader");
    let mut call = server.call(&client, "Talk", body);
    for at in 0..1000 {
        assert_eq!(call.next().expect("a message"), at.to_string());
        if at == 500 {
            drop(server.child.stdin.take());
        }
        block_on(sender.send(framed((at + 1).to_string().as_bytes()))).expect("a reader");
    }
    sender.finish();
    assert_eq!(call.next().expect("a message"), "1000");
    assert_eq!(call.end().0, "0");
    assert!(client.counters().total().dialed <= 2);
    assert!(server.child.wait().expect("a child").success());
}

/// A server of grpcio, until it is dropped.
struct Grpcio {
    child: Child,
    port: u16,
}

impl Grpcio {
    fn start(command: &mut Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it was made");
        let mut line = String::new();
        let output = child.stdout.take().expect("it was asked for");
        BufReader::new(output).read_line(&mut line).expect("text");
        let port = line.trim().parse().unwrap_or_else(|_| panic!("a port was expected, not {line:?}"));
        Self { child, port }
    }

    fn post(&self, client: &Client, method: &str) -> anywire::client::Call {
        let call = client.post(format!("http://127.0.0.1:{}/test.Echo/{method}", self.port));
        call.header("te", "trailers").header("content-type", "application/grpc")
    }

    fn call(&self, client: &Client, method: &str, body: Body) -> Called {
        let answer = block_on(self.post(client, method).body(body).send()).expect("an answer");
        assert_eq!(answer.status(), StatusCode::OK);
        Called { answer, unread: Unread::default() }
    }
}

impl Drop for Grpcio {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A response, message by message.
struct Called {
    answer: anywire::client::Response,
    unread: Unread,
}

impl Called {
    fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(message) = self.unread.take() {
                return Some(message);
            }
            self.unread.0.extend(block_on(self.answer.chunk()).expect("a good body")?);
        }
    }

    /// Status and message, in the trailers or, without a body, in the head. No message comes before.
    fn end(&mut self) -> (String, String) {
        assert_eq!(self.next(), None);
        let fields = self.answer.trailers().unwrap_or_else(|| self.answer.headers());
        let [status, message] =
            ["grpc-status", "grpc-message"].map(|name| fields.get(name).unwrap_or_default());
        (status.to_owned(), message.to_owned())
    }
}

/// The messages of a request.
struct Messages {
    body: Body,
    unread: Unread,
}

impl Messages {
    fn of(body: Body) -> Self {
        Self { body, unread: Unread::default() }
    }

    async fn next(&mut self) -> Result<Option<Bytes>, BodyError> {
        loop {
            if let Some(message) = self.unread.take() {
                return Ok(Some(message));
            }
            let Some(chunk) = self.body.chunk().await? else { return Ok(None) };
            self.unread.0.extend(chunk);
        }
    }
}

/// The messages of a response.
struct Answers(Sender);

impl Answers {
    /// Returns false if the peer does not want more.
    async fn send(&mut self, message: &[u8]) -> bool {
        self.0.send(framed(message)).await.is_ok()
    }
}

/// Bytes of messages that are not complete.
#[derive(Default)]
struct Unread(Vec<u8>);

impl Unread {
    fn take(&mut self) -> Option<Bytes> {
        let (&[compressed, l3, l2, l1, l0], rest) = self.0.split_first_chunk::<5>()?;
        assert_eq!(compressed, 0, "nobody has agreed on a compression");
        let message = rest.get(..u32::from_be_bytes([l3, l2, l1, l0]) as usize)?.to_vec();
        self.0.drain(..5 + message.len());
        Some(message.into())
    }
}

/// A message behind its five bytes: whether it is compressed, and its length.
fn framed(message: &[u8]) -> Vec<u8> {
    [&[0], &(message.len() as u32).to_be_bytes()[..], message].concat()
}
