//! A server within a program that has a runtime of its own. It starts, serves a call of the program's, and ends when the
//! program says so; the runtime's only thread is never blocked.

use std::time::Duration;

use anywire::{Client, Router, Server};

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let name = format!("memory:embedded-{}", std::process::id());
    let server = Server::new(Router::new().get("/", async || "Hello from within"))
        .listen(&name)
        .loops(1)
        .shutdown_deadline(Duration::from_secs(5));

    let client = Client::new();
    let call = async { client.get("http://localhost/").via(&name).send().await?.text().await };
    let (said, shutdown) = server.run_until(call).await?;
    println!("{}; {} connections were cut", said?, shutdown.connections_cut);
    Ok(())
}
