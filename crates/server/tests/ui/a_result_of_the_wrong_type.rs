use anywire_server::Router;

struct Order;

async fn handler() -> Order {
    Order
}

fn main() {
    let _ = Router::new().get("/", handler);
}

//~ error[E0277]: `Order` cannot become a response
//~ a handler gives a `Order`, be it as its result or as its error
