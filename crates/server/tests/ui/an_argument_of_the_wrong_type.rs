use anywire_server::Router;

struct Config;

async fn handler(_: Config) -> &'static str {
    ""
}

fn main() {
    let _ = Router::new().get("/", handler);
}

//~ error[E0277]: `Config` cannot be taken from a request
//~ an argument of this handler is a `Config`
//~ for a type of your own, implement `FromRequestParts`, or `FromRequest` if it reads the body; take shared values as `State<T>`
