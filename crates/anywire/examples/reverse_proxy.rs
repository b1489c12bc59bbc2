//! A reverse proxy: each request goes on to a backend, and its response comes back. Bodies stream both ways, so that
//! the proxy holds little of them, however large they are. It starts a backend, and makes one call through the proxy.
//!
//! `cargo run --example reverse_proxy -- http://127.0.0.1:8080 tcp:127.0.0.1:8081` stands before a backend of yours,
//! until it gets a signal.

use anywire::client::{Error, Response};
use anywire::server::{ServerError, ServerHandle};
use anywire::{Client, Loops, Request, Router, Server, State};

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
pub(crate) fn start(url: String, listen: &str, loops: &Loops) -> Result<ServerHandle, ServerError> {
    let client = Client::builder().on(loops).build();
    Server::new(Router::new().fallback(forward).state(Backend { url, client }))
        .listen(listen)
        .on(loops)
        .start()
}

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    let loops = Loops::builder().start()?;
    if let (Some(url), Some(listen)) = (std::env::args().nth(1), std::env::args().nth(2)) {
        start(url, &listen, &loops)?.wait_for_signal()?;
        return Ok(());
    }
    let backend = Router::new().get("/hello", async || "Hello from behind the proxy");
    let backend = Server::new(backend).listen("tcp:127.0.0.1:0").on(&loops).start()?;
    let authority =
        backend.addresses().next().map(|address| address.location().to_owned()).unwrap_or_default();
    let name = format!("memory:proxy-{}", std::process::id());
    let _proxy = start(format!("http://{authority}"), &name, &loops)?;
    let text = anywire::loops::block_on(async {
        Client::new().get("http://proxy/hello").via(&name).send().await?.error_for_status()?.text().await
    })?;
    println!("{text}");
    Ok(())
}
