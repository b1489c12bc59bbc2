//! One service over two wires. It calls itself over both, prints the answers, and ends. With the argument `serve` it
//! serves until Ctrl-C instead.

use std::time::Duration;

use anywire::{Client, Json, Path, Router, Server};

#[derive(serde::Serialize)]
struct Greeting {
    text: String,
}

async fn hello(Path(name): Path<String>) -> Json<Greeting> {
    Json(Greeting { text: format!("Hello, {name}!") })
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = Server::new(Router::new().get("/", async || "Hello, World!").get("/hello/{name}", hello));
    if std::env::args().nth(1).as_deref() == Some("serve") {
        println!("try: curl http://127.0.0.1:8080/hello/you");
        server.listen("tcp:127.0.0.1:8080").listen("unix:@anywire-hello").run()?;
        return Ok(());
    }

    let abstract_name = format!("unix:@anywire-hello-{}", std::process::id());
    let running = server.listen("tcp:127.0.0.1:0").listen(abstract_name).loops(1).start()?;
    let client = Client::builder().on(running.loops()).build();
    for address in running.addresses() {
        let call = client.get("http://localhost/hello/you").via(address).send();
        let answer = running.loops().get(0).spawn(move || async move { call.await?.text().await });
        println!("{address}: {}", answer.wait()??);
    }
    running.shutdown(Duration::from_secs(1)).wait();
    Ok(())
}
