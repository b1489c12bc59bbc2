use anywire_server::Router;

fn handler() -> &'static str {
    ""
}

fn main() {
    let _ = Router::new().get("/", handler);
}

//~ error[E0277]: `fn() -> &'static str {handler}` is not a handler
//~ not an `async` function of at most eight arguments
//~ a handler is an `async fn`, or a closure `async |..| ..`; if it is not `async`, make it so
