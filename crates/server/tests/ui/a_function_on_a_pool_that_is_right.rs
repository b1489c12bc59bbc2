use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use anywire_server::{Blocking, Error, Handler, Path, PeerGone, RouteLimits, Router};

fn blocks(_: Arc<String>, _: PeerGone, Path(id): Path<u64>, text: String) -> Result<String, Error> {
    Ok(format!("{id} {text}"))
}

fn main() {
    // The result need not be `Send`: it becomes a response on the thread.
    let local = || -> Result<String, Error> { Err(std::fmt::Error)? };
    let both = |_: Option<Path<String>>| Rc::new(String::new()).to_string();
    let _ = Router::new()
        .post("/{id}", blocks.on_pool("cpu").queue_deadline(Duration::from_secs(1)).limits(RouteLimits::default()))
        .get("/local", local.on_pool("cpu"))
        .get("/", both.on_pool("cpu"));
}
