use anywire_server::{Path, Router};

async fn handler(body: String, Path(_): Path<u64>) -> String {
    body
}

fn main() {
    let _ = Router::new().post("/{id}", handler);
}

//~ error[E0277]: `String` cannot be taken from the head of a request
//~ if `String` takes the body (`Json`, `String`, `Bytes`, `Body`, `Request`), make it the last argument; only the last one can take the body
