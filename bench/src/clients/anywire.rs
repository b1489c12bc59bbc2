//! anywire's own client, on one loop.

use std::sync::Arc;

use anyhow::Result;
use anywire_client::Client as AnywireClient;
use anywire_loops::Loops;

use super::{Client, Meter, Plan, Tally};
use crate::versions;

pub(super) const CLIENT: Client = Client {
    name: "anywire",
    version: || versions::locked("anywire-client"),
    settings: "1 loop, calls made on it, default limits, all deadlines on",
    call,
};

fn call(plan: &Plan) -> Result<Tally> {
    let loops = Loops::start(1)?;
    let client = AnywireClient::builder().on(&loops).build();
    let url = format!("http://{}/", plan.address);
    let plan = plan.clone();
    let tally = loops.get(0).spawn(move || async move {
        let meter = Arc::new(Meter::default());
        for _ in 0..plan.in_flight {
            let (client, url, meter) = (client.clone(), url.clone(), meter.clone());
            // A task that is not waited for runs on.
            drop(anywire_loops::spawn(async move {
                loop {
                    meter.count(get(&client, &url).await);
                }
            }));
        }
        meter.interval(&plan).await
    });
    tally.wait()?
}

async fn get(client: &AnywireClient, url: &str) -> Result<(u16, usize)> {
    let response = client.get(url).send().await?;
    let status = response.status().as_u16();
    Ok((status, response.bytes().await?.len()))
}
