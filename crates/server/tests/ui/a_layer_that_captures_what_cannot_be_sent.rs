use anywire_server::{Next, Request, Router};

fn main() {
    let captured = std::rc::Rc::new(7);
    let _ = Router::new().layer(async move |request: Request, next: Next| {
        let _ = &captured;
        next.run(request).await
    });
}

//~ error[E0277]: `Rc<i32>` cannot be sent between threads safely
