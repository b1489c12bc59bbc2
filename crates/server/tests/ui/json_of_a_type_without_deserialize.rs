use anywire_server::{Json, Router};

struct Order;

async fn handler(Json(_): Json<Order>) -> &'static str {
    ""
}

fn main() {
    let _ = Router::new().post("/", handler);
}

//~ error[E0277]: `Json<Order>` cannot be taken from a request
//~ for `Json<T>`, `Path<T>` and `Query<T>`, `T` implements `serde::Deserialize`: add `#[derive(serde::Deserialize)]` to it
