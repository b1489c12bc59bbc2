use anywire_server::{Next, Request, Response, Router};

fn layer(_: Request, _: Next) -> Response {
    unreachable!()
}

fn main() {
    let _ = Router::new().layer(layer);
}

//~ is not a layer
//~ make it so
