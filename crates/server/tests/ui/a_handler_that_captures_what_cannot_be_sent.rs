use std::rc::Rc;

use anywire_server::Router;

fn main() {
    let name = Rc::new(String::new());
    let _ = Router::new().get("/", async move || name.to_string());
}

//~ error[E0277]: `Rc<String>` cannot be shared between threads safely
