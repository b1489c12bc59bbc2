//! A handler changes head and body of a request before it sends it on. The request still knows its peer and its parameters.

use std::io::{Read, Write};
use std::net::TcpStream;

use anywire::client::{Error, Response};
use anywire::{Body, Client, Request, Router, Server, State, loops};

#[derive(Clone)]
struct Backend {
    url: String,
    client: Client,
}

async fn forward(backend: State<Backend>, mut request: Request) -> Result<Response, Error> {
    let peer = request.peer().ip().expect("TCP has addresses").to_string();
    request.headers_mut().insert("x-forwarded-for", peer)?;
    for version in ["v1", "v2"] {
        let rest = request.param("rest").unwrap_or_default();
        let path = format!("/{version}/{rest}?{}", request.query().unwrap_or_default());
        request.set_path_and_query(&path)?;
    }
    let rest = request.param("rest").unwrap_or_default().to_owned();
    request.headers_mut().insert("x-rest", rest)?;
    request.set_method("REPORT".parse().expect("a method"));
    let (parts, mut body) = request.into_parts();
    let loud = body.text(100).await.expect("a short text").to_uppercase();
    backend.client.forward(Request::from_parts(parts, Body::from(loud)), &backend.url).send().await
}

async fn show(request: Request) -> String {
    let fields = ["x-forwarded-for", "x-rest", "content-length"].map(|name| {
        let values: Vec<_> = request.headers().get_all(name).map(String::from_utf8_lossy).collect();
        format!("{name}={}", values.join("+"))
    });
    let line = format!("{} {} {}", request.method(), request.target(), fields.join(" "));
    let body = request.into_body().text(100).await.expect("a short text");
    format!("{line} {body}")
}

#[test]
fn path_fields_method_and_body() {
    let behind = Server::new(Router::new().fallback(show)).listen("tcp:127.0.0.1:0").loops(1).start();
    let behind = behind.expect("a free port");
    let at = |server: &anywire::server::ServerHandle| {
        format!("http://{}", server.addresses().next().expect("one address").location())
    };
    let backend = Backend { url: at(&behind), client: Client::new() };
    let router = Router::new().post("/api/{*rest}", forward).state(backend);
    let front = Server::new(router).listen("tcp:127.0.0.1:0").loops(1).start().expect("a free port");
    let url = format!("{}/%61pi/a%2fb?c=d", at(&front));
    let text = loops::block_on(async {
        let call = Client::new().post(url).header("x-forwarded-for", "a lie").body("quiet");
        call.send().await?.error_for_status()?.text().await
    });
    assert_eq!(
        text.expect("a text"),
        "REPORT /v2/a%2fb?c=d x-forwarded-for=127.0.0.1 x-rest=a%2fb content-length=5 QUIET"
    );
}

/// A caller names as its connection's what a handler sets (RFC 9110 section 7.6.1).
#[test]
fn what_a_handler_sets_is_not_taken_out_by_its_caller() {
    let behind = Server::new(Router::new().fallback(show)).listen("tcp:127.0.0.1:0").loops(1).start();
    let behind = behind.expect("a free port");
    let place = |server: &anywire::server::ServerHandle| {
        server.addresses().next().expect("one address").location().to_owned()
    };
    let backend = Backend { url: format!("http://{}", place(&behind)), client: Client::new() };
    let router = Router::new().post("/api/{*rest}", forward).state(backend);
    let front = Server::new(router).listen("tcp:127.0.0.1:0").loops(1).start().expect("a free port");
    let mut peer = TcpStream::connect(place(&front)).expect("it listens");
    let request = "POST /api/x?c=d HTTP/1.1\r\nhost: h\r\nx-forwarded-for: 6.6.6.6\r\ncontent-length: 1\r\n\
                   connection: X-Forwarded-For, close ,x-rest\r\n\r\na";
    peer.write_all(request.as_bytes()).expect("it is read");
    let mut response = String::new();
    peer.read_to_string(&mut response).expect("it ends, as the caller asked");
    let line = "REPORT /v2/x?c=d x-forwarded-for=127.0.0.1 x-rest=x content-length=1 A";
    assert!(response.ends_with(line), "{response}");
}

#[test]
fn a_path_that_is_none_is_a_mistake_of_the_handler() {
    let handler = async |mut request: Request| -> Result<(), Error> {
        request.set_path_and_query("no slash")?;
        Ok(())
    };
    let answer = Router::new().get("/", handler);
    let response = loops::block_on(answer.call(anywire::http::Request::get("/")));
    assert_eq!(response.status.as_u16(), 500);
    assert!(response.cause().is_some_and(|cause| cause.contains("no slash")), "{:?}", response.cause());
}
