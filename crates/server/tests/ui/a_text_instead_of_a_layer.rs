use anywire_server::Router;

fn main() {
    let _ = Router::new().layer("log");
}

//~ error[E0277]: `&str` is not a layer
//~ a layer is an `async fn(request: Request, next: Next) -> Response`, with up to six extractors of the head as its first arguments
