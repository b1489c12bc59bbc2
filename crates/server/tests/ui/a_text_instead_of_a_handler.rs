use anywire_server::Router;

fn main() {
    let _ = Router::new().get("/", "Hello, World!");
}

//~ error[E0277]: `&str` is not a handler
//~ a handler is an `async fn`, or a closure `async |..| ..`; if it is not `async`, make it so
