use anywire_server::{Blocking, Router};

async fn waits() -> &'static str {
    ""
}

fn main() {
    let _ = Router::new().get("/", waits.on_pool("cpu"));
}

//~ cannot become a response of a function on a pool
//~ if it is `async`, make it not so
