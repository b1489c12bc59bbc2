use anywire_server::{Blocking, Path, Request, Router};

fn main() {
    let _ = Router::new().get("/{id}", (|_: Path<u64>, _: Request| "").on_pool("cpu"));
}

//~ error[E0277]: `Request` cannot be sent to the threads of a pool
//~ of a `Request`, take what is needed
