use anywire_server::{Request, Router};

async fn layer(request: Request) -> &'static str {
    ""
}

fn main() {
    let _ = Router::new().layer(layer);
}

//~ error[E0277]: the arguments of a layer end with a `Request` and a `Next`
//~ this layer takes `(Request,)`
