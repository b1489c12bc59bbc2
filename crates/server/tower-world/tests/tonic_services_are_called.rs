//! A service that tonic generates, with its feature `codegen` alone, runs in a router of anywire: called by tonic's channel and by
//! grpcio and over a client of anywire, unary and with each kind of stream.

use std::pin::Pin;
use std::process::Command;

use anywire::server::tower;
use anywire::{Client, Router, Server};
use bytes::Bytes;
use tokio_stream::{Stream, StreamExt, iter};
use tonic::transport::Endpoint;
use tonic::{Code, Request, Response, Status, Streaming};
use tower_world::echo::echo_client::EchoClient;
use tower_world::echo::echo_server::{Echo, EchoServer};

struct Service;

type Answers = Pin<Box<dyn Stream<Item = Result<Bytes, Status>> + Send>>;

#[tonic::async_trait]
impl Echo for Service {
    async fn one(&self, request: Request<Bytes>) -> Result<Response<Bytes>, Status> {
        match &request.get_ref()[..] {
            b"refuse" => Err(Status::invalid_argument("it is refused")),
            b"panic" => panic!("on purpose"),
            _ => {
                let mut response = Response::new(request.get_ref().clone());
                if let Some(value) = request.metadata().get("x-sent") {
                    response.metadata_mut().insert("x-seen", value.clone());
                }
                Ok(response)
            }
        }
    }

    type SplitStream = Answers;

    async fn split(&self, request: Request<Bytes>) -> Result<Response<Answers>, Status> {
        let bytes = request.into_inner();
        let each: Vec<_> = bytes.iter().map(|byte| Ok(Bytes::copy_from_slice(&[*byte]))).collect();
        let last = Err(Status::out_of_range("there is no more"));
        let fails = bytes.ends_with(b"!");
        Ok(Response::new(Box::pin(iter(each.into_iter().chain(fails.then_some(last))))))
    }

    async fn join(&self, request: Request<Streaming<Bytes>>) -> Result<Response<Bytes>, Status> {
        let mut all = Vec::new();
        let mut parts = request.into_inner();
        while let Some(part) = parts.next().await {
            all.extend_from_slice(&part?);
        }
        Ok(Response::new(all.into()))
    }

    type EachStream = Answers;

    async fn each(&self, request: Request<Streaming<Bytes>>) -> Result<Response<Answers>, Status> {
        Ok(Response::new(Box::pin(request.into_inner())))
    }
}

/// A server with the service beside a route of its own.
fn serve() -> (anywire::server::ServerHandle, String) {
    let router = Router::new()
        .get("/", async || "HTTP as well")
        .any("/world.Echo/{method}", tower::service(EchoServer::new(Service)));
    let running = Server::new(router).loops(2).listen("tcp:127.0.0.1:0").start().expect("a free port");
    let place = running.addresses().next().expect("one address").location().to_owned();
    (running, place)
}

#[tokio::test]
async fn by_the_channel_of_tonic() {
    let (running, place) = serve();
    let channel = Endpoint::from_shared(format!("http://{place}")).expect("a URI");
    call_each(EchoClient::new(channel.connect().await.expect("it listens"))).await;
    assert_eq!(running.counters().panics, 1);
}

/// A client that tonic has generated sends by ours.
#[tokio::test]
async fn by_a_client_of_anywire() {
    let (running, place) = serve();
    let client = Client::builder().http2_prior_knowledge().build();
    let origin = format!("http://{place}").parse().expect("a URI");
    call_each(EchoClient::with_origin(client.clone(), origin)).await;
    assert_eq!(running.counters().panics, 1);
}

/// Calls each kind of method, and each kind of failure.
async fn call_each<S>(mut client: EchoClient<S>)
where
    S: tonic::client::GrpcService<tonic::body::Body> + Send,
    S::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    S::Future: Send,
    S::ResponseBody: tonic::codegen::Body<Data = Bytes> + Send + 'static,
    <S::ResponseBody as tonic::codegen::Body>::Error: Into<Box<dyn std::error::Error + Send + Sync>> + Send,
{
    let mut request = Request::new(Bytes::from_static(b"hello"));
    request.metadata_mut().insert("x-sent", "seen".parse().expect("a value"));
    let response = client.one(request).await.expect("no error");
    assert_eq!(response.metadata().get("x-seen").expect("it is passed on"), "seen");
    assert_eq!(response.into_inner(), "hello");

    let refused = client.one(Bytes::from_static(b"refuse")).await.expect_err("an error");
    assert_eq!((refused.code(), refused.message()), (Code::InvalidArgument, "it is refused"));
    let panicked = client.one(Bytes::from_static(b"panic")).await.expect_err("an error");
    assert_eq!(panicked.code(), Code::Internal, "{panicked}");

    let split = client.split(Bytes::from_static(b"abc")).await.expect("no error").into_inner();
    let parts: Vec<_> = split.map(|part| part.expect("no error")).collect().await;
    assert_eq!(parts, ["a", "b", "c"]);
    let split = client.split(Bytes::from_static(b"a!")).await.expect("no error").into_inner();
    let parts: Vec<_> = split.map(|part| part.map_err(|error| error.code())).collect().await;
    assert_eq!(parts[2], Err(Code::OutOfRange), "{parts:?}");

    let parts = iter(["a", "bc", ""].map(Bytes::from));
    assert_eq!(client.join(parts).await.expect("no error").into_inner(), "abc");

    // Each answer comes before the next message is sent.
    let (send, messages) = tokio::sync::mpsc::channel(1);
    let messages = tokio_stream::wrappers::ReceiverStream::new(messages);
    let mut answers = client.each(messages).await.expect("no error").into_inner();
    for text in ["one", "two"] {
        send.send(Bytes::from_static(text.as_bytes())).await.expect("it is read");
        assert_eq!(answers.message().await.expect("no error").as_deref(), Some(text.as_bytes()));
    }
    drop(send);
    assert_eq!(answers.message().await.expect("no error"), None);

    let large = Bytes::from(vec![b'x'; 3 << 20]);
    assert_eq!(client.one(large.clone()).await.expect("no error").into_inner(), large);
}

/// Debian's package `python3-grpcio`.
#[test]
fn by_grpcio() {
    let (_running, place) = serve();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/call.py");
    let called = Command::new("/usr/bin/python3").args([script, &place]).output().expect("Python is there");
    let (out, error) = (String::from_utf8_lossy(&called.stdout), String::from_utf8_lossy(&called.stderr));
    assert!(called.status.success(), "{out}{error}");
    assert_eq!(out.trim(), "all four kinds");
}
