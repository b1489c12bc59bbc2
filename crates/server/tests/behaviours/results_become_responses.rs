//! What a handler returns becomes the response, alike in each version of HTTP. What cannot be sent is a 500, and never a split
//! response.

use std::pin::Pin;
use std::task::{Context, Poll};

use anywire_http::{Body, Bytes, Extensions, NoContent, Redirect, SetCookie, StatusCode};
use anywire_server::{Next, Path, Request, Response, Router};
use futures_core::Stream;

use crate::support::serve;

/// Counts down, one line each.
struct Countdown(u8);

impl Stream for Countdown {
    type Item = Result<Bytes, std::io::Error>;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Some(next) = self.0.checked_sub(1) else { return Poll::Ready(None) };
        Poll::Ready(Some(Ok(format!("{}\n", std::mem::replace(&mut self.0, next)).into())))
    }
}

#[test]
fn values_streams_and_nothing() {
    let router = Router::new()
        .get("/items/{id}", async |Path(id): Path<u32>| (id == 7).then(|| format!("item {id}")))
        .get("/maybe", async || -> Result<Option<&str>, StatusCode> { Ok(None) })
        .get("/stream", async || ([("content-type", "text/plain")], Body::stream(Countdown(3))))
        .get("/static", async || b"bytes".as_slice())
        .delete("/items/{id}", async || NoContent);
    let served = serve(router);
    let text = |path: &str| {
        let reply = served.get(path);
        (reply.status, reply.text)
    };
    assert_eq!(text("/items/7"), (200, "item 7".to_owned()));
    assert_eq!(text("/items/8"), (404, "nothing is here".to_owned()));
    assert_eq!(text("/maybe"), (404, "nothing is here".to_owned()));
    assert_eq!(text("/stream"), (200, "3\n2\n1\n".to_owned()));
    let reply = served.get("/static");
    assert_eq!((&*reply.text, reply.field("content-type")), ("bytes", Some("application/octet-stream")));
    let reply = served.alike("DELETE /items/7", &[], "");
    assert_eq!((reply.status, reply.fields.len()), (204, 0));
}

#[test]
fn redirects_and_cookies() {
    let login =
        async || (SetCookie::new("session", "1"), SetCookie::new("theme", "dark"), Redirect::see_other("/ü"));
    let served = serve(Router::new().post("/login", login));
    let reply = served.alike("POST /login", &[], "");
    assert_eq!((reply.status, reply.field("location")), (303, Some("/%C3%BC")));
    let rest = "Path=/; Secure; HttpOnly; SameSite=Lax";
    assert_eq!(reply.all("set-cookie"), [format!("session=1; {rest}"), format!("theme=dark; {rest}")]);
}

#[test]
fn extensions_reach_the_layers_outside() {
    #[derive(Clone)]
    struct Rows(u32);

    let counts = async |request: Request, next: Next| {
        let response = next.run(request).await;
        let rows = response.extensions().get::<Rows>().map_or(0, |rows| rows.0);
        response.header("x-rows", rows.to_string())
    };
    let list = async || {
        let mut extensions = Extensions::new();
        extensions.insert(Rows(3));
        (StatusCode::PARTIAL_CONTENT, extensions, "a b c")
    };
    let reply = serve(Router::new().get("/", list).layer(counts)).get("/");
    assert_eq!((reply.status, reply.field("x-rows"), &*reply.text), (206, Some("3"), "a b c"));
}

#[test]
fn what_cannot_be_sent_is_500_and_no_split_response() {
    let name = || "x\r\nset-cookie: a=b\r\n\r\nHTTP/1.1 200 OK".to_owned();
    let router = Router::new()
        .get("/redirect", async move || Redirect::found(format!("/{}", name())))
        .get("/cookie-name", async move || (StatusCode::CREATED, SetCookie::new(name(), "1"), "made"))
        .get("/cookie-value", async || SetCookie::new("a", "1; Domain=evil.example"))
        .get("/field", async move || (StatusCode::CREATED, [("location", name())], "made"))
        .get("/name", async move || [(name(), "1")])
        .get("/built", async move || Response::new(StatusCode::OK).header("x", name()));
    let served = serve(router);
    for path in ["/redirect", "/cookie-name", "/cookie-value", "/field", "/name", "/built"] {
        let reply = served.get(path);
        assert_eq!((reply.status, &*reply.text), (500, "the server failed to answer this request"), "{path}");
        assert_eq!((reply.field("set-cookie"), reply.field("location")), (None, None), "{path}");
    }
    assert_eq!(served.running.counters().failures, 12);
}
