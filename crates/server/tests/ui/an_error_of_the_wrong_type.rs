use anywire_server::Router;

struct NotFound;

async fn handler() -> Result<String, NotFound> {
    Err(NotFound)
}

fn main() {
    let _ = Router::new().get("/", handler);
}

//~ error[E0277]: `NotFound` cannot become a response
//~ for a type of your own, implement `IntoResponse`; as an error that `?` makes of any other, take `anywire_server::Error`
