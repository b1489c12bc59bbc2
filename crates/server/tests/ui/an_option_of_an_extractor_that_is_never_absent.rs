use anywire_server::{Router, State};

fn main() {
    let _ = Router::new().get("/", async |_: Option<State<u8>>, _: String| "");
}

//~ error[E0277]: `Option<State<u8>>` cannot be taken from the head of a request
//~ implement `OptionalFromRequestParts` for `State<u8>`, or take a `Result<State<u8>, _>` with its rejection
