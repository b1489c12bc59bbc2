use anywire_server::{Blocking, Router, State};

fn blocks(_: State<String>) -> &'static str {
    ""
}

fn main() {
    let _ = Router::new().get("/", blocks.on_pool("cpu"));
}

//~ error[E0277]: `State<String>` cannot be sent to the threads of a pool
//~ an argument of this function is a `State<String>`
//~ take a shared value as `Arc<T>` instead of `State<T>`, given to the router by `.state(Arc::new(..))`
