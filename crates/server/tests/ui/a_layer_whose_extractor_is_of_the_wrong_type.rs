use anywire_server::{Next, Request, Response, Router};

struct Config;

async fn layer(_: Config, request: Request, next: Next) -> Response {
    next.run(request).await
}

fn main() {
    let _ = Router::new().layer(layer);
}

//~ error[E0277]: `Config` cannot be taken from the head of a request
//~ else implement `FromRequestParts` for `Config`, or take it as `State`, `Path` or `Query`
