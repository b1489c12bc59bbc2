//! A client: JSON there and back, a body read as it comes, and an error that says what to do. It starts the service
//! that it calls.

use std::time::Duration;

use anywire::Chain;
use anywire::{Body, Client, Json, Router, Server};

#[derive(Debug, serde::Serialize, serde::Deserialize)]
struct Order {
    item: String,
    count: u32,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let router = Router::new()
        .post("/orders", async |Json(order): Json<Order>| Json(Order { count: order.count + 1, ..order }))
        .post("/echo", async |body: Body| body);
    let running = Server::new(router).listen("tcp:127.0.0.1:0").loops(1).start()?;
    let Some(address) = running.addresses().next().cloned() else { return Ok(()) };

    // Any runtime will do: the client's connections live on loops of its own.
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    runtime.block_on(async {
        let client = Client::builder().read_timeout(Duration::from_secs(2)).build();

        let order = Order { item: "tea".into(), count: 1 };
        let answer = client.post("http://shop/orders").json(&order).via(&address).send().await?;
        println!("{}: {:?}", answer.status(), answer.json::<Order>().await?);

        let mut answer =
            client.post("http://shop/echo").body(vec![b'x'; 1 << 20]).via(&address).send().await?;
        let mut bytes = 0;
        while let Some(chunk) = answer.chunk().await? {
            bytes += chunk.len();
        }
        println!("{bytes} bytes came back");

        if let Err(error) = client.get("http://shop/").via("unix:@nobody-listens-here").send().await {
            println!("{}", Chain(&error));
        }
        Ok::<(), anywire::client::Error>(())
    })?;
    running.shutdown(Duration::from_secs(1)).wait();
    Ok(())
}
