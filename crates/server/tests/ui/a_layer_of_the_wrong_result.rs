use anywire_server::{Next, Request, Router};

struct Order;

async fn layer(_: Request, _: Next) -> Order {
    Order
}

fn main() {
    let _ = Router::new().layer(layer);
}

//~ error[E0277]: `Order` cannot become a response
