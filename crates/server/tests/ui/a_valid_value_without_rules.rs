use anywire_server::{Path, Router, Valid};

async fn handler(_: Valid<Path<u32>>) -> &'static str {
    ""
}

fn main() {
    let _ = Router::new().get("/{id}", handler);
}

//~ error[E0277]: `Valid<Path<u32>>` cannot be taken from a request
//~ for `Valid<E>`, the value in `E` also implements `Validate`: add `#[derive(garde::Validate)]` to it (feature `garde`)
