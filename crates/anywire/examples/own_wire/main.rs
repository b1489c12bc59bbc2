//! HTTP over a wire of one's own: `pipe.rs` implements it, in one process, over tokio's in-memory stream.
//!
//! ```text
//! cargo run --example own_wire
//! ```

mod pipe;

use std::error::Error;
use std::time::Duration;

use anywire::wire::{self, Address};
use anywire::{Client, Router, Server};

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    let address = Address::on(&pipe::Pipe, "hello")?;
    let router = Router::new().get("/", async || "Hello over a wire of one's own");
    let running = Server::new(router).listen(&address).loops(1).start()?;

    let client = Client::new();
    let text = running.loops().get(0).spawn(move || async move {
        client.get("http://localhost/").via(&address).send().await?.text().await
    });
    println!("{}", text.wait()??);
    running.shutdown(Duration::from_secs(1)).wait();
    Ok(())
}
