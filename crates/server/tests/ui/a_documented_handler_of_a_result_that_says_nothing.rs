use anywire_server::{Handler, IntoResponse, Response, Router};

struct Order;

impl IntoResponse for Order {
    fn into_response(self) -> Response {
        "an order".into_response()
    }
}

async fn order() -> Order {
    Order
}

fn main() {
    let _ = Router::new().get("/", order.documented());
}

//~ error[E0277]: `Order` does not say what it answers
//~ for a type of your own, implement `anywire_server::openapi::DescribeResponse`
