//! Compiles, so that the others do not fail for a reason of their own.

use anywire_server::{Error, Path, Query, Router, State};

async fn handler(State(_): State<String>, Path(id): Path<u64>, _: Option<Query<u8>>, body: String) -> Result<String, Error> {
    Ok(format!("{id} {body}"))
}

fn main() {
    let captured = String::from("cloned for each run");
    let _ = Router::new()
        .state(String::new())
        .get("/{id}", handler)
        .post("/", async move || captured)
        .put("/", |body: String| async move { body })
        .delete("/", async || {});
}
