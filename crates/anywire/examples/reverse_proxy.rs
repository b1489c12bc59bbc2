//! A reverse proxy: each request goes on to a backend, and its response comes back. Bodies stream both ways, so that the
//! proxy holds little of them, however large they are.
//!
//! `cargo run --example reverse_proxy -- http://127.0.0.1:8080 tcp:127.0.0.1:8081`

use anywire::client::{Error, Response};
use anywire::loops::Loops;
use anywire::server::{Running, ServerError};
use anywire::{Client, Request, Router, Server, State};

/// The backend's URL, and the client that calls it.
#[derive(Clone)]
struct Backend {
    url: String,
    client: Client,
}

/// An upstream that fails becomes 502, one that is too slow 504.
async fn forward(backend: State<Backend>, request: Request) -> Result<Response, Error> {
    backend.client.forward(request, &backend.url).send().await
}

/// Starts the proxy. Server and client share their loops, so that a request never leaves the one that it came on.
pub(crate) fn start(url: String, listen: &str, loops: &Loops) -> Result<Running, ServerError> {
    let client = Client::builder().loops(loops).build();
    Server::new(Router::new().fallback(forward).state(Backend { url, client }))
        .listen(listen)
        .on(loops)
        .start()
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let url = arguments.next().unwrap_or_else(|| "http://127.0.0.1:8080".into());
    let listen = arguments.next().unwrap_or_else(|| "tcp:127.0.0.1:8081".into());
    let loops = Loops::builder().start()?;
    start(url, &listen, &loops)?.wait_for_signal()?;
    Ok(())
}
