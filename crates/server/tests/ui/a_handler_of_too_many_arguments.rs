use anywire_server::{Router, State};

type S = State<u8>;

async fn handler(_: S, _: S, _: S, _: S, _: S, _: S, _: S, _: S, _: S) {}

fn main() {
    let _ = Router::new().get("/", handler);
}

//~ is not a handler
//~ it takes at most eight arguments; take more of them as one extractor of your own
