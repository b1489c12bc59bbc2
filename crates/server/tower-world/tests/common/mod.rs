//! A server of anywire, and hyper's client in each version of HTTP.

#![allow(dead_code, reason = "each test file uses its own part of this")]

use std::convert::Infallible;

use anywire::server::ServerHandle;
use anywire::{Body, Router, Server};
use bytes::Bytes;
use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::BodyExt;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;

/// A whole response.
#[derive(Debug)]
pub struct Whole {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Whole {
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("text")
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }
}

/// A client of one version of HTTP, and whom it calls.
pub struct Caller {
    client: Client<HttpConnector, Body>,
    origin: String,
}

impl Caller {
    pub async fn send(&self, request: Request<Body>) -> Whole {
        let response = self.client.request(request).await.expect("a response");
        let (head, body) = response.into_parts();
        let body = body.collect().await.expect("a whole body").to_bytes();
        Whole { status: head.status, headers: head.headers, body }
    }

    /// The head, and a body that may break off.
    pub async fn begin(&self, request: Request<Body>) -> Response<hyper::body::Incoming> {
        self.client.request(request).await.expect("a response")
    }

    pub fn request(&self, method: &str, path: &str, fields: &[(&str, &str)], body: &str) -> Request<Body> {
        let request = Request::builder().method(method).uri(format!("{}{path}", self.origin));
        let request = fields.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        request.body(Body::from(body.to_owned())).expect("a request")
    }

    pub async fn get(&self, path: &str) -> Whole {
        self.send(self.request("GET", path, &[], "")).await
    }

    pub async fn get_with(&self, path: &str, fields: &[(&str, &str)]) -> Whole {
        self.send(self.request("GET", path, fields, "")).await
    }

    pub async fn post(&self, path: &str, body: &str) -> Whole {
        self.send(self.request("POST", path, &[], body)).await
    }

    /// Without saying how long the body is.
    pub async fn post_in_chunks(&self, path: &str, body: &str) -> Whole {
        let chunks = [Ok::<_, Infallible>(body.to_owned())];
        let body = Body::stream(tokio_stream::iter(chunks));
        self.send(self.request("POST", path, &[], "").map(|_| body)).await
    }
}

/// Clients of HTTP/1.1 and of HTTP/2 for a server at this place.
pub fn callers(place: &str) -> [Caller; 2] {
    [false, true].map(|http2| Caller {
        client: Client::builder(TokioExecutor::new()).http2_only(http2).build_http(),
        origin: format!("http://{place}"),
    })
}

/// Serves a router on two loops.
pub fn serve(router: Router) -> (ServerHandle, [Caller; 2]) {
    let running =
        Server::new(router).loops(2).listen("tcp:127.0.0.1:0").start().expect("a free port, right routes");
    let callers = callers(running.addresses().next().expect("one address").location());
    (running, callers)
}
