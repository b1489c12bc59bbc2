use std::rc::Rc;

use anywire_server::{Blocking, Router};

fn main() {
    let name = Rc::new(String::new());
    let _ = Router::new().get("/", (move || name.to_string()).on_pool("cpu"));
}

//~ error[E0277]: `Rc<String>` cannot be sent between threads safely
