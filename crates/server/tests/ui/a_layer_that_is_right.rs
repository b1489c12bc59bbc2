//! Compiles, so that the others do not fail for a reason of their own.

use std::rc::Rc;

use anywire_server::{Error, Handler, Layer, Next, Query, Request, Response, Router, State};

struct Own;

impl Layer for Own {
    type Local = Rc<u8>;

    fn local(&self) -> Rc<u8> {
        Rc::new(7)
    }

    async fn call(_: Rc<Rc<u8>>, request: Request, next: Next) -> Response {
        next.run(request).await
    }
}

async fn layer(State(_): State<String>, _: Option<Query<u8>>, request: Request, next: Next) -> Result<Response, Error> {
    Ok(next.run(request).await)
}

async fn handler() -> &'static str {
    ""
}

fn main() {
    let captured = String::from("cloned for each run");
    let closure = async move |request: Request, next: Next| (next.run(request).await, captured.len()).0;
    let _ = Router::new()
        .state(String::new())
        .layer(layer)
        .layer(Own)
        .layer(closure)
        .layer(|request: Request, next: Next| next.run(request))
        .get("/", handler.layer(layer).layer(Own))
        .get("/closure", (async || "").layer(layer));
}

