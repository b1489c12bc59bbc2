use anywire_server::{Request, Router};

async fn layer(request: Request, next: String) -> &'static str {
    ""
}

fn main() {
    let _ = Router::new().layer(layer);
}

//~ error[E0277]: `String` stands where a layer takes its `Next`
//~ the last argument of this layer is a `String`
