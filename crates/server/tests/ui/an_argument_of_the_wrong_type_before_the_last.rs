use anywire_server::Router;

struct Config;

fn main() {
    let _ = Router::new().get("/", async |_: Config, body: String| body);
}

//~ error[E0277]: `Config` cannot be taken from the head of a request
//~ else implement `FromRequestParts` for `Config`, or take it as `State`, `Path` or `Query`
