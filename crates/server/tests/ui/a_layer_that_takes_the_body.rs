use anywire_server::{Next, Response, Router};

async fn layer(body: String, next: Next) -> Response {
    unreachable!()
}

fn main() {
    let _ = Router::new().layer(layer);
}

//~ error[E0277]: `String` stands where a layer takes its `Request`
