//! Compiles with each library that has the features of the tests.

use anywire_server::{Blocking, FromRequestParts, Handler, Path, Router};

#[derive(FromRequestParts)]
#[from_request(crate = "anywire_server")]
struct Asked {
    id: Path<u32>,
}

fn main() {
    let by_derive = async |asked: Asked| asked.id.0.to_string();
    let _ = Router::new().get("/{id}", by_derive.documented()).get("/pool", (|| "").on_pool("cpu"));
}
