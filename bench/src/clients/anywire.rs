//! anywire's own client, on one loop.

use std::sync::Arc;

use anyhow::Result;
use anywire_client::{Client as AnywireClient, Limits};
use anywire_loops::Loops;

use super::{Client, Meter, Plan, Protocol, Tally};
use crate::versions;

pub(super) const CLIENT: Client = Client {
    name: "anywire",
    version: || versions::locked("anywire-client"),
    settings: "1 loop, calls made on it, default limits, all deadlines on; over HTTP/2 as many streams a connection as the plan has",
    protocols: &[Protocol::Http1, Protocol::Http2],
    call,
};

fn call(plan: &Plan) -> Result<Tally> {
    let loops = Loops::start(1)?;
    let mut limits = Limits::default();
    let mut builder = AnywireClient::builder().on(&loops);
    if plan.http2 {
        limits.http2.streams = plan.in_flight / plan.connections;
        builder = builder.limits(limits).http2_prior_knowledge();
    }
    let client = builder.build();
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
