use anywire_server::{Next, Request, Response, Router};

async fn layer(next: Next, request: Request) -> Response {
    next.run(request).await
}

fn main() {
    let _ = Router::new().layer(layer);
}

//~ error[E0277]: `Next` stands where a layer takes its `Request`
//~ the last argument but one of this layer is a `Next`
